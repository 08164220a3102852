// SPDX-License-Identifier: Apache-2.0
#include "stack/wire/rmpp.h"

#include <array>
#include <bit>
#include <cstring>

#include "base/contract.h"
#include "base/internet_checksum.h"
#include "stack/wire/words.h"

namespace sluice::wire {
namespace {

using Type = RmppHeader::Type;

// Where the fields lie.
constexpr std::size_t at_version = 0;
constexpr std::size_t at_type = 1;
constexpr std::size_t at_flags = 2;
constexpr std::size_t at_source = 4;
constexpr std::size_t at_destination = 8;
constexpr std::size_t at_number = 12;
constexpr std::size_t at_attempt = 16;
constexpr std::size_t at_packet_bytes = 18;
constexpr std::size_t at_index = 20;
constexpr std::size_t at_grant = 24;
constexpr std::size_t at_length = 26;
constexpr std::size_t at_total = 32;
constexpr std::size_t at_tag = 40;
constexpr std::size_t at_copies = 48;  // type, flags, attempt, number, index, length, complemented
constexpr std::size_t at_checksum = 62;

/// The key fields a second time.
void store_copies(const RmppHeader& header, std::byte* at) {
  at[0] = ~static_cast<std::byte>(header.type);
  at[1] = ~std::byte{header.flags};
  store_big_endian(at + 2, static_cast<std::uint16_t>(~header.attempt));
  store_big_endian(at + 4, ~header.number);
  store_big_endian(at + 8, ~header.index);
  store_big_endian(at + 12, static_cast<std::uint16_t>(~header.length));
}

bool is_type(std::uint8_t type) {
  return type >= static_cast<std::uint8_t>(Type::request) && type <= static_cast<std::uint8_t>(Type::refuse);
}

bool are_flags(std::uint8_t flags) { return flags <= RmppHeader::unacknowledged; }

/// Payload of the packet with this index. REQUIRES: it is one of the message.
std::uint64_t length_at(const RmppHeader& header, std::uint64_t index) {
  return std::min<std::uint64_t>(header.packet_bytes, header.total_bytes - index * header.packet_bytes);
}

std::expected<RmppHeader, RmppMalformed> checked(const RmppHeader& header) {
  if (header.packet_bytes < RmppHeader::packet_bytes_min || header.packets() > 0xffff'ffff) {
    return std::unexpected(RmppMalformed::bad_total);
  }
  const bool carries = header.type == Type::request || header.type == Type::data;
  const bool grants = header.type == Type::clear;
  const bool numbered = header.type == Type::data || grants;
  if (header.index >= header.packets() || (!numbered && header.index != 0) ||
      (header.type == Type::data && header.index == 0)) {
    return std::unexpected(RmppMalformed::bad_index);
  }
  if (header.length != (carries ? length_at(header, header.index) : 0)) {
    return std::unexpected(RmppMalformed::bad_length);
  }
  if ((header.grant != 0) != grants ||
      (grants && header.index + static_cast<std::uint64_t>(std::bit_width(header.grant)) > header.packets())) {
    return std::unexpected(RmppMalformed::bad_grant);
  }
  return header;
}

}  // namespace

std::expected<RmppHeader, RmppMalformed> RmppHeader::parse(ConstBytes bytes, std::size_t packet_size) {
  if (bytes.size() < size || packet_size < size) {
    return std::unexpected(RmppMalformed::short_header);
  }
  const std::byte* const at = bytes.data();
  if (at[at_version] != std::byte{version}) {
    return std::unexpected(RmppMalformed::bad_version);
  }
  if (!sum_holds(header_sum(bytes.first(size)))) {
    return std::unexpected(RmppMalformed::bad_checksum);
  }
  const auto type = std::to_integer<std::uint8_t>(at[at_type]);
  RmppHeader header{.type = static_cast<Type>(type),
                    .flags = std::to_integer<std::uint8_t>(at[at_flags]),
                    .source_incarnation = load_big_endian<std::uint32_t>(at + at_source),
                    .destination_incarnation = load_big_endian<std::uint32_t>(at + at_destination),
                    .number = load_big_endian<std::uint32_t>(at + at_number),
                    .attempt = load_big_endian<std::uint16_t>(at + at_attempt),
                    .packet_bytes = load_big_endian<std::uint16_t>(at + at_packet_bytes),
                    .index = load_big_endian<std::uint32_t>(at + at_index),
                    .grant = load_big_endian<std::uint16_t>(at + at_grant),
                    .length = load_big_endian<std::uint16_t>(at + at_length),
                    .total_bytes = load_big_endian<std::uint64_t>(at + at_total),
                    .tag = load_big_endian<std::uint64_t>(at + at_tag)};
  std::array<std::byte, at_checksum - at_copies> copies;
  store_copies(header, copies.data());
  if (std::memcmp(copies.data(), at + at_copies, copies.size()) != 0) {
    return std::unexpected(RmppMalformed::bad_copy);
  }
  if (!is_type(type)) {
    return std::unexpected(RmppMalformed::bad_type);
  }
  if (!are_flags(header.flags) || at[3] != std::byte{0} || load_big_endian<std::uint32_t>(at + 28) != 0) {
    return std::unexpected(RmppMalformed::bad_flags);
  }
  if (header.length != packet_size - size) {
    return std::unexpected(RmppMalformed::bad_length);
  }
  return checked(header);
}

void RmppHeader::emit(Bytes out) const {
  SLUICE_REQUIRE(out.size() >= size);
  std::byte* const at = out.data();
  std::memset(at, 0, size);
  at[at_version] = std::byte{version};
  at[at_type] = static_cast<std::byte>(type);
  at[at_flags] = std::byte{flags};
  store_big_endian(at + at_source, source_incarnation);
  store_big_endian(at + at_destination, destination_incarnation);
  store_big_endian(at + at_number, number);
  store_big_endian(at + at_attempt, attempt);
  store_big_endian(at + at_packet_bytes, packet_bytes);
  store_big_endian(at + at_index, index);
  store_big_endian(at + at_grant, grant);
  store_big_endian(at + at_length, length);
  store_big_endian(at + at_total, total_bytes);
  store_big_endian(at + at_tag, tag);
  store_copies(*this, at + at_copies);
  store_checksum(at + at_checksum, checksum_of(header_sum(out.first(size))));
}

std::string_view name_of(RmppMalformed malformed) {
  constexpr std::array<std::string_view, static_cast<std::size_t>(RmppMalformed::count_)> names = {
      "short_header", "bad_version", "bad_checksum", "bad_copy",  "bad_type",
      "bad_flags",    "bad_length",  "bad_total",    "bad_index", "bad_grant"};
  return names[static_cast<std::size_t>(malformed)];
}

namespace message {

Request Request::load(const std::byte* at) {
  Request request;
  std::memcpy(&request.tag, at, 8);
  std::memcpy(&request.handle, at + 8, 8);
  return request;
}

void Request::store(std::byte* at) const {
  std::memcpy(at, &tag, 8);
  std::memcpy(at + 8, &handle, 8);
}

std::expected<Indication, RmppMalformed> Indication::load(const std::byte* at) {
  std::uint32_t kind;
  std::memcpy(&kind, at, 4);
  if (kind > static_cast<std::uint32_t>(Kind::failed)) {
    return std::unexpected(RmppMalformed::bad_type);
  }
  Indication indication{.kind = static_cast<Kind>(kind)};
  std::memcpy(&indication.incarnation, at + 4, 4);
  std::memcpy(&indication.number, at + 8, 4);
  std::memcpy(&indication.error, at + 12, 4);
  std::memcpy(&indication.tag, at + 16, 8);
  std::memcpy(&indication.total_bytes, at + 24, 8);
  std::memcpy(&indication.offset, at + 32, 8);
  std::memcpy(&indication.handle, at + 40, 8);
  return indication;
}

void Indication::store(std::byte* at) const {
  std::memcpy(at, &kind, 4);
  std::memcpy(at + 4, &incarnation, 4);
  std::memcpy(at + 8, &number, 4);
  std::memcpy(at + 12, &error, 4);
  std::memcpy(at + 16, &tag, 8);
  std::memcpy(at + 24, &total_bytes, 8);
  std::memcpy(at + 32, &offset, 8);
  std::memcpy(at + 40, &handle, 8);
}

std::optional<Decision> Decision::decode(ConstBytes block) {
  if (block.size() < size || load_word(block.data()) != primitive ||
      load_word(block.data() + 4) > static_cast<std::uint32_t>(Kind::refuses)) {
    return std::nullopt;
  }
  Decision decision{.kind = static_cast<Kind>(load_word(block.data() + 4)),
                    .incarnation = load_word(block.data() + 8),
                    .number = load_word(block.data() + 12)};
  const std::uint32_t address_size = load_word(block.data() + 16);
  if (address_size > TransportAddress::encoded_size_max) {
    return std::nullopt;
  }
  const auto peer = TransportAddress::decode(block.subspan(20, address_size));
  if (!peer) {
    return std::nullopt;
  }
  decision.peer = *peer;
  return decision;
}

std::size_t Decision::encode(Bytes out) const {
  std::memset(out.data(), 0, size);
  store_word(out.data(), primitive);
  store_word(out.data() + 4, static_cast<std::uint32_t>(kind));
  store_word(out.data() + 8, incarnation);
  store_word(out.data() + 12, number);
  store_word(out.data() + 16, static_cast<std::uint32_t>(peer.encode(out.subspan(20))));
  return size;
}

}  // namespace message
}  // namespace sluice::wire
