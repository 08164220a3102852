// SPDX-License-Identifier: Apache-2.0
#pragma once

// DLPI 2.0.0 connectionless primitives, as they travel in the M_PROTO or M_PCPROTO block of a message.
//
// Every struct X has
//   X::primitive                    its number (dlpi_constants.h)
//   X::encoded_size_max             bytes that always suffice for encode (where no member is of free length)
//   std::size_t encode(Bytes) const writes the block, returns its size. REQUIRES: room for encoded_size_max.
//   static decode(ConstBytes)       -> X or what is malformed. Longer blocks than needed are accepted.
// in the C layout of the specification: 32-bit words in the machine's byte order, offsets "from the beginning of the
// message block" to addresses behind them. encode puts addresses in the order of their offset words, with no gaps.
//
// A DLSAP address is 8 bytes: the MAC address, then the SAP (an EtherType) in network byte order, as in a frame
// (dl_sap_length is therefore -2: "A negative value indicates PHYSICAL followed by the SAP").
//
// Plain values; a decoded struct keeps nothing of the block unless it says so.

#include <cstddef>
#include <cstdint>
#include <expected>
#include <optional>

#include "base/bytes.h"
#include "stack/wire/address.h"
#include "stack/wire/dlpi_constants.h"
#include "stack/wire/words.h"

namespace sluice::wire::dlpi {

enum class Malformed : std::uint8_t {
  short_block,      ///< the block ends inside the fixed part
  wrong_primitive,  ///< the first word names another primitive
  bad_offset,       ///< an offset/length pair points outside the block or into its fixed part
  bad_address,      ///< an address (or SAP) has a length that addresses of this kind do not have
  bad_value         ///< a word has a value that the specification does not list for it
};

template <class T>
using Decoded = std::expected<T, Malformed>;

/// The number of the primitive a block holds; nothing if the block is too short to have one. Switch on it, then decode.
[[nodiscard]] inline std::optional<std::uint32_t> primitive_of(ConstBytes block) { return first_word(block); }

/// A DLSAP address: where on the link, and which SAP there.
struct LinkAddress {
  static constexpr std::size_t size = MacAddress::size + 2;

  MacAddress mac;
  std::uint16_t sap = 0;

  /// REQUIRES: 8 readable bytes at `at`.
  [[nodiscard]] static LinkAddress load(const std::byte* at) {
    // In one piece: copying on what was written in two pieces stalls the processor, twice the cost of a decode.
    LinkAddress address;
    std::memcpy(&address, at, size);
    address.sap = to_big_endian(address.sap);
    return address;
  }
  /// REQUIRES: 8 writable bytes at `at`.
  void store(std::byte* at) const {
    mac.store(at);
    store_big_endian(at + MacAddress::size, sap);
  }

  friend constexpr auto operator<=>(const LinkAddress&, const LinkAddress&) = default;
};

static_assert(sizeof(LinkAddress) == LinkAddress::size);

/// dl_priority_t: the priority range wanted for a data unit, 0 the highest, 100 the lowest.
struct Priority {
  std::int32_t min = 0;
  std::int32_t max = 0;

  friend constexpr auto operator<=>(const Priority&, const Priority&) = default;
};

// ---- Data transfer ----

struct UnitdataReq {
  static constexpr std::uint32_t primitive = DL_UNITDATA_REQ;
  static constexpr std::size_t fixed_size = 5 * word_size;
  static constexpr std::size_t encoded_size_max = fixed_size + LinkAddress::size;

  LinkAddress destination;
  Priority priority;

  [[nodiscard]] static Decoded<UnitdataReq> decode(ConstBytes block);
  std::size_t encode(Bytes out) const;
  friend constexpr auto operator<=>(const UnitdataReq&, const UnitdataReq&) = default;
};

struct UnitdataInd {
  static constexpr std::uint32_t primitive = DL_UNITDATA_IND;
  static constexpr std::size_t fixed_size = 6 * word_size;
  static constexpr std::size_t encoded_size_max = fixed_size + 2 * LinkAddress::size;

  LinkAddress destination;
  LinkAddress source;
  bool group_address = false;  ///< sent to a multicast or the broadcast address

