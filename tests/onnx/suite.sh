#!/bin/sh
# suite.sh LOCKSTEP TREE BUILD [DEVICES]: the ONNX project's backend test data on cpu and ref, or on other devices: no case may fail, and each that is not supported must be
# listed, with its reason, in docs/onnx.md. The data are looked for in the folder $LOCKSTEP_ONNX_TESTS (unpacked, or with
# the archive in it), else in ../shared/onnx beside TREE, and unpacked into BUILD/onnx-tests.
set -u
lockstep=$1
tree=$2
build=$3
devices=${4:-cpu,ref}
skip() {
    echo "SKIPPED: $*"
    exit 77
}
folder=${LOCKSTEP_ONNX_TESTS:-$tree/../shared/onnx}
cases=$folder
if [ ! -d "$folder/node" ]; then
    archive=
    for file in "$folder"/onnx-backend-tests-*.tar.xz; do
        [ -f "$file" ] && archive=$file
    done
    [ -n "$archive" ] || skip "no ONNX test data in $folder; LOCKSTEP_ONNX_TESTS names their folder"
    cases=$build/onnx-tests
    mark=$cases/unpacked-$(basename "$archive")
    if [ ! -f "$mark" ]; then
        rm -rf "$cases"
        mkdir -p "$cases" && tar -xJf "$archive" -C "$cases" || skip "$archive cannot be unpacked: is xz installed?"
        [ -d "$cases/node" ] || for inner in "$cases"/*/; do
            [ -d "${inner}node" ] && mv "$inner"* "$cases"
        done
        : >"$mark"
    fi
fi
[ -d "$cases/node" ] || skip "$cases holds no folder \"node\""

# The folders in two processes, a thread each: the arrays are too small to share out.
export LOCKSTEP_THREADS=1
unset LOCKSTEP_CHECK LOCKSTEP_LOG LOCKSTEP_ISA
mkdir -p "$build/tmp"
out=$build/tmp/onnx-suite
run() {
    name=$1
    shift
    "$lockstep" conform --devices "$devices" --onnx "$@" --json "$out.$name.json" >"$out.$name.log" 2>&1
    echo $? >"$out.$name.code"
}
run 1 "$cases" --filter 'test_[!a-m]*' &
run 2 "$cases" --filter 'test_[a-m]*'
wait
cat "$out.1.log" "$out.2.log" | grep -E '^(passed|failed|unsupported|random) ' >"$out.log"
failed=0
for name in 1 2; do
    code=$(cat "$out.$name.code")
    if [ "$code" -ne 0 ] && [ "$code" -ne 1 ]; then
        echo "FAILED: lockstep conform ended with $code: $(tail -2 "$out.$name.log")"
        failed=1
    fi
done
count() {
    grep -c "^$1 " "$out.log"
}
echo "$(count passed) passed, $(count failed) failed, $(count unsupported) unsupported, $(count random) random (cases times devices)"
if [ "$(wc -l <"$out.log")" -lt 3000 ]; then
    echo "FAILED: fewer than 1500 cases ran on two devices"
    failed=1
fi
if grep '^failed ' "$out.log"; then
    failed=1
fi
for case in $(awk '$1 == "unsupported" { sub(":$", "", $3); print $3 }' "$out.log" | sort -u); do
    if ! grep -qF "\`$case\`" "$tree/docs/onnx.md"; then
        echo "FAILED: not supported, and not in docs/onnx.md: $(grep "  $case: " "$out.log" | head -1)"
        failed=1
    fi
done
exit $failed
