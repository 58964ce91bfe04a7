#!/bin/sh
# bundle.sh BUILD: packs build/lockstep-bundle.tar.gz for a machine with GPUs and without a network: the command, the tests of
# devices, the benchmarks, every library that they need but the C library's own, the digits and Dawn. There:
#   tar -xzf lockstep-bundle.tar.gz && lockstep-bundle/run.sh [SECONDS]
# prints a demo row for every device, one hash among them, then runs the tests of devices on each GPU.
set -eu
[ $# -eq 1 ] || { echo "usage: bundle.sh BUILD" >&2; exit 2; }
build=$1
out=build/lockstep-bundle
rm -rf $out
mkdir -p $out/bin $out/lib $out/data
cp "$build/lockstep" $out/bin/
for program in "$build"/tests/device/test_* "$build"/tests/golden/test_hashes "$build"/bench/*; do
    if [ -f "$program" ] && [ -x "$program" ]; then cp "$program" $out/bin/; fi
done
strip $out/bin/* 2>/dev/null || true
cp -r build/data/digits $out/data/
dawn=build/drivers/dawn/libwebgpu_wrapper.so
if [ -e $dawn ]; then
    cp $dawn $out/lib/
    cp build/drivers/dawn/LICENSE $out/lib/LICENSE.dawn 2>/dev/null || true
fi
# Everything that the programs link, the C library's parts apart; and the Vulkan loader, in case it is missing there.
LD_LIBRARY_PATH=$build ldd $out/bin/* $([ ! -e $dawn ] || echo $dawn) 2>/dev/null | awk '$2 == "=>" { print $1, $3 }' | sort -u |
    while read -r name path; do
        case $name in
        libc.so.* | libm.so.* | libdl.so.* | libpthread.so.* | librt.so.* | ld-linux* | libmpfr* | libgmp*) ;;
        *) cp -L "$path" "$out/lib/$name" ;;
        esac
    done
mkdir $out/lib/fallback
for loader in /usr/lib/*/libvulkan.so.1; do
    [ ! -e "$loader" ] || cp -L "$loader" $out/lib/fallback/
done
if cmake --build "$build" --target lockstep_portable >/dev/null 2>&1; then # for a C library older than this machine's
    cp "$build/liblockstep-portable.so" $out/lib/liblockstep.so.0
fi
strip --strip-unneeded $out/lib/liblockstep.so.0 2>/dev/null || true

cat >$out/run.sh <<'END'
#!/bin/sh
# run.sh [SECONDS]: every device of this machine: 30 locked steps of mnist:small, one hash; then on each GPU the golden hashes,
# matrix products, and conformance rows and the museum for SECONDS (60) each. 0 when all is right.
set -u
cd "$(dirname "$0")"
seconds=${1:-60}
export LD_LIBRARY_PATH="$PWD/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
ldconfig -p 2>/dev/null | grep -q 'libvulkan\.so\.1' || export LD_LIBRARY_PATH="$LD_LIBRARY_PATH:$PWD/lib/fallback"
export LOCKSTEP_WEBGPU="${LOCKSTEP_WEBGPU:-$PWD/lib/libwebgpu_wrapper.so}" LOCKSTEP_DATA="$PWD/data"
export LOCKSTEP_CACHE="${LOCKSTEP_CACHE:-$PWD/cache}"
value() { tr -d '\n\t' <"$1" | grep -o "\"$2\" *: *[^,}]*" | head -1 | sed 's/^[^:]*: *//; s/^"//; s/" *$//'; }
bad=0
mkdir -p out
bin/lockstep devices | tee out/devices
ids=$(awk '/^[a-z]/ && $2 != "missing" && $1 != "ref" { print $1 }' out/devices)
printf '\n%-12s %8s %9s  %s\n' device seconds accuracy 'SHA-256 of the weights after 30 steps of mnist:small'
: >out/hashes
for id in $ids; do
    if bin/lockstep train mnist --model small --data digits --device "$id" --math locked --steps 30 --batch 16 --seed 1 \
        --save "out/$id.safetensors" --json "out/$id.json" >"out/$id.log" 2>&1; then
        printf '%-12s %8.1f %9.4f  %s\n' "$id" "$(value "out/$id.json" seconds)" "$(value "out/$id.json" test_accuracy)" \
            "$(value "out/$id.json" weights_sha256)"
        value "out/$id.json" weights_sha256 >>out/hashes
    else
        printf '%-12s %s\n' "$id" "$(tail -1 "out/$id.log")"
        bad=1
    fi
done
[ "$(sort -u out/hashes | wc -l)" = 1 ] || { echo "the weights differ"; bad=1; }
# What was trained on the CPU gives the same logits everywhere.
for id in $ids; do
    bin/lockstep run mnist:small --weights out/cpu.safetensors --device "$id" --input images=random:1 --dim batch=64 \
        --json "out/$id.run.json" >/dev/null 2>&1 || bad=1
    echo "logits of the CPU's weights on $id: $(value "out/$id.run.json" sha256)"
    value "out/$id.run.json" sha256 >>out/logits
done
[ "$(sort -u out/logits | wc -l)" = 1 ] || { echo "the logits differ"; bad=1; }
rm -f out/logits
for id in $ids; do
    [ "$id" != cpu ] || continue
    for test in hashes device times faults matrix rows museum; do
        echo "== $test on $id"
        LOCKSTEP_DEVICE=$id LOCKSTEP_SECONDS=$seconds "bin/test_$test" 2>&1 | grep -v -E '^\[ *(RUN|=+|-+)' | head -60
    done
done 2>&1 | tee out/tests
! grep -q -E '^\[  FAILED' out/tests || bad=1
exit $bad
END
chmod +x $out/run.sh
tar -C build -czf build/lockstep-bundle.tar.gz lockstep-bundle
echo "build/lockstep-bundle.tar.gz: $(du -h build/lockstep-bundle.tar.gz | cut -f1), needs of its machine's libraries:" \
    "$(LD_LIBRARY_PATH=$out/lib ldd $out/bin/lockstep | awk '{ print $1 }' | grep -E 'libc\.|libpthread|ld-linux' | tr '\n' ' ')"
