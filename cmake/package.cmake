# SPDX-License-Identifier: Apache-2.0
# cmake --install: programs, libraries, headers, the CMake package config and the pkg-config file.
include(CMakePackageConfigHelpers)

get_property(room_targets GLOBAL PROPERTY SLUICE_ROOM_TARGETS)
get_property(room_folders GLOBAL PROPERTY SLUICE_ROOM_FOLDERS)
foreach(folder ${room_folders})
  if(NOT folder MATCHES "^apps/")
    install(DIRECTORY ${PROJECT_SOURCE_DIR}/${folder}/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/sluice/${folder}
            FILES_MATCHING PATTERN "*.h" PATTERN "core" EXCLUDE PATTERN "wire" EXCLUDE
            PATTERN "modules" EXCLUDE PATTERN "head" EXCLUDE)
  endif()
endforeach()
