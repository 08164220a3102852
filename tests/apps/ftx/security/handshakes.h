// SPDX-License-Identifier: Apache-2.0
#pragma once

// A client and a server of handshake.h in memory.

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "apps/ftx/security/handshake.h"
#include "tests/apps/ftx/security/hex.h"

namespace sluice::ftx::test {

using Flight = std::vector<std::byte>;
using Role = HandshakeContext::Role;
using Options = HandshakeContext::Options;
using State = Handshake::State;

inline Handshake begin(Role role, Options options) {
  auto context = HandshakeContext::create(role, std::move(options));
  EXPECT_TRUE(context.has_value()) << context.error().text;
  auto handshake = context->begin();
  EXPECT_TRUE(handshake.has_value());
  return std::move(*handshake);
}

/// Carries bytes both ways until nothing is left, `portion` at a time.
inline void run(Handshake& client, Handshake& server, std::size_t portion = SIZE_MAX) {
  for (int round = 0; round < 8; ++round) {
    const std::pair<Handshake*, Handshake*> ways[] = {{&client, &server}, {&server, &client}};
    bool idle = true;
    for (const auto& [from, to] : ways) {
      const Flight flight = from->take_output();
      idle = idle && flight.empty();
      for (ConstBytes rest = flight; !rest.empty(); rest = rest.subspan(std::min(portion, rest.size()))) {
        to->accept(rest.first(std::min(portion, rest.size())));
      }
    }
    if (idle) {
      return;
    }
  }
  ADD_FAILURE() << "the handshake does not end";
}

}  // namespace sluice::ftx::test
