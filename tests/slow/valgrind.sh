#!/bin/sh
# valgrind.sh BUILD: the unit tests under memcheck, for what the sanitizers cannot see: uninitialised reads, and
# faults inside the libraries that we link. Only memcheck's findings count here: valgrind 3.19 ignores the
# flush-to-zero bits of MXCSR, so tests of those fail under it, and then leak. It knows no AVX-512 and hides it.
set -eu
ran=0
for test in "$1"/tests/unit/test_*; do
    [ -x "$test" ] || continue
    case ${test##*/} in test_emit* | test_kir_legal*) continue ;; esac # hours: every kernel of the rows, interpreted
    echo "== ${test##*/}"
    code=0
    valgrind --quiet --suppressions="$(dirname "$0")/valgrind.supp" --error-exitcode=99 --leak-check=no "$test" || code=$?
    [ $code != 99 ] && [ $code -lt 126 ] || exit 1
    ran=$((ran + 1))
done
[ $ran -gt 0 ] || { echo "no tests in $1/tests/unit"; exit 1; }
echo "$ran programs"
