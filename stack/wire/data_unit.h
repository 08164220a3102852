// SPDX-License-Identifier: Apache-2.0
#pragma once

// The data primitives in native form: one struct for what DLPI and TPI say of a datagram, whose fields the modules on
// its way edit instead of decoding and encoding the primitive between any two of them.
//
//     between              down                              up
//     user and transport   T_UNITDATA_REQ   transport_request   T_UNITDATA_IND, T_UDERROR_IND   transport_*
//     transport and ip     T_UNITDATA_REQ   network_request     T_UNITDATA_IND, T_UDERROR_IND   network_*
//     ip and driver        DL_UNITDATA_REQ  link_request        DL_UNITDATA_IND                 link_indication
//
// encode() gives exactly the bytes that stack/wire/tpi.h and stack/wire/dlpi.h give for the same values; decode() is
// its counterpart. Addresses are TransportAddress or NetworkAddress, options those of stack/wire/network.h.
//
// A plain value; thread-safe as such.

#include <cstddef>
#include <cstdint>
#include <expected>

#include "base/bytes.h"
#include "base/codec.h"
#include "stack/wire/address.h"
#include "stack/wire/dlpi.h"
#include "stack/wire/network.h"

namespace sluice::wire {

struct DataUnit {
  enum class Kind : std::uint8_t {
    transport_request,
    transport_indication,
    transport_error,
    network_request,
    network_indication,
    network_error,
    link_request,
    link_indication,
  };
  /// Which options a TPI primitive has: none, or one of those of stack/wire/network.h.
  enum class Options : std::uint8_t { none, sending, received, failure };

  /// What is wrong with the bytes of a primitive.
  enum class Malformed : std::uint8_t {
    primitive,  ///< another primitive, or not well-formed
    names,      ///< the address or the options in it cannot be read
  };

  static const Codec codec;
  static constexpr std::size_t encoded_size_max = 72;

  Kind kind = Kind::transport_request;
  Options options = Options::none;
  std::uint8_t protocol = 0;       ///< network_*: in the IP header
  std::uint8_t hop_limit = 0;      ///< sending (0: the module's own), received
  std::uint8_t traffic_class = 0;  ///< sending, received
  bool dont_fragment = false;      ///< sending
  bool group = false;              ///< received, link_indication: came to a group or broadcast address
  bool has_local = false;          ///< sending, failure: whether `local` says something
  IpAddress peer{};                ///< where to, or where from
  IpAddress local{};               ///< source of a request, destination of an indication
  std::uint16_t peer_port = 0;     ///< transport_*
  std::uint16_t header_size = 0;   ///< received: bytes of network headers before the first data byte
  /// Requests and indications: the data is that of several datagrams of so many bytes each, the last perhaps shorter,
  /// behind one header for all; 0: of one.
  std::uint16_t segment_size = 0;
  /// The transport's checksum field holds the sum of the pseudo-header, and what is missing is the device's business
  /// (down), or is known to be right (up). Never encoded: only those exchange it who have agreed to.
  bool checksum_offloaded = false;
  std::int32_t error = 0;           ///< *_error: an errno
  std::uint32_t mtu = 0;            ///< failure
  dlpi::LinkAddress destination{};  ///< link_*
  dlpi::LinkAddress source{};       ///< link_indication

  /// The primitive of that kind that `block` holds. Options of a request may be longer than what is known of them.
  [[nodiscard]] static std::expected<DataUnit, Malformed> decode(ConstBytes block, Kind kind);

  [[nodiscard]] bool is_transport() const { return kind <= Kind::transport_error; }

  /// How many datagrams `size` bytes of data behind it are.
  [[nodiscard]] std::size_t segments_in(std::size_t size) const { return network::segments_in(size, segment_size); }

  // The parts of a TPI primitive: what programs see of it.

  [[nodiscard]] std::size_t address_size() const { return tpi_header_size + peer.size(); }
  [[nodiscard]] std::size_t options_size() const;
  /// Writes address_size(), options_size() bytes, and returns how many. REQUIRES: room for them.
  std::size_t encode_address(Bytes out) const {
    return is_transport() ? encode_tpi(peer, 0, peer_port, out) : encode_tpi(peer, protocol, 0, out);
  }
  std::size_t encode_options(Bytes out) const;
  /// Whether options of a request are as if there were none.
  [[nodiscard]] bool asks_for_nothing() const {
    return !has_local && hop_limit == 0 && traffic_class == 0 && !dont_fragment && segment_size == 0;
  }
  /// Takes over the options of a primitive of this kind; false when they cannot be read.
  [[nodiscard]] bool read_options(ConstBytes bytes);

  friend bool operator==(const DataUnit&, const DataUnit&) = default;
};

}  // namespace sluice::wire
