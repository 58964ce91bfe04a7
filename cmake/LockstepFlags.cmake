# Flags that every object of the project gets. The contract of arithmetic needs the -f flags: no contraction of
# a*b+c, no errno path that would turn a square root into a call of libm.
set(CMAKE_C_STANDARD 17)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_CXX_STANDARD 17)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_C_FLAGS_RELEASE "-O2 -g1 -DNDEBUG") # lines and functions; all of it takes a fifth more time to compile, and twice as long to link
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -g1 -DNDEBUG")
if(CMAKE_SYSTEM_PROCESSOR STREQUAL wasm32) # a page loads every byte; LockstepWeb.cmake says which kernels are compiled for speed
    # clang 14 unrolls addresses into counters of their own, and inlines what is called twice, even at -Oz.
    set(CMAKE_C_FLAGS_RELEASE "-Oz -DNDEBUG -mllvm -disable-lsr -mllvm -inline-threshold=-50")
endif()
set(CMAKE_C_FLAGS_DEBUG "-O0 -g3")
set(CMAKE_CXX_FLAGS_DEBUG "-O0 -g3")

if(NOT DEFINED CMAKE_C_COMPILER_LAUNCHER)
    find_program(LOCKSTEP_CCACHE ccache)
    if(LOCKSTEP_CCACHE)
        set(CMAKE_C_COMPILER_LAUNCHER ${LOCKSTEP_CCACHE})
        set(CMAKE_CXX_COMPILER_LAUNCHER ${LOCKSTEP_CCACHE})
    endif()
endif()

add_library(lockstep_flags INTERFACE)
target_compile_options(lockstep_flags INTERFACE
    -Wall -Wextra -fno-math-errno -fno-trapping-math -ffp-contract=off
    $<$<COMPILE_LANGUAGE:C>:-fno-asynchronous-unwind-tables> # a tenth of the library, for exceptions, which C has none of
    -ffile-prefix-map=${PROJECT_SOURCE_DIR}/= -fdebug-prefix-map=${PROJECT_BINARY_DIR}=.)
if(LOCKSTEP_WERROR)
    target_compile_options(lockstep_flags INTERFACE -Werror)
endif()
if(LOCKSTEP_SANITIZE)
    target_compile_options(lockstep_flags INTERFACE
        -fsanitize=${LOCKSTEP_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer -UNDEBUG)
    target_link_options(lockstep_flags INTERFACE -fsanitize=${LOCKSTEP_SANITIZE})
endif()
