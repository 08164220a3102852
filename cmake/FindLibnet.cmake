# SPDX-License-Identifier: Apache-2.0
# Finds libnet and defines Libnet::Libnet. Debian's libnet1-dev has neither a CMake package nor a pkg-config file.
include(FindPackageHandleStandardArgs)

find_library(LIBNET_LIBRARY net)
find_path(LIBNET_INCLUDE_DIRECTORY libnet.h)
mark_as_advanced(LIBNET_LIBRARY LIBNET_INCLUDE_DIRECTORY)
find_package_handle_standard_args(Libnet REQUIRED_VARS LIBNET_LIBRARY LIBNET_INCLUDE_DIRECTORY)
if(Libnet_FOUND AND NOT TARGET Libnet::Libnet)
  add_library(Libnet::Libnet INTERFACE IMPORTED)
  target_link_libraries(Libnet::Libnet INTERFACE ${LIBNET_LIBRARY})
  target_include_directories(Libnet::Libnet INTERFACE ${LIBNET_INCLUDE_DIRECTORY})
endif()
