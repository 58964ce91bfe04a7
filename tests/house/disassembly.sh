#!/bin/sh
# disassembly.sh BUILD OBJDUMP: no fused multiply-add in any of the library's objects, except those whose name
# contains _fast; in the products' tiles of AVX2 and AVX-512 no vector goes to the stack: their sums stay in registers; the measurement of the peak has
# its twelve chains: the compiler has not found them alike; and what fetches lines ahead does: gcc drops calls of functions that do nothing else.
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
objdump=${2-objdump}
root=$(dirname "$0")/../..
fused='[[:space:]](vfn?m(add|sub)[0-9a-z]*|vfmaddsub[0-9a-z]*|vfmsubadd[0-9a-z]*|fn?m(add|sub)|fml[as]l?2?)[[:space:]]'
count_fused() {
    "$objdump" -d --no-show-raw-insn "$1" | grep -cE "$fused" || true
}

# Vectors of 32 or 64 bytes written to the stack in functions like ls_gemm_f32_12x32__avx512. %rbp is of the stack where a frame begins with it.
count_spilled() {
    "$objdump" -d --no-show-raw-insn "$1" | awk '
        /^[0-9a-f]+ </ { tile = $2 ~ /_[0-9]+x[0-9]+__avx/ && $2 !~ /_taps_/; framed = 0 }
        /[[:space:]]mov[[:space:]]+%rsp,%rbp/ { framed = 1 }
        tile && /[[:space:]]vmov[a-z0-9]*[[:space:]]+%[yz]mm[0-9]+,.*\(%r[sb]p/ { n += /\(%rsp/ || framed }
        END { print n + 0 }'
}

# Fused multiply-adds of vectors in the functions ls_peak_fast__*: twelve for each instruction set that has them.
count_chains() {
    "$objdump" -d --no-show-raw-insn "$1" | awk '
        /^[0-9a-f]+ </ { peak = $2 ~ /ls_peak_fast__(avx|neon)/ }
        peak && /[[:space:]](vfmadd[0-9]+ps|fmla)[[:space:]]/ { n++ }
        END { print n + 0 }'
}

# Of a file that asks for lines of memory ahead: instructions that do.
count_fetches() {
    "$objdump" -d --no-show-raw-insn "$1" | grep -cE '[[:space:]](prefetch|prfm)' || true
}
asks='__builtin_prefetch|ls_fetch_(line|lines|behind)\('

# Self-check: a planted fused multiply-add must be seen.
if echo 'int main(void){return 0;}' | gcc -mfma -x c -c - -o "$tmp/probe.o" 2>/dev/null && [ "$objdump" = objdump ]; then
    echo 'float f(float a, float b, float c); float f(float a, float b, float c) { return a * b + c; }' |
        gcc -O2 -mfma -ffp-contract=fast -x c -c - -o "$tmp/planted.o"
    [ "$(count_fused "$tmp/planted.o")" -gt 0 ] || { echo "self-check: a planted FMA was not seen"; exit 1; }
    echo '#include <immintrin.h>
          __m256 ls_gemm_f32_1x8__avx2(void (*f)(void), __m256 x);
          __m256 ls_gemm_f32_1x8__avx2(void (*f)(void), __m256 x) { f(); return x; }' |
        gcc -O2 -mavx2 -x c -c - -o "$tmp/planted.o"
    [ "$(count_fetches "$tmp/planted.o")" = 0 ] || { echo "self-check: fetches were seen where there are none"; exit 1; }
    [ "$(count_spilled "$tmp/planted.o")" -gt 0 ] || { echo "self-check: a planted spill was not seen"; exit 1; }
fi

find "$1"/CMakeFiles/lockstep_objects.dir "$1"/CMakeFiles/lockstep_isa_*.dir -name '*.o' 2>/dev/null |
    sort >"$tmp/objects"
checked=0
asked=0
bad=0
while IFS= read -r object; do
    case ${object##*/} in
    gemm_*)
        found=$(count_spilled "$object")
        if [ "$found" != 0 ]; then
            echo "$found vectors on the stack in tiles of ${object#"$1"/CMakeFiles/}"
            bad=$((bad + 1))
        fi
        ;;
    esac
    case $object in
    *scalar*/peak_fast* | *simd128*/peak_fast*) ;;
    */peak_fast*)
        found=$(count_chains "$object")
        [ "$found" -ge 12 ] || { echo "$found of 12 chains in ${object#"$1"/CMakeFiles/}"; bad=$((bad + 1)); } ;;
    esac
    case $object in
    */lockstep_isa_avx512.dir/*/fold_plain.c.o) ;; # which is AVX2's and NEON's
    */lockstep_objects.dir/* | */lockstep_isa_avx512*.dir/* | */lockstep_isa_avx2.dir/*/fold_plain.c.o) # other instruction sets leave parts of such files out
        source=${object#*.dir/}
        if grep -sqE "$asks" "$root/${source%.o}"; then
            asked=$((asked + 1))
            [ "$(count_fetches "$object")" != 0 ] || { echo "nothing is fetched in ${object#"$1"/CMakeFiles/}"; bad=$((bad + 1)); }
        fi
        ;;
    esac
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
[ $checked -gt 0 ] && [ $asked -gt 0 ] || { echo "no objects in $1/CMakeFiles"; exit 1; }
echo "$checked objects, $asked of them with fetches, $bad with fused multiply-adds, spilled sums, merged chains or no fetches"
[ $bad = 0 ]
