// SPDX-License-Identifier: Apache-2.0
#include "tests/hostile/liar.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "apps/ftx/files/digest.h"
#include "base/contract.h"

namespace sluice::ftx::hostile {
namespace {

using Clock = std::chrono::steady_clock;

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

std::uint64_t now_ns() { return static_cast<std::uint64_t>(Clock::now().time_since_epoch().count()); }

}  // namespace

Liar::Liar(std::uint16_t port, std::optional<Protection> with) : protection(std::move(with)) {
  socket_ = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  const sockaddr_in here = loopback(0);
  SLUICE_REQUIRE(::bind(socket_, reinterpret_cast<const sockaddr*>(&here), sizeof here) == 0);
  if (port != 0) {
    const sockaddr_in there = loopback(port);
    SLUICE_REQUIRE(::connect(socket_, reinterpret_cast<const sockaddr*>(&there), sizeof there) == 0);
    connected_ = true;
  }
  if (protection) {
    envelope.connection = protection->connection();
  }
}

Liar::~Liar() { ::close(socket_); }

std::uint16_t Liar::port() const {
  sockaddr_in address{};
  socklen_t size = sizeof address;
  ::getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size);
  return ntohs(address.sin_port);
}

void Liar::raw(ConstBytes datagram) {
  // A port that nobody listens at any more is an error of the call; the test looks at the program itself.
  static_cast<void>(::send(socket_, datagram.data(), datagram.size(), MSG_NOSIGNAL));
}

void Liar::control(std::size_t size) {
  raw(ConstBytes(out).first(protection ? protection->seal_control(out, size) : size));
}

