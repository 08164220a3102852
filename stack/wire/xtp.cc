// SPDX-License-Identifier: Apache-2.0
#include "stack/wire/xtp.h"

#include <cstring>

#include "base/contract.h"

namespace sluice::wire {
namespace {

using PacketType = XtpHeader::Type;

constexpr std::size_t span_size = 16;
constexpr std::size_t count_size = 4;
constexpr std::size_t exchange_size = 12;  // a reserved word, and the key
constexpr std::size_t null_address_size = 8;
constexpr std::size_t ip_address_size = 16;
constexpr std::uint8_t null_address = 0;
constexpr std::uint8_t ip_address = 1;

template <class T>
T load(ConstBytes bytes, std::size_t at) {
  return load_big_endian<T>(bytes.data() + at);
}

template <class T>
void store(Bytes bytes, std::size_t at, T value) {
  store_big_endian(bytes.data() + at, value);
}

bool is_packet_type(std::uint8_t type) {
  switch (static_cast<PacketType>(type)) {
    case PacketType::data:
    case PacketType::cntl:
    case PacketType::first:
    case PacketType::ecntl:
    case PacketType::tcntl:
    case PacketType::diag:
      return true;
  }
  return false;
}

std::expected<void, XtpMalformed> parse_spans(XtpControl& control, ConstBytes bytes) {
  if (bytes.size() < count_size) {
    return std::unexpected(XtpMalformed::bad_segment);
  }
  const auto count = load<std::uint32_t>(bytes, 0);
  if (count > XtpControl::spans_max || bytes.size() != count_size + count * span_size) {
    return std::unexpected(XtpMalformed::bad_spans);
  }
  std::uint64_t before = control.received;
  for (; control.span_count < count; ++control.span_count) {
    const std::size_t at = count_size + control.span_count * span_size;
    const XtpSpan span{.left = load<std::uint64_t>(bytes, at), .right = load<std::uint64_t>(bytes, at + 8)};
    // What begins at rseq, or where a span ends, would belong to those.
    if (span.left <= before || span.right <= span.left || span.right > XtpHeader::sequence_max) {
      return std::unexpected(XtpMalformed::bad_spans);
    }
    before = span.right;
    control.spans[control.span_count] = span;
  }
  return {};
}

}  // namespace

std::expected<XtpHeader, XtpMalformed> XtpHeader::parse(ConstBytes bytes, std::size_t packet_size) {
  if (bytes.size() < size || packet_size < size) {
    return std::unexpected(XtpMalformed::short_header);
  }
  const auto command = load<std::uint32_t>(bytes, 8);
  const auto type = static_cast<std::uint8_t>(command & 0x1f);
  if (((command >> 5) & 7) != version) {
    return std::unexpected(XtpMalformed::bad_version);
  }
  if (!is_packet_type(type)) {
    return std::unexpected(XtpMalformed::bad_type);
  }
  const XtpHeader header{.key = load<std::uint64_t>(bytes, 0),
                         .options = command >> 8,
                         .type = static_cast<PacketType>(type),
                         .length = load<std::uint32_t>(bytes, 12),
                         .sort = load<std::uint16_t>(bytes, 18),
                         .sync = load<std::uint32_t>(bytes, 20),
                         .sequence = load<std::uint64_t>(bytes, 24)};
  if (header.has(options_unknown)) {
    return std::unexpected(XtpMalformed::bad_options);
  }
  if (header.length != packet_size - size) {
    return std::unexpected(XtpMalformed::bad_length);
  }
  if ((header.key & ~return_key) == 0) {
    return std::unexpected(XtpMalformed::bad_key);
  }
  if (header.sequence > sequence_max - header.length) {
    return std::unexpected(XtpMalformed::bad_sequence);
  }
  return header;
}

void XtpHeader::emit(Bytes out) const {
  SLUICE_REQUIRE(out.size() >= size);
  store(out, 0, key);
  store(out, 8, (options << 8) | (std::uint32_t{version} << 5) | static_cast<std::uint32_t>(type));
  store(out, 12, length);
  store(out, checksum_offset, std::uint16_t{0});
  store(out, 18, sort);
  store(out, 20, sync);
  store(out, 24, sequence);
}

// ---- Traffic ----

std::expected<XtpTraffic, XtpMalformed> XtpTraffic::parse(ConstBytes bytes) {
  if (bytes.size() != size || load<std::uint16_t>(bytes, 0) != size || bytes[3] != std::byte{1}) {
    return std::unexpected(XtpMalformed::bad_traffic);
  }
  const XtpTraffic traffic{.service = std::to_integer<std::uint8_t>(bytes[2]),
                           .data_bytes = load<std::uint32_t>(bytes, 4),
                           .in_rate = load<std::uint32_t>(bytes, 8),
                           .in_burst = load<std::uint32_t>(bytes, 12),
                           .out_rate = load<std::uint32_t>(bytes, 16),
                           .out_burst = load<std::uint32_t>(bytes, 20)};
  if (traffic.data_bytes != 0 && traffic.data_bytes < data_bytes_min) {
    return std::unexpected(XtpMalformed::bad_traffic);
  }
  return traffic;
}

void XtpTraffic::emit(Bytes out) const {
  SLUICE_REQUIRE(out.size() >= size);
  store(out, 0, static_cast<std::uint16_t>(size));
  out[2] = std::byte{service};
  out[3] = std::byte{1};
  store(out, 4, data_bytes);
  store(out, 8, in_rate);
  store(out, 12, in_burst);
  store(out, 16, out_rate);
  store(out, 20, out_burst);
}

// ---- Control ----

std::expected<XtpControl, XtpMalformed> XtpControl::parse(ConstBytes bytes, PacketType type) {
  if (bytes.size() < size) {
    return std::unexpected(XtpMalformed::bad_segment);
  }
  XtpControl control;
  control.received = load<std::uint64_t>(bytes, 0);
  control.allocated = load<std::uint64_t>(bytes, 8);
  control.echo = load<std::uint32_t>(bytes, 16);
  if (control.received > XtpHeader::sequence_max || control.allocated > XtpHeader::sequence_max ||
      control.allocated < control.received) {
    return std::unexpected(XtpMalformed::bad_sequence);
  }
  const ConstBytes rest = bytes.subspan(size);
  if (type == PacketType::ecntl) {
    const auto spans = parse_spans(control, rest);
    return spans ? std::expected<XtpControl, XtpMalformed>(control) : std::unexpected(spans.error());
  }
  if (type == PacketType::tcntl) {
    if (rest.size() < exchange_size) {
      return std::unexpected(XtpMalformed::bad_segment);
    }
    control.exchanged_key = load<std::uint64_t>(rest, 4);
    const auto traffic = XtpTraffic::parse(rest.subspan(exchange_size));
    if (!traffic) {
      return std::unexpected(traffic.error());
    }
    control.traffic = *traffic;
    if (control.exchanged_key == 0 || (control.exchanged_key & XtpHeader::return_key) != 0) {
      return std::unexpected(XtpMalformed::bad_key);
    }
    return control;
  }
  return rest.empty() ? std::expected<XtpControl, XtpMalformed>(control) : std::unexpected(XtpMalformed::bad_segment);
}

std::size_t XtpControl::encoded_size(PacketType type) const {
  switch (type) {
    case PacketType::ecntl:
      return size + count_size + span_count * span_size;
    case PacketType::tcntl:
      return size + exchange_size + XtpTraffic::size;
    default:
      return size;
  }
}

void XtpControl::emit(Bytes out, PacketType type) const {
  SLUICE_REQUIRE(out.size() >= encoded_size(type));
  store(out, 0, received);
  store(out, 8, allocated);
  store(out, 16, echo);
  const Bytes rest = out.subspan(size);
  if (type == PacketType::ecntl) {
    store(rest, 0, static_cast<std::uint32_t>(span_count));
    std::size_t at = count_size;
    for (const XtpSpan& span : listed()) {
      store(rest, at, span.left);
      store(rest, at + 8, span.right);
      at += span_size;
    }
  } else if (type == PacketType::tcntl) {
    store(rest, 0, std::uint32_t{0});
    store(rest, 4, exchanged_key);
    traffic.emit(rest.subspan(exchange_size));
  }
}

// ---- The first packet ----

std::expected<XtpFirst, XtpMalformed> XtpFirst::parse(ConstBytes bytes) {
  if (bytes.size() < null_address_size) {
    return std::unexpected(XtpMalformed::bad_segment);
  }
  const std::size_t address_size = load<std::uint16_t>(bytes, 0);
  const auto format = std::to_integer<std::uint8_t>(bytes[3]);
  if (!(format == null_address && address_size == null_address_size) &&
      !(format == ip_address && address_size == ip_address_size)) {
    return std::unexpected(XtpMalformed::bad_address);
  }
  if (bytes.size() < address_size) {
    return std::unexpected(XtpMalformed::bad_segment);
  }
  XtpFirst first;
  if (format == ip_address) {
    first.to = {Ipv4Address::load(bytes.data() + 4), load<std::uint16_t>(bytes, 12)};
    first.from = {Ipv4Address::load(bytes.data() + 8), load<std::uint16_t>(bytes, 14)};
  }
  const auto traffic = XtpTraffic::parse(bytes.subspan(address_size));
  if (!traffic) {
    return std::unexpected(traffic.error());
  }
  first.traffic = *traffic;
  return first;
}

std::size_t XtpFirst::encoded_size() const {
  return (to.address.is_v4() ? ip_address_size : null_address_size) + XtpTraffic::size;
}

void XtpFirst::emit(Bytes out) const {
  SLUICE_REQUIRE(out.size() >= encoded_size());
  const std::size_t address_size = encoded_size() - XtpTraffic::size;
  std::memset(out.data(), 0, address_size);
  store(out, 0, static_cast<std::uint16_t>(address_size));
  if (to.address.is_v4()) {
    out[3] = std::byte{ip_address};
    to.address.v4().store(out.data() + 4);
    if (from.address.is_v4()) {
      from.address.v4().store(out.data() + 8);
    }
    store(out, 12, to.port);
    store(out, 14, from.port);
  }
  traffic.emit(out.subspan(address_size));
}

// ---- Diagnosis ----

std::expected<XtpDiagnosis, XtpMalformed> XtpDiagnosis::parse(ConstBytes bytes) {
  if (bytes.size() < size) {
    return std::unexpected(XtpMalformed::bad_segment);
  }
  return XtpDiagnosis{.code = static_cast<Code>(load<std::uint32_t>(bytes, 0)),
                      .value = static_cast<Value>(load<std::uint32_t>(bytes, 4))};
}

void XtpDiagnosis::emit(Bytes out) const {
  SLUICE_REQUIRE(out.size() >= size);
  store(out, 0, static_cast<std::uint32_t>(code));
  store(out, 4, static_cast<std::uint32_t>(value));
}

std::string_view name_of(XtpMalformed malformed) {
  constexpr std::array<std::string_view, static_cast<std::size_t>(XtpMalformed::count_)> names = {
      "short_header", "bad_version",  "bad_type",    "bad_options", "bad_length",  "bad_checksum",
      "bad_key",      "bad_sequence", "bad_segment", "bad_spans",   "bad_address", "bad_traffic"};
  return names[static_cast<std::size_t>(malformed)];
}

}  // namespace sluice::wire
