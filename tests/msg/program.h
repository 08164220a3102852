// SPDX-License-Identifier: Apache-2.0
#pragma once

// A program of two endpoints that post receives and send messages as a seed says, and what it has seen in the end: how
// each receive and send ended and at which step, what came, and what its endpoints and modules count.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <list>
#include <string>
#include <vector>

#include "base/prng.h"
#include "tests/msg/bed.h"

namespace sluice::test::msgs {

class Program {
 public:
  Program(std::uint64_t seed, const Arrangement& arrangement)
      : prng_(seed), bed_(arrangement, 2, {.unexpected_bytes_max = 40'000}) {}

  std::vector<std::string> run() {
    for (int step = 0; step < 40; ++step) {
      const std::size_t at = prng_.below(2);
      const std::size_t size = prng_.below(3) == 0 ? prng_.below(20'000) : prng_.below(1500);
      if (prng_.below(2) == 0) {
        memory_.push_back(content(prng_.below(1000), size));
        handles_.emplace_back(at, *bed_[at].send(bed_.peer(1 - at), prng_.below(3), memory_.back()), nullptr);
      } else {
        memory_.emplace_back(size);
        handles_.emplace_back(at, *bed_[at].post(memory_.back(), {.bits = prng_.below(3), .ignore = prng_.below(2)}),
                              &memory_.back());
      }
      bed_.pass(std::chrono::milliseconds(prng_.below(10)));
      look(step);
    }
    bed_.pass(std::chrono::seconds(60));
    look(-1);
    tell_counters();
    return std::move(log_);
  }

 private:
  struct Made {
    std::size_t at;
    Handle handle;
    const std::vector<std::byte>* buffer;  // of a receive
  };
  void look(int step) {
    for (Made& made : handles_) {
      const auto done = bed_[made.at].test(made.handle);
      if (done) {
        const std::uint64_t digest = made.buffer == nullptr ? 0 : digest_of(*made.buffer, done->bytes);
        log_.push_back(fmt::format("step {}: {} of {}: error {} from {} bits {} bytes {} of {} digest {}", step,
                                   made.handle.value, made.at, done->error, done->peer.to_text(), done->bits,
                                   done->bytes, done->total_bytes, digest));
      }
    }
  }
  /// FNV-1a, to tell contents apart.
  static std::uint64_t digest_of(const std::vector<std::byte>& buffer, std::size_t bytes) {
    std::uint64_t digest = 0xcbf2'9ce4'8422'2325;
    for (const std::byte byte : ConstBytes(buffer).first(bytes)) {
      digest = (digest ^ std::to_integer<std::uint64_t>(byte)) * 0x100'0000'01b3;
    }
    return digest;
  }
  void tell_counters() {
    for (std::size_t at = 0; at < 2; ++at) {
      const msg::Statistics& said = bed_[at].statistics();
      log_.push_back(fmt::format("{}: refused {} truncated {} lost {} malformed {} {} stray {} held {} {}", at,
                                 said.refused, said.truncated, said.lost, said.malformed, said.callers_refused,
                                 said.stray, said.unexpected_bytes, said.unexpected_messages));
      tell_counters(fmt::format("{}", at), bed_[at].stream());
    }
    const std::vector<Stream*> connections = bed_.connections();
    for (std::size_t at = 0; at < connections.size(); ++at) {
      tell_counters(fmt::format("connection {}", at), *connections[at]);
    }
  }
  void tell_counters(const std::string& whose, Stream& stream) {
    for (const auto& module : stream.chain().modules()) {
      for (const Counter* counter : module->counters()) {
        if (!counter->name().starts_with("super_frame")) {
          log_.push_back(fmt::format("{} {}.{} = {}", whose, module->name(), counter->name(), counter->value()));
        }
      }
    }
  }

  Prng prng_;
  std::list<std::vector<std::byte>> memory_;
  std::vector<Made> handles_;
  std::vector<std::string> log_;
  Bed bed_;
};

/// The first line in which two programs differ; empty: there is none.
inline std::string first_difference(const std::vector<std::string>& layered, const std::vector<std::string>& other) {
  const auto differs = std::ranges::mismatch(layered, other);
  if (differs.in1 == layered.end() && differs.in2 == other.end()) {
    return "";
  }
  return "layered: " + (differs.in1 == layered.end() ? "nothing" : *differs.in1) +
         "\nother:   " + (differs.in2 == other.end() ? "nothing" : *differs.in2);
}

}  // namespace sluice::test::msgs
