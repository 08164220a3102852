// SPDX-License-Identifier: Apache-2.0
#pragma once

// The numbers of the Transport Provider Interface (TPI 2.0.0) and of the TLI/XTI errors that it carries, under the
// names the specification gives them.

#include <cstdint>

namespace sluice::wire::tpi {

enum Primitive : std::int32_t {
  T_CONN_REQ = 0,
  O_T_CONN_RES = 1,  ///< the connection response of systems that know no T_CAPABILITY_REQ; here the same as T_CONN_RES
  T_DISCON_REQ = 2,
  T_DATA_REQ = 3,
  T_EXDATA_REQ = 4,
  T_INFO_REQ = 5,
  O_T_BIND_REQ = 6,  ///< bind with TLI semantics: a busy address is replaced by a free one
  T_UNBIND_REQ = 7,
  T_UNITDATA_REQ = 8,
  T_SVR4_OPTMGMT_REQ = 9,  ///< option management with the option format of TLI
  T_ORDREL_REQ = 10,
  T_CONN_IND = 11,
  T_CONN_CON = 12,
  T_DISCON_IND = 13,
  T_DATA_IND = 14,
  T_EXDATA_IND = 15,
  T_INFO_ACK = 16,
  T_BIND_ACK = 17,
  T_ERROR_ACK = 18,
  T_OK_ACK = 19,
  T_UNITDATA_IND = 20,
  T_UDERROR_IND = 21,
  T_OPTMGMT_ACK = 22,
  T_ORDREL_IND = 23,
  T_ADDR_REQ = 24,
  T_ADDR_ACK = 25,
  T_BIND_REQ = 26,     ///< bind with XTI semantics: a busy address is an error
  T_OPTMGMT_REQ = 27,  ///< option management with the T_opthdr format of XTI
  T_CONN_RES = 28,     ///< its ACCEPTOR_id is that of a T_CAPABILITY_ACK
  T_CAPABILITY_REQ = 30,
  T_CAPABILITY_ACK = 31,
  T_OPTDATA_REQ = 0x1001,
};

/// States of the interface, as in CURRENT_state.
enum State : std::int32_t {
  TS_UNBND = 0,
  TS_WACK_BREQ = 1,
  TS_WACK_UREQ = 2,
  TS_IDLE = 3,
  TS_WACK_OPTREQ = 4,
  TS_WACK_CREQ = 5,
  TS_WCON_CREQ = 6,
  TS_WRES_CIND = 7,
  TS_WACK_CRES = 8,
  TS_DATA_XFER = 9,
  TS_WIND_ORDREL = 10,
  TS_WREQ_ORDREL = 11,
  TS_WACK_DREQ6 = 12,
  TS_WACK_DREQ7 = 13,
  TS_WACK_DREQ9 = 14,
  TS_WACK_DREQ10 = 15,
  TS_WACK_DREQ11 = 16,
};

/// t_errno values, as in TLI_error of T_ERROR_ACK.
enum TliError : std::int32_t {
  TBADADDR = 1,        ///< incorrect address format
  TBADOPT = 2,         ///< incorrect option format
  TACCES = 3,          ///< incorrect permissions
  TBADF = 4,           ///< not a transport endpoint
  TNOADDR = 5,         ///< could not allocate an address
  TOUTSTATE = 6,       ///< call issued in the wrong state
  TBADSEQ = 7,         ///< bad sequence number
  TSYSERR = 8,         ///< system error, named by UNIX_error
  TLOOK = 9,           ///< an event requires attention
  TBADDATA = 10,       ///< illegal amount of data
  TBUFOVFLW = 11,      ///< buffer not large enough
  TFLOW = 12,          ///< flow control
  TNODATA = 13,        ///< no data available
  TNODIS = 14,         ///< no disconnect indication
  TNOUDERR = 15,       ///< no unit data error
  TBADFLAG = 16,       ///< bad flags
  TNOREL = 17,         ///< no orderly release indication
  TNOTSUPPORT = 18,    ///< not supported by this provider
  TSTATECHNG = 19,     ///< state is changing
  TNOSTRUCTYPE = 20,   ///< unsupported structure type
  TBADNAME = 21,       ///< bad provider name
  TBADQLEN = 22,       ///< queue length is zero
  TADDRBUSY = 23,      ///< address in use
  TINDOUT = 24,        ///< outstanding connection indications
  TPROVMISMATCH = 25,  ///< provider mismatch
  TRESQLEN = 26,       ///< accepting endpoint has a queue length
  TRESADDR = 27,       ///< accepting endpoint is bound elsewhere
  TQFULL = 28,         ///< connection queue full
  TPROTO = 29,         ///< protocol error
};

/// SERV_type.
enum ServiceType : std::int32_t { T_COTS = 1, T_COTS_ORD = 2, T_CLTS = 3 };

/// PROVIDER_flag bits.
enum ProviderFlag : std::int32_t {
  SENDZERO = 0x0001,  ///< zero-length TSDUs can be sent
  EXPINLINE = 0x0002,
  XPG4_1 = 0x0004,  ///< T_ADDR_REQ, and both kinds of bind and option management, are supported
};

/// MGMT_flags of option management: requests, then results.
enum ManagementFlag : std::int32_t {
  T_NEGOTIATE = 0x004,
  T_CHECK = 0x008,
  T_DEFAULT = 0x010,
  T_SUCCESS = 0x020,
  T_FAILURE = 0x040,
  T_CURRENT = 0x080,
  T_PARTSUCCESS = 0x100,
  T_READONLY = 0x200,
  T_NOTSUPPORT = 0x400,
};

/// CAP_bits1 of T_CAPABILITY_REQ and T_CAPABILITY_ACK.
enum Capability : std::uint32_t { TC1_INFO = 1U << 0, TC1_ACCEPTOR_ID = 1U << 1 };

/// Sizes in T_INFO_ACK: without limit; not supported.
inline constexpr std::int32_t T_INFINITE = -1;
inline constexpr std::int32_t T_INVALID = -2;

}  // namespace sluice::wire::tpi
