#!/bin/sh
# disassembly.sh BUILD OBJDUMP: no fused multiply-add in any of the library's objects, except those whose name
# contains _fast.
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
objdump=${2-objdump}
fused='[[:space:]](vfn?m(add|sub)[0-9a-z]*|vfmaddsub[0-9a-z]*|vfmsubadd[0-9a-z]*|fn?m(add|sub)|fml[as]l?2?)[[:space:]]'
count_fused() {
    "$objdump" -d --no-show-raw-insn "$1" | grep -cE "$fused" || true
}

# Self-check: a planted fused multiply-add must be seen.
if echo 'int main(void){return 0;}' | gcc -mfma -x c -c - -o "$tmp/probe.o" 2>/dev/null && [ "$objdump" = objdump ]; then
    echo 'float f(float a, float b, float c); float f(float a, float b, float c) { return a * b + c; }' |
        gcc -O2 -mfma -ffp-contract=fast -x c -c - -o "$tmp/planted.o"
    [ "$(count_fused "$tmp/planted.o")" -gt 0 ] || { echo "self-check: a planted FMA was not seen"; exit 1; }
fi

find "$1"/CMakeFiles/lockstep_objects.dir "$1"/CMakeFiles/lockstep_isa_*.dir -name '*.o' 2>/dev/null |
    sort >"$tmp/objects"
checked=0
bad=0
while IFS= read -r object; do
    case ${object##*/} in
    *_fast*) continue ;;
    esac
    found=$(count_fused "$object")
    checked=$((checked + 1))
    if [ "$found" != 0 ]; then
        echo "$found fused multiply-adds in ${object#"$1"/CMakeFiles/}"
        bad=$((bad + 1))
    fi
done <"$tmp/objects"
[ $checked -gt 0 ] || { echo "no objects in $1/CMakeFiles"; exit 1; }
echo "$checked objects, $bad with fused multiply-adds"
[ $bad = 0 ]
