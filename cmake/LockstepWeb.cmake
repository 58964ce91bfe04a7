# What the WebAssembly build leaves out, and what it takes instead: lists here, no #if in shared code.
set(LOCKSTEP_LEFT_OUT "backend/(cuda|vulkan|sim|null)/|backend/webgpu/dawn|render/(ptx|spirv)|device/registry\\.c|device/borrow\\.c|base/(crc|pages)\\.c|(base/os|device/cache|engine/environment|kir/(build_math64|print)|backend/cpu/(peak|describe|scan_cpu)|gpu/peak|(device/registry|engine/vet|graph/loop|graph/grad_loop|plan/attention|spec/print)_cpu)_web\\.c|io/onnx/|plan/chosen\\.c|io/npz_web\\.c|emit/matrix_web\\.c|backend/cpu/(depthwise|rows|rows_run|runs|runs_run|sparse|sparse_filter|thin_filter|quant|pooling|fetch|fuse|chosen|joined|move|move_run)\\.c")

add_compile_definitions(LS_NO_TRAIL) # a page shows messages, not source lines

# cJSON and zlib, as sources.
set(LOCKSTEP_WEB_DEPS ${PROJECT_SOURCE_DIR}/build/web-deps)
if(NOT EXISTS ${LOCKSTEP_WEB_DEPS}/complete)
    message(FATAL_ERROR "the WebAssembly build needs the sources of cJSON and zlib: tools/web-deps.sh gets them")
endif()
set(zlib adler32 compress crc32 deflate gzclose gzlib gzread gzwrite inffast inflate inftrees trees uncompr zutil)
list(TRANSFORM zlib REPLACE "(.+)" "${LOCKSTEP_WEB_DEPS}/zlib/\\1.c")
set_source_files_properties(${LOCKSTEP_WEB_DEPS}/cjson/cJSON.c PROPERTIES COMPILE_OPTIONS -Dsscanf=lockstep_sscanf)
add_library(lockstep_web_deps STATIC ${PROJECT_SOURCE_DIR}/web/deps/sscanf.c ${LOCKSTEP_WEB_DEPS}/cjson/cJSON.c ${zlib})
target_compile_options(lockstep_web_deps PRIVATE -w)
target_compile_definitions(lockstep_web_deps PUBLIC Z_HAVE_UNISTD_H=1)
target_include_directories(lockstep_web_deps SYSTEM PUBLIC ${LOCKSTEP_WEB_DEPS} ${LOCKSTEP_WEB_DEPS}/zlib)
# What a network of f32 spends its time in.
foreach(name gemm_locked tile_float tile_pack)
    set_source_files_properties(${PROJECT_SOURCE_DIR}/src/backend/cpu/isa/${name}.c PROPERTIES COMPILE_OPTIONS -O2)
endforeach()
set(LOCKSTEP_ISA_TABLES tile.c gemm.c peak.c)
set(LOCKSTEP_PIC OFF)
set(CMAKE_EXECUTABLE_SUFFIX .wasm)
