// SPDX-License-Identifier: Apache-2.0
#pragma once

// The IPv4 header (RFC 791). Ipv4View checks a header where it lies and then answers without failing; Ipv4Header is
// the decoded value, which emit writes (without options: received options are passed over, none are sent).
//
// A view borrows the bytes it was made from. Both are plain values otherwise.

#include <cstddef>
#include <cstdint>
#include <expected>

#include "base/bytes.h"
#include "base/internet_checksum.h"
#include "stack/wire/address.h"
#include "stack/wire/protocol.h"

namespace sluice::wire {

enum class Ipv4Malformed : std::uint8_t {
  short_header,       ///< fewer bytes than the header has (pull up and ask again, if the packet has more)
  bad_version,        ///< not 4
  bad_header_length,  ///< IHL under 5
  bad_total_length,   ///< total length less than the header, or more than the packet has
  bad_checksum,
  bad_fragment  ///< a fragment that ends beyond 65,535, or is not the last and not a multiple of 8 bytes long
};

class Ipv4View {
 public:
  static constexpr std::size_t header_size_min = 20;
  static constexpr std::size_t header_size_max = 60;
  // Where its fields are (RFC 791 section 3.1).
  static constexpr std::size_t type_of_service_offset = 1;
  static constexpr std::size_t total_length_offset = 2;
  static constexpr std::size_t identification_offset = 4;
  static constexpr std::size_t fragment_word_offset = 6;  // three flags and the fragment offset
  static constexpr std::size_t time_to_live_offset = 8;
  static constexpr std::size_t protocol_offset = 9;
  static constexpr std::size_t checksum_offset = 10;
  static constexpr std::size_t source_offset = 12;
  static constexpr std::size_t destination_offset = 16;
  static constexpr std::uint16_t fragment_mask = 0x3fff;  // of a fragment: "more fragments", or an offset

  /// Checks the header at the start of `bytes`. `packet_size` is the size of the whole packet, where it continues in
  /// other blocks; bytes after total_length() are link padding and not an error.
  [[nodiscard]] static std::expected<Ipv4View, Ipv4Malformed> check(ConstBytes bytes, std::size_t packet_size);
  [[nodiscard]] static std::expected<Ipv4View, Ipv4Malformed> check(ConstBytes bytes) {
    return check(bytes, bytes.size());
  }

  /// For the header quoted in an ICMP error, of which only the first bytes came back and which routers may have
  /// changed on its way: neither total length, checksum nor fragment are checked.
  [[nodiscard]] static std::expected<Ipv4View, Ipv4Malformed> check_quoted(ConstBytes bytes);

  /// In bytes, 20..60.
  [[nodiscard]] std::size_t header_length() const { return (static_cast<std::size_t>(at_[0]) & 0xfU) * 4; }
  [[nodiscard]] std::uint8_t type_of_service() const { return octet(type_of_service_offset); }
  [[nodiscard]] std::uint16_t total_length() const { return number(total_length_offset); }
  [[nodiscard]] std::uint16_t identification() const { return number(identification_offset); }
  [[nodiscard]] bool dont_fragment() const { return (fragment_word() & 0x4000U) != 0; }
  [[nodiscard]] bool more_fragments() const { return (fragment_word() & 0x2000U) != 0; }
  /// In bytes, a multiple of 8.
  [[nodiscard]] std::uint16_t fragment_offset() const {
    return static_cast<std::uint16_t>((fragment_word() & 0x1fffU) * 8);
  }
  [[nodiscard]] bool is_fragment() const { return (fragment_word() & fragment_mask) != 0; }
  [[nodiscard]] std::uint8_t time_to_live() const { return octet(time_to_live_offset); }
  [[nodiscard]] std::uint8_t protocol() const { return octet(protocol_offset); }
  [[nodiscard]] Ipv4Address source() const { return Ipv4Address::load(at_ + source_offset); }
  [[nodiscard]] Ipv4Address destination() const { return Ipv4Address::load(at_ + destination_offset); }
  [[nodiscard]] ConstBytes options() const { return {at_ + header_size_min, header_length() - header_size_min}; }
  /// In bytes, after header and options. After check_quoted: what the original packet said, at least 0.
  [[nodiscard]] std::uint16_t payload_length() const {
    return total_length() < header_length() ? 0 : static_cast<std::uint16_t>(total_length() - header_length());
  }

 private:
  explicit Ipv4View(const std::byte* at) : at_(at) {}
  [[nodiscard]] static std::expected<Ipv4View, Ipv4Malformed> check_shape(ConstBytes bytes);
  [[nodiscard]] std::uint16_t fragment_word() const { return number(fragment_word_offset); }
  [[nodiscard]] std::uint8_t octet(std::size_t offset) const { return static_cast<std::uint8_t>(at_[offset]); }
  [[nodiscard]] std::uint16_t number(std::size_t offset) const { return load_big_endian<std::uint16_t>(at_ + offset); }

  const std::byte* at_;
};

struct Ipv4Header {
  static constexpr std::size_t size = Ipv4View::header_size_min;
  static constexpr std::size_t payload_length_max = 65535 - size;

  std::uint8_t type_of_service = 0;
  std::uint16_t payload_length = 0;  ///< at most payload_length_max
  std::uint16_t identification = 0;
  bool dont_fragment = false;
  bool more_fragments = false;
  std::uint16_t fragment_offset = 0;  ///< in bytes, a multiple of 8
  std::uint8_t time_to_live = 64;
  std::uint8_t protocol = 0;
  Ipv4Address source;
  Ipv4Address destination;

  [[nodiscard]] static Ipv4Header of(const Ipv4View& view);
  /// Ipv4View::check, then of(). The payload starts at the view's header_length(), which options make more than size.
  [[nodiscard]] static std::expected<Ipv4Header, Ipv4Malformed> parse(ConstBytes packet);
  /// Writes 20 bytes with their checksum. REQUIRES: out holds them; lengths and offset as said above.
  void emit(Bytes out) const;

  friend constexpr auto operator<=>(const Ipv4Header&, const Ipv4Header&) = default;
};

}  // namespace sluice::wire
