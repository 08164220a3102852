// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/session/adu_decompressor.h"

#include <zstd.h>

#include <algorithm>
#include <array>

#include "base/contract.h"

namespace sluice::ftx {
namespace {

/// RFC 8878 section 3.1.1: "Magic_Number: 4 bytes, little-endian format. Value: 0xFD2FB528." Other values make the
/// library read skippable frames, and formats of before its first release.
bool has_magic(ConstBytes frame) {
  constexpr std::array magic{std::byte{0x28}, std::byte{0xb5}, std::byte{0x2f}, std::byte{0xfd}};
  return frame.size() > magic.size() && std::ranges::equal(frame.first(magic.size()), magic);
}

}  // namespace

void AduDecompressor::Free::operator()(ZSTD_DCtx_s* context) const { ZSTD_freeDCtx(context); }

AduDecompressor::AduDecompressor() = default;
AduDecompressor::~AduDecompressor() = default;

ConstBytes AduDecompressor::decompress(ConstBytes frame, std::uint32_t bytes) {
  SLUICE_REQUIRE(bytes > 0 && bytes <= compressed_adu_bytes_max);
  if (!has_magic(frame) || ZSTD_getFrameContentSize(frame.data(), frame.size()) != bytes ||
      ZSTD_getDictID_fromFrame(frame.data(), frame.size()) != 0 ||
      ZSTD_findFrameCompressedSize(frame.data(), frame.size()) != frame.size()) {
    return {};
  }
  if (!context_) {
    context_.reset(ZSTD_createDCtx());
    bytes_.resize(compressed_adu_bytes_max);
  }
  if (!context_) {
    return {};
  }
  const Bytes out = Bytes(bytes_).first(bytes);
  const std::size_t size = ZSTD_decompressDCtx(context_.get(), out.data(), out.size(), frame.data(), frame.size());
  return ZSTD_isError(size) == 0 && size == bytes ? ConstBytes(out) : ConstBytes();
}

}  // namespace sluice::ftx
