#!/bin/sh
# mutants.sh BUILD [--sample N] [--seed S] [FILE...]: mutants of the source of lowering and of microkernels, one token
# at a time. Each is compiled as the build compiles its file, linked before the static library into the tests that
# should notice, and run:
#   killed      a test fails, crashes or does not end
#   equivalent  the compiler makes the same object of it: it is the same program
#   surviving   all tests pass: listed, for a proof in docs/mutants.md or a new check
# Nothing in the tree is touched. --sample 0 tries every site (hours). Exit code 1 when a mutant survives that
# docs/mutants.md does not name.
set -eu
[ $# -ge 1 ] || { sed -n '2,11s/^# //p' "$0"; exit 2; }
root=$(cd "$(dirname "$0")/.." && pwd)
build=$(cd "$1" && pwd)
shift
sample=60 seed=1 files=
while [ $# -gt 0 ]; do
    case $1 in
    --sample) sample=$2; shift 2 ;;
    --seed) seed=$2; shift 2 ;;
    -*) echo "mutants.sh: unknown option $1"; exit 2 ;;
    *) files="$files $1"; shift ;;
    esac
done
isa=avx2
grep -q avx2 /proc/cpuinfo 2>/dev/null || isa=scalar
[ -n "$files" ] || files="src/spec/build.c src/spec/index.c src/spec/move.c src/backend/cpu/isa/gemm_kernels.inc
    src/backend/cpu/isa/gemm_rows.inc src/backend/cpu/isa/gemm_moves.c src/backend/cpu/isa/tile.c
    src/backend/cpu/isa/tile_cast.c src/backend/cpu/isa/tile_float.c src/backend/cpu/isa/tile_int.c
    src/backend/cpu/isa/tile_pack.c"
spec_tests="golden_test_spec_print unit_test_spec_forms unit_test_spec unit_test_spec_index museum_test_mutants museum_test_plants
    conformance_test_contract museum_test_museum"
isa_tests="micro_test_gemm museum_test_mutants conformance_test_contract conformance_test_cpu_contract
    conformance_test_cpu_folds conformance_test_cpu_maps museum_test_museum"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cd "$root"

# shellcheck disable=SC2086
ninja -C "$build" lockstep_static tools_mutate $spec_tests $isa_tests >"$tmp/log" || { tail -20 "$tmp/log"; exit 2; }
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
    link=$(ninja -C "$build" -t commands "$1" | tail -1 | sed "s| -o [^ ]*| -o $tmp/test|; s|liblockstep.a|$tmp/mutant.o liblockstep.a|")
    (cd "$build" && sh -c "$link") >/dev/null 2>&1 || return 1
    (ulimit -v 8000000; LOCKSTEP_ISA=$isa timeout 60 "$tmp/test") >/dev/null 2>&1
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

killed=0 equivalent=0 survived=0 proved=0 stillborn=0 last=
while read -r file site; do
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
    case $file in src/spec/*) tests=$spec_tests ;; *) tests=$isa_tests ;; esac
    by=
    for test in $tests; do
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
echo "$(wc -l <"$tmp/order") of $total sites: $killed killed, $equivalent equivalent (the same object), $proved equivalent (docs/mutants.md), $survived surviving, $stillborn do not compile"
[ "$survived" -eq 0 ]
