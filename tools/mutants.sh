#!/bin/sh
# mutants.sh BUILD [--sample N] [--seconds T] [--seed S] [FILE...]: mutants of the source of lowering, of microkernels, of kernels for
# devices with threads (emit, kir/legal*, render, gpu's launches), one token at a time. Each is compiled as the build compiles its file, linked before the static library into the tests that
# should notice, and run:
#   killed      a test fails, crashes or does not end
#   equivalent  the compiler makes the same object of it: it is the same program
#   surviving   all tests pass: listed, for a proof in docs/mutants.md or a new check
# Nothing in the tree is touched. --sample 0 tries every site (hours); --seconds begins no other after that time. Exit code 1 when a mutant survives that
# docs/mutants.md does not name.
set -eu
[ $# -ge 1 ] || { sed -n '2,12s/^# //p' "$0"; exit 2; }
root=$(cd "$(dirname "$0")/.." && pwd)
build=$(cd "$1" && pwd)
shift
sample=60 seed=1 seconds=0 files=
while [ $# -gt 0 ]; do
    case $1 in
    --sample) sample=$2; shift 2 ;;
    --seed) seed=$2; shift 2 ;;
    --seconds) seconds=$2; shift 2 ;;
    -*) echo "mutants.sh: unknown option $1"; exit 2 ;;
    *) files="$files $1"; shift ;;
    esac
done
isa=avx2
grep -q avx2 /proc/cpuinfo 2>/dev/null || isa=scalar
[ -n "$files" ] || files="src/spec/build.c src/spec/guards.c src/spec/index.c src/spec/move.c src/backend/cpu/isa/gemm_kernels.inc
    src/backend/cpu/isa/gemm_rows.inc src/backend/cpu/isa/gemm_moves.c src/backend/cpu/isa/tile.c
    src/backend/cpu/isa/tile_cast.c src/backend/cpu/isa/tile_float.c src/backend/cpu/isa/tile_int.c
    src/backend/cpu/isa/tile_pack.c $(cd "$root" && echo src/emit/*.c src/kir/legal*.c src/render/*.c) src/gpu/launch.c src/gpu/variant.c"
spec_tests="golden_test_spec_print unit_test_spec_forms unit_test_spec unit_test_spec_index museum_test_mutants museum_test_plants
    conformance_test_contract museum_test_museum"
isa_tests="micro_test_gemm micro_test_gemm_kernels museum_test_mutants conformance_test_contract conformance_test_cpu_contract
    conformance_test_cpu_folds conformance_test_cpu_maps museum_test_museum conformance_test_cpu_planes"
# PROGRAM:VARIABLE=VALUE,...: the simulated devices run kernels in the interpreter, the drivers run what was rendered.
rows=device_test_rows:LOCKSTEP_SECONDS=5,LOCKSTEP_DEVICE
emit_tests="golden_test_emit_print $rows=sim museum_test_kir_mutants:LOCKSTEP_SECONDS=3 unit_test_emit_matrix $rows=sim:2
    unit_test_emit_tiled unit_test_emit_cases"
legal_tests="unit_test_kir_legal $rows=sim:2 $rows=sim:1 unit_test_emit_legal"
gpu_tests="unit_test_gpu $rows=sim:1 $rows=sim:2 device_test_device:LOCKSTEP_DEVICE=sim:2"
render_tests="golden_test_spirv unit_test_render_ptx unit_test_render_spirv unit_test_render_wgsl unit_test_render_rows"
for device in vulkan-lavapipe25 vulkan-swiftshader webgpu-lavapipe25; do
    drivers=$("$root/tools/drivers.sh" --list | sed -n "s/^$device //p" | tr ' ' ,)
    [ -z "$drivers" ] || render_tests="$render_tests $rows=${device%%-*},NODEVICE_SELECT=1,$drivers"
done
tests_of() {
    case $1 in
    src/spec/*) echo "$spec_tests" ;;
    src/emit/*) echo "$emit_tests" ;;
    src/kir/*) echo "$legal_tests" ;;
    src/gpu/*) echo "$gpu_tests" ;;
    src/render/*) echo "$render_tests" ;;
    *) echo "$isa_tests" ;;
    esac
}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$root"

needed=$(for file in $files; do tests_of "$file"; done | tr ' ' '\n' | sed 's/:.*//' | sort -u)
# shellcheck disable=SC2086
ninja -C "$build" lockstep_static tools_mutate $needed >"$tmp/log" || { tail -20 "$tmp/log"; exit 2; }
mutate=$build/tools/mutate
ninja -C "$build" -t commands lockstep_static >"$tmp/compiles"

# compile FILE COMPILED OUTPUT: as the build does, with FILE's text from $tmp/tree; $4: more flags
compile() {
    pattern=" -c $root/$2\$"
    case $2 in */isa/*) pattern="DLS_ISA=$isa .*$pattern" ;; esac
    command=$(grep -e "$pattern" "$tmp/compiles" | head -1 | sed 's/^[^ ]*ccache //; s/ -MD .*//; s/ -g / /')
    [ -n "$command" ] || { echo "mutants.sh: the build does not compile $2"; exit 2; }
    if [ "$1" = "$2" ]; then
        source=$tmp/tree/$2
    else
        source=$root/$2
    fi
    (cd "$build" && timeout 60 sh -c "$(echo "$command" | sed "s| -I| -I$tmp/tree/src -I|") -iquote $root/$(dirname "$2") \
        -Wno-error -w -o $3 -c $source") >"$tmp/compile.log" 2>&1
}

# put FILE [SITE]: its text, mutated or not, where the compiler finds it first, under its own name
put() {
    rm -rf "$tmp/tree"
    mkdir -p "$tmp/tree/$(dirname "$1")"
    { echo "#line 1 \"$1\""; "$mutate" "$@" 2>"$tmp/what"; } >"$tmp/tree/$1"
}

link_and_run() {
    link=$(ninja -C "$build" -t commands "${1%%:*}" | tail -1 | sed "s| -o [^ ]*| -o $tmp/test|; s|liblockstep.a|$tmp/mutant.o liblockstep.a|")
    (cd "$build" && sh -c "$link") >/dev/null 2>&1 || return 1
    with=
    case $1 in *:*) with=$(echo "${1#*:}" | tr , ' ') ;; esac
    # shellcheck disable=SC2086
    (ulimit -v 12000000; env LOCKSTEP_ISA=$isa LOCKSTEP_CACHE=off $with timeout 300 "$tmp/test") >/dev/null 2>&1
}

