#!/bin/sh
# isnet.sh LOCKSTEP TREE [DEVICE...]: removes a portrait's background by ISNet, 8-bit and quantised as it runs, on cpu (and the devices named, bit for
# bit), and compares the mask with ONNX Runtime's.
set -eu
lockstep=$1 tree=$2
shift 2
models=$tree/build/data/models tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
node "$tree/tests/onnx/isnet.mjs" picture "$tree/build/data/media/astronaut.png" "$tmp/input"
for device in cpu "$@"; do
    words=$([ "$device" = cpu ] || "$tree/tools/drivers.sh" --list | grep "^$device " | tr ' ' '\n' | grep = | tr '\n' ' ')
    # shellcheck disable=SC2086
    env NODEVICE_SELECT=1 $words "$lockstep" run "$models/isnet/isnet.onnx" --input "input=$tmp/input.npy" --device "${device%%-*}" \
        --output "$tmp/$device" >"$tmp/$device.txt"
    tail -n 1 "$tmp/$device.txt"
    cmp "$tmp/cpu/output.npy" "$tmp/$device/output.npy"
done
node "$tree/tools/peers/onnxruntime.mjs" "$models/isnet/isnet.onnx" "$tmp/input.npz" "$tmp/theirs.npz"
node "$tree/tests/onnx/isnet.mjs" compare "$tmp/cpu/output.npy" "$tmp/theirs.npz"
