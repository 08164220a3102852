// SPDX-License-Identifier: Apache-2.0

// A TLS handshake under arbitrary bytes. The first byte says who is tried (bit 0: server or client), whether both know
// a shared secret (bit 1) and whether clients are anonymous (bit 2). Then records: an operation, a number (u16) and,
// for operation 0, that many bytes. Operations: 0 bytes of the input to the side that is tried; 1 the honest peer's
// next flight, with the byte at the number changed; 2 the same flight unchanged; 3 the side's flight to the peer.
// Nothing crashes; a failure says why; a side that gets no honest flight completes nothing; two that complete agree.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "apps/ftx/protocol/cursor.h"
#include "apps/ftx/security/handshake.h"
#include "base/contract.h"

namespace {

using namespace sluice;
using namespace sluice::ftx;
using Role = HandshakeContext::Role;
using State = Handshake::State;

HandshakeContext make_context(Role role, std::uint8_t mode) {
  static const Identity client_key = Identity::create().value();
  static const Identity server_key = Identity::create().value();
  const bool is_server = role == Role::server;
  HandshakeContext::Options options;
  options.identity = is_server ? server_key : client_key;
  options.check_peer = expect_key((is_server ? client_key : server_key).pin());
  options.anonymous_clients = is_server && (mode & 4) != 0;
  if ((mode & 2) != 0) {
    options.shared_secret = Secret::of_size(HandshakeContext::shared_secret_bytes);
  }
  return HandshakeContext::create(role, std::move(options)).value();
}

/// Contexts are shared by handshakes, and cost more than one.
const HandshakeContext& context_of(Role role, std::uint8_t mode) {
  static std::array<std::array<std::optional<HandshakeContext>, 8>, 2> contexts;
  auto& context = contexts[static_cast<std::size_t>(role)][mode % 8];
  if (!context) {
    context = make_context(role, mode);
  }
  return *context;
}

void check(const Handshake& side) {
  SLUICE_REQUIRE((side.state() == State::failed) == !side.error().empty());
  for (const char c : side.error()) {
    SLUICE_REQUIRE(c >= ' ' && c <= '~');
  }
  SLUICE_REQUIRE(side.export_secret("EXPERIMENTAL fuzz").has_value() == (side.state() == State::complete));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) {
    return 0;
  }
  const std::uint8_t mode = data[0];
  const Role role = (mode & 1) != 0 ? Role::client : Role::server;
  Handshake side = context_of(role, mode).begin().value();
  Handshake peer = context_of(role == Role::server ? Role::client : Role::server, mode).begin().value();
  Reader input(std::as_bytes(std::span(data, size)).subspan(1));
  bool heard_peer = false;
  for (int step = 0; step < 100 && !input.rest().empty(); ++step) {
    const auto operation = input.number<std::uint8_t>();
    const auto number = input.number<std::uint16_t>();
    if (operation % 4 == 0) {
      side.accept(input.take(std::min<std::size_t>(number, input.rest().size())));
    } else if (operation % 4 == 3) {
      peer.accept(side.take_output());
    } else {
      std::vector<std::byte> flight = peer.take_output();
      heard_peer = heard_peer || !flight.empty();
      if (operation % 4 == 1 && !flight.empty()) {
        flight[number % flight.size()] ^= static_cast<std::byte>(operation | 1);
      }
      side.accept(flight);
    }
    check(side);
    check(peer);
  }
  SLUICE_REQUIRE(heard_peer || side.state() != State::complete);
  if (side.state() == State::complete && peer.state() == State::complete) {
    SLUICE_REQUIRE(*side.export_secret("EXPERIMENTAL fuzz") == *peer.export_secret("EXPERIMENTAL fuzz"));
  }
  side.end_input();
  check(side);
  SLUICE_REQUIRE(side.state() != State::in_progress);
  return 0;
}
