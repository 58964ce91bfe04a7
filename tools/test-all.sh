#!/bin/bash
# test-all.sh: everything that must be green before a change goes in: the whole of `make test`, then bounded parts of it by clang, under
# ASan+UBSan and under TSan. Half an hour on two cores, an hour on two hyperthreads of one.
set -uo pipefail
cd "$(dirname "$0")/.."
logs=build/test-all
mkdir -p $logs
failed=()

step() { # step NAME COMMAND...
    local name=$1 start=$SECONDS
    shift
    echo "== $name: $*"
    if "$@" 2>&1 | tee "$logs/$name.log"; then
        if grep -qE '^100% tests passed, 0 tests failed out of [1-9]' "$logs/$name.log"; then
            echo "== $name: passed in $((SECONDS - start)) s"
            return
        fi
        echo "== $name: ran no tests"
    fi
    echo "== $name: FAILED after $((SECONDS - start)) s"
    failed+=("$name")
}

step test make test
step clang make test-clang SKIP='^(slow|conformance|museum|device)$'
step sanitize make test-sanitize SKIP='^(slow|house|conformance|museum|device)$'
step threads make test-threads
step limits make test-limits

if [ ${#failed[@]} -gt 0 ]; then
    echo "failed: ${failed[*]}"
    exit 1
fi