compiled_of() {
    case $1 in *.inc) echo src/backend/cpu/isa/gemm_locked.c ;; *) echo "$1" ;; esac
}

for file in $files; do
    n=$("$mutate" "$file")
    awk -v f="$file" -v n="$n" 'BEGIN { for (i = 0; i < n; i++) print f, i }'
done >"$tmp/all"
total=$(wc -l <"$tmp/all")
awk -v seed="$seed" 'BEGIN { srand(seed) } { print rand(), $0 }' "$tmp/all" | sort -n | cut -d' ' -f2- >"$tmp/order"
[ "$sample" -eq 0 ] || { head -n "$sample" "$tmp/order" >"$tmp/some"; mv "$tmp/some" "$tmp/order"; }

# Each test must pass on the right text, else it would kill everything.
for test in $(for file in $files; do tests_of "$file"; done | tr ' ' '\n' | sort -u); do
    : >"$tmp/empty.c"
    cc -c -o "$tmp/mutant.o" "$tmp/empty.c"
    link_and_run "$test" 2>/dev/null || { echo "mutants.sh: $test fails on the right text, and is left out"; echo "$test" >>"$tmp/left_out"; }
done
touch "$tmp/left_out"

killed=0 equivalent=0 survived=0 proved=0 stillborn=0 tried=0 last= begin=$(date +%s)
while read -r file site; do
    [ "$seconds" -eq 0 ] || [ $(($(date +%s) - begin)) -lt "$seconds" ] || break
    tried=$((tried + 1))
    compiled=$(compiled_of "$file")
    if [ "$file" != "$last" ]; then # the right text, compiled the same way: its object, and that the tests pass on it
        mkdir -p "$tmp/tree/$(dirname "$file")"
        rm -rf "$tmp/tree"; mkdir -p "$tmp/tree/$(dirname "$file")"
        { echo "#line 1 \"$file\""; cat "$file"; } >"$tmp/tree/$file"
        compile "$file" "$compiled" "$tmp/right.o" || { cat "$tmp/compile.log"; exit 2; }
        last=$file
    fi
    put "$file" "$site"
    if ! compile "$file" "$compiled" "$tmp/mutant.o"; then
        stillborn=$((stillborn + 1))
        continue
    fi
    if cmp -s "$tmp/right.o" "$tmp/mutant.o"; then
        equivalent=$((equivalent + 1))
        continue
    fi
    by=
    for test in $(tests_of "$file"); do
        if grep -qxF "$test" "$tmp/left_out"; then
            continue
        fi
        if ! link_and_run "$test" 2>/dev/null; then
            by=$test
            break
        fi
    done
    if [ -n "$by" ]; then
        killed=$((killed + 1))
    elif grep -qF "\`$(sed 's|^.*/\(src/\)|\1|' "$tmp/what")\`" docs/mutants.md 2>/dev/null; then
        proved=$((proved + 1))
    else
        survived=$((survived + 1))
        echo "survives: site $site: $(cat "$tmp/what")"
    fi
done <"$tmp/order"
echo "$tried of $total sites: $killed killed, $equivalent equivalent (the same object), $proved equivalent (docs/mutants.md), $survived surviving, $stillborn do not compile"
[ "$survived" -eq 0 ]
