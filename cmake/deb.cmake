# SPDX-License-Identifier: Apache-2.0
# scripts/deb, or cpack in a build directory: Debian packages of the components of cmake/package.cmake.
#
#   ftx            the program and its manual; needs ssh where it starts itself on another host
#   sluice         the program that runs, explains and measures stacks, its manual and stack files
#   libftx0        the same for programs: a shared library of C functions
#   libftx-dev     its headers for C and C++, and a pkg-config file
#   libsluice-dev  static libraries, headers, a CMake package and a pkg-config file
#   libsluice-msg0, libsluice-msg-dev   the message library for programs in C, as libftx0 and libftx-dev
#
# What the programs need dpkg-shlibdeps finds out. What a program that uses the library needs is what
# sluiceConfig.cmake.in and sluice.pc.in ask for.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME sluice)
set(CPACK_PACKAGE_VENDOR "The Sluice authors")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL ftx libftx libftx-dev sluice libsluice-dev libsluice-msg libsluice-msg-dev)

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_MAINTAINER "${CPACK_PACKAGE_VENDOR}")
set(CPACK_DEBIAN_ENABLE_COMPONENT_DEPENDS OFF)

set(CPACK_DEBIAN_FTX_PACKAGE_NAME ftx)
set(CPACK_DEBIAN_FTX_PACKAGE_SECTION net)
set(CPACK_DEBIAN_FTX_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_FTX_PACKAGE_RECOMMENDS openssh-client)
set(CPACK_COMPONENT_FTX_DESCRIPTION "Encrypted file transfer over UDP
 Moves files and trees to and from another host, through the user's own ssh
 or a standing server, at the speed of the link. What arrives goes to its
 final place in whatever order it comes.")

set(CPACK_DEBIAN_LIBFTX_PACKAGE_NAME libftx${PROJECT_VERSION_MAJOR})
set(CPACK_DEBIAN_LIBFTX_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_LIBFTX_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_LIBFTX_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_LIBFTX_PACKAGE_RECOMMENDS openssh-client)
set(CPACK_COMPONENT_LIBFTX_DESCRIPTION "Encrypted file transfer over UDP: library
 Transfers of files and trees as the program ftx makes them, within other
 programs.")

set(CPACK_DEBIAN_LIBFTX-DEV_PACKAGE_NAME libftx-dev)
set(CPACK_DEBIAN_LIBFTX-DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_LIBFTX-DEV_PACKAGE_DEPENDS "libftx${PROJECT_VERSION_MAJOR} (= ${PROJECT_VERSION})")
set(CPACK_COMPONENT_LIBFTX-DEV_DESCRIPTION "Encrypted file transfer over UDP: development files
 Headers of libftx for C and C++, and a pkg-config file.")

set(CPACK_DEBIAN_SLUICE_PACKAGE_NAME sluice)
set(CPACK_DEBIAN_SLUICE_PACKAGE_SECTION net)
set(CPACK_DEBIAN_SLUICE_PACKAGE_SHLIBDEPS ON)
set(CPACK_COMPONENT_SLUICE_DESCRIPTION "STREAMS-style protocol stack in user space
 Runs, explains and measures a protocol stack that is declared in a file,
 each module in a pass of its own or all data manipulations in one.")

set(CPACK_DEBIAN_LIBSLUICE-DEV_PACKAGE_NAME libsluice-dev)
set(CPACK_DEBIAN_LIBSLUICE-DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_LIBSLUICE-DEV_PACKAGE_DEPENDS
    "libhwy-dev, libfmt-dev, libtomlplusplus-dev, libpcap-dev, libxdp-dev, libbpf-dev, libnet1-dev")
set(CPACK_COMPONENT_LIBSLUICE-DEV_DESCRIPTION "STREAMS-style protocol stack in user space: development files
 Static libraries and headers: messages, queues, modules, drivers, streams,
 TLI and DLPI, for programs with modules of their own.")

set(CPACK_DEBIAN_LIBSLUICE-MSG_PACKAGE_NAME libsluice-msg${PROJECT_VERSION_MAJOR})
set(CPACK_DEBIAN_LIBSLUICE-MSG_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_LIBSLUICE-MSG_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_LIBSLUICE-MSG_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_COMPONENT_LIBSLUICE-MSG_DESCRIPTION "Messages over a user-space protocol stack: library
 Messages with matching bits between processes, over UDP, TCP or XTP of the
 kernel's or of Sluice's own stack, as a stack file declares.")

set(CPACK_DEBIAN_LIBSLUICE-MSG-DEV_PACKAGE_NAME libsluice-msg-dev)
set(CPACK_DEBIAN_LIBSLUICE-MSG-DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_LIBSLUICE-MSG-DEV_PACKAGE_DEPENDS "libsluice-msg${PROJECT_VERSION_MAJOR} (= ${PROJECT_VERSION})")
set(CPACK_COMPONENT_LIBSLUICE-MSG-DEV_DESCRIPTION "Messages over a user-space protocol stack: development files
 The header for C, a pkg-config file and the manual.")

include(CPack)
