// SPDX-License-Identifier: Apache-2.0
#pragma once

// AduDecompressor: the bytes that a compressed ADU stands for (docs/formats/ftx.md, "Compressed ADUs").
//
// Threat: a peer whose frame is a bomb, or reaches for code that nobody else uses. The caller gives frames that have
// been authenticated, where the session is sealed, of names that parse_data() has accepted, so no frame stands for more
// than compressed_adu_bytes_max. A frame is decompressed in one call into memory of exactly that size: what it says of
// its window means no memory. One that is no zstd frame of today's format, names a dictionary, says another size or
// none, has anything behind it, is truncated, or decompresses to more or less is refused.
//
// One for all sessions of a server: about 160 KiB, allocated when the first frame comes. Not thread-safe.

#include <memory>
#include <vector>

#include "apps/ftx/protocol/message.h"
#include "base/bytes.h"

struct ZSTD_DCtx_s;

namespace sluice::ftx {

class AduDecompressor {
 public:
  AduDecompressor();
  ~AduDecompressor();
  AduDecompressor(const AduDecompressor&) = delete;
  AduDecompressor& operator=(const AduDecompressor&) = delete;

  /// Valid until the next call. Empty: refused, or no memory. REQUIRES: 0 < bytes <= compressed_adu_bytes_max.
  [[nodiscard]] ConstBytes decompress(ConstBytes frame, std::uint32_t bytes);

 private:
  struct Free {
    void operator()(ZSTD_DCtx_s* context) const;
  };
  std::unique_ptr<ZSTD_DCtx_s, Free> context_;
  std::vector<std::byte> bytes_;
};

}  // namespace sluice::ftx
