// SPDX-License-Identifier: Apache-2.0

// Two stages of this program's own, composed with two of Sluice's into one pass over a message: each byte is masked,
// the newlines of the result are counted, its 32-bit words are swapped, and the internet checksum of all that is taken,
// while every byte is loaded and stored once. The same is then done layer by layer, and must come out the same: the
// program says what it found and exits 0, or 1 if the two differ. ilp/pipeline-inl.h is the manual.

#include "ilp/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "examples/own_stage.cc"
#include <fmt/core.h>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/bytes.h"
#include "ilp/kernels.h"
#include "ilp/pipeline-inl.h"

HWY_BEFORE_NAMESPACE();
namespace own::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
namespace ilp = sluice::ilp::HWY_NAMESPACE;

/// A stage that changes what passes: each byte is combined with `mask` by exclusive or.
class Mask {
 public:
  explicit Mask(std::uint8_t mask) : mask_(mask) {}

  HWY_INLINE ilp::ByteVector vector(ilp::ByteVector v) const { return hn::Xor(v, hn::Set(ilp::ByteTag(), mask_)); }

  template <class Word>
  Word word(Word value) const {
    return static_cast<Word>(value ^ static_cast<Word>(0x0101010101010101U * mask_));
  }

 private:
  std::uint8_t mask_;
};

/// A stage that looks at what passes: it counts the bytes that are `wanted`.
class Count {
 public:
  explicit Count(std::uint8_t wanted) : wanted_(wanted) {}

  HWY_INLINE ilp::ByteVector vector(ilp::ByteVector v) {
    const ilp::ByteTag d;
    count_ += hn::CountTrue(d, hn::Eq(v, hn::Set(d, wanted_)));
    return v;
  }

  template <class Word>
  Word word(Word value) {
    std::uint8_t bytes[sizeof value];
    std::memcpy(bytes, &value, sizeof value);
    count_ += static_cast<std::size_t>(std::count(bytes, bytes + sizeof value, wanted_));
    return value;
  }

  [[nodiscard]] std::size_t count() const { return count_; }

 private:
  std::uint8_t wanted_;
  std::size_t count_ = 0;
};

/// All of it in one pass; the order of the stages is that of the line that composes them. Returns the count.
std::size_t fused(const std::byte* from, std::byte* to, std::size_t size, std::uint16_t& checksum) {
  Mask mask(0x20);
  Count newlines('\n');
  ilp::Swap<4> swap;
  ilp::Sum sum;
  ilp::pass<sluice::ilp::Store::normal>(from, to, size, mask, newlines, swap, sum);
  checksum = sum.result();
  return newlines.count();
}

}  // namespace
}  // namespace own::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace own {
namespace {

HWY_EXPORT(fused);

/// `fused` for the CPU this runs on; to be dispatched from the namespace that exports it.
std::size_t fused_here(const std::byte* from, std::byte* to, std::size_t size, std::uint16_t& checksum) {
  return HWY_DYNAMIC_DISPATCH(fused)(from, to, size, checksum);
}

}  // namespace
}  // namespace own

int main() {
  std::vector<std::byte> message(1448);
  for (std::size_t i = 0; i < message.size(); ++i) {
    message[i] = static_cast<std::byte>(i * 7 % 256);
  }

  std::vector<std::byte> result(message.size());
  std::uint16_t checksum = 0;
  const std::size_t count = own::fused_here(message.data(), result.data(), message.size(), checksum);

  std::vector<std::byte> expected = message;
  std::ranges::transform(expected, expected.begin(), [](std::byte byte) { return byte ^ std::byte{0x20}; });
  const auto expected_count = static_cast<std::size_t>(std::ranges::count(expected, std::byte{'\n'}));
  sluice::ilp::swap(4, expected);
  const std::uint16_t expected_checksum = sluice::ilp::sum(expected);

  fmt::print("fused:   {} newlines, checksum {:04x}\n", count, checksum);
  fmt::print("layered: {} newlines, checksum {:04x}\n", expected_count, expected_checksum);
  const bool same = result == expected && count == expected_count && checksum == expected_checksum;
  fmt::print("{}\n", same ? "the same" : "they differ");
  return same ? 0 : 1;
}

#endif  // HWY_ONCE
