// SPDX-License-Identifier: Apache-2.0
#pragma once

// CompressionPolicy: whether a sender compresses its next ADU. It measures while the transfer runs.
//
// The rule: an ADU is compressed while the time that the link needs for the bytes that compressing saves is longer than
// the time that compressing takes:
//
//   cost < (1 - kept) / rate
//
//   cost   seconds to compress a byte of a file, of what was tried last
//   kept   payload bytes that travel for a byte of a file, likewise
//   rate   bytes a second that arrive, as reports measure it; a rate that falls is believed slowly
//
// A sender without compression needs 1 / rate a byte, one with it cost + kept / rate at most, even if nothing of the
// two overlaps. So what the rule allows makes no transfer slower, as long as `rate` is what the path carries. But when
// compressing is what is slow, `rate` is the sender's own speed, and would seem to allow more of it. So it waits while
// the sender is hurried: while it sends less than it may (Delivery calls that application limited). It then sends as
// fast as it can, and `rate` shows what the path carries. Only where compressing takes next to no time it goes on: what
// makes such a sender late is something else. Nothing is compressed before a rate has been measured that the sender did
// not limit, or a few that it did: the first come from a short list of files.
//
// Data that does not get smaller ends compression by the same rule. Then it is tried now and then: after try_bytes_min,
// and each time after twice as much, up to try_bytes_max; at once where another file begins. Where not even compressing
// to nothing would be worth what it costs, only after try_bytes_hopeless. One ADU shows whether data gets smaller. What
// it costs shows only after a few: the first has its tables and code to fetch, and takes ten times as long (measured:
// 40 to 110 ns a byte, then 4). So it costs next to nothing where it does not pay.
//
// The receiver needs a third of that time to decompress. Where its processor is what is slow, `rate` is its speed, and
// the same rule holds for it, unless it is more than three times slower than the sender's: that nobody measures.
//
// Reads no clock. Not thread-safe.

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "apps/ftx/protocol/compress.h"
#include "base/time.h"

namespace sluice::ftx {

class CompressionPolicy {
 public:
  static constexpr std::uint64_t try_bytes_min = 64 * 1024;
  static constexpr std::uint64_t try_bytes_max = 1024 * 1024;
  static constexpr std::uint64_t try_bytes_hopeless = 64 * 1024 * 1024;
  /// ADUs in a row that get smaller, and cost too much, before it gives up.
  static constexpr int try_adus = 8;

  explicit CompressionPolicy(Compress mode) : mode_(mode) {}

  /// A report measured `rate`, bytes a second; `application_limited`: of a time when the sender sent less than it might
  /// have.
  void on_delivery(std::uint64_t rate, bool application_limited);
  /// Another file begins.
  void on_new_file();
  /// The sender has sent less than it might have: it was not the network that it has waited for.
  void set_hurried(bool hurried) { hurried_ = hurried; }

  /// Whether to compress the next ADU.
  [[nodiscard]] bool compresses() const;
  /// One was compressed: `payload_bytes` travel for `content_bytes`, as many where it was in vain.
  void on_compressed(std::size_t content_bytes, std::size_t payload_bytes, Duration cost);
  /// One was not.
  void on_plain(std::size_t content_bytes) { until_try_ -= std::min<std::uint64_t>(content_bytes, until_try_); }

 private:
  [[nodiscard]] bool pays() const { return tried_ && cost_ns_ < (1 - kept_) * byte_ns_; }
  /// Compressing takes next to no time: less than a sixteenth of what the path needs for what comes out.
  [[nodiscard]] bool has_time() const { return cost_ns_ < kept_ * byte_ns_ / 16; }
  /// Compressing to nothing would pay.
  [[nodiscard]] bool hopeful() const { return !tried_ || cost_ns_ < byte_ns_; }

  Compress mode_;
  bool hurried_ = false;
  int reports_left_ = 16;  // that may measure the sender before they count
  double byte_ns_ = 0;     // that the path needs for a byte; 0: not measured
  bool tried_ = false;
  double cost_ns_ = 0;  // of a byte of a file
  double kept_ = 1;
  std::uint64_t interval_ = try_bytes_min;
  std::uint64_t until_try_ = 0;
  int try_adus_left_ = try_adus;
};

}  // namespace sluice::ftx