  [[nodiscard]] static Decoded<UnitdataInd> decode(ConstBytes block);
  std::size_t encode(Bytes out) const;
  friend constexpr auto operator<=>(const UnitdataInd&, const UnitdataInd&) = default;
};

/// The answer to a DL_UNITDATA_REQ that cannot be sent; also an address that was wrong, hence optional.
struct UderrorInd {
  static constexpr std::uint32_t primitive = DL_UDERROR_IND;
  static constexpr std::size_t encoded_size_max = 5 * word_size + LinkAddress::size;

  std::optional<LinkAddress> destination;
  std::uint32_t unix_errno = 0;
  std::uint32_t error = 0;  ///< an Errno

  [[nodiscard]] static Decoded<UderrorInd> decode(ConstBytes block);
  std::size_t encode(Bytes out) const;
  friend constexpr auto operator<=>(const UderrorInd&, const UderrorInd&) = default;
};

// ---- Local management ----

/// A primitive that is only its number.
template <std::uint32_t Number>
struct Bare {
  static constexpr std::uint32_t primitive = Number;
  static constexpr std::size_t encoded_size_max = word_size;

  [[nodiscard]] static Decoded<Bare> decode(ConstBytes block) {
    if (block.size() < encoded_size_max) {
      return std::unexpected(Malformed::short_block);
    }
    if (load_word(block.data()) != primitive) {
      return std::unexpected(Malformed::wrong_primitive);
    }
    return Bare{};
  }
  std::size_t encode(Bytes out) const { return store_words(out, {primitive}); }
  friend constexpr auto operator<=>(const Bare&, const Bare&) = default;
};

using InfoReq = Bare<DL_INFO_REQ>;
using DetachReq = Bare<DL_DETACH_REQ>;
using UnbindReq = Bare<DL_UNBIND_REQ>;
using GetStatisticsReq = Bare<DL_GET_STATISTICS_REQ>;

/// A primitive of one argument.
template <std::uint32_t Number, class Argument>
struct Unary {
  static constexpr std::uint32_t primitive = Number;
  static constexpr std::size_t encoded_size_max = 2 * word_size;

  Argument value{};

  [[nodiscard]] static Decoded<Unary> decode(ConstBytes block) {
    if (block.size() < encoded_size_max) {
      return std::unexpected(Malformed::short_block);
    }
    if (load_word(block.data()) != primitive) {
      return std::unexpected(Malformed::wrong_primitive);
    }
    return Unary{static_cast<Argument>(load_word(block.data() + word_size))};
  }
  std::size_t encode(Bytes out) const { return store_words(out, {primitive, static_cast<std::uint32_t>(value)}); }
  friend constexpr auto operator<=>(const Unary&, const Unary&) = default;
};

using AttachReq = Unary<DL_ATTACH_REQ, std::uint32_t>;          ///< value: the PPA
using OkAck = Unary<DL_OK_ACK, std::uint32_t>;                  ///< value: the primitive acknowledged
using PromisconReq = Unary<DL_PROMISCON_REQ, std::uint32_t>;    ///< value: a PromiscuousLevel; the provider checks it
using PromiscoffReq = Unary<DL_PROMISCOFF_REQ, std::uint32_t>;  ///< value: a PromiscuousLevel
using PhysAddrReq = Unary<DL_PHYS_ADDR_REQ, std::uint32_t>;     ///< value: a PhysicalAddressType
using NotifyAck = Unary<DL_NOTIFY_ACK, std::uint32_t>;          ///< value: the Notification bits supported

struct InfoAck {
  static constexpr std::uint32_t primitive = DL_INFO_ACK;
  static constexpr std::size_t fixed_size = 19 * word_size;
  static constexpr std::size_t encoded_size_max = fixed_size + LinkAddress::size + MacAddress::size;

  std::uint32_t max_sdu = 0;  ///< largest DLSDU in bytes: the link's MTU
  std::uint32_t min_sdu = 0;
  std::uint32_t mac_type = DL_ETHER;
  std::uint32_t current_state = DL_UNBOUND;
  std::uint32_t service_mode = DL_CLDLS;
  std::uint32_t provider_style = DL_STYLE2;
  std::optional<LinkAddress> address{};  ///< the bound DLSAP address; nothing before DL_BIND_REQ
  std::optional<MacAddress> broadcast{};

