#!/bin/sh
# deps.sh [--list] GROUP...: prints what the named groups need and installs what is missing (Debian 12 names).
# Groups: build test gpu check slow bench peers web data. Nothing is installed, and neither root nor network is needed, when
# everything is already there.
set -eu
cd "$(dirname "$0")/.."

# group, Debian package, how to see that it is there: a command, a <header> or a path; a comma between alternatives
table='
build cmake           cmake
build ninja-build     ninja
build gcc             gcc
build libc6-dev       <stdlib.h>
build pkg-config      pkg-config
build zlib1g-dev      <zlib.h>
build libcjson-dev    <cjson/cJSON.h>
build libprotobuf-c-dev <protobuf-c/protobuf-c.h>
build libpcre2-dev    /usr/include/pcre2.h
build protobuf-c-compiler protoc-c
build libstb-dev      <stb/stb_image.h>
test  g++             g++
test  binutils        objdump
test  libcmocka-dev   <cmocka.h>
test  libmpfr-dev     <mpfr.h>
gpu   libvulkan1      /usr/lib/x86_64-linux-gnu/libvulkan.so.1,/usr/lib/aarch64-linux-gnu/libvulkan.so.1
gpu   mesa-vulkan-drivers /usr/share/vulkan/icd.d/lvp_icd.x86_64.json,/usr/share/vulkan/icd.d/lvp_icd.aarch64.json
gpu   chromium-common /usr/lib/chromium/vk_swiftshader_icd.json
gpu   spirv-tools     spirv-val
gpu   npm             npm,build/drivers/dawn/libwebgpu_wrapper.so
check clang           clang
check valgrind        valgrind
slow  gcc-aarch64-linux-gnu aarch64-linux-gnu-gcc
slow  libc6-dev-arm64-cross /usr/aarch64-linux-gnu/include/stdlib.h
slow  qemu-user       qemu-aarch64
bench libopenblas-dev <cblas.h>
peers libopenblas0  /usr/lib/x86_64-linux-gnu/libopenblas.so.0,/usr/lib/aarch64-linux-gnu/libopenblas.so.0
peers libdnnl-dev   <oneapi/dnnl/dnnl.h>
peers python3-torch /usr/lib/python3/dist-packages/torch/__init__.py
peers npm           npm,build/data/models/peer/node_modules/onnxruntime-node/package.json
peers npm           npm,build/data/models/ggml/package.json
web   clang-14        clang-14
web   lld-14          wasm-ld-14
web   llvm-14         /usr/bin/llvm-ar-14
web   wasi-libc       /usr/lib/wasm32-wasi/libc.a
web   libclang-rt-14-dev-wasm32 /usr/lib/llvm-14/lib/clang/14.0.6/lib/wasi/libclang_rt.builtins-wasm32.a
web   binaryen        wasm-opt
web   nodejs          node
web   chromium        /usr/bin/chromium
web   npm             npm,build/browser/node_modules/playwright-core/package.json
web   patch           patch
web   bzip2           bzip2
web   xz-utils        xz
data  dataset-fashion-mnist /usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz
data  npm             npm,build/data/digits/9.json
data  ca-certificates /etc/ssl/certs/ca-certificates.crt,build/data/digits/9.json
'

present() {
    case $1 in
    *,*) present "${1%%,*}" || present "${1#*,}" ;;
    '<'*'>') command -v gcc >/dev/null 2>&1 && echo "#include $1" | gcc -include stdarg.h -include stddef.h \
                 -include stdint.h -include setjmp.h -E - >/dev/null 2>&1 ;;
    */*) [ -e "$1" ] ;;
    *) command -v "$1" >/dev/null 2>&1 ;;
    esac
}

list_only=no
if [ "${1-}" = --list ]; then
    list_only=yes
    shift
fi
[ $# -gt 0 ] || set -- build test gpu check slow bench peers web data

missing=
for group in "$@"; do
    echo "$table" | grep -q "^$group " || { echo "deps.sh: no group '$group'" >&2; exit 2; }
    wanted=$(echo "$table" | awk -v g="$group" '$1 == g { print $2 "=" $3 }')
    printf '%s:' "$group"
    for pair in $wanted; do
        package=${pair%%=*}
        probe=${pair#*=}
        if present "$probe"; then
            printf ' %s' "$package"
        else
            printf ' %s(missing)' "$package"
            missing="$missing $package"
        fi
    done
    echo
done
[ -n "$missing" ] && [ $list_only = no ] || exit 0

if ! command -v apt-get >/dev/null 2>&1; then
    echo "deps.sh: no apt-get here; install these yourself (Debian's names):$missing" >&2
    exit 1
fi
sudo=
if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null 2>&1 || { echo "deps.sh: need root or sudo to install:$missing" >&2; exit 1; }
    sudo=sudo
fi
echo "installing:$missing"
export DEBIAN_FRONTEND=noninteractive
# shellcheck disable=SC2086
if ! $sudo apt-get install -y -qq --no-install-recommends $missing >/dev/null 2>&1; then
    $sudo apt-get update -qq
    $sudo apt-get install -y -qq --no-install-recommends $missing >/dev/null
fi
