# SPDX-License-Identifier: Apache-2.0
# One library a folder, from cmake/layers.txt.
#
# Each library sees only the folders it may include: its include path is a directory of links to
# exactly those (and what they include in turn), so a forbidden #include does not compile.
# tests/rules/include_rule_test.py checks the direct includes against the same table.

add_library(sluice_options INTERFACE)
target_compile_options(sluice_options INTERFACE -Wall -Wextra -Wconversion -Wshadow)
# A contract that is broken names its file as people do, wherever it was compiled.
target_compile_options(sluice_options INTERFACE -fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=)
if(SLUICE_WERROR)
  target_compile_options(sluice_options INTERFACE -Werror)
endif()
if(SLUICE_SANITIZE)
  target_compile_options(sluice_options INTERFACE -fsanitize=${SLUICE_SANITIZE} -fno-omit-frame-pointer)
  target_link_options(sluice_options INTERFACE -fsanitize=${SLUICE_SANITIZE})
  # tests/faults preloads functions in front of the runtime's, which only works where the runtime is a library, as it is
  # with GCC. LibFuzzer brings its own.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND SLUICE_SANITIZE MATCHES "address" AND NOT SLUICE_FUZZ)
    execute_process(COMMAND ${CMAKE_CXX_COMPILER} -print-file-name=libclang_rt.asan-${CMAKE_SYSTEM_PROCESSOR}.so
                    OUTPUT_VARIABLE runtime OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
    get_filename_component(runtime_dir ${runtime} DIRECTORY)
    target_link_options(sluice_options INTERFACE -shared-libsan -Wl,-rpath,${runtime_dir})
  endif()
  # GCC's manual, "Program Instrumentation Options": "Note that sanitizers tend to increase the rate of false positive
  # warnings, most notably those around -Wmaybe-uninitialized."
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(sluice_options INTERFACE -Wno-maybe-uninitialized)
  endif()
  if(SLUICE_SANITIZE MATCHES "undefined")
    target_compile_options(sluice_options INTERFACE -fno-sanitize-recover=undefined)
  endif()
endif()

# GCC takes what a source file includes for a header, and warns of types of its unnamed namespaces.
if(SLUICE_UNITY AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(sluice_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-subobject-linkage>)
endif()

# Third-party libraries, by the folder that uses them. Everything else stays out of everything else. What is only headers
# is a matter of this build: an installed library does not need it any more.
set(SLUICE_PRIVATE_ilp hwy::hwy)
set(SLUICE_PRIVATE_stack_head tomlplusplus::tomlplusplus fmt::fmt)
set(SLUICE_PRIVATE_stack_modules fmt::fmt)
set(SLUICE_PRIVATE_dlpi PkgConfig::pcap PkgConfig::xdp Libnet::Libnet fmt::fmt)
set(SLUICE_PRIVATE_tpi fmt::fmt)
set(SLUICE_PRIVATE_edge $<BUILD_INTERFACE:Boost::headers> Threads::Threads)
set(SLUICE_PRIVATE_tli fmt::fmt)
set(SLUICE_PRIVATE_progress Threads::Threads)
set(SLUICE_PRIVATE_libdlpi fmt::fmt)
set(SLUICE_PRIVATE_apps_common nlohmann_json::nlohmann_json fmt::fmt)
set(SLUICE_PRIVATE_apps_ftx_files PkgConfig::xxhash OpenSSL::Crypto)
set(SLUICE_PRIVATE_apps_ftx_security OpenSSL::SSL OpenSSL::Crypto PkgConfig::seccomp $<TARGET_NAME_IF_EXISTS:IpsecMb::IpsecMb>)
set(SLUICE_PRIVATE_apps_ftx_session PkgConfig::xxhash PkgConfig::zstd nlohmann_json::nlohmann_json)
set(SLUICE_PRIVATE_apps_ftx_remote OpenSSL::Crypto fmt::fmt)
set(SLUICE_PRIVATE_apps_ftx_jobs fmt::fmt)
set(SLUICE_PRIVATE_apps_ftx_arguments CLI11::CLI11 fmt::fmt)
set(SLUICE_PRIVATE_apps_ftx_library CLI11::CLI11)
set(SLUICE_PRIVATE_apps_ftx_cli fmt::fmt nlohmann_json::nlohmann_json tomlplusplus::tomlplusplus PkgConfig::utf8proc)
set(SLUICE_PRIVATE_apps_sluice CLI11::CLI11 nlohmann_json::nlohmann_json fmt::fmt)

# Headers of other people that define the same names; and a program in which registers have names as short as variables.
foreach(source dlpi/pcap.cc dlpi/xdp_filter.cc apps/ftx/security/aead_ipsec_mb.cc)
  set_source_files_properties(${PROJECT_SOURCE_DIR}/${source} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endforeach()

set(SLUICE_LAYERS "")

function(sluice_room folder)
  set(allowed ${ARGN})
  string(REPLACE "/" "_" name ${folder})
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${folder}/*.cc)
  list(FILTER sources EXCLUDE REGEX "/main\\.cc$")
  set(target sluice_${name})

  # What may be seen: this folder, the allowed ones, and what those may see.
  set(visible ${folder} ${allowed})
  foreach(layer ${allowed})
    string(REPLACE "/" "_" layer_name ${layer})
    list(APPEND visible ${SLUICE_VISIBLE_${layer_name}})
  endforeach()
  list(REMOVE_DUPLICATES visible)
  set(SLUICE_VISIBLE_${name} "${visible}" PARENT_SCOPE)
  set(links ${PROJECT_BINARY_DIR}/layers/${name})
  foreach(layer ${visible})
    get_filename_component(parent ${layer} DIRECTORY)
    file(MAKE_DIRECTORY ${links}/${parent})
    if(NOT EXISTS ${links}/${layer})
      file(CREATE_LINK ${PROJECT_SOURCE_DIR}/${layer} ${links}/${layer} SYMBOLIC)
    endif()
  endforeach()

  if(sources)
    add_library(${target} STATIC ${sources})
    set(scope PUBLIC)
    target_include_directories(${target} PRIVATE ${links})
    target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:sluice_options> ${SLUICE_PRIVATE_${name}})
  else()
    add_library(${target} INTERFACE)
    set(scope INTERFACE)
  endif()
  # Highway compiles each file once a kind of processor, by including it again. Congestion controls name their parameters
  # as their papers do, and these names are the same.
  if(name MATCHES "^(ilp|apps_ftx_recovery)$")
    set_target_properties(${target} PROPERTIES UNITY_BUILD OFF)
  endif()
  # Whoever uses an installed library includes what is installed, from the same folders.
  target_include_directories(${target} ${scope} $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/sluice>)
  target_compile_features(${target} ${scope} cxx_std_23)
  foreach(layer ${allowed})
    string(REPLACE "/" "_" layer_name ${layer})
    target_link_libraries(${target} ${scope} sluice_${layer_name})
  endforeach()
  add_library(sluice::${name} ALIAS ${target})
  set_property(GLOBAL APPEND PROPERTY SLUICE_ROOM_TARGETS ${target})
  set_property(GLOBAL APPEND PROPERTY SLUICE_ROOM_FOLDERS ${folder})
endfunction()

file(STRINGS ${PROJECT_SOURCE_DIR}/cmake/layers.txt rows REGEX "^[a-z]")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/layers.txt)
foreach(row ${rows})
  string(REGEX MATCH "^([a-z/]+):(.*)$" _ ${row})
  set(folder ${CMAKE_MATCH_1})
  # Its functions have the names of the C library's: programs preload it, and nobody links it (apps/CMakeLists.txt).
  if(folder STREQUAL "sockets/library")
    continue()
  endif()
  string(STRIP "${CMAKE_MATCH_2}" allowed)
  string(REGEX REPLACE "[ \t]+" ";" allowed "${allowed}")
  sluice_room(${folder} ${allowed})
endforeach()

# Programs, tests and benchmarks may include anything.
add_library(sluice_everything INTERFACE)
target_include_directories(sluice_everything INTERFACE ${PROJECT_SOURCE_DIR})
get_property(room_targets GLOBAL PROPERTY SLUICE_ROOM_TARGETS)
target_link_libraries(sluice_everything INTERFACE sluice_options ${room_targets} fmt::fmt)
target_compile_definitions(sluice_apps_sluice PRIVATE SLUICE_LIBRARY_DIRECTORY="${CMAKE_INSTALL_LIBDIR}")