  /// Quality-of-service structures in the block are accepted and passed over.
  [[nodiscard]] static Decoded<InfoAck> decode(ConstBytes block);
  std::size_t encode(Bytes out) const;
  friend constexpr auto operator<=>(const InfoAck&, const InfoAck&) = default;
};

struct BindReq {
  static constexpr std::uint32_t primitive = DL_BIND_REQ;
  static constexpr std::size_t encoded_size_max = 5 * word_size;

  std::uint32_t sap = 0;
  std::uint32_t max_connect_indications = 0;
  std::uint16_t service_mode = DL_CLDLS;
  std::uint16_t connection_management = 0;
  std::uint32_t xid_test = 0;

  [[nodiscard]] static Decoded<BindReq> decode(ConstBytes block);
  std::size_t encode(Bytes out) const;
  friend constexpr auto operator<=>(const BindReq&, const BindReq&) = default;
};

struct BindAck {
  static constexpr std::uint32_t primitive = DL_BIND_ACK;
  static constexpr std::size_t encoded_size_max = 6 * word_size + LinkAddress::size;

  std::uint32_t sap = 0;
  LinkAddress address;
  std::uint32_t max_connect_indications = 0;
  std::uint32_t xid_test = 0;

  [[nodiscard]] static Decoded<BindAck> decode(ConstBytes block);
  std::size_t encode(Bytes out) const;
  friend constexpr auto operator<=>(const BindAck&, const BindAck&) = default;
};

/// Binds one more SAP to a bound stream. With DL_PEER_BIND "the DLSAP specified is used in lieu of the DLSAP bound in
/// the BIND request"; the subsequent SAP is 2 bytes in network byte order.
struct SubsBindReq {
  static constexpr std::uint32_t primitive = DL_SUBS_BIND_REQ;
  static constexpr std::size_t encoded_size_max = 4 * word_size + 2;

  std::uint16_t sap = 0;
  std::uint32_t bind_class = DL_PEER_BIND;

  [[nodiscard]] static Decoded<SubsBindReq> decode(ConstBytes block);
  std::size_t encode(Bytes out) const;
  friend constexpr auto operator<=>(const SubsBindReq&, const SubsBindReq&) = default;
};

/// Number, then one SAP behind an offset/length pair.
template <std::uint32_t Number>
struct SubsSap {
  static constexpr std::uint32_t primitive = Number;
  static constexpr std::size_t encoded_size_max = 3 * word_size + 2;

  std::uint16_t sap = 0;

  [[nodiscard]] static Decoded<SubsSap> decode(ConstBytes block);
  std::size_t encode(Bytes out) const;
  friend constexpr auto operator<=>(const SubsSap&, const SubsSap&) = default;
};

using SubsBindAck = SubsSap<DL_SUBS_BIND_ACK>;
using SubsUnbindReq = SubsSap<DL_SUBS_UNBIND_REQ>;

struct ErrorAck {
  static constexpr std::uint32_t primitive = DL_ERROR_ACK;
  static constexpr std::size_t encoded_size_max = 4 * word_size;

  std::uint32_t error_primitive = 0;
  std::uint32_t error = 0;  ///< an Errno
  std::uint32_t unix_errno = 0;

  [[nodiscard]] static Decoded<ErrorAck> decode(ConstBytes block);
  std::size_t encode(Bytes out) const;
  friend constexpr auto operator<=>(const ErrorAck&, const ErrorAck&) = default;
};

/// Number, then one MAC address behind a length/offset pair.
template <std::uint32_t Number>
struct Physical {
  static constexpr std::uint32_t primitive = Number;
  static constexpr std::size_t encoded_size_max = 3 * word_size + MacAddress::size;

  MacAddress address;

  [[nodiscard]] static Decoded<Physical> decode(ConstBytes block);
  std::size_t encode(Bytes out) const;
  friend constexpr auto operator<=>(const Physical&, const Physical&) = default;
};

using EnabmultiReq = Physical<DL_ENABMULTI_REQ>;
using DisabmultiReq = Physical<DL_DISABMULTI_REQ>;
using PhysAddrAck = Physical<DL_PHYS_ADDR_ACK>;
using SetPhysAddrReq = Physical<DL_SET_PHYS_ADDR_REQ>;

struct NotifyReq {
  static constexpr std::uint32_t primitive = DL_NOTIFY_REQ;
  static constexpr std::size_t encoded_size_max = 3 * word_size;

