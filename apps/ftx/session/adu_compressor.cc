// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/session/adu_compressor.h"

#include <zstd.h>

#include <algorithm>
#include <utility>

#include "apps/ftx/session/endpoint.h"

namespace sluice::ftx {
namespace {

constexpr int level = 1;
constexpr double fill = 0.9;  // of a payload, as it is aimed at
constexpr double ratio_part = 0.25;
constexpr int tries_max = 2;
constexpr std::size_t frame_bytes_max = ZSTD_COMPRESSBOUND(compressed_adu_bytes_max);

std::size_t whole_slots(std::size_t bytes) { return bytes / adu_bytes_unit * adu_bytes_unit; }

}  // namespace

void AduCompressor::Free::operator()(ZSTD_CCtx_s* context) const { ZSTD_freeCCtx(context); }

AduCompressor::AduCompressor(Compress mode, Clock clock, std::uint32_t payload_bytes_max)
    : policy_(mode),
      clock_(std::move(clock)),
      context_(ZSTD_createCCtx()),
      frames_(Burst::bytes_max + payload_bytes_max + frame_bytes_max) {
  if (context_) {
    ZSTD_CCtx_setParameter(context_.get(), ZSTD_c_compressionLevel, level);
  }
}

AduCompressor::~AduCompressor() = default;

std::size_t AduCompressor::content_bytes_for(std::uint32_t payload_bytes) {
  trying_ = context_ && policy_.compresses() && frames_.size() - used_ >= frame_bytes_max;
  return trying_ ? estimate(payload_bytes) : payload_bytes;
}

/// Also where nothing gets smaller it is a datagram's worth, so that fit() finds out when that changes.
std::size_t AduCompressor::estimate(std::uint32_t payload_bytes) const {
  const double content = ratio_ * fill * payload_bytes;
  const std::size_t bounded =
      whole_slots(static_cast<std::size_t>(std::min<double>(content, compressed_adu_bytes_max)));
  return std::max<std::size_t>(bounded, std::min(payload_bytes, compressed_adu_bytes_max));
}

AduCompressor::Fitted AduCompressor::fit(ConstBytes content, std::uint32_t payload_bytes) {
  const ConstBytes plain = content.first(std::min<std::size_t>(payload_bytes, content.size()));
  if (!std::exchange(trying_, false)) {
    policy_.on_plain(plain.size());
    return {plain.size(), plain, false};
  }
  const TimePoint begin = clock_();
  Fitted fitted = compress(content, payload_bytes);
  if (!fitted.compressed) {
    fitted = {plain.size(), plain, false};
  }
  policy_.on_compressed(fitted.content_bytes, fitted.payload.size(), clock_() - begin);
  return fitted;
}

AduCompressor::Fitted AduCompressor::compress(ConstBytes content, std::uint32_t payload_bytes) {
  std::size_t bytes = std::min<std::size_t>(content.size(), compressed_adu_bytes_max);
  for (int tries = 0; tries < tries_max; ++tries) {
    const Bytes frame = Bytes(frames_).subspan(used_, frame_bytes_max);
    const std::size_t size = ZSTD_compress2(context_.get(), frame.data(), frame.size(), content.data(), bytes);
    if (ZSTD_isError(size) != 0) {
      return {};
    }
    const double ratio = static_cast<double>(bytes) / static_cast<double>(size);
    if (size <= payload_bytes && size < bytes) {
      // A run of zeros says little about what follows it.
      ratio_ = std::min(ratio_ + (ratio - ratio_) * ratio_part, 2 * ratio_);
      used_ += size;
      return {bytes, frame.first(size), true};
    }
    ratio_ = ratio;
    const std::size_t less = estimate(payload_bytes);
    if (less >= bytes || less <= payload_bytes) {
      break;
    }
    bytes = less;
  }
  return {};
}

}  // namespace sluice::ftx
