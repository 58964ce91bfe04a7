#!/bin/sh
# valgrind.sh BUILD: the unit tests under memcheck, for what the sanitizers cannot see: uninitialised reads, and
# code of the libraries that we link. Valgrind 3.19 knows no AVX-512 and hides it, so the library runs AVX2.
set -eu
ran=0
for test in "$1"/tests/unit/test_*; do
    [ -x "$test" ] || continue
    echo "== ${test##*/}"
    valgrind --quiet --error-exitcode=9 --leak-check=full --errors-for-leak-kinds=definite "$test" || exit 1
    ran=$((ran + 1))
done
[ $ran -gt 0 ] || { echo "no tests in $1/tests/unit"; exit 1; }
echo "$ran programs"
