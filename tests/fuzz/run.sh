#!/bin/sh
# run.sh BUILD SECONDS: fuzzes the readers of npy, npz, safetensors, idx, WAVE and ONNX models for so long each, under AddressSanitizer
# and UBSan, and for as long the running of ONNX models, from the small ones of the ONNX project's test suite where that is unpacked.
# Corpora stay in BUILD/fuzz. Needs clang with libFuzzer.
set -eu
build=$1
seconds=$2
mkdir -p "$build/fuzz"
flags="-std=c17 -O1 -g -ffp-contract=off -Iinclude -Isrc -isystem $build/generated -isystem /usr/include/stb -fno-math-errno -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all"
objects=
# shellcheck disable=SC2012,SC2046
header=$(ls -t $(find src include "$build/generated" -name '*.h') | head -1)
for source in src/io/*.c src/io/onnx/*.c src/graph/*.c src/base/*.c src/data/*.c src/verify/data.c; do
    case $source in *_web.c) continue ;; esac # what WebAssembly takes instead
    object="$build/fuzz/$(echo "$source" | tr / _).o"
    # shellcheck disable=SC2086
    [ "$object" -nt "$source" -a "$object" -nt "$header" ] || clang $flags -c "$source" -o "$object"
    objects="$objects $object"
done
for format in npy:0 npz:1 safetensors:1 idx:2 wav:3 onnx: onnx_run:; do
    name=${format%:*}
    program=tests/fuzz/fuzz_io.c
    corpus="$build/fuzz/corpus_$name"
    mkdir -p "$corpus"
    case $name in
    npy) printf '\223NUMPY\1\0\72\0%-57s\n12345678' "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }" >"$corpus/seed" ;;
    npz) printf 'PK\5\6\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0' >"$corpus/seed" ;;
    safetensors) printf '\66\0\0\0\0\0\0\0{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}1234' >"$corpus/seed" ;;
    idx) printf '\0\0\10\1\0\0\0\2ab' >"$corpus/seed" ;;
    wav) printf 'RIFF\0\0\0\0WAVEfmt \020\0\0\0\001\0\001\0\100\037\0\0\0\0\0\0\002\0\020\0data\004\0\0\0abcd' >"$corpus/seed" ;;
    onnx) program=tests/fuzz/fuzz_onnx.c ;;
    onnx_run)
        program='tests/fuzz/fuzz_onnx_run.c tests/fuzz/mutate_onnx.c'
        cp "$build/fuzz/corpus_onnx/seed" "$corpus/seed"
        find "$build/onnx-tests" "${LOCKSTEP_ONNX_TESTS:-$build/onnx-tests}" -name model.onnx -size -4 2>/dev/null | while IFS= read -r model; do
            cp "$model" "$corpus/$(basename "$(dirname "$model")")"
        done ;;
    esac
    # shellcheck disable=SC2086
    clang $flags -DFUZZ_FORMAT="${format#*:}" -fsanitize=fuzzer $program $objects "$build/liblockstep.a" \
        -o "$build/fuzz/$name" -lz -lcjson -lprotobuf-c -lpcre2-8 -lpthread -lm
    echo "== $name, $seconds s"
    FUZZ_SEED="$corpus/seed" "$build/fuzz/$name" -max_total_time="$seconds" -max_len=4096 -timeout=60 -rss_limit_mb=2048 \
        -artifact_prefix="$build/fuzz/$name-" "$corpus" >"$build/fuzz/$name.log" 2>&1 || { tail -40 "$build/fuzz/$name.log"; exit 1; }
    tail -1 "$build/fuzz/$name.log"
done
