// SPDX-License-Identifier: Apache-2.0
#pragma once

// The numbers of the Data Link Provider Interface, version 2.0.0, under the names the specification gives them. They
// are what a program compiled against a system's <sys/dlpi.h> has in its messages, so none may ever change.

#include <cstdint>

namespace sluice::wire::dlpi {

enum Primitive : std::uint32_t {
  // Local management
  DL_INFO_REQ = 0x00,
  DL_BIND_REQ = 0x01,
  DL_UNBIND_REQ = 0x02,
  DL_INFO_ACK = 0x03,
  DL_BIND_ACK = 0x04,
  DL_ERROR_ACK = 0x05,
  DL_OK_ACK = 0x06,
  DL_ATTACH_REQ = 0x0b,
  DL_DETACH_REQ = 0x0c,
  DL_SUBS_UNBIND_REQ = 0x15,
  DL_SUBS_BIND_REQ = 0x1b,
  DL_SUBS_BIND_ACK = 0x1c,
  DL_ENABMULTI_REQ = 0x1d,
  DL_DISABMULTI_REQ = 0x1e,
  DL_PROMISCON_REQ = 0x1f,
  DL_PROMISCOFF_REQ = 0x20,
  // Connectionless data transfer
  DL_UNITDATA_REQ = 0x07,
  DL_UNITDATA_IND = 0x08,
  DL_UDERROR_IND = 0x09,
  // Physical address and statistics
  DL_PHYS_ADDR_REQ = 0x31,
  DL_PHYS_ADDR_ACK = 0x32,
  DL_SET_PHYS_ADDR_REQ = 0x33,
  DL_GET_STATISTICS_REQ = 0x34,
  DL_GET_STATISTICS_ACK = 0x35,
  // Notification, a Solaris addition that illumos keeps
  DL_NOTIFY_REQ = 0x100,
  DL_NOTIFY_ACK = 0x101,
  DL_NOTIFY_IND = 0x102,
  DL_CAPABILITY_REQ = 0x110,
  DL_CAPABILITY_ACK = 0x111,
  // Sluice's own, above 0x80000000 as the specification asks of private media types
  DL_FILTER_REQ = 0x8000'0001,
};

enum State : std::uint32_t {
  DL_UNBOUND = 0x00,  ///< PPA attached, no SAP bound
  DL_BIND_PENDING = 0x01,
  DL_UNBIND_PENDING = 0x02,
  DL_IDLE = 0x03,        ///< SAP bound; data may flow
  DL_UNATTACHED = 0x04,  ///< no PPA yet (style 2)
  DL_ATTACH_PENDING = 0x05,
  DL_DETACH_PENDING = 0x06,
  DL_SUBS_BIND_PND = 0x14,
  DL_SUBS_UNBIND_PND = 0x15,
};

/// dl_errno of DL_ERROR_ACK and DL_UDERROR_IND.
enum Errno : std::uint32_t {
  DL_BADSAP = 0x00,       ///< bad SAP
  DL_BADADDR = 0x01,      ///< DLSAP address in improper format or invalid
  DL_ACCESS = 0x02,       ///< improper permissions
  DL_OUTSTATE = 0x03,     ///< primitive issued in improper state
  DL_SYSERR = 0x04,       ///< system error, named by dl_unix_errno
  DL_BADCORR = 0x05,      ///< no such outstanding connection
  DL_BADDATA = 0x06,      ///< user data exceeded provider limit
  DL_UNSUPPORTED = 0x07,  ///< requested service not supplied by provider
  DL_BADPPA = 0x08,       ///< invalid PPA
  DL_BADPRIM = 0x09,      ///< primitive not known by provider
  DL_BADQOSPARAM = 0x0a,
  DL_BADQOSTYPE = 0x0b,
  DL_BADTOKEN = 0x0c,
  DL_BOUND = 0x0d,          ///< second bind with dl_max_conind, or SAP taken
  DL_INITFAILED = 0x0e,     ///< physical link initialisation failed
  DL_NOADDR = 0x0f,         ///< provider could not allocate an address
  DL_NOTINIT = 0x10,        ///< physical link not initialised
  DL_UNDELIVERABLE = 0x11,  ///< previous data unit could not be delivered
  DL_NOTSUPPORTED = 0x12,   ///< primitive known but not supported
  DL_TOOMANY = 0x13,        ///< limit exceeded
  DL_NOTENAB = 0x14,        ///< promiscuous mode (or multicast address) not enabled
  DL_BUSY = 0x15,           ///< other streams for this PPA are past attached
  DL_NOAUTO = 0x16,
  DL_NOXIDAUTO = 0x17,
  DL_NOTESTAUTO = 0x18,
  DL_XIDAUTO = 0x19,
  DL_TESTAUTO = 0x1a,
  DL_PENDING = 0x1b,
};

/// dl_mac_type of DL_INFO_ACK.
enum MacType : std::uint32_t {
  DL_CSMACD = 0x00,
  DL_ETHER = 0x04,
  DL_OTHER = 0x09,
  DL_LOOP = 0x0e,
};

/// dl_service_mode, a bit each.
enum ServiceMode : std::uint32_t {
  DL_CODLS = 0x01,   ///< connection-oriented
  DL_CLDLS = 0x02,   ///< connectionless
  DL_ACLDLS = 0x04,  ///< acknowledged connectionless
};

/// dl_provider_style of DL_INFO_ACK.
enum ProviderStyle : std::uint32_t {
  DL_STYLE1 = 0x0500,  ///< the PPA is implied by what was opened
  DL_STYLE2 = 0x0501,  ///< the PPA is named by DL_ATTACH_REQ
};

/// dl_version of DL_INFO_ACK.
enum Version : std::uint32_t { DL_VERSION_2 = 0x02, DL_CURRENT_VERSION = DL_VERSION_2 };

/// dl_addr_type of DL_PHYS_ADDR_REQ.
enum PhysicalAddressType : std::uint32_t { DL_FACT_PHYS_ADDR = 0x01, DL_CURR_PHYS_ADDR = 0x02 };

/// dl_subs_bind_class of DL_SUBS_BIND_REQ.
enum SubsequentBindClass : std::uint32_t { DL_PEER_BIND = 0x01, DL_HIERARCHICAL_BIND = 0x02 };

/// dl_level of DL_PROMISCON_REQ and DL_PROMISCOFF_REQ.
enum PromiscuousLevel : std::uint32_t {
  DL_PROMISC_PHYS = 0x01,   ///< every frame on the medium
  DL_PROMISC_SAP = 0x02,    ///< every SAP on this station
  DL_PROMISC_MULTI = 0x03,  ///< every multicast address
};

/// dl_notifications and dl_notification, a bit each.
enum Notification : std::uint32_t {
  DL_NOTE_PHYS_ADDR = 0x0001,
  DL_NOTE_PROMISC_ON_PHYS = 0x0002,
  DL_NOTE_PROMISC_OFF_PHYS = 0x0004,
  DL_NOTE_LINK_DOWN = 0x0008,
  DL_NOTE_LINK_UP = 0x0010,
  DL_NOTE_SDU_SIZE = 0x0080,  ///< dl_data is the new largest DLSDU in bytes
  DL_NOTE_SPEED = 0x0100,     ///< dl_data is the approximate speed in kbit/s
};

/// A quantity the provider does not know, and one the user does not mind about.
inline constexpr std::int32_t DL_UNKNOWN = -1;
inline constexpr std::int32_t DL_QOS_DONT_CARE = -2;

/// The ioctl that switches a stream to raw mode, where data is whole frames (its number on SVR4 systems).
inline constexpr std::int32_t DLIOCRAW = ('D' << 8) | 1;

}  // namespace sluice::wire::dlpi
