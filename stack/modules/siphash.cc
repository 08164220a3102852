// SPDX-License-Identifier: Apache-2.0
#include "stack/modules/siphash.h"

#include <bit>

namespace sluice {
namespace {

struct SipState {
  std::uint64_t v0, v1, v2, v3;

  void round() {
    v0 += v1;
    v1 = std::rotl(v1, 13) ^ v0;
    v0 = std::rotl(v0, 32);
    v2 += v3;
    v3 = std::rotl(v3, 16) ^ v2;
    v0 += v3;
    v3 = std::rotl(v3, 21) ^ v0;
    v2 += v1;
    v1 = std::rotl(v1, 17) ^ v2;
    v2 = std::rotl(v2, 32);
  }
  void take(std::uint64_t word) {
    v3 ^= word;
    round();
    round();
    v0 ^= word;
  }
};

}  // namespace

std::uint64_t siphash(std::uint64_t key0, std::uint64_t key1, ConstBytes bytes) {
  SipState state{key0 ^ 0x736f'6d65'7073'6575U, key1 ^ 0x646f'7261'6e64'6f6dU, key0 ^ 0x6c79'6765'6e65'7261U,
                 key1 ^ 0x7465'6462'7974'6573U};
  const auto word_of = [](ConstBytes part) {
    std::uint64_t word = 0;
    for (std::size_t at = 0; at < part.size(); ++at) {
      word |= std::to_integer<std::uint64_t>(part[at]) << (8 * at);
    }
    return word;
  };
  const std::uint64_t length = std::uint64_t{bytes.size()} << 56;
  for (; bytes.size() >= 8; bytes = bytes.subspan(8)) {
    state.take(word_of(bytes.first(8)));
  }
  state.take(length | word_of(bytes));
  state.v2 ^= 0xff;
  for (int finish = 0; finish < 4; ++finish) {
    state.round();
  }
  return state.v0 ^ state.v1 ^ state.v2 ^ state.v3;
}

}  // namespace sluice
