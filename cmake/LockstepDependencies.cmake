# What the library links: zlib, cJSON, protobuf-c, PCRE2 and the thread library (docs/dependencies.md). This file is also
# installed, so that find_package(lockstep) finds the same for users of the static library.
# WebAssembly has neither threads nor packages: cJSON and zlib come as sources (cmake/LockstepWeb.cmake).
if(CMAKE_SYSTEM_PROCESSOR STREQUAL wasm32)
    set(LOCKSTEP_LINK lockstep_web_deps)
    return()
endif()

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
find_package(ZLIB REQUIRED)

# Debian ships a CMake file for cJSON only in some releases.
function(lockstep_find_library name header library)
    string(TOUPPER ${name} upper)
    find_path(${upper}_INCLUDE_DIR ${header})
    find_library(${upper}_LIBRARY ${library})
    mark_as_advanced(${upper}_INCLUDE_DIR ${upper}_LIBRARY)
    if(NOT ${upper}_INCLUDE_DIR OR NOT ${upper}_LIBRARY)
        message(FATAL_ERROR "lockstep needs ${name}: looked for <${header}> (${${upper}_INCLUDE_DIR}) and "
                            "lib${library} (${${upper}_LIBRARY}). `make deps` in Lockstep's tree installs it.")
    endif()
    if(NOT TARGET lockstep::${name})
        add_library(lockstep::${name} UNKNOWN IMPORTED)
        set_target_properties(lockstep::${name} PROPERTIES
            IMPORTED_LOCATION "${${upper}_LIBRARY}"
            INTERFACE_INCLUDE_DIRECTORIES "${${upper}_INCLUDE_DIR}")
    endif()
endfunction()

lockstep_find_library(cjson cjson/cJSON.h cjson)
lockstep_find_library(protobuf-c protobuf-c/protobuf-c.h protobuf-c)
lockstep_find_library(pcre2 pcre2.h pcre2-8)
