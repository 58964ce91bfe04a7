#!/bin/sh
# bench.sh LOCKSTEP TREE [INFER]: what `lockstep bench` and the comparison with other engines print: every rate or what is missing for it, each row's
# roof by name, and engines that agree. Speed itself is not judged.
set -u
lockstep=$1
peers=$(dirname "$lockstep")/peers/peers
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
export LC_ALL=C LOCKSTEP_THREADS=1
unset LOCKSTEP_LOG LOCKSTEP_CHECK LOCKSTEP_ISA
cd "$tmp" || exit 1
failures=0

complain() {
    echo "FAILED: $*"
    failures=$((failures + 1))
}

LOCKSTEP_ISA=scalar "$lockstep" bench peak --json peak.json >out 2>err || complain "bench peak: $(cat err)"
for rate in fma 'mul[+]add' read copy; do
    grep -Eq "^(L1|L2|L3|DRAM)? *$rate +G(FLOP|B)/s +[1-9][0-9]*\.[0-9]" out || complain "bench peak gives no $rate: $(cat out)"
done
for rate in bf16 int8 stream; do
    grep -Eq "^ *(DRAM)? *$rate +G.* none: cpu \(scalar\): no " out || complain "bench peak does not say what $rate lacks: $(cat out)"
done
[ "$(grep -c '"missing"' peak.json)" = 3 ] || complain "the report of bench peak names not what is missing"
! grep -Eq '"(gflops|gbytes_per_second)":[[:space:]]*0[,[:space:]]' peak.json || complain "the report of bench peak has a 0"

"$lockstep" bench norm --rounds 1 --json norm.json >out 2>err || complain "bench norm: $(cat err)"
[ "$(grep -Ec '% of (L1|L2|L3|DRAM) (read|copy|stream)$' out)" = 12 ] || complain "rows of bench norm do not name their roof: $(cat out)"
[ "$(grep -c '"of_peak"' norm.json)" = 12 ] || complain "the report of bench norm has no shares"
"$lockstep" bench gemm --rounds 1 --math fast >out 2>err || complain "bench gemm: $(cat err)"
grep -q '256    256    256 .*% of fma$' out || complain "a product is not measured by multiply-adds: $(cat out)"
grep -Eq '1   4096   4096 .*% of (L3|DRAM) read$' out || complain "a matrix by a vector is not measured by reading: $(cat out)"

if [ -x "$peers" ]; then
    "$peers" --rounds 1 --threads 1 --only "sgemm 64" --without "PyTorch, ONNX Runtime" >out 2>err || complain "peers: $(cat err)"
    grep -q '^| sgemm 64 prepacked | GFLOP/s |' out || complain "peers prints no row: $(cat out err)"
    grep -q '^without PyTorch: as asked' err || complain "peers does not say what it leaves out: $(cat err)"
    "$peers" --rounds 1 --threads 1 --only "sgemm 64" --without "oneDNN, OpenBLAS, PyTorch" --onnxruntime none.so >out 2>err || complain "peers: $(cat err)"
    grep -q '^without ONNX Runtime: none.so is not there' err || complain "peers does not say what is missing: $(cat err)"
    "$peers" --rounds 0 >out 2>err && complain "peers takes no rounds"
fi
[ $failures = 0 ] || exit 1
echo "bench and peers say what they measured"
