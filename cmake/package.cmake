# SPDX-License-Identifier: Apache-2.0
# cmake --install: programs and libftx (apps/CMakeLists.txt), man pages, and of every folder but those of the programs the library and
# the headers, with a CMake package (find_package(sluice), targets sluice::FOLDER) and a pkg-config file (sluice); of
# the programs' folders libftx (pkg-config: ftx) and libsluice-msg (sluice-msg) alone. The components are what cmake/deb.cmake makes Debian packages of.
#
# Both are relocatable: they find the rest from where they lie, so `cmake --install DIR --prefix ANYWHERE` works.
include(CMakePackageConfigHelpers)

set(package_directory ${CMAKE_INSTALL_LIBDIR}/cmake/sluice)
set(pkgconfig_directory ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# Libraries and headers. layers.txt names lower folders first; a linker wants them last.
get_property(room_folders GLOBAL PROPERTY SLUICE_ROOM_FOLDERS)
set(SLUICE_PKGCONFIG_LIBS "")
foreach(folder ${room_folders})
  if(folder MATCHES "^apps/")
    continue()
  endif()
  string(REPLACE "/" "_" name ${folder})
  set_target_properties(sluice_${name} PROPERTIES EXPORT_NAME ${name})
  install(TARGETS sluice_${name} EXPORT sluice
          ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT libsluice-dev)
  file(GLOB headers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${folder}/*.h)
  install(FILES ${headers} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/sluice/${folder} COMPONENT libsluice-dev)
  get_target_property(type sluice_${name} TYPE)
  if(type STREQUAL "STATIC_LIBRARY")
    string(PREPEND SLUICE_PKGCONFIG_LIBS "-lsluice_${name} ")
  endif()
endforeach()

# The CMake package.
install(EXPORT sluice NAMESPACE sluice:: FILE sluiceTargets.cmake
        DESTINATION ${package_directory} COMPONENT libsluice-dev)
configure_package_config_file(cmake/sluiceConfig.cmake.in ${PROJECT_BINARY_DIR}/sluiceConfig.cmake
                              INSTALL_DESTINATION ${package_directory}
                              NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/sluiceConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/sluiceConfig.cmake ${PROJECT_BINARY_DIR}/sluiceConfigVersion.cmake
              ${PROJECT_SOURCE_DIR}/cmake/FindLibnet.cmake
        DESTINATION ${package_directory} COMPONENT libsluice-dev)

# The pkg-config files.
file(RELATIVE_PATH SLUICE_PREFIX_FROM_PKGCONFIG /${pkgconfig_directory} /)
string(REGEX REPLACE "/$" "" SLUICE_PREFIX_FROM_PKGCONFIG ${SLUICE_PREFIX_FROM_PKGCONFIG})
configure_file(cmake/sluice.pc.in ${PROJECT_BINARY_DIR}/sluice.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/sluice.pc DESTINATION ${pkgconfig_directory} COMPONENT libsluice-dev)
configure_file(cmake/ftx.pc.in ${PROJECT_BINARY_DIR}/ftx.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/ftx.pc DESTINATION ${pkgconfig_directory} COMPONENT libftx-dev)
configure_file(cmake/sluice-msg.pc.in ${PROJECT_BINARY_DIR}/sluice-msg.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/sluice-msg.pc DESTINATION ${pkgconfig_directory} COMPONENT libsluice-msg-dev)

# The manual, and stack files to begin with.
foreach(program ftx sluice)
  install(FILES ${PROJECT_SOURCE_DIR}/docs/man/${program}.1
          DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT ${program})
endforeach()
install(FILES ${PROJECT_SOURCE_DIR}/docs/man/sluice_msg.3
        DESTINATION ${CMAKE_INSTALL_MANDIR}/man3 COMPONENT libsluice-msg-dev)
install(FILES ${PROJECT_SOURCE_DIR}/tools/wireshark/sluice.lua
        DESTINATION ${CMAKE_INSTALL_DATADIR}/sluice/wireshark COMPONENT sluice)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/examples/stacks
        DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/doc/sluice COMPONENT sluice)
foreach(component ftx libftx libftx-dev sluice libsluice-dev libsluice-msg libsluice-msg-dev)
  string(REGEX REPLACE "^(libftx|libsluice-msg)$" "\\1${PROJECT_VERSION_MAJOR}" package ${component})
  install(FILES ${PROJECT_SOURCE_DIR}/LICENSE
          DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/doc/${package} RENAME copyright COMPONENT ${component})
endforeach()

# Completion, where the shells look by themselves. Below /usr, zsh of Debian looks elsewhere.
set(completions ${PROJECT_SOURCE_DIR}/completions)
install(FILES ${completions}/ftx.bash
        DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME ftx COMPONENT ftx)
install(FILES ${completions}/ftx.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d COMPONENT ftx)
install(FILES ${completions}/_ftx DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions COMPONENT not_packaged)
install(FILES ${completions}/_ftx
        DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions COMPONENT ftx EXCLUDE_FROM_ALL)
