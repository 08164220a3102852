// SPDX-License-Identifier: Apache-2.0
#pragma once

// AduCompressor: makes the payloads of a sender's file ADUs: the bytes as they are, or a zstd frame of more bytes than
// a datagram holds. CompressionPolicy says which. ADUs name their place, whatever carries them, so a compressed ADU is
// a longer one, and the next begins where it ends.
//
// How many bytes make a full datagram is known only when they have been compressed, so it goes by what the last gave: a
// tenth less, since what does not fit has to be compressed again. If that does not fit either, the ADU goes as it is.
//
// A frame has no dictionary, no checksum (the digest of the file covers its bytes) and says how much it stands for.
// Level 1: measured on pieces of a few KiB, level 3 saves 3 to 5 % more and takes 20 to 30 % longer.
//
// What it costs, in seconds of processor time a GiB of files (two AMD EPYC cores, sealed, over loopback, medians of
// interleaved runs), where everything is compressed, and where nothing is:
//
//   C headers (4.5 times smaller)    sender 3.6, not 0.64   receiver 1.75, not 0.98
//   random bytes                     sender 1.3, not 0.69   receiver 1.0, not 0.94
//
// Payloads stay valid until release(). Not thread-safe. Allocates in the constructor, and zstd its tables (up to
// 300 KiB) with the first ADU that is compressed.

#include <functional>
#include <memory>
#include <vector>

#include "apps/ftx/protocol/message.h"
#include "apps/ftx/session/compression_policy.h"
#include "base/bytes.h"
#include "base/time.h"

struct ZSTD_CCtx_s;

namespace sluice::ftx {

class AduCompressor {
 public:
  /// Costs are measured with it; it need not be the session's time.
  using Clock = std::function<TimePoint()>;

  /// No payload is longer than `payload_bytes_max`.
  AduCompressor(Compress mode, Clock clock, std::uint32_t payload_bytes_max);
  ~AduCompressor();
  AduCompressor(const AduCompressor&) = delete;
  AduCompressor& operator=(const AduCompressor&) = delete;

  [[nodiscard]] CompressionPolicy& policy() { return policy_; }

  /// How many bytes of a file fit() is to choose from for a datagram whose payload has `payload_bytes` at most. Decides
  /// whether it compresses.
  [[nodiscard]] std::size_t content_bytes_for(std::uint32_t payload_bytes);

  struct Fitted {
    std::size_t content_bytes = 0;  // how many of the front it stands for
    ConstBytes payload;
    bool compressed = false;
  };
  /// As much of the front of `content` as one datagram holds: all of it, or a multiple of adu_bytes_unit.
  /// REQUIRES: content_bytes_for(payload_bytes) was called for it; payload_bytes is a multiple of adu_bytes_unit.
  [[nodiscard]] Fitted fit(ConstBytes content, std::uint32_t payload_bytes);

  /// The caller needs no payload any more.
  void release() { used_ = 0; }

 private:
  [[nodiscard]] Fitted compress(ConstBytes content, std::uint32_t payload_bytes);
  [[nodiscard]] std::size_t estimate(std::uint32_t payload_bytes) const;

  struct Free {
    void operator()(ZSTD_CCtx_s* context) const;
  };

  CompressionPolicy policy_;
  Clock clock_;
  std::unique_ptr<ZSTD_CCtx_s, Free> context_;
  std::vector<std::byte> frames_;
  std::size_t used_ = 0;
  bool trying_ = false;
  double ratio_ = 2;  // content bytes of a payload byte
};

}  // namespace sluice::ftx
