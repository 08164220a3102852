// SPDX-License-Identifier: Apache-2.0
#pragma once

// A server and a peer that sends whatever a test wants.

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/apps/ftx/session/simulation.h"

namespace sluice::ftx::test {

/// A server and what a peer sends it by hand.
struct Bench {
  static constexpr TimePoint start{1h};

  MemoryDestination destination;
  Server server;
  TimePoint now = start;
  Peer peer{as_bytes("client")};
  Envelope envelope{Kind::hello, 0, 42};
  Content buffer = Content(2000);

  explicit Bench(ServerOptions options = {}) : server(insecure(options), destination) {}
  static ServerOptions insecure(ServerOptions options) {
    options.insecure = true;
    return options;
  }

  void send(std::size_t size) { server.receive(now, ConstBytes(buffer).first(size), peer); }
  std::size_t answer() {
    Peer to;
    return server.transmit(now, buffer, to);
  }

  Cookie cookie() {
    send(emit_hello(envelope, {1, 1408}, buffer));
    const auto reply = parse_cookie(ConstBytes(buffer).first(answer()));
    return reply ? reply->cookie : Cookie{};
  }

  Offer offer_of(const Cookie& with, std::string_view path = "",
                 const std::vector<FileEntry>& files = {{"file", 100'000}}) {
    manifest = encode_manifest(files);
    Offer message{.cookie = with, .adu_bytes = 1408, .files = static_cast<std::uint32_t>(files.size()), .path = path};
    for (const FileEntry& file : files) {
      message.total_bytes += file.size_bytes;
    }
    message.manifest_bytes = static_cast<std::uint32_t>(manifest.size());
    message.manifest_digest = digest_of(manifest);
    return message;
  }
  void offer(const Offer& message) { send(emit_offer(envelope, message, buffer)); }
  void offer(const Cookie& with, std::string_view path = "",
             const std::vector<FileEntry>& files = {{"file", 100'000}}) {
    offer(offer_of(with, path, files));
  }
  void probe() { send(emit_probe(envelope, {++last_sequence, 0, 1}, buffer)); }
  void error(std::uint16_t code, std::string_view text = "") { send(emit_error(envelope, {code, text}, buffer)); }

  /// Everything the server has to send now; answers the last datagram of `kind`.
  std::optional<Content> drain(Kind kind) {
    std::optional<Content> last;
    Content out(2000);
    Peer to;
    for (int i = 0; i < 10'000; ++i) {
      const std::size_t size = server.transmit(now, out, to);
      if (size == 0) {
        break;
      }
      const auto sent = parse_envelope(ConstBytes(out).first(size));
      if (sent && sent->kind == kind && to == peer) {
        last.emplace(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(size));
      }
    }
    return last;
  }

  void data(const AduName& adu, ConstBytes payload, std::uint64_t sequence = 0) {
    if (sequence == 0) {
      sequence = ++last_sequence;
    }
    const std::size_t header = emit_data_header(envelope, {{sequence, 0, 1}, adu, false}, buffer);
    std::copy(payload.begin(), payload.end(), buffer.begin() + static_cast<std::ptrdiff_t>(header));
    send(header + payload.size());
  }

  /// A session whose manifest has been accepted.
  void open() {
    offer(cookie());
    data({manifest_file, static_cast<std::uint32_t>(manifest.size()), 0}, manifest);
  }

  std::optional<Event> event(Event::Kind kind) {
    while (auto next = server.next_event()) {
      if (next->kind == kind) {
        return next;
      }
    }
    return std::nullopt;
  }

  std::vector<std::byte> manifest;
  std::uint64_t last_sequence = 0;
};

}  // namespace sluice::ftx::test
