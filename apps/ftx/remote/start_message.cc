// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/remote/start_message.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "apps/ftx/protocol/cursor.h"
#include "apps/ftx/protocol/name.h"
#include "base/contract.h"

namespace sluice::ftx {
namespace {

/// Bits of `partial`.
constexpr unsigned partial_keep = 1;
constexpr unsigned partial_verify = 2;

/// A first byte that no text has, and line ends that a channel which converts them would damage.
constexpr std::string_view magic =
    "\xf7"
    "ftx-start\r\n";
static_assert(magic.size() + 1 + 1 + 4 == start_header_bytes);
constexpr std::size_t preamble_shown_max = 80;

enum class Kind : std::uint8_t { request = 1, ready = 2, failure = 3, echo = 4, change = 5, changed = 6 };

std::unexpected<Failure> broken(std::string_view what) {
  return std::unexpected(Failure{ExitCode::protocol_error, fmt::format("the other ftx broke the start: {}", what)});
}

/// The header, and room for the body behind it.
Writer begin(std::vector<std::byte>& out, Kind kind, std::size_t body_bytes) {
  out.resize(start_header_bytes + body_bytes);
  Writer writer(out);
  writer.bytes(as_bytes(magic)).number(start_version).number(static_cast<std::uint8_t>(kind));
  writer.number(static_cast<std::uint32_t>(body_bytes));
  return writer;
}

template <class Length>
void put_text(Writer& writer, std::string_view text) {
  writer.number(static_cast<Length>(text.size())).bytes(as_bytes(text));
}

template <class Length>
std::string take_text(Reader& reader) {
  return std::string(as_text(reader.take(reader.number<Length>())));
}

bool is_path(std::string_view path) {
  return path.size() <= start_path_bytes_max && path.find('\0') == std::string_view::npos;
}

bool is_program(std::string_view program) { return program.size() <= start_program_bytes_max && is_printable(program); }

bool is_range(const PortRange& ports) { return ports.first <= ports.last && (ports.first != 0 || ports.last == 0); }

std::optional<StartMessage> parse_request(ConstBytes body) {
  Reader reader(body);
  StartRequest request;
  const ConstBytes secret = reader.take(session_secret_bytes);
  if (!reader.ok()) {
    return std::nullopt;
  }
  request.secret = Secret(secret);
  request.direction = StartDirection{reader.number<std::uint8_t>()};
  const auto partial = reader.number<std::uint8_t>();
  request.keep_partial = (partial & partial_keep) != 0;
  request.verify = (partial & partial_verify) != 0;
  request.session_version = reader.number<std::uint8_t>();
  request.datagram_bytes = reader.number<std::uint32_t>();
  request.idle_timeout_ms = reader.number<std::uint32_t>();
  const auto cipher = reader.number<std::uint8_t>();
  request.cipher = Cipher{cipher};
  const auto manner = reader.number<std::uint8_t>();
  request.congestion = congestion_in(manner);
  request.compress = compress_in(manner);
  request.delta = delta_in(manner);
  request.rate = reader.number<std::uint64_t>();
  request.ports.first = reader.number<std::uint16_t>();
  request.ports.last = reader.number<std::uint16_t>();
  request.trees = Trees{reader.number<std::uint8_t>()};
  auto select = take_selection(reader);
  if (!select) {
    return std::nullopt;
  }
  request.select = *std::move(select);
  request.program = take_text<std::uint8_t>(reader);
  const std::size_t paths = reader.number<std::uint16_t>();
  if (paths > start_paths_max) {
    return std::nullopt;
  }
  bool good = true;
  for (std::size_t i = 0; i < paths && reader.ok(); ++i) {
    request.paths.push_back(take_text<std::uint16_t>(reader));
    good = good && is_path(request.paths.back());
  }
  const bool push = request.direction == StartDirection::push && paths == 1;
  const bool pull = request.direction == StartDirection::pull && paths >= 1;
  good = good && reader.exhausted() && partial <= (partial_keep | partial_verify) && (push || pull) &&
         is_cipher(cipher) && is_program(request.program) && request.idle_timeout_ms != 0 &&
         is_congestion(request.congestion, request.rate) && is_compress(request.compress) && is_range(request.ports) &&
         is_trees(request.trees);
  return good ? std::optional<StartMessage>(std::move(request)) : std::nullopt;
}

std::optional<StartMessage> parse_ready(ConstBytes body) {
  Reader reader(body);
  StartReady ready;
  ready.session_version = reader.number<std::uint8_t>();
  ready.udp_port = reader.number<std::uint16_t>();
  ready.datagram_bytes = reader.number<std::uint32_t>();
  const auto family = reader.number<std::uint8_t>();
  const ConstBytes address = reader.take(family == 4 ? 4 : family == 6 ? 16 : 0);
  ready.program = take_text<std::uint8_t>(reader);
  const bool known_family = family == 0 || family == 4 || family == 6;
  if (!reader.exhausted() || !known_family || ready.udp_port == 0 || ready.datagram_bytes == 0 ||
      !is_program(ready.program)) {
    return std::nullopt;
  }
  if (family == 4) {
    ready.address = wire::IpAddress(wire::Ipv4Address::load(address.data()));
  } else if (family == 6) {
    ready.address = wire::IpAddress(wire::Ipv6Address::load(address.data()));
  }
  return ready;
}

std::optional<StartMessage> parse_failure(ConstBytes body) {
  Reader reader(body);
  StartFailure failure;
  failure.code = failure_row(reader.number<std::uint16_t>()).code;
  failure.text = take_text<std::uint16_t>(reader);
  if (!reader.exhausted() || failure.text.size() > start_text_bytes_max || !is_printable(failure.text)) {
    return std::nullopt;
  }
  return failure;
}

std::optional<StartMessage> parse_switch(ConstBytes body) {
  if (body.size() != session_secret_bytes) {
    return std::nullopt;
  }
  StartSwitch change;
  change.secret = Secret(body);
  return change;
}

/// A message that says nothing but its kind.
template <class Message>
std::optional<StartMessage> parse_bare(ConstBytes body) {
  return body.empty() ? std::optional<StartMessage>(Message{}) : std::nullopt;
}

std::optional<StartMessage> parse_body(std::uint8_t kind, ConstBytes body) {
  switch (Kind{kind}) {
    case Kind::request:
      return parse_request(body);
    case Kind::ready:
      return parse_ready(body);
    case Kind::failure:
      return parse_failure(body);
    case Kind::echo:
      return parse_bare<StartEcho>(body);
    case Kind::change:
      return parse_switch(body);
    case Kind::changed:
      return parse_bare<StartSwitched>(body);
  }
  return std::nullopt;
}

}  // namespace

std::optional<PortRange> parse_ports(std::string_view text) {
  const std::size_t dash = text.find('-');
  PortRange ports;
  const auto parse = [](std::string_view digits, std::uint16_t& port) {
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
    return error == std::errc() && end == digits.data() + digits.size() && port != 0;
  };
  if (!parse(text.substr(0, dash), ports.first)) {
    return std::nullopt;
  }
  ports.last = ports.first;
  const bool good = dash == std::string_view::npos || parse(text.substr(dash + 1), ports.last);
  return good && is_range(ports) ? std::optional(ports) : std::nullopt;
}

std::optional<std::vector<std::byte>> encode(const StartRequest& request) {
  SLUICE_REQUIRE(request.secret.size() == session_secret_bytes);
  std::size_t size = session_secret_bytes + 1 + 1 + 1 + 4 + 4 + 1 + 1 + 8 + 2 + 2 + 1 + encoded_bytes(request.select) +
                     1 + request.program.size() + 2;
  for (const std::string& path : request.paths) {
    if (!is_path(path)) {
      return std::nullopt;
    }
    size += 2 + path.size();
  }
  if (size > start_body_bytes_max || request.paths.size() > start_paths_max || !is_program(request.program) ||
      !fit(request.select)) {
    return std::nullopt;
  }
  std::vector<std::byte> out;
  Writer writer = begin(out, Kind::request, size);
  writer.bytes(request.secret.bytes()).number(static_cast<std::uint8_t>(request.direction));
  writer.number(
      static_cast<std::uint8_t>((request.keep_partial ? partial_keep : 0) | (request.verify ? partial_verify : 0)));
  writer.number(request.session_version).number(request.datagram_bytes).number(request.idle_timeout_ms);
  writer.number(static_cast<std::uint8_t>(request.cipher))
      .number(manner_of(request.congestion, request.compress, request.delta));
  writer.number(request.rate).number(request.ports.first).number(request.ports.last);
  writer.number(static_cast<std::uint8_t>(request.trees));
  put(writer, request.select);
  put_text<std::uint8_t>(writer, request.program);
  writer.number(static_cast<std::uint16_t>(request.paths.size()));
  for (const std::string& path : request.paths) {
    put_text<std::uint16_t>(writer, path);
  }
  return out;
}

std::vector<std::byte> encode(const StartReady& ready) {
  SLUICE_REQUIRE(is_program(ready.program));
  const std::size_t address_bytes = ready.address ? ready.address->size() : 0;
  std::vector<std::byte> out;
  Writer writer = begin(out, Kind::ready, 1 + 2 + 4 + 1 + address_bytes + 1 + ready.program.size());
  writer.number(ready.session_version).number(ready.udp_port).number(ready.datagram_bytes);
  writer.number(static_cast<std::uint8_t>(address_bytes == 16 ? 6 : address_bytes));
  std::array<std::byte, 16> address{};
  if (ready.address) {
    ready.address->store(address.data());
  }
  writer.bytes(ConstBytes(address).first(address_bytes));
  put_text<std::uint8_t>(writer, ready.program);
  return out;
}

std::vector<std::byte> encode(const StartFailure& failure) {
  const std::string text = printable(printable(failure.text).substr(0, start_text_bytes_max));
  std::vector<std::byte> out;
  Writer writer = begin(out, Kind::failure, 2 + 2 + text.size());
  writer.number(static_cast<std::uint16_t>(failure.code));
  put_text<std::uint16_t>(writer, text);
  return out;
}

std::vector<std::byte> encode(const StartEcho&) {
  std::vector<std::byte> out;
  begin(out, Kind::echo, 0);
  return out;
}

std::vector<std::byte> encode(const StartSwitch& change) {
  SLUICE_REQUIRE(change.secret.size() == session_secret_bytes);
  std::vector<std::byte> out;
  begin(out, Kind::change, session_secret_bytes).bytes(change.secret.bytes());
  return out;
}

std::vector<std::byte> encode(const StartSwitched&) {
  std::vector<std::byte> out;
  begin(out, Kind::changed, 0);
  return out;
}

StartReader::StartReader(Preamble preamble)
    : mode_(preamble),
      preamble_left_(preamble == Preamble::skipped ? preamble_bytes_max : 0),
      buffer_(start_header_bytes + start_body_bytes_max) {}

void StartReader::feed(ConstBytes bytes) {
  SLUICE_REQUIRE(bytes.size() <= room());
  std::copy(bytes.begin(), bytes.end(), buffer_.begin() + static_cast<std::ptrdiff_t>(used_));
  used_ += bytes.size();
}

void StartReader::drop(std::size_t count) {
  std::copy(buffer_.begin() + static_cast<std::ptrdiff_t>(count), buffer_.begin() + static_cast<std::ptrdiff_t>(used_),
            buffer_.begin());
  wipe(Bytes(buffer_).subspan(used_ - count, count));
  used_ -= count;
}

/// True when the buffer begins with a magic, or with as much of it as has come.
std::expected<bool, Failure> StartReader::align() {
  const std::string_view seen = as_text(ConstBytes(buffer_).first(used_));
  std::size_t at = 0;
  while (at < seen.size() && !seen.substr(at).starts_with(magic.substr(0, seen.size() - at))) {
    ++at;
  }
  if (at > preamble_left_) {
    return broken(mode_ == Preamble::none ? "it does not begin with the start's magic"
                                          : fmt::format("its login shell prints too much before it: '{}'", preamble()));
  }
  preamble_left_ -= at;
  preamble_ += seen.substr(0, std::min(at, preamble_shown_max - preamble_.size()));
  drop(at);
  return used_ >= magic.size();
}

std::expected<std::optional<StartMessage>, Failure> StartReader::next() {
  if (!aligned_) {
    const auto found = align();
    if (!found) {
      return std::unexpected(found.error());
    }
    if (!*found) {
      return std::nullopt;
    }
    aligned_ = true;
    preamble_left_ = 0;
  }
  Reader reader(ConstBytes(buffer_).first(used_));
  const ConstBytes start = reader.take(std::min(magic.size(), used_));
  if (!magic.starts_with(as_text(start))) {
    return broken("a message does not begin with the magic");
  }
  const auto version = reader.number<std::uint8_t>();
  if (reader.ok() && version != start_version) {
    return std::unexpected(Failure{ExitCode::remote_version,
                                   fmt::format("the other ftx speaks version {} of the start, this one {}: install the "
                                               "same version of ftx on both hosts",
                                               version, start_version)});
  }
  const auto kind = reader.number<std::uint8_t>();
  const std::size_t size = reader.number<std::uint32_t>();
  if (!reader.ok()) {
    return std::nullopt;
  }
  if (size > start_body_bytes_max) {
    return broken("a message is longer than any");
  }
  if (reader.rest().size() < size) {
    return std::nullopt;
  }
  auto message = parse_body(kind, reader.rest().first(size));
  drop(start_header_bytes + size);
  if (!message) {
    return broken("a message is malformed");
  }
  return std::optional<StartMessage>(*std::move(message));
}

std::string StartReader::preamble() const { return printable(preamble_); }

}  // namespace sluice::ftx
