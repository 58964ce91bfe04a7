# WebAssembly as Debian 12 builds it: clang 14 and lld 14, wasi-libc, SIMD of 128 bits. Programs run under Node (tests/web/run.mjs).
# -fno-slp-vectorize: clang 14 miscompiles the scalar expm1 with it.
set(CMAKE_SYSTEM_NAME Generic)
set(CMAKE_SYSTEM_PROCESSOR wasm32)
set(CMAKE_C_COMPILER clang-14)
set(CMAKE_C_COMPILER_TARGET wasm32-wasi)
set(CMAKE_CXX_COMPILER NOTFOUND) # else the host's would be taken
set(CMAKE_AR /usr/bin/llvm-ar-14 CACHE FILEPATH "")
set(CMAKE_RANLIB /usr/bin/llvm-ranlib-14 CACHE FILEPATH "")
set(CMAKE_C_FLAGS_INIT "-msimd128 -mbulk-memory -fno-slp-vectorize -ftls-model=local-exec")
set(CMAKE_FIND_ROOT_PATH /usr/lib/wasm32-wasi)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_CROSSCOMPILING_EMULATOR "node;--no-warnings;--experimental-wasi-unstable-preview1;${CMAKE_CURRENT_LIST_DIR}/../tests/web/run.mjs")
