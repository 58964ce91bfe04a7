#!/bin/sh
# disassembly.sh BUILD OBJDUMP: no fused multiply-add in any of the library's objects, except those whose name
# contains _fast; in the products' tiles of AVX2 and AVX-512 no vector goes to the stack: their sums stay in registers; the measurement of the peak has
# its twelve chains: the compiler has not found them alike; and what fetches lines ahead does: gcc drops calls of functions that do nothing else.
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
objdump=${2-objdump}
root=$(cd "$(dirname "$0")/../.." && pwd)

# A line an object: fused multiply-adds; vectors of 32 or 64 bytes written to the stack in functions like ls_gemm_f32_12x32__avx512 (%rbp is of the
# stack where a frame begins with it); fused multiply-adds of vectors in the functions ls_peak_fast__*, twelve for each instruction set that has them;
# instructions that ask for lines of memory ahead; its name.
count() {
    "$objdump" -d --no-show-raw-insn "$@" | awk '
        function tell() { if (object) print fused + 0, spilled + 0, chains + 0, fetches + 0, object; fused = spilled = chains = fetches = 0 }
        /^[^ ].*:[[:space:]]+file format / { tell(); object = $1; sub(/:$/, "", object) }
        /^[0-9a-f]+ </ { tile = $2 ~ /_[0-9]+x[0-9]+__avx/ && $2 !~ /_taps_/; peak = $2 ~ /ls_peak_fast__(avx|neon)/; framed = 0 }
        /[[:space:]](vfn?m(add|sub)[0-9a-z]*|vfmaddsub[0-9a-z]*|vfmsubadd[0-9a-z]*|fn?m(add|sub)|fml[as]l?2?)[[:space:]]/ { fused++ }
        /[[:space:]](prefetch|prfm)/ { fetches++ }
        /[[:space:]]mov[[:space:]]+%rsp,%rbp/ { framed = 1 }
        tile && /[[:space:]]vmov[a-z0-9]*[[:space:]]+%[yz]mm[0-9]+,.*\(%r[sb]p/ { spilled += /\(%rsp/ || framed }
        peak && /[[:space:]](vfmadd[0-9]+ps|fmla)[[:space:]]/ { chains++ }
        END { tell() }'
}
asking=" $(cd "$root" && grep -rlE '__builtin_prefetch|ls_fetch_(line|lines|behind)\(' src | tr '\n' ' ')"

# Self-check: a planted fused multiply-add must be seen.
if echo 'int main(void){return 0;}' | gcc -mfma -x c -c - -o "$tmp/probe.o" 2>/dev/null && [ "$objdump" = objdump ]; then
    echo 'float f(float a, float b, float c); float f(float a, float b, float c) { return a * b + c; }' |
        gcc -O2 -mfma -ffp-contract=fast -x c -c - -o "$tmp/planted.o"
    echo '#include <immintrin.h>
          __m256 ls_gemm_f32_1x8__avx2(void (*f)(void), __m256 x);
          __m256 ls_gemm_f32_1x8__avx2(void (*f)(void), __m256 x) { f(); return x; }' |
        gcc -O2 -mavx2 -x c -c - -o "$tmp/spilling.o"
    count "$tmp/planted.o" "$tmp/spilling.o" >"$tmp/seen"
    read -r fused spilled chains fetches object <"$tmp/seen"
    [ "$fused" -gt 0 ] || { echo "self-check: a planted FMA was not seen"; exit 1; }
    [ "$spilled $chains $fetches ${object##*/}" = "0 0 0 planted.o" ] || { echo "self-check: what is not in $object was seen"; exit 1; }
    sed 1d "$tmp/seen" | { read -r fused spilled chains fetches object && [ "$fused" = 0 ] && [ "$spilled" -gt 0 ]; } ||
        { echo "self-check: a planted spill was not seen"; exit 1; }
fi

cd "$1/CMakeFiles"
# shellcheck disable=SC2046
count $(find lockstep_objects.dir lockstep_isa_*.dir -name '*.o' | sort) >"$tmp/objects"
checked=0
asked=0
bad=0
wrong() {
    echo "$*"
    bad=$((bad + 1))
}
while read -r fused spilled chains fetches object; do
    case ${object##*/} in
    gemm_*) [ "$spilled" = 0 ] || wrong "$spilled vectors on the stack in tiles of $object" ;;
    esac
    case $object in
    *scalar*/peak_fast* | *simd128*/peak_fast*) ;;
    */peak_fast*) [ "$chains" -ge 12 ] || wrong "$chains of 12 chains in $object" ;;
    esac
    source=${object#*.dir/}
    case $object in
    lockstep_isa_avx512_loops.dir/*/fold_plain.c.o | lockstep_isa_avx512.dir/*/across.c.o) ;; # which fetch by AVX2, or NEON
    lockstep_objects.dir/* | lockstep_isa_avx512* | lockstep_isa_avx2_loops.dir/*/fold_plain.c.o | lockstep_isa_avx2.dir/*/across.c.o) # other instruction sets leave parts of such files out
        case $asking in
        *" ${source%.o} "*)
            asked=$((asked + 1))
            [ "$fetches" != 0 ] || wrong "nothing is fetched in $object"
            ;;
        esac
        ;;
    esac
    case ${object##*/} in
    *_fast*) continue ;;
    esac
    checked=$((checked + 1))
    [ "$fused" = 0 ] || wrong "$fused fused multiply-adds in $object"
done <"$tmp/objects"
[ $checked -gt 0 ] && [ $asked -gt 0 ] || { echo "no objects in $1/CMakeFiles"; exit 1; }
echo "$checked objects, $asked of them with fetches, $bad with fused multiply-adds, spilled sums, merged chains or no fetches"
[ $bad = 0 ]
