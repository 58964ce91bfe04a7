#!/bin/sh
# run.sh TREE NAME PROGRAM [SECONDS]: runs a test program on the device NAME of `tools/drivers.sh --list`, or on this machine's
# own "cuda", "vulkan" or "webgpu"; 77 (skipped), with the reason, where it is not there.
set -eu
tree=$1 name=$2 program=$3
export LOCKSTEP_DRIVER="$name"
[ $# -lt 4 ] || export LOCKSTEP_SECONDS="${LOCKSTEP_SECONDS:-$4}"
case $name in
sim*) export LOCKSTEP_DEVICE="$name" ;;
cuda)
    ldconfig -p 2>/dev/null | grep -q libcuda.so.1 || { echo "skipped: no libcuda.so.1 on this machine"; exit 77; }
    export LOCKSTEP_DEVICE=cuda ;;
*)
    line=$("$tree/tools/drivers.sh" --list | grep "^$name ") ||
        { echo "skipped: the driver of $name is not here; run tools/deps.sh gpu and tools/drivers.sh"; exit 77; }
    for word in $line; do
        case $word in *=*) export "${word?}" ;; esac
    done
    export LOCKSTEP_DEVICE="${name%%-*}" ;;
esac
exec "$program"
