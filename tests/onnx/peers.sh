#!/bin/sh
# peers.sh LOCKSTEP WRITE_MODELS TREE: each adapter of tools/peers whose engine is here runs a model that Lockstep then finds inside the bound, and
# names an operator that it lacks. Exit code 77: none is here.
set -u
lockstep=$(realpath "$1") write_models=$(realpath "$2") tree=$(cd "$3" && pwd)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
export LC_ALL=C LOCKSTEP_THREADS=1
cd "$tmp" && "$write_models" . || exit 1
ran=0 bad=0

peer() { # the command that runs it
    ran=$((ran + 1))
    "$lockstep" verify add.onnx --dim n=40 --input a/left=random:1 --input b=random:2 --devices cpu --peer "$1" >out 2>&1
    [ $? -eq 0 ] && grep -q 'out/sum .*the peer inside (0.0000); 0 of 120 elements differ' out || { echo "FAILED: $1 on a sum: $(cat out)"; bad=1; }
    $1 unknown.onnx inputs.npz outputs.npz >out 2>&1 && { echo "FAILED: $1 runs an operator that there is none of"; bad=1; }
    grep -q Frobnicate out || { echo "FAILED: $1 does not name the operator: $(cat out)"; bad=1; }
}

if [ -d "$tree/build/data/models/peer" ] && command -v node >/dev/null; then
    peer "node $tree/tools/peers/onnxruntime.mjs"
fi
if /usr/bin/python3 -c 'import numpy, onnx, torch' 2>/dev/null; then
    peer "$tree/tools/peers/pytorch.py"
fi
[ $ran -gt 0 ] || { echo "skipped: neither ONNX Runtime (make models) nor python3-torch and python3-onnx are here"; exit 77; }
exit $bad
