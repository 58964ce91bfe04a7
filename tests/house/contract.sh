#!/bin/sh
# contract.sh TREE: every rule of docs/contract.md names a test, and every test and file that it names is there; its last version is
# the header's, with the digest of the golden hashes.
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
row=$(grep '^| [0-9][0-9]* |' "$page" | tail -n 1)
version=$(sed -n 's/^#define LS_CONTRACT_VERSION \([0-9]*\)$/\1/p' "$1/include/lockstep/version.h")
digest=$(cat "$1/tests/golden/test_hashes.c" "$1/src/engine/certify.c" | grep -o '"[0-9a-f]\{16,64\}"' | sha256sum | cut -d' ' -f1)
case $row in "| $version |"*) ;; *) echo "LS_CONTRACT_VERSION is $version, the last of $page is: $row"; failed=1 ;; esac
case $row in *"\`$digest\`"*) ;; *) echo "the golden hashes have the digest $digest, not the one of: $row"; failed=1 ;; esac
grep -q "^Version $version\." "$page" || { echo "$page does not begin with version $version"; failed=1; }
exit $failed
