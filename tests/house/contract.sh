#!/bin/sh
# contract.sh TREE: every rule of docs/contract.md names a test, and every test and file that it names is there.
set -eu
page=$1/docs/contract.md
failed=0
for rule in $(grep -o '\*\*C[0-9]*' "$page" | tr -d '*'); do
    awk -v rule="**$rule" 'index($0, rule) { on = 1 } /^- \*\*C|^## / && !index($0, rule) { on = 0 } on' "$page" | grep -q 'Tests*:' ||
        { echo "$rule names no test"; failed=1; }
done
for name in $(grep -o '`c[0-9][0-9]_[a-z0-9_]*`' "$page" | tr -d '`'); do
    grep -q "cmocka_unit_test($name)" "$1/tests/conformance/test_contract.c" || { echo "no test $name"; failed=1; }
done
for file in $(grep -o '`tests/[^`]*`' "$page" | tr -d '`'); do
    set -- "$1" "$1"/$file
    [ -e "$2" ] || { echo "no $file"; failed=1; }
done
exit $failed
