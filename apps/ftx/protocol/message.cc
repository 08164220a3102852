// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/protocol/message.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <utility>

#include "apps/ftx/protocol/cursor.h"
#include "apps/ftx/protocol/manifest.h"
#include "apps/ftx/protocol/name.h"

namespace sluice::ftx {
namespace {

static_assert(compressed_adu_bytes_max - 1 <= UINT16_MAX);

Writer start(const Envelope& envelope, Kind kind, Bytes out, int own_flags = 0) {
  Writer writer(out);
  const auto flags = static_cast<std::uint8_t>((envelope.flags & (flag_sealed | flag_key_phase)) | own_flags);
  writer.number(protocol_version).number(static_cast<std::uint8_t>(kind)).number(flags).number(envelope.connection);
  return writer;
}

Reader body(ConstBytes datagram) {
  Reader reader(datagram);
  reader.take(envelope_bytes);
  return reader;
}

template <std::size_t size>
std::array<std::byte, size> fixed(Reader& reader) {
  std::array<std::byte, size> value{};
  const ConstBytes field = reader.take(size);
  std::copy(field.begin(), field.end(), value.begin());
  return value;
}

bool is_adu_size(std::uint32_t bytes) {
  return bytes >= adu_bytes_min && bytes <= adu_bytes_max && bytes % adu_bytes_unit == 0;
}

/// True when a manifest of `files` entries can be `bytes` long.
bool holds_entries(std::uint64_t bytes, std::uint64_t files) {
  return bytes >= files * entry_bytes_min && bytes <= files * entry_bytes_max + deletion_bytes_max;
}

/// In microseconds. Needs 35 bits.
std::uint64_t decode_round_trip(std::uint8_t code) {
  return code < 8 ? code : std::uint64_t{8U + code % 8} << (code / 8 - 1);
}

// A round trip is a floating-point number without a sign: a mantissa of three bits, whose leading one is not stored,
// and an exponent of five. Below 16 us it is exact.
std::uint8_t encode_round_trip(std::uint64_t microseconds) {
  microseconds = std::min(microseconds, decode_round_trip(UINT8_MAX));
  const int exponent = std::max(static_cast<int>(std::bit_width(microseconds)) - 4, 0);
  const std::uint64_t half = (std::uint64_t{1} << exponent) / 2;  // may carry into the exponent, as it should
  return static_cast<std::uint8_t>(static_cast<std::uint64_t>(8 * exponent) + ((microseconds + half) >> exponent));
}

Stamp read_stamp(Reader& reader) {
  Stamp stamp;
  stamp.sequence = reader.number48();
  stamp.behind = reader.number24();
  stamp.round_trip_us = decode_round_trip(reader.number<std::uint8_t>());
  return stamp;
}

void write_stamp(Writer& writer, const Stamp& stamp) {
  writer.number48(stamp.sequence).number24(stamp.behind).number(encode_round_trip(stamp.round_trip_us));
}

bool is_stamp(const Stamp& stamp) { return stamp.sequence >= 1 && stamp.behind < stamp.sequence; }

/// True when the ranges are in ascending order, disjoint, not empty and within from..to.
bool ranges_in_order(const Report& report) {
  std::uint64_t next = report.from;
  for (std::size_t i = 0; i < report.range_count; ++i) {
    const SequenceRange& range = report.missing[i];
    if (range.count == 0 || range.first < next || range.first > report.to) {
      return false;
    }
    if (range.count > report.to - range.first + 1) {
      return false;
    }
    next = range.first + range.count;
  }
  return true;
}

bool is_report(const Report& report) {
  return report.phase <= Phase::finished && report.highest < sequence_max && report.credit_bytes < file_bytes_max &&
         report.from >= 1 && report.from <= report.to + 1 && report.to <= report.highest && ranges_in_order(report);
}

/// True when the ranges are in ascending order, disjoint, not empty and within from..to.
bool is_have(const Have& have) {
  std::uint64_t next = have.from;
  for (std::size_t i = 0; i < have.range_count; ++i) {
    const ByteRange& range = have.ranges[i];
    if (range.from < next || range.to <= range.from || range.to > have.to) {
      return false;
    }
    next = range.to;
  }
  return have.from < have.to && have.to <= place_max;
}

}  // namespace

std::optional<Envelope> parse_envelope(ConstBytes datagram) {
  Reader reader(datagram);
  const auto version = reader.number<std::uint8_t>();
  const auto kind = reader.number<std::uint8_t>();
  Envelope envelope;
  envelope.flags = reader.number<std::uint8_t>();
  envelope.connection = reader.number<std::uint64_t>();
  if (!reader.ok() || version != protocol_version) {
    return std::nullopt;
  }
  if (kind < static_cast<std::uint8_t>(Kind::hello) || kind > static_cast<std::uint8_t>(Kind::sign)) {
    return std::nullopt;
  }
  envelope.kind = static_cast<Kind>(kind);
  const bool sealed = (envelope.flags & flag_sealed) != 0;
  if (sealed && envelope.kind == Kind::control) {
    return std::nullopt;  // it comes before there are keys
  }
  const int allowed =
      (envelope.kind == Kind::data ? flag_repair | flag_compressed : 0) | flag_sealed | (sealed ? flag_key_phase : 0);
  if ((envelope.flags & ~allowed) != 0) {
    return std::nullopt;
  }
  return envelope;
}

std::optional<Hello> parse_hello(ConstBytes datagram) {
  if (datagram.size() != control_bytes_max) {
    return std::nullopt;
  }
  Reader reader = body(datagram);
  Hello hello;
  hello.nonce = reader.number<std::uint64_t>();
  hello.adu_bytes = reader.number<std::uint32_t>();
  if (!is_adu_size(hello.adu_bytes)) {
    return std::nullopt;
  }
  return hello;
}

std::size_t emit_hello(const Envelope& envelope, const Hello& hello, Bytes out) {
  Writer writer = start(envelope, Kind::hello, out);
  return writer.number(hello.nonce).number(hello.adu_bytes).zeros_up_to(control_bytes_max).size();
}

std::optional<CookieReply> parse_cookie(ConstBytes datagram) {
  Reader reader = body(datagram);
  CookieReply reply;
  reply.nonce = reader.number<std::uint64_t>();
  reply.adu_bytes = reader.number<std::uint32_t>();
  reply.cookie = fixed<cookie_bytes>(reader);
  if (!reader.exhausted() || !is_adu_size(reply.adu_bytes)) {
    return std::nullopt;
  }
  return reply;
}

std::size_t emit_cookie(const Envelope& envelope, const CookieReply& reply, Bytes out) {
  Writer writer = start(envelope, Kind::cookie, out);
  return writer.number(reply.nonce).number(reply.adu_bytes).bytes(reply.cookie).size();
}

std::optional<Offer> parse_offer(ConstBytes datagram) {
  Reader reader = body(datagram);
  Offer offer;
  offer.cookie = fixed<cookie_bytes>(reader);
  offer.total_bytes = reader.number<std::uint64_t>();
  offer.adu_bytes = reader.number<std::uint32_t>();
  offer.files = reader.number<std::uint32_t>();
  offer.manifest_bytes = reader.number<std::uint32_t>();
  offer.manifest_digest = fixed<digest_bytes>(reader);
  const auto update = parse_update(reader.number<std::uint8_t>());
  const auto path_bytes = reader.number<std::uint16_t>();
  offer.path = as_text(reader.take(path_bytes));
  const bool slots = offer.adu_bytes == adu_bytes_unit || is_adu_size(offer.adu_bytes);
  if (!reader.exhausted() || path_bytes > path_bytes_max || !slots || !update) {
    return std::nullopt;
  }
  offer.update = *update;
  if (offer.files == 0 || offer.files > files_max || !holds_entries(offer.manifest_bytes, offer.files)) {
    return std::nullopt;
  }
  if (offer.total_bytes >= file_bytes_max) {
    return std::nullopt;
  }
  return offer;
}

std::size_t emit_offer(const Envelope& envelope, const Offer& offer, Bytes out) {
  SLUICE_REQUIRE(offer.path.size() <= path_bytes_max);
  Writer writer = start(envelope, Kind::offer, out);
  writer.bytes(offer.cookie).number(offer.total_bytes).number(offer.adu_bytes).number(offer.files);
  writer.number(offer.manifest_bytes).bytes(offer.manifest_digest).number(encode(offer.update));
  return writer.number(static_cast<std::uint16_t>(offer.path.size())).bytes(as_bytes(offer.path)).size();
}

std::optional<Data> parse_data(ConstBytes datagram, std::size_t datagram_bytes) {
  Reader reader = body(datagram);
  Data data;
  data.stamp = read_stamp(reader);
  data.adu.offset = reader.number48() * adu_bytes_unit;
  data.adu.file = reader.number24();
  const auto length_less_1 = reader.number<std::uint16_t>();
  if (!reader.ok() || !is_stamp(data.stamp)) {
    return std::nullopt;
  }
  const auto flags = load_big_endian<std::uint8_t>(datagram.data() + flags_at);
  const std::size_t framing = data_header_bytes + ((flags & flag_sealed) != 0 ? tag_bytes : 0);
  if (datagram_bytes <= framing || datagram_bytes - framing > adu_bytes_max) {
    return std::nullopt;
  }
  data.payload_bytes = static_cast<std::uint32_t>(datagram_bytes - framing);
  data.repair = (flags & flag_repair) != 0;
  data.compressed = (flags & flag_compressed) != 0;
  data.adu.length = data.compressed ? length_less_1 + 1U : data.payload_bytes;
  // Threat: a few bytes that stand for gigabytes: 16 bits bound the length. And lists of names and digests are never
  // compressed, so that no length tells of them (docs/security.md).
  const bool fits =
      data.compressed ? data.payload_bytes < data.adu.length && !is_list(data.adu.file) : length_less_1 == 0;
  return fits ? std::optional(data) : std::nullopt;
}

std::size_t emit_data_header(const Envelope& envelope, const Data& data, Bytes out) {
  SLUICE_REQUIRE(data.adu.offset % adu_bytes_unit == 0 &&
                 (!data.compressed || data.adu.length <= compressed_adu_bytes_max));
  Writer writer =
      start(envelope, Kind::data, out, (data.repair ? flag_repair : 0) | (data.compressed ? flag_compressed : 0));
  write_stamp(writer, data.stamp);
  writer.number48(data.adu.offset / adu_bytes_unit).number24(data.adu.file);
  return writer.number(static_cast<std::uint16_t>(data.compressed ? data.adu.length - 1 : 0)).size();
}

std::optional<Stamp> parse_probe(ConstBytes datagram) {
  Reader reader = body(datagram);
  const Stamp stamp = read_stamp(reader);
  if (!reader.ok() || !is_stamp(stamp)) {  // what follows is padding
    return std::nullopt;
  }
  return stamp;
}

std::size_t emit_probe(const Envelope& envelope, const Stamp& stamp, Bytes out, std::size_t bytes) {
  SLUICE_REQUIRE(bytes >= probe_bytes);
  Writer writer = start(envelope, Kind::probe, out);
  write_stamp(writer, stamp);
  return writer.zeros_up_to(bytes).size();
}

std::optional<Report> parse_report(ConstBytes datagram) {
  Reader reader = body(datagram);
  Report report;
  report.phase = static_cast<Phase>(reader.number<std::uint8_t>());
  const auto reserved = reader.number<std::uint8_t>();
  report.range_count = reader.number<std::uint16_t>();
  report.window_adus = reader.number<std::uint32_t>();
  for (std::uint64_t* field : {&report.credit_bytes, &report.highest, &report.from, &report.to, &report.received_bytes,
                               &report.out_of_order, &report.held_ns, &report.clock_ns}) {
    *field = reader.number<std::uint64_t>();
  }
  if (!reader.ok() || reserved != 0 || report.range_count > Report::ranges_max) {
    return std::nullopt;
  }
  for (std::size_t i = 0; i < report.range_count; ++i) {
    report.missing[i].first = reader.number<std::uint64_t>();
    report.missing[i].count = reader.number<std::uint32_t>();
  }
  if (!reader.exhausted() || !is_report(report)) {
    return std::nullopt;
  }
  return report;
}

std::size_t emit_report(const Envelope& envelope, const Report& report, Bytes out) {
  SLUICE_REQUIRE(report.range_count <= Report::ranges_max);
  Writer writer = start(envelope, Kind::report, out);
  writer.number(static_cast<std::uint8_t>(report.phase)).number(std::uint8_t{0});
  writer.number(static_cast<std::uint16_t>(report.range_count)).number(report.window_adus);
  writer.number(report.credit_bytes)
      .number(report.highest)
      .number(report.from)
      .number(report.to)
      .number(report.received_bytes);
  writer.number(report.out_of_order).number(report.held_ns).number(report.clock_ns);
  for (std::size_t i = 0; i < report.range_count; ++i) {
    writer.number(report.missing[i].first).number(report.missing[i].count);
  }
  return writer.size();
}

std::optional<ErrorMessage> parse_error(ConstBytes datagram) {
  Reader reader = body(datagram);
  ErrorMessage error;
  error.code = reader.number<std::uint16_t>();
  const auto text_bytes = reader.number<std::uint16_t>();
  error.text = as_text(reader.take(text_bytes));
  if (!reader.exhausted() || text_bytes > error_text_bytes_max || !is_printable(error.text)) {
    return std::nullopt;
  }
  return error;
}

std::size_t emit_error(const Envelope& envelope, const ErrorMessage& error, Bytes out) {
  const std::string_view text = error.text.substr(0, error_text_bytes_max);
  Writer writer = start(envelope, Kind::error, out);
  return writer.number(error.code).number(static_cast<std::uint16_t>(text.size())).bytes(as_bytes(text)).size();
}

std::size_t emit_close(const Envelope& envelope, Bytes out) { return start(envelope, Kind::close, out).size(); }

std::size_t emit_knock(const Envelope& envelope, Bytes out) {
  return start(envelope, Kind::knock, out).zeros_up_to(control_bytes_max - seal_bytes).size();
}

std::optional<Control> parse_control(ConstBytes datagram) {
  Reader reader = body(datagram);
  Control control;
  control.cookie = fixed<cookie_bytes>(reader);
  control.cipher = reader.number<std::uint8_t>();
  control.offset = reader.number<std::uint32_t>();
  control.acknowledged = reader.number<std::uint32_t>();
  control.bytes = reader.rest();
  if (!reader.ok() || datagram.size() > control_bytes_max || control.offset > control_offset_max ||
      control.acknowledged > control_offset_max) {
    return std::nullopt;
  }
  return control;
}

std::size_t emit_control(const Envelope& envelope, const Control& control, Bytes out) {
  SLUICE_REQUIRE(control.bytes.size() <= control_bytes_max - control_header_bytes);
  Writer writer = start(envelope, Kind::control, out);
  writer.bytes(control.cookie).number(control.cipher).number(control.offset).number(control.acknowledged);
  return writer.bytes(control.bytes).size();
}

std::optional<Have> parse_have(ConstBytes datagram) {
  Reader reader = body(datagram);
  Have have;
  have.from = reader.number<std::uint64_t>();
  have.to = reader.number<std::uint64_t>();
  while (reader.ok() && !reader.rest().empty() && have.range_count < Have::ranges_max) {
    ByteRange& range = have.ranges[have.range_count++];
    range.from = reader.number<std::uint64_t>();
    range.to = reader.number<std::uint64_t>();
  }
  return reader.exhausted() && is_have(have) ? std::optional(have) : std::nullopt;
}

std::size_t emit_have(const Envelope& envelope, const Have& have, Bytes out) {
  SLUICE_REQUIRE(have.range_count <= Have::ranges_max);
  Writer writer = start(envelope, Kind::have, out);
  writer.number(have.from).number(have.to);
  for (std::size_t i = 0; i < have.range_count; ++i) {
    writer.number(have.ranges[i].from).number(have.ranges[i].to);
  }
  return writer.size();
}

std::optional<std::uint64_t> parse_taken(ConstBytes datagram) {
  const auto to = parse_nonce(datagram);
  return to && *to <= place_max ? to : std::nullopt;
}

std::size_t emit_taken(const Envelope& envelope, std::uint64_t to, Bytes out) {
  return start(envelope, Kind::taken, out).number(to).size();
}

std::optional<Changes> parse_changes(ConstBytes datagram) {
  Reader reader = body(datagram);
  Changes changes;
  changes.from = reader.number<std::uint64_t>();
  while (reader.ok() && !reader.rest().empty()) {
    auto change = take_change(reader);
    if (!change) {
      return std::nullopt;
    }
    changes.changes.push_back(*std::move(change));
  }
  const bool bounded =
      changes.from <= changes_max && datagram.size() <= envelope_bytes + sizeof(changes.from) + changes_bytes_max;
  return reader.exhausted() && bounded && !changes.changes.empty() ? std::optional(std::move(changes)) : std::nullopt;
}

std::size_t emit_changes(const Envelope& envelope, std::uint64_t from, ConstBytes records, Bytes out) {
  SLUICE_REQUIRE(records.size() <= changes_bytes_max);
  return start(envelope, Kind::changes, out).number(from).bytes(records).size();
}

std::optional<std::uint64_t> parse_noted(ConstBytes datagram) { return parse_nonce(datagram); }

std::size_t emit_noted(const Envelope& envelope, std::uint64_t to, Bytes out) {
  return start(envelope, Kind::noted, out).number(to).size();
}

std::optional<SignedNumbers> parse_sign(ConstBytes datagram) {
  Reader reader = body(datagram);
  SignedNumbers numbers;
  while (reader.ok() && !reader.rest().empty() && numbers.size() < signed_files_max) {
    numbers.push_back(reader.number<std::uint32_t>());
  }
  const bool ascending = std::ranges::adjacent_find(numbers, std::greater_equal()) == numbers.end();
  return reader.exhausted() && ascending && !numbers.empty() ? std::optional(std::move(numbers)) : std::nullopt;
}

std::size_t emit_sign(const Envelope& envelope, std::span<const std::uint32_t> numbers, Bytes out) {
  SLUICE_REQUIRE(!numbers.empty() && numbers.size() <= signed_files_max);
  Writer writer = start(envelope, Kind::sign, out);
  for (const std::uint32_t number : numbers) {
    writer.number(number);
  }
  return writer.size();
}

std::optional<std::uint64_t> parse_nonce(ConstBytes datagram) {
  Reader reader = body(datagram);
  const auto nonce = reader.number<std::uint64_t>();
  return reader.exhausted() ? std::optional(nonce) : std::nullopt;
}

std::size_t emit_challenge(const Envelope& envelope, std::uint64_t nonce, Bytes out) {
  return start(envelope, Kind::challenge, out).number(nonce).size();
}

std::size_t emit_response(const Envelope& envelope, std::uint64_t nonce, Bytes out) {
  return start(envelope, Kind::response, out).number(nonce).size();
}

}  // namespace sluice::ftx
