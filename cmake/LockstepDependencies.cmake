# What the library links: zlib, pthreadpool, cJSON and the thread library. See docs/dependencies.md.
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
find_package(ZLIB REQUIRED)

# Debian ships neither a .pc nor a CMake file for pthreadpool.
find_path(PTHREADPOOL_INCLUDE_DIR pthreadpool.h)
find_library(PTHREADPOOL_LIBRARY pthreadpool)
find_path(CJSON_INCLUDE_DIR cjson/cJSON.h)
find_library(CJSON_LIBRARY cjson)
foreach(name PTHREADPOOL CJSON)
    if(NOT ${name}_INCLUDE_DIR OR NOT ${name}_LIBRARY)
        message(FATAL_ERROR "${name} not found (header: ${${name}_INCLUDE_DIR}, library: ${${name}_LIBRARY}); "
                            "run `make deps`, or see docs/dependencies.md")
    endif()
endforeach()

add_library(lockstep_deps INTERFACE)
target_include_directories(lockstep_deps SYSTEM INTERFACE ${PTHREADPOOL_INCLUDE_DIR} ${CJSON_INCLUDE_DIR})