std::optional<Liar::Heard> Liar::hear(Millis timeout) {
  const auto until = Clock::now() + timeout;
  while (true) {
    const auto left = std::max(Millis(0), std::chrono::duration_cast<Millis>(until - Clock::now()));
    pollfd one{socket_, POLLIN, 0};
    if (::poll(&one, 1, static_cast<int>(left.count())) <= 0) {
      return std::nullopt;
    }
    Content bytes(70'000);
    sockaddr_in from{};
    socklen_t size = sizeof from;
    const ssize_t got =
        ::recvfrom(socket_, bytes.data(), bytes.size(), MSG_DONTWAIT, reinterpret_cast<sockaddr*>(&from), &size);
    if (got < 0) {
      continue;
    }
    bytes.resize(static_cast<std::size_t>(got));
    const auto parsed = parse_envelope(bytes);
    if (!parsed) {
      continue;
    }
    if (!connected_) {
      // Ports are used again: somebody else may still be sending to the one who had this before.
      if (parsed->kind != Kind::hello) {
        continue;
      }
      connected_ = true;
      envelope.connection = parsed->connection;
      ::connect(socket_, reinterpret_cast<const sockaddr*>(&from), size);
    }
    Heard heard{*parsed, {}};
    if (!protection) {
      heard.datagram = std::move(bytes);
    } else if (parsed->kind == Kind::data) {
      heard.datagram.assign(bytes.begin(), bytes.end() - tag_bytes);
      if (!parse_data(bytes, bytes.size()) ||
          !protection->open_payload(bytes, Bytes(heard.datagram).subspan(data_header_bytes))) {
        continue;
      }
    } else {
      const ConstBytes opened = protection->open_control(bytes);
      heard.datagram.assign(opened.begin(), opened.end());
      if (opened.empty()) {
        continue;
      }
    }
    note(heard);
    return heard;
  }
}

std::optional<Liar::Heard> Liar::hear(Kind kind, Millis timeout) {
  const auto until = Clock::now() + timeout;
  while (Clock::now() < until) {
    auto heard = hear(std::chrono::duration_cast<Millis>(until - Clock::now()));
    if (heard && heard->envelope.kind == kind) {
      return heard;
    }
  }
  return std::nullopt;
}

void Liar::note(const Heard& heard) {
  ++datagrams;
  errors += heard.envelope.kind == Kind::error ? 1 : 0;
  closes += heard.envelope.kind == Kind::close ? 1 : 0;
  std::optional<Stamp> stamp;
  if (heard.envelope.kind == Kind::data) {
    // Sealed, the header's size is still that of the wire.
    const auto data = parse_data(heard.datagram, heard.datagram.size() + (sealed() ? tag_bytes : 0));
    if (data) {
      stamp = data->stamp;
      received_bytes += data->payload_bytes;
    }
  } else if (heard.envelope.kind == Kind::probe) {
    stamp = parse_probe(heard.datagram);
  }
  if (stamp && stamp->sequence > highest) {
    highest = stamp->sequence;
  }
}

// --- A sender ------------------------------------------------------------------------------------------------------

void Liar::add(std::string name, Content content) {
  FileEntry entry;
  entry.name = std::move(name);
  entry.size_bytes = content.size();
  entries.push_back(std::move(entry));
  contents.push_back(std::move(content));
  list = encode_manifest(entries);
}

Offer Liar::honest_offer() {
  Offer message{
      .cookie = cookie, .adu_bytes = adu_bytes, .files = static_cast<std::uint32_t>(entries.size()), .path = path};
  for (const FileEntry& entry : entries) {
    message.total_bytes += entry.size_bytes;
  }
  message.manifest_bytes = static_cast<std::uint32_t>(list.size());
  message.manifest_digest = digest_of(list);
  return message;
}

void Liar::greet() {
  for (int i = 0; !sealed() && cookie == Cookie{} && i < 20; ++i) {
    control(emit_hello(envelope, {1, adu_bytes}, out));
    if (const auto heard = hear(Kind::cookie, 250ms)) {
      cookie = parse_cookie(heard->datagram)->cookie;
      return;
    }
  }
}

void Liar::offer(const Offer& message) { control(emit_offer(envelope, message, out)); }

Stamp Liar::next_stamp() { return {++sequence, 0, 1000}; }

void Liar::data(const AduName& adu, ConstBytes payload, std::optional<Stamp> stamp, std::uint8_t more_flags,
                bool compressed) {
  Envelope here = envelope;
  here.kind = Kind::data;
  here.flags = static_cast<std::uint8_t>((protection ? protection->flags() : 0) | more_flags);
  const std::size_t header = emit_data_header(here, {stamp ? *stamp : next_stamp(), adu, false, compressed}, out);
  if (protection) {
    SLUICE_REQUIRE(protection->seal_payload(ConstBytes(out).first(header), payload,
                                            Bytes(out).subspan(header, payload.size() + tag_bytes)));
    return raw(ConstBytes(out).first(header + payload.size() + tag_bytes));
  }
  std::copy(payload.begin(), payload.end(), out.begin() + static_cast<std::ptrdiff_t>(header));
  raw(ConstBytes(out).first(header + payload.size()));
}

void Liar::probe(Stamp stamp) { control(emit_probe(envelope, stamp, out)); }

void Liar::all_of(std::uint32_t file, ConstBytes bytes) {
  for (std::size_t at = 0; at < bytes.size(); at += adu_bytes) {
    const ConstBytes part = bytes.subspan(at, std::min<std::size_t>(adu_bytes, bytes.size() - at));
    data({file, static_cast<std::uint32_t>(part.size()), at}, part);
  }
}

void Liar::digests() {
  Content all;
  for (const Content& content : contents) {
    const Digest digest = file_digest_of(content);
    all.insert(all.end(), digest.begin(), digest.end());
  }
  all_of(digest_file, all);
}

bool Liar::until(Phase phase) {
  for (int i = 0; i < 50; ++i) {
    probe(next_stamp());
    const auto heard = hear(Kind::report, 100ms);
    const auto said = heard ? parse_report(heard->datagram) : std::nullopt;
    if (said && said->phase >= phase) {
      return true;
    }
    if (errors > 0) {
      return false;
    }
  }
  return false;
}

bool Liar::begin() {
  greet();
  for (int i = 0; i < 10; ++i) {
    offer(honest_offer());
    manifest();
    if (hear(Kind::report, 500ms) && until(Phase::data)) {
      return true;
    }
    if (errors > 0) {
      return false;
    }
  }
  return false;
}

bool Liar::finish() {
  for (int i = 0; i < 3 && errors == 0; ++i) {
    for (std::uint32_t file = 0; file < contents.size(); ++file) {
      all_of(file, contents[file]);
    }
    digests();
    if (until(Phase::finished)) {
      control(emit_close(envelope, out));
      return true;
    }
  }
  return false;
}

// --- A receiver ----------------------------------------------------------------------------------------------------

bool Liar::invite() {
  for (int i = 0; i < 40 && !offered; ++i) {
    if (protection) {
      control(emit_knock(envelope, out));
    }
    const auto heard = hear(250ms);
    if (!heard) {
      continue;
    }
    if (heard->envelope.kind == Kind::hello) {
      const auto hello = parse_hello(heard->datagram);
      control(emit_cookie(envelope, {hello->nonce, adu_bytes, {}}, out));
    } else if (heard->envelope.kind == Kind::offer) {
      offered = parse_offer(heard->datagram);
    }
  }
  return offered.has_value();
}

void Liar::take(Millis silence) {
  while (hear(silence)) {
  }
}

bool Liar::receive_all(Millis silence) {
  for (int i = 0; i < 200 && closes == 0 && errors == 0; ++i) {
    const std::uint64_t before = highest;
    report(honest_report(Phase::data));
    take(silence);
    if (highest == before) {
      report(honest_report(Phase::finished));
      hear(Kind::close, 100ms);
    }
  }
  return closes > 0;
}

Report Liar::honest_report(Phase phase) const {
  Report message;
  message.phase = phase;
  message.window_adus = 131072;
  message.credit_bytes = 1 << 20;
  message.highest = highest;
  message.from = 1;
  message.to = highest;
  message.received_bytes = received_bytes;
  message.clock_ns = now_ns();
  return message;
}

}  // namespace sluice::ftx::hostile