  std::uint32_t notifications = 0;  ///< Notification bits wanted
  std::uint32_t time_limit_ms = 0;

  [[nodiscard]] static Decoded<NotifyReq> decode(ConstBytes block);
  std::size_t encode(Bytes out) const;
  friend constexpr auto operator<=>(const NotifyReq&, const NotifyReq&) = default;
};

struct NotifyInd {
  static constexpr std::uint32_t primitive = DL_NOTIFY_IND;
  static constexpr std::size_t encoded_size_max = 5 * word_size + LinkAddress::size;

  std::uint32_t notification = 0;      ///< one Notification bit
  std::uint32_t data = 0;              ///< DL_NOTE_SDU_SIZE: bytes; DL_NOTE_SPEED: kbit/s
  std::optional<LinkAddress> address;  ///< DL_NOTE_PHYS_ADDR: the new address

  [[nodiscard]] static Decoded<NotifyInd> decode(ConstBytes block);
  std::size_t encode(Bytes out) const;
  friend constexpr auto operator<=>(const NotifyInd&, const NotifyInd&) = default;
};

/// What a link can do beyond sending and receiving frames, and what its user wants of it, after the primitives of that
/// name of Solaris (<sys/dlpi.h>): "DL_CAPABILITY_REQ can either be empty (i.e., dl_sub_length is zero) which is a
/// request for the driver to return all capabilities. Otherwise, the DL_CAPABILITY_REQ contains the capabilities the
/// DLS user wants to use and their settings." A list of capabilities, each with its number and length, of which one is
/// known here, our own; others are skipped.
struct SegmentsCapability {
  static constexpr std::uint32_t number = 0x8000'0001;  ///< dl_cap
  enum Flag : std::uint32_t {
    by_device = 1,  ///< otherwise the driver splits
  };

  std::uint32_t packet_bytes_max = 0;  ///< of one IP packet that stands for several datagrams
  std::uint32_t flags = 0;

  friend constexpr auto operator<=>(const SegmentsCapability&, const SegmentsCapability&) = default;
};

template <std::uint32_t Number>
struct Capability {
  static constexpr std::uint32_t primitive = Number;
  static constexpr std::size_t fixed_size = 3 * word_size;
  static constexpr std::size_t encoded_size_max = fixed_size + 4 * word_size;

  std::optional<SegmentsCapability> segments{};

  [[nodiscard]] static Decoded<Capability> decode(ConstBytes block);
  std::size_t encode(Bytes out) const;
  friend constexpr auto operator<=>(const Capability&, const Capability&) = default;
};

using CapabilityReq = Capability<DL_CAPABILITY_REQ>;
using CapabilityAck = Capability<DL_CAPABILITY_ACK>;

/// The specification leaves the structure of the statistics to the provider. `statistics` views the block.
struct GetStatisticsAck {
  static constexpr std::uint32_t primitive = DL_GET_STATISTICS_ACK;
  static constexpr std::size_t fixed_size = 3 * word_size;

  ConstBytes statistics;

