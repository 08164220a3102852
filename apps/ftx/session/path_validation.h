// SPDX-License-Identifier: Apache-2.0
#pragma once

// PathValidation: when the peer of a sealed session may be believed to have another address. Its address changes when a
// NAT forgets it, or when it moves to another network; the session goes on.
//
// Threat: somebody on the path who sends a captured datagram from an address of his choice, before the real one comes,
// so that all that the session sends goes to a victim. RFC 9000 section 8.2: "Path validation is used by both peers
// during connection migration [...] to verify reachability after a change of address." So the other address is sent a
// CHALLENGE (48 bytes, at most four a second, and only for what comes from there), and everything else still goes to
// the old one until the RESPONSE with its number comes from the other.
//
// Reads no clock. Not thread-safe.

#include <optional>

#include "apps/ftx/session/endpoint.h"
#include "base/prng.h"
#include "base/time.h"

namespace sluice::ftx {

class PathValidation {
 public:
  static constexpr Duration interval = std::chrono::milliseconds(250);

  /// `seed`: unpredictable outside of tests.
  explicit PathValidation(std::uint64_t seed) : prng_(seed) {}

  /// Something that opened came from `from`, which is not the peer's address.
  void on_other_path(TimePoint now, const Peer& from) {
    // Of all addresses: else two in turns would be challenged for each datagram.
    if (challenged_at_ != TimePoint{} && now - challenged_at_ < interval) {
      return;
    }
    if (candidate_ != from) {
      candidate_ = from;
      nonce_ = prng_();
    }
    challenged_at_ = now;
    due_ = true;
  }

  struct Challenge {
    Peer to;
    std::uint64_t nonce = 0;
  };
  /// The challenge to send now.
  [[nodiscard]] std::optional<Challenge> take() {
    if (!due_) {
      return std::nullopt;
    }
    due_ = false;
    return Challenge{*candidate_, nonce_};
  }
  [[nodiscard]] bool due() const { return due_; }

  /// True when `from` is the peer's address from now on.
  [[nodiscard]] bool on_response(const Peer& from, std::uint64_t nonce) {
    if (candidate_ != from || nonce != nonce_) {
      return false;
    }
    candidate_.reset();
    due_ = false;
    return true;
  }

 private:
  Prng prng_;
  std::optional<Peer> candidate_;
  std::uint64_t nonce_ = 0;
  TimePoint challenged_at_{};
  bool due_ = false;
};

}  // namespace sluice::ftx
