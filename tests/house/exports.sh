#!/bin/sh
# exports.sh [--write] LIBRARY: the shared library's exports are exactly tests/house/exports.txt, each begins with
# ls_ or LS_, and they are exactly the functions that the public headers declare. --write writes the list anew.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
export LC_ALL=C
write=no
if [ "$1" = --write ]; then
    write=yes
    shift
fi
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

nm -D --defined-only "$1" | awk '{ print $NF }' | sort -u >"$tmp/exported"
[ -s "$tmp/exported" ] || { echo "$1 exports nothing"; exit 1; }
if grep -vE '^(ls_|LS_)' "$tmp/exported" >"$tmp/foreign"; then
    echo "exports that begin with neither ls_ nor LS_:"
    cat "$tmp/foreign"
    exit 1
fi
if [ $write = yes ]; then
    cp "$tmp/exported" "$here/exports.txt"
    echo "tests/house/exports.txt: $(wc -l <"$tmp/exported") exports"
    exit 0
fi

status=0
if ! diff -u "$here/exports.txt" "$tmp/exported" >"$tmp/diff"; then
    echo "the library's exports are not tests/house/exports.txt (- listed, + exported; 'make exports' rewrites it):"
    cat "$tmp/diff"
    status=1
fi

for header in "$here"/../../include/lockstep/*.h; do
    echo "#include \"$header\""
done | gcc -std=c17 -I"$here/../../include" -E -P -x c - | tr '\n' ' ' | tr ';' '\n' |
    sed -n 's/.*visibility("default")[^a-z_]*//p' |
    sed 's/__attribute__ *(([^)]*([^)]*)[^)]*))//g; s/__attribute__ *(([^)]*))//g' |
    sed -nE 's/^[^(]*\b(ls_[a-z0-9_]+) *\(.*/\1/p; s/^[^(]*\b(LS_[A-Za-z0-9_]+) *(\[.*)?$/\1/p' | sort -u >"$tmp/declared"
if ! diff -u "$tmp/declared" "$tmp/exported" >"$tmp/diff"; then
    echo "the headers' LS_API functions are not what the library exports (- declared only, + exported only):"
    cat "$tmp/diff"
    status=1
fi
[ $status = 0 ] && echo "$(wc -l <"$tmp/exported") exports, all listed and all declared"
exit $status