  [[nodiscard]] static Decoded<GetStatisticsAck> decode(ConstBytes block);
  [[nodiscard]] std::size_t encoded_size() const { return fixed_size + statistics.size(); }
  /// REQUIRES: out holds encoded_size().
  std::size_t encode(Bytes out) const;
};

// ---- Sluice extension ----

/// DL_FILTER_REQ: early demultiplexing. Narrows what the stream receives on one of its bound SAPs to the datagrams
/// addressed to `local`, of IP protocol `protocol`, to port `local_port`; each absent member matches anything. That of
/// a connection names the remote end, too: those that come from `remote`, port `remote_port`. It needs all members, and
/// both addresses of one family. The provider looks at unverified headers to choose the stream, nothing more; the
/// modules above still check everything. A fragment that does not start its datagram has no port: filters with a port
/// do not match it, so the stream that should reassemble binds without one. Answered with DL_OK_ACK or DL_ERROR_ACK
/// (DL_BADSAP: that SAP is not bound; DL_BADADDR: something of a remote end, and not a whole connection; DL_BOUND:
/// another stream has this very filter).
///
/// Layout in words: number, SAP, address length, address offset, protocol, port; an absent protocol or port is
/// 0xffffffff, an absent address has length 0, a present one 4 or 16 bytes. If there is anything of a remote end, the
/// SAP's word has `with_remote` in it and three more words follow: address length, address offset, port.
struct FilterReq {
  static constexpr std::uint32_t primitive = DL_FILTER_REQ;
  static constexpr std::size_t fixed_size = 6 * word_size;
  static constexpr std::size_t fixed_size_with_remote = fixed_size + 3 * word_size;
  static constexpr std::size_t encoded_size_max = fixed_size_with_remote + 2 * IpAddress::size_max;
  static constexpr std::uint32_t with_remote = 0x1'0000;

  std::uint16_t sap = 0;
  std::optional<IpAddress> local;
  std::optional<std::uint8_t> protocol;
  std::optional<std::uint16_t> local_port;
  std::optional<IpAddress> remote{};
  std::optional<std::uint16_t> remote_port{};

  [[nodiscard]] static Decoded<FilterReq> decode(ConstBytes block);
  std::size_t encode(Bytes out) const;
  friend constexpr auto operator<=>(const FilterReq&, const FilterReq&) = default;
};

// ---- The data path, inline ----

inline Decoded<UnitdataReq> UnitdataReq::decode(ConstBytes block) {
  if (block.size() < fixed_size) {
    return std::unexpected(Malformed::short_block);
  }
  const std::byte* at = block.data();
  if (load_word(at) != primitive) {
    return std::unexpected(Malformed::wrong_primitive);
  }
  const auto address = slice(block, fixed_size, load_word(at + 4), load_word(at + 8));
  if (!address) {
    return std::unexpected(Malformed::bad_offset);
  }
  if (address->size() != LinkAddress::size) {
    return std::unexpected(Malformed::bad_address);
  }
  return Decoded<UnitdataReq>(
      std::in_place, LinkAddress::load(address->data()),
      Priority{static_cast<std::int32_t>(load_word(at + 12)), static_cast<std::int32_t>(load_word(at + 16))});
}

inline std::size_t UnitdataReq::encode(Bytes out) const {
  SLUICE_REQUIRE(out.size() >= encoded_size_max);
  store_words(out, {primitive, LinkAddress::size, fixed_size, static_cast<std::uint32_t>(priority.min),
                    static_cast<std::uint32_t>(priority.max)});
  destination.store(out.data() + fixed_size);
  return encoded_size_max;
}

inline Decoded<UnitdataInd> UnitdataInd::decode(ConstBytes block) {
  if (block.size() < fixed_size) {
    return std::unexpected(Malformed::short_block);
  }
  const std::byte* at = block.data();
  if (load_word(at) != primitive) {
    return std::unexpected(Malformed::wrong_primitive);
  }
  const auto to = slice(block, fixed_size, load_word(at + 4), load_word(at + 8));
  const auto from = slice(block, fixed_size, load_word(at + 12), load_word(at + 16));
  if (!to || !from) {
    return std::unexpected(Malformed::bad_offset);
  }
  if (to->size() != LinkAddress::size || from->size() != LinkAddress::size) {
    return std::unexpected(Malformed::bad_address);
  }
  return Decoded<UnitdataInd>(std::in_place, LinkAddress::load(to->data()), LinkAddress::load(from->data()),
                              load_word(at + 20) != 0);
}

inline std::size_t UnitdataInd::encode(Bytes out) const {
  SLUICE_REQUIRE(out.size() >= encoded_size_max);
  store_words(out, {primitive, LinkAddress::size, fixed_size, LinkAddress::size, fixed_size + LinkAddress::size,
                    group_address ? 1U : 0U});
  destination.store(out.data() + fixed_size);
  source.store(out.data() + fixed_size + LinkAddress::size);
  return encoded_size_max;
}

}  // namespace sluice::wire::dlpi
