#!/bin/sh
# demo.sh BUILD: trains the convolutional network on the digits, saves it, loads it and verifies it against the
# references; then trains the small network for 30 locked steps in every way this machine can run, software GPUs included,
# and prints a table. All rows must have the same weights' SHA-256: the demo fails if they do not.
set -eu
[ $# -eq 1 ] || { echo "usage: demo.sh BUILD" >&2; exit 2; }
lockstep=$1/lockstep
out=build/demo
rm -rf $out
mkdir -p $out
unset LOCKSTEP_ISA LOCKSTEP_THREADS

value() { # value FILE KEY: the key's first value in a JSON report
    tr -d '\n\t' <"$1" | grep -o "\"$2\" *: *[^,}]*" | head -1 | sed 's/^[^:]*: *//; s/^"//; s/" *$//'
}
number() { # number FORMAT FILE KEY
    value "$2" "$3" | LC_ALL=C awk -v format="$1" '{ printf format, $1 }'
}

echo "== train the network mnist:cnn on real digits"
"$lockstep" train mnist --model cnn --data digits --seed 1 --save $out/cnn.safetensors --json $out/cnn.json
echo "accuracy on 1,000 digits it never saw: $(number %.4f $out/cnn.json test_accuracy)," \
    "after $(number %.1f $out/cnn.json seconds) s"

echo
echo "== load it, and verify every kernel against the references"
"$lockstep" verify mnist:cnn --weights $out/cnn.safetensors --devices cpu

echo
echo "== 30 locked steps of mnist:small in every way this machine can run"
isas=scalar
if grep -qw avx2 /proc/cpuinfo; then isas="$isas avx2"; fi
if grep -qw avx512vl /proc/cpuinfo; then isas="$isas avx512"; fi
case $(uname -m) in aarch64) isas="$isas neon" ;; esac

# row LABEL DEVICE ISA THREADS [VARIABLE=VALUE...]: trains and verifies there, prints a line of the table. A device that is
# refused for locked results says why instead; where there is none, nothing is printed.
row() {
    label=$1 device=$2 isa=$3 threads=$4
    shift 4
    name=$out/$label-$isa-$threads
    [ "$isa" = - ] || set -- "$@" LOCKSTEP_ISA="$isa"
    [ "$threads" = - ] || set -- "$@" LOCKSTEP_THREADS="$threads"
    if ! env "$@" "$lockstep" train mnist --model small --data digits --device "$device" --math locked --steps 30 --batch 16 \
        --seed 1 --save "$name.safetensors" --json "$name.json" >"$name.log" 2>&1; then
        if grep -q 'is refused for locked results' "$name.log"; then
            printf '%-20s %s\n' "$label" "$(sed -n 's/.*\(refused for locked results: .*\)/\1/p' "$name.log" | head -1)"
            return
        fi
        cat "$name.log" >&2
        exit 1
    fi
    env "$@" "$lockstep" verify mnist:small --weights "$name.safetensors" --devices "$device" --json "$name.verify.json" \
        >"$name.log" 2>&1 || { cat "$name.log" >&2; exit 1; }
    printf '%-20s %-7s %7s %8s %9s %15s  %s\n' "$label" "$isa" "$threads" "$(number %.1f "$name.json" seconds)" \
        "$(number %.4f "$name.json" test_accuracy)" "$(number %.3g "$name.verify.json" worst_of_bound)" \
        "$(value "$name.json" weights_sha256)"
    value "$name.json" weights_sha256 >>$out/hashes
}
printf '%-20s %-7s %7s %8s %9s %15s  %s\n' device ISA threads seconds accuracy 'worst of bound' 'SHA-256 of the weights'
row ref ref - -
for isa in $isas; do
    for threads in 1 2; do row cpu cpu "$isa" $threads; done
done
# This machine's own GPUs; then the software ones, each with its driver.
"$lockstep" devices | awk '$2 != "missing" && !/llvmpipe|SwiftShader/ && $1 !~ /^(cpu|ref)$/ && /^[a-z]/ { print $1 }' >$out/gpus
while read -r id; do row "$id" "$id" - -; done <$out/gpus
tools/drivers.sh --list >$out/drivers
while read -r label settings; do
    # shellcheck disable=SC2086
    row "$label" "${label%%-*}" - - $settings
done <$out/drivers

if [ "$(sort -u $out/hashes | grep -cE '^[0-9a-f]{64}$')" != 1 ] || [ "$(sort -u $out/hashes | wc -l)" != 1 ]; then
    echo "the weights differ" >&2
    exit 1
fi
echo "$(wc -l <$out/hashes) ways, one hash"
