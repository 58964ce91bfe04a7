#!/bin/sh
# bench.sh BUILD: runs every benchmark program one after the other, with OpenBLAS left to choose its own kernels.
set -eu
[ $# -eq 1 ] || { echo "usage: bench.sh BUILD" >&2; exit 2; }
unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE OPENBLAS_NUM_THREADS OMP_NUM_THREADS
ran=0
for program in "$1"/bench/*; do
    [ -f "$program" ] && [ -x "$program" ] || continue
    echo "== ${program##*/}"
    "$program"
    ran=$((ran + 1))
done
[ $ran -gt 0 ] || { echo "bench.sh: no benchmark in $1/bench" >&2; exit 1; }

echo "== size and start"
cp "$1/liblockstep.so" "$1/liblockstep.stripped"
strip "$1/liblockstep.stripped"
echo "liblockstep.so stripped: $(wc -c <"$1/liblockstep.stripped") bytes"
rm "$1/liblockstep.stripped"
if [ -x "$1/lockstep" ]; then
    "$1/lockstep" devices >/dev/null
    start=$(date +%s%N)
    for _ in 1 2 3 4 5 6 7 8 9 10; do "$1/lockstep" devices >/dev/null; done
    end=$(date +%s%N)
    echo "lockstep devices: $(((end - start) / 10000)) us (mean of 10)"
fi
