// SPDX-License-Identifier: Apache-2.0
// A standing server under arbitrary datagrams before any session. The input is a list of records: an operation, a
// number (u16) and, for operations 0 and 1, that many bytes. Operations: 0 a datagram as it is; 1 the bytes as a
// CONTROL whose cookie is good (offset, acknowledgement and cipher from their first five); 2 so many milliseconds pass;
// 3 the honest client's next datagrams, with the byte at the number changed if it is odd: it asks for a file, and is
// refused if it is heard. An operation of 4 or more is
// the same from another of three addresses of two hosts. Whatever comes, handshakes stay within their bounds, those of
// a host too, nothing larger than a control message is sent, no session begins but the honest client's, and nothing
// stays.
#include <algorithm>
#include <array>
#include <cstdint>

#include "apps/ftx/protocol/cursor.h"
#include "apps/ftx/session/client_handshake.h"
#include "tests/apps/ftx/session/simulation.h"
#include "tests/apps/ftx/transmit.h"

namespace {

using namespace sluice;
using namespace sluice::ftx;
using namespace sluice::ftx::test;

constexpr std::uint64_t seed = 1;

/// Contexts cost more than handshakes.
const HandshakeContext& context_of(HandshakeContext::Role role) {
  static const Identity client_key = Identity::create().value();
  static const Identity server_key = Identity::create().value();
  const auto make = [](HandshakeContext::Role of, const Identity& own, const Identity& other) {
    HandshakeContext::Options options;
    options.identity = own;
    options.check_peer = expect_key(other.pin());
    return HandshakeContext::create(of, std::move(options)).value();
  };
  static const HandshakeContext client = make(HandshakeContext::Role::client, client_key, server_key);
  static const HandshakeContext server = make(HandshakeContext::Role::server, server_key, client_key);
  return role == HandshakeContext::Role::client ? client : server;
}

/// Refuses, and checks that only what the honest client has asked for comes here.
class NoFiles final : public Provider {
 public:
  std::expected<OpenedPull, Failure> open(const PullRequest& request, const Peer&) override {
    SLUICE_REQUIRE(request == wanted());
    return std::unexpected(Failure{ExitCode::source_unreadable, "cannot read 'a'"});
  }
  static PullRequest wanted() { return {.datagram_bytes = 1472, .paths = {"a"}}; }
};

class Harness {
 public:
  Harness()
      : server_(options(&provider_), destination_),
        jar_(seed),
        client_(now_, ClientHandshakeOptions{.peer = {}, .request = NoFiles::wanted(), .seed = 7},
                context_of(HandshakeContext::Role::client).begin().value()) {}

  void run(Reader input) {
    for (int step = 0; step < 200 && !input.rest().empty(); ++step) {
      const auto operation = input.number<std::uint8_t>();
      const auto amount = input.number<std::uint16_t>();
      const Peer& peer = peers_[operation / 4 % peers_.size()];
      if (operation % 4 == 2) {
        now_ += std::chrono::milliseconds(amount);
      } else if (operation % 4 == 3) {
        send_honestly(amount);
      } else {
        const ConstBytes bytes = input.take(std::min<std::size_t>(amount, input.rest().size()));
        operation % 4 == 0 ? server_.receive(now_, bytes, peer) : send_control(bytes, peer);
      }
      answer();
    }
    now_ += std::chrono::seconds(11);
    answer();
    now_ += std::chrono::seconds(11);
    answer();
    SLUICE_REQUIRE(server_.handshakes() == 0 && server_.sessions() == 0);
  }

 private:
  static ServerOptions options(Provider* provider) {
    ServerOptions options;
    options.provider = provider;
    options.seed = seed;
    options.handshake = context_of(HandshakeContext::Role::server);
    options.handshake_limits = {.handshakes_max = 3, .per_host_max = 2};
    options.host_of = [](ConstBytes address) { return address.first(1); };
    return options;
  }

  void send_control(ConstBytes bytes, const Peer& peer) {
    Reader reader(bytes);
    Control control;
    const std::uint64_t connection = reader.number<std::uint8_t>() % 4;
    control.cipher = static_cast<std::uint8_t>(connection % 2 + 1);
    control.offset = reader.number<std::uint16_t>();
    control.acknowledged = reader.number<std::uint16_t>();
    control.cookie = jar_.issue(now_, peer, connection);
    control.bytes = reader.rest().first(std::min(reader.rest().size(), ControlStream::segment_bytes_max));
    Content out(control_bytes_max);
    const std::size_t size = emit_control({Kind::control, 0, connection}, control, out);
    server_.receive(now_, ConstBytes(out).first(size), peer);
  }

  void send_honestly(std::size_t at) {
    transmit_all(client_, now_, [&](ConstBytes datagram, const Peer&) {
      Content bytes(datagram.begin(), datagram.end());
      if (at % 2 == 1) {
        bytes[at % bytes.size()] ^= std::byte{1};
      }
      server_.receive(now_, bytes, peers_[0]);
    });
  }

  void answer() {
    transmit_all(server_, now_, [&](ConstBytes datagram, const Peer& to) {
      SLUICE_REQUIRE(datagram.size() <= control_bytes_max && parse_envelope(datagram));
      if (to == peers_[0] && !client_.over()) {
        client_.receive(now_, datagram, {});
      }
    });
    while (auto event = server_.next_event()) {
      SLUICE_REQUIRE(event->kind == Event::Kind::rejected && !to_json(*event).empty());
    }
    SLUICE_REQUIRE(server_.handshakes() <= 3);
  }

  TimePoint now_{std::chrono::hours(1)};
  MemoryDestination destination_;
  NoFiles provider_;
  Server server_;
  CookieJar jar_;
  std::array<Peer, 3> peers_{Peer(as_bytes("peer")), Peer(as_bytes("plus")), Peer(as_bytes("other"))};
  ClientHandshake client_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Harness harness;
  harness.run(Reader(std::as_bytes(std::span(data, size))));
  return 0;
}
