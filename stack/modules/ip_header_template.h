// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the datagrams of a flow have in common in their IP headers. Most datagrams look like the one before: on the way
// down its header is copied and patched (length, identification, checksum) instead of made, on the way up a header that
// equals it where it may not differ takes the short way. (Van Jacobson, "4BSD Header Prediction", 1990.)
//
// Whatever may change what a header must look like throws the templates away: see Ip::forget_templates().
//
// Plain values without allocation. Threads: the module's.

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "stack/wire/address.h"
#include "stack/wire/data_unit.h"

namespace sluice::ip {

/// Bytes of the transport header that are looked at with the IP header, and lie in one block with it on either way: so
/// neither is lost when the other is trimmed off, and an ICMP error can quote both.
inline constexpr std::size_t transport_peek = 8;

/// The header of the datagram that was sent last. Invariant: size is 0 (there is none; nor is a
/// payload then served), 20 (IPv4) or 40 (IPv6).
class HeaderTemplate {
 public:
  /// Takes `header`, which was emitted for a datagram with these fields; it serves payloads of up to `payload_max`
  /// bytes. REQUIRES: 20 bytes of IPv4 without options, or 40 of IPv6 without extension headers; payload_max fits its
  /// length.
  void take(ConstBytes header, std::uint8_t hop_limit, std::uint8_t traffic_class, bool dont_fragment,
            std::size_t payload_max);

  /// Another flow to the same destination. Over IPv4 nothing. REQUIRES: label < 2^20.
  void set_flow_label(std::uint32_t label);

  [[nodiscard]] std::size_t size() const { return size_; }
  /// How many identifications a datagram takes: IPv6 has none.
  [[nodiscard]] std::uint16_t identifications() const { return identifications_; }
  [[nodiscard]] std::uint16_t sap() const { return sap_; }
  /// Whether the header of such a datagram of `payload` bytes, to the same destination, differs in length,
  /// identification and checksum only. False without a template, and for an empty payload.
  [[nodiscard]] bool serves(const wire::DataUnit& unitdata, std::size_t payload) const {
    return payload - 1 < payload_max_ && unitdata.protocol == protocol_ && unitdata.hop_limit == hop_limit_ &&
           unitdata.traffic_class == traffic_class_ && unitdata.dont_fragment == dont_fragment_;
  }
  /// Writes size() bytes for a payload of `payload` bytes. REQUIRES: `out` has room; payload + 20 <= 65535 (IPv4),
  /// payload <= 65535 (IPv6).
  void emit(std::byte* out, std::size_t payload, std::uint16_t identification) const;

 private:
  static constexpr std::size_t size_max = 40;

  std::array<std::byte, size_max> bytes_{};
  std::size_t size_ = 0;
  std::size_t payload_max_ = 0;
  std::uint16_t identifications_ = 0;
  std::uint16_t sap_ = 0;
  std::uint16_t sum_ = 0;  // IPv4: of the header with length, identification and checksum zero
  std::uint8_t protocol_ = 0;
  std::uint8_t hop_limit_ = 0;
  std::uint8_t traffic_class_ = 0;
  bool dont_fragment_ = false;
};

/// What the header of the datagram that was delivered last looked like: to one of our addresses, whole, without options
/// or extension headers, of the protocol that the user is bound to.
class ArrivalTemplate {
 public:
  /// REQUIRES: addresses of one family.
  void take(const wire::IpAddress& source, const wire::IpAddress& local, std::uint8_t protocol);
  void clear() { size_ = 0; }

  /// Whether the packet of `packet_size` bytes that begins with `front` is whole, undamaged and differs in nothing that
  /// would change what becomes of it; then `unitdata` says what a user is told of it.
  [[nodiscard]] bool matches(ConstBytes front, std::size_t packet_size, wire::DataUnit& unitdata) const;

 private:
  wire::IpAddress source_;
  wire::IpAddress local_;
  std::array<std::byte, 2 * wire::IpAddress::size_max> addresses_{};  // both, as they lie in the header
  std::size_t size_ = 0;                                              // of the header; 0: there is no template
  std::uint8_t protocol_ = 0;
};

}  // namespace sluice::ip
