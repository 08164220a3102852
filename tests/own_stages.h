// SPDX-License-Identifier: Apache-2.0
#pragma once

// Two stages of their own for tests: a cipher whose every byte depends on all bytes before it, and a digest. They hold
// the pass to what stack/core/stage.h guarantees, and each comes with its meaning on flat bytes.

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "base/contract.h"
#include "stack/core/stage.h"

namespace sluice::own_stages {

/// What both do: they see one message from its first byte to its last.
class WatchedStage : public Stage {
 public:
  using Argument = std::array<std::byte, 16>;  // a key, and what the digest must be

  using Stage::Stage;

  static Argument argument(std::uint64_t key, std::uint64_t expected = 0) {
    Argument bytes;
    std::memcpy(bytes.data(), &key, sizeof key);
    std::memcpy(bytes.data() + sizeof key, &expected, sizeof expected);
    return bytes;
  }

  void begin(ConstBytes argument) final {
    SLUICE_REQUIRE(argument.size() == sizeof(Argument));
    std::memcpy(&state_, argument.data(), sizeof state_);
    std::memcpy(&expected_, argument.data() + sizeof state_, sizeof expected_);
    next_ = 0;
    ++begun;
  }
  void run(std::size_t offset, ConstBytes from, Bytes to) final {
    SLUICE_REQUIRE(offset == next_);
    SLUICE_REQUIRE(!from.empty() && from.size() <= run_bytes_max);
    SLUICE_REQUIRE(to.size() == (nature().converts ? from.size() : 0));
    SLUICE_REQUIRE(to.empty() || from.data() == to.data() || from.data() + from.size() <= to.data() ||
                   to.data() + to.size() <= from.data());
    next_ += from.size();
    ++runs;
    through(from, to);
  }
  bool end(Bytes result) override {
    for (std::size_t at = 0; at < result.size(); ++at) {
      result[at] = byte_of(state_, at);
    }
    ++ended;
    return !nature().verifies || state_ == expected_;
  }

  static std::byte byte_of(std::uint64_t state, std::size_t at) {
    return static_cast<std::byte>(state >> (at % sizeof state * 8));
  }

  int begun = 0;
  int runs = 0;
  int ended = 0;

 protected:
  virtual void through(ConstBytes from, Bytes to) = 0;
  static std::uint64_t mixed(std::uint64_t state, std::byte byte) {
    return (state ^ std::to_integer<std::uint64_t>(byte)) * 0x9e3779b97f4a7c15U + 1;
  }

  std::uint64_t state_ = 0;
  std::uint64_t expected_ = 0;
  std::size_t next_ = 0;
};

/// Enciphers, or deciphers: a byte's key comes from the enciphered bytes before it.
class ChainedCipher final : public WatchedStage {
 public:
  explicit ChainedCipher(bool deciphers = false)
      : WatchedStage({.name = deciphers ? "decipher" : "encipher", .converts = true}), deciphers_(deciphers) {}

  static void apply(std::uint64_t key, Bytes bytes, bool deciphers = false) {
    ChainedCipher cipher(deciphers);
    cipher.state_ = key;
    cipher.through(bytes, bytes);
  }

 private:
  void through(ConstBytes from, Bytes to) override {
    for (std::size_t at = 0; at < from.size(); ++at) {
      const std::byte in = from[at];
      to[at] = in ^ static_cast<std::byte>(state_ >> 56);
      state_ = mixed(state_, deciphers_ ? in : to[at]);
    }
  }

  bool deciphers_;
};

/// Reads, and refuses a message whose digest is not the expected one where it `verifies`.
class Digest final : public WatchedStage {
 public:
  explicit Digest(bool verifies) : WatchedStage({.name = verifies ? "verify" : "digest", .verifies = verifies}) {}

  static std::uint64_t of(std::uint64_t key, ConstBytes bytes) {
    Digest digest(false);
    digest.state_ = key;
    digest.through(bytes, {});
    return digest.state_;
  }

 private:
  void through(ConstBytes from, Bytes /*to*/) override {
    for (const std::byte byte : from) {
      state_ = mixed(state_, byte);
    }
  }
};

}  // namespace sluice::own_stages
