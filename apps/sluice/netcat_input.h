// SPDX-License-Identifier: Apache-2.0
#pragma once

// What `sluice nc` does alike over datagrams and over a connection: standard input in chunks, standard output, and when
// a program ends that is idle (-w) or has no more input (-q).
//
// Borrows the loop and the options. Threads: the loop's.

#include <array>
#include <cstddef>

#include "apps/sluice/netcat.h"
#include "base/bytes.h"
#include "edge/run_loop.h"

namespace sluice {

class NetcatInput {
 public:
  /// What one read of standard input may bring: the size of one datagram at most.
  static constexpr std::size_t chunk_bytes = 16384;

  NetcatInput(RunLoop& loop, const NetcatOptions& options)
      : loop_(loop), options_(options), last_activity_(loop.now()) {}

  /// Reads standard input from now on only if `wanted`, and while no chunk waits to be sent.
  void update(bool wanted);
  /// What waits to be sent; empty: nothing.
  [[nodiscard]] ConstBytes chunk() const { return ConstBytes(chunk_).subspan(first_, size_); }
  /// So much of it has left.
  void sent(std::size_t size);
  [[nodiscard]] bool ended() const { return ended_at_ != never; }
  /// Standard input could not be read, or standard output not written; that has been told.
  [[nodiscard]] bool failed() const { return failed_; }

  /// What is idle is so from now on.
  void begin() { last_activity_ = loop_.now(); }
  /// To standard output.
  void write(ConstBytes data);

  [[nodiscard]] TimePoint deadline() const;
  [[nodiscard]] bool expired() { return loop_.now() >= deadline(); }

 private:
  bool read();

  RunLoop& loop_;
  const NetcatOptions& options_;
  std::array<std::byte, chunk_bytes> chunk_{};
  std::size_t first_ = 0;
  std::size_t size_ = 0;
  bool watching_ = false;
  bool failed_ = false;
  TimePoint ended_at_ = never;
  TimePoint last_activity_;
};

}  // namespace sluice
