#!/bin/sh
# conform.sh BUILD [DEVICE...]: conformance rows and the museum, as LOCKSTEP_CONFORM, LOCKSTEP_SHARD, LOCKSTEP_SECONDS and
# LOCKSTEP_ROWS say (docs/devices.md), on the CPU and on every device of `drivers.sh --list`, and cuda; or on those that are
# named ("cpu", "vulkan-lavapipe25", ...). Fails when one of them does.
set -u
cd "$(dirname "$0")/.."
build=$1
shift
[ $# -gt 0 ] || set -- cpu $(tools/drivers.sh --list | cut -d' ' -f1) cuda
bad=
for device in "$@"; do
    echo "== $device"
    if [ "$device" = cpu ]; then
        "$build/tests/conformance/test_rows" || bad="$bad cpu"
        continue
    fi
    for program in rows museum; do
        sh tests/device/run.sh . "$device" "$build/tests/device/test_$program"
        case $? in 0 | 77) ;; *) bad="$bad $device:$program" ;; esac
    done
done
[ -z "$bad" ] || { echo "failed:$bad"; exit 1; }
