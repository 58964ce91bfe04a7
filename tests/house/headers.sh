#!/bin/sh
# headers.sh TREE [BUILD]: every public header compiles alone, and twice, as strict C17 and C++17 with each compiler that is
# here; lockstep.h includes all of them; every internal header compiles alone as C17.
set -eu
cd "$1"
build=${2:-build/release} # with the headers that are made there
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
flags='-Wall -Wextra -Wpedantic -Werror -fsyntax-only -Iinclude'
compiled=0
failed=0

try() { # try COMPILER STANDARD LANGUAGE HEADER FLAGS...
    compiler=$1 standard=$2 language=$3 header=$4
    shift 4
    printf '#include <%s>\n#include <%s>\n' "$header" "$header" >"$tmp/alone.$language"
    # shellcheck disable=SC2086
    if ! "$compiler" -std="$standard" $flags "$@" -x "$language" "$tmp/alone.$language"; then
        echo "$header does not compile alone: $compiler -std=$standard"
        failed=$((failed + 1))
    fi
    compiled=$((compiled + 1))
}

for header in include/lockstep/*.h; do
    name=lockstep/${header##*/}
    for compiler in gcc clang; do
        if command -v $compiler >/dev/null; then try $compiler c17 c "$name"; fi
    done
    for compiler in g++ clang++; do
        if command -v $compiler >/dev/null; then try $compiler c++17 c++ "$name"; fi
    done
    if [ -e include/lockstep/lockstep.h ] && [ "$name" != lockstep/lockstep.h ] &&
        ! grep -q "^#include <$name>" include/lockstep/lockstep.h; then
        echo "include/lockstep/lockstep.h does not include <$name>"
        failed=$((failed + 1))
    fi
done
[ $compiled -gt 0 ] || { echo "no public headers in $PWD/include/lockstep"; exit 1; }
for header in $(find src -name '*.h' ! -path 'src/backend/cpu/isa/*' | sort); do
    try gcc c17 c "${header#src/}" -Isrc -isystem "$build/generated" -Wno-pedantic
done
echo "$compiled compilations, $failed failures"
[ $failed = 0 ]
