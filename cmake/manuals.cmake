# SPDX-License-Identifier: Apache-2.0
# The manuals of modules and drivers, out of their headers' comments, as a library for the sluice program.
file(GLOB manual_headers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/stack/modules/*.h ${PROJECT_SOURCE_DIR}/dlpi/*.h
     ${PROJECT_SOURCE_DIR}/tpi/*.h)
set(manual_source ${PROJECT_BINARY_DIR}/generated/manuals.cc)
add_custom_command(
  OUTPUT ${manual_source}
  COMMAND ${CMAKE_COMMAND} -DSOURCE_DIR=${PROJECT_SOURCE_DIR} -DOUTPUT=${manual_source}
          -P ${PROJECT_SOURCE_DIR}/cmake/write_manuals.cmake
  DEPENDS ${PROJECT_SOURCE_DIR}/cmake/write_manuals.cmake ${manual_headers}
  VERBATIM)
add_library(sluice_manuals STATIC ${manual_source})
target_include_directories(sluice_manuals PRIVATE ${PROJECT_SOURCE_DIR})
target_link_libraries(sluice_manuals PRIVATE sluice_options)
target_link_libraries(sluice_everything INTERFACE sluice_manuals)
