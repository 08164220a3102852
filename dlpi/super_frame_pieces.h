// SPDX-License-Identifier: Apache-2.0
#pragma once

// A super-frame as a system call gathers it: the virtio header that says how it is divided, and the places where its
// bytes lie, the user's memory as a rule.
//
// Ownership: refers to the frame described last and to its own header; stays where it is. Not thread-safe.

#include <sys/uio.h>

#include <array>
#include <span>

#include "base/bytes.h"
#include "dlpi/offload.h"
#include "dlpi/super_frame.h"

namespace sluice::dlpi {

class SuperFramePieces {
 public:
  static constexpr std::size_t runs_max = 512;

  SuperFramePieces() = default;
  SuperFramePieces(const SuperFramePieces&) = delete;
  SuperFramePieces& operator=(const SuperFramePieces&) = delete;

  /// Describes `frame`; one in too many pieces is made one. False when there is no memory for that. REQUIRES:
  /// is_super_frame().
  [[nodiscard]] bool describe(Message& frame);
  /// Of the frame described last, the header in front; valid as long as that frame is.
  [[nodiscard]] std::span<iovec> pieces() { return std::span(pieces_).first(1 + count_); }

 private:
  OffloadHeader header_;
  std::size_t count_ = 0;
  std::array<ConstBytes, runs_max> runs_{};
  std::array<iovec, 1 + runs_max> pieces_{};
};

}  // namespace sluice::dlpi
