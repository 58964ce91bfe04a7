# The library: src/**/*.c except the command, compiled once (PIC) for both libraries; src/backend/cpu/isa/*.c
# are compiled once per instruction set with -DLS_ISA=<name> -DLS_ISA_<NAME>. Only *_fast.c get FMA where it is an
# option of its own: gcc converts u32 to f32 by one when it may, even under -ffp-contract=off.
file(GLOB_RECURSE LOCKSTEP_SOURCES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/*.c)
list(FILTER LOCKSTEP_SOURCES EXCLUDE REGEX "/src/(cli|backend/cpu/isa)/")
set(LOCKSTEP_PIC ON)
set(LOCKSTEP_LEFT_OUT "[a-z/]*[a-z0-9_]*_web\\.c")
if(CMAKE_SYSTEM_PROCESSOR STREQUAL wasm32)
    include(LockstepWeb)
endif()
list(FILTER LOCKSTEP_SOURCES EXCLUDE REGEX "/src/(${LOCKSTEP_LEFT_OUT})")

# The messages of ONNX files, made by protoc-c: <onnx.pb-c.h>.
set(LOCKSTEP_GENERATED ${PROJECT_BINARY_DIR}/generated)
file(MAKE_DIRECTORY ${LOCKSTEP_GENERATED})
if(LOCKSTEP_SOURCES MATCHES "/src/io/onnx/")
    find_program(LOCKSTEP_PROTOC_C protoc-c)
    mark_as_advanced(LOCKSTEP_PROTOC_C)
    if(NOT LOCKSTEP_PROTOC_C)
        message(FATAL_ERROR "lockstep needs protoc-c, the compiler of protobuf-c. `make deps` installs it.")
    endif()
    set(onnx ${LOCKSTEP_GENERATED}/onnx.pb-c)
    add_custom_command(OUTPUT ${onnx}.c ${onnx}.h
        COMMAND ${LOCKSTEP_PROTOC_C} --proto_path=${PROJECT_SOURCE_DIR}/src/io/onnx --c_out=${LOCKSTEP_GENERATED} onnx.proto
        DEPENDS ${PROJECT_SOURCE_DIR}/src/io/onnx/onnx.proto VERBATIM)
    set_source_files_properties(${onnx}.c PROPERTIES COMPILE_OPTIONS -w)
    list(APPEND LOCKSTEP_SOURCES ${onnx}.c ${onnx}.h)
    # A header alone, the same for every machine: also when building for another.
    find_path(LOCKSTEP_STB_INCLUDE_DIR stb_image.h PATH_SUFFIXES stb PATHS /usr/include NO_CMAKE_FIND_ROOT_PATH)
    mark_as_advanced(LOCKSTEP_STB_INCLUDE_DIR)
    if(NOT LOCKSTEP_STB_INCLUDE_DIR)
        message(FATAL_ERROR "lockstep needs stb_image.h. `make deps` installs it.")
    endif()
    set_source_files_properties(${PROJECT_SOURCE_DIR}/src/io/onnx/decode.c PROPERTIES
        COMPILE_OPTIONS "-isystem;${LOCKSTEP_STB_INCLUDE_DIR};-Wno-unused-function") # it declares what it leaves out
endif()
# What runs once for a model or a kernel and not for each element is compiled for size. So is the oracle, which takes no longer by it.
# Interpreters of kernels stay fast: tests wait for them.
set(small ${LOCKSTEP_SOURCES})
list(FILTER small INCLUDE REGEX "/(src/(graph|io|oracle|emit|render|verify|spec|kir|nn|gpu|plan|device|data|backend/(cuda|sim|vulkan|webgpu))|generated)/.*\\.c$")
list(FILTER small EXCLUDE REGEX "/src/kir/(interp|eval)\\.c$")
foreach(name program describe registers phase address cpuid peak depthwise pooling band kept quant thin_filter chosen contract gemm_panel gemm_plan fuse runs runs_run windows windows_run windows_loads windows_parts windows_program cpu chain move patch scan rows joined pairs sparse sparse_filter move_run launch) # of the processor's backend: what is done when a kernel is compiled, or launched with other extents
    list(APPEND small ${PROJECT_SOURCE_DIR}/src/backend/cpu/${name}.c)
endforeach()
list(APPEND small ${PROJECT_SOURCE_DIR}/src/math/scalar.c ${PROJECT_SOURCE_DIR}/src/backend/ref/ref.c ${PROJECT_SOURCE_DIR}/src/backend/ref/plan.c) # the reference: its functions, what it does once
foreach(name alloc array folder os status text thread)
    list(APPEND small ${PROJECT_SOURCE_DIR}/src/base/${name}.c)
endforeach()
foreach(name certify clone compile constant context environment hazard inspect kernels key memory place program realize run session strategy transfer tune var vet) # and a program
    list(APPEND small ${PROJECT_SOURCE_DIR}/src/engine/${name}.c)
endforeach()
if(NOT CMAKE_SYSTEM_PROCESSOR STREQUAL wasm32) # where all is
    set_property(SOURCE ${small} APPEND PROPERTY COMPILE_OPTIONS $<$<CONFIG:Release>:-Os>)
    list(FILTER small INCLUDE REGEX "/src/(io|kir|emit|render|spec)/")
    include(CheckCCompilerFlag)
    check_c_compiler_flag(-Oz LOCKSTEP_HAS_OZ)
    if(LOCKSTEP_HAS_OZ) # clang's -Os makes them a tenth to a half larger than gcc's, whose -Oz is 14 KB less
        set_property(SOURCE ${small} APPEND PROPERTY COMPILE_OPTIONS $<$<CONFIG:Release>:-Oz>)
    endif()
endif()
foreach(name program_run chain_run scan rows_run gemm gemm_block gemm_panel pack fold) # loops of few turns, or of calls, which clang would have four times over: 30 KB
    set_property(SOURCE ${PROJECT_SOURCE_DIR}/src/backend/cpu/${name}.c APPEND PROPERTY COMPILE_OPTIONS $<$<C_COMPILER_ID:Clang>:-fno-unroll-loops>)
endforeach()
file(GLOB LOCKSTEP_ISA_SOURCES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/backend/cpu/isa/*.c)
set_property(SOURCE ${PROJECT_SOURCE_DIR}/src/backend/cpu/isa/depthwise.c ${PROJECT_SOURCE_DIR}/src/backend/cpu/isa/depthwise_fast.c ${PROJECT_SOURCE_DIR}/src/backend/cpu/isa/across.c ${PROJECT_SOURCE_DIR}/src/backend/cpu/isa/put_lines.c ${PROJECT_SOURCE_DIR}/src/backend/cpu/isa/lists.c
    APPEND PROPERTY COMPILE_OPTIONS $<$<CONFIG:Release>:-O2> $<$<C_COMPILER_ID:Clang>:-fno-unroll-loops>) # unrolled by hand where it pays
# For what memory bounds: clang would have each loop four times over, and for each flag, gcc its last lanes unrolled.
set(memory_bound "/(fold_plain|tile|tile_int|tile_cast|tile_float)\\.c$")
set(whole_loops $<$<C_COMPILER_ID:Clang>:-fno-unroll-loops>)
if(NOT LOCKSTEP_SANITIZE AND NOT CMAKE_SYSTEM_PROCESSOR STREQUAL wasm32)
    set(gcc_release $<AND:$<CONFIG:Release>,$<C_COMPILER_ID:GNU>>)
    list(APPEND whole_loops $<$<C_COMPILER_ID:Clang>:-mllvm> $<$<C_COMPILER_ID:Clang>:-unswitch-threshold=0>)
    list(APPEND whole_loops $<${gcc_release}:-O2> $<${gcc_release}:-ftree-vectorize> $<${gcc_release}:-fvect-cost-model=dynamic>)
endif()
foreach(strided gemm_fast gemm_locked gemm_dots gemm_pairs gemm_moves pool_moves) # gcc would have each loop again for a stride of 1, clang several times over, which brings nothing there
    set_property(SOURCE ${PROJECT_SOURCE_DIR}/src/backend/cpu/isa/${strided}.c APPEND PROPERTY
        COMPILE_OPTIONS $<$<C_COMPILER_ID:GNU>:-fno-version-loops-for-strides> $<$<C_COMPILER_ID:Clang>:-fno-unroll-loops>)
endforeach()
file(GLOB LOCKSTEP_HEADERS CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/include/lockstep/*.h)

if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
    set(LOCKSTEP_ISAS scalar avx2 avx512)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$")
    set(LOCKSTEP_ISAS scalar neon)
elseif(CMAKE_SYSTEM_PROCESSOR STREQUAL wasm32)
    set(LOCKSTEP_ISAS simd128) # a page needs no other; the tests add scalar
else()
    set(LOCKSTEP_ISAS scalar)
endif()
set(LOCKSTEP_ISA_FLAGS_scalar)
set(LOCKSTEP_ISA_FLAGS_neon)
set(LOCKSTEP_ISA_FLAGS_avx2 -mavx2 -mf16c)
set(LOCKSTEP_ISA_FLAGS_avx512
    -mavx512f -mavx512bw -mavx512dq -mavx512vl -mf16c -mprefer-vector-width=512)
set(LOCKSTEP_FMA_FLAGS_avx2 -mfma)
set(LOCKSTEP_FMA_FLAGS_avx512 -mfma)

if(NOT LOCKSTEP_LINK)
    set(LOCKSTEP_LINK lockstep::cjson lockstep::protobuf-c lockstep::pcre2 ZLIB::ZLIB Threads::Threads ${CMAKE_DL_LIBS})
endif()
set(LOCKSTEP_OBJECT_TARGETS)
set(visibility hidden)
set(LOCKSTEP_TESTED lockstep_static) # what tests link with, to reach what is inside
if(LOCKSTEP_SANITIZE) # and there share, where a copy of the library in each would be 70 MB
    set(visibility default)
    set(LOCKSTEP_TESTED lockstep_shared)
endif()

function(lockstep_object_library name)
    add_library(${name} OBJECT ${ARGN})
    set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE ${LOCKSTEP_PIC} C_VISIBILITY_PRESET ${visibility})
    target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
    target_include_directories(${name} SYSTEM PRIVATE ${LOCKSTEP_GENERATED})
    # One macro for each instruction set whose objects are in this build, so that the dispatcher knows them.
    foreach(isa IN LISTS LOCKSTEP_ISAS)
        string(TOUPPER ${isa} upper)
        target_compile_definitions(${name} PRIVATE LS_HAVE_ISA_${upper}=1)
    endforeach()
    if(LOCKSTEP_SMALL_LIMITS)
        target_compile_definitions(${name} PRIVATE LS_SMALL_LIMITS=1)
    endif()
    target_link_libraries(${name} PRIVATE lockstep_flags ${LOCKSTEP_LINK})
    set(LOCKSTEP_OBJECT_TARGETS ${LOCKSTEP_OBJECT_TARGETS} ${name} PARENT_SCOPE)
endfunction()

if(LOCKSTEP_SOURCES)
    lockstep_object_library(lockstep_objects ${LOCKSTEP_SOURCES})
endif()
set_property(SOURCE ${PROJECT_SOURCE_DIR}/src/backend/cpu/isa/tile_math_fast.c APPEND PROPERTY COMPILE_OPTIONS -ffp-contract=fast)
set(kernel_level $<$<CONFIG:Release>:-O3>)
if(LOCKSTEP_SANITIZE OR CMAKE_SYSTEM_PROCESSOR STREQUAL wasm32) # instrumented kernels take minutes to compile at -O3
    set(kernel_level)
endif()
function(lockstep_isa_library isa)
    string(TOUPPER ${isa} upper)
    set(level ${kernel_level})
    set(loops ${whole_loops})
    if(isa STREQUAL scalar AND NOT LOCKSTEP_ISAS STREQUAL scalar) # for processors without vectors, and for tests: 50 KB
        set(level $<$<C_COMPILER_ID:GNU>:-fno-tree-vectorize> $<$<C_COMPILER_ID:Clang>:-fno-vectorize> $<$<C_COMPILER_ID:Clang>:-fno-unroll-loops>)
        set(loops)
    endif()
    foreach(suffix "" _fast _loops)
        set(sources ${LOCKSTEP_ISA_SOURCES})
        set(flags ${level} ${LOCKSTEP_ISA_FLAGS_${isa}})
        if(suffix STREQUAL _fast)
            list(FILTER sources INCLUDE REGEX "_fast\\.c$")
            list(APPEND flags ${LOCKSTEP_FMA_FLAGS_${isa}})
        elseif(suffix STREQUAL _loops)
            list(FILTER sources INCLUDE REGEX "${memory_bound}")
            list(APPEND flags ${loops})
        else()
            list(FILTER sources EXCLUDE REGEX "_fast\\.c$|${memory_bound}")
        endif()
        if(sources)
            set(name lockstep_isa_${isa}${suffix})
            lockstep_object_library(${name} ${sources})
            target_compile_definitions(${name} PRIVATE LS_ISA=${isa} LS_ISA_${upper}=1)
            # "vectorize this loop" is a wish there; a compiler that declines it is not wrong.
            target_compile_options(${name} PRIVATE ${flags} $<$<C_COMPILER_ID:Clang>:-Wno-pass-failed>)
        endif()
    endforeach()
    set(LOCKSTEP_OBJECT_TARGETS ${LOCKSTEP_OBJECT_TARGETS} PARENT_SCOPE)
endfunction()
foreach(isa IN LISTS LOCKSTEP_ISAS)
    lockstep_isa_library(${isa})
endforeach()

set(LOCKSTEP_HAVE_LIBRARY OFF)
if(LOCKSTEP_OBJECT_TARGETS)
    set(LOCKSTEP_HAVE_LIBRARY ON)
    list(TRANSFORM LOCKSTEP_OBJECT_TARGETS REPLACE "(.+)" "$<TARGET_OBJECTS:\\1>" OUTPUT_VARIABLE objects)
    set(kinds shared static)
    if(CMAKE_SYSTEM_PROCESSOR STREQUAL wasm32)
        set(kinds static)
    endif()
    foreach(kind IN LISTS kinds)
        string(TOUPPER ${kind} upper)
        add_library(lockstep_${kind} ${upper} ${objects})
        add_library(lockstep::${kind} ALIAS lockstep_${kind})
        set_target_properties(lockstep_${kind} PROPERTIES
            OUTPUT_NAME lockstep EXPORT_NAME ${kind} LINKER_LANGUAGE C
            VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})
        target_include_directories(lockstep_${kind} PUBLIC
            $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
            $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
        target_link_libraries(lockstep_${kind} PRIVATE
            $<BUILD_INTERFACE:lockstep_flags> ${LOCKSTEP_LINK})
    endforeach()
    list(GET kinds 0 first)
    add_library(lockstep::lockstep ALIAS lockstep_${first}) # as the installed package has it
    if(TARGET lockstep_shared)
        set(direct -Wl,-Bsymbolic-functions) # its own functions call each other without 250 stubs of 48 bytes between them
        if(NOT LOCKSTEP_SANITIZE) # whose run-time library comes with the program
            list(APPEND direct -Wl,-z,defs)
        endif()
        target_link_options(lockstep_shared PRIVATE ${direct})
    endif()
    # A bit and not 24 bytes for each pointer in a table, a twentieth of the library; a C library older than glibc 2.36 cannot load it.
    # liblockstep-portable.so is for those.
    include(CheckCSourceCompiles)
    check_c_source_compiles("#include <features.h>
        #if !defined __x86_64__ || !__GLIBC_PREREQ(2, 36)
        #error no
        #endif
        int main(void) { return 0; }" LOCKSTEP_RELATIVE_RELOCATIONS)
    if(TARGET lockstep_shared AND LOCKSTEP_RELATIVE_RELOCATIONS)
        target_link_options(lockstep_shared PRIVATE -Wl,-z,pack-relative-relocs)
        add_library(lockstep_portable SHARED EXCLUDE_FROM_ALL ${objects})
        set_target_properties(lockstep_portable PROPERTIES OUTPUT_NAME lockstep-portable LINKER_LANGUAGE C NO_SONAME ON)
        target_link_options(lockstep_portable PRIVATE ${direct} -Wl,-soname,liblockstep.so.${PROJECT_VERSION_MAJOR})
        target_link_libraries(lockstep_portable PRIVATE lockstep_flags ${LOCKSTEP_LINK})
    endif()
endif()
