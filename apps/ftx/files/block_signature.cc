// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/files/block_signature.h"

#include <openssl/sha.h>

#include <algorithm>

namespace sluice::ftx {

StrongSum strong_sum(ConstBytes block) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest{};
  ::SHA256(reinterpret_cast<const unsigned char*>(block.data()), block.size(), digest.data());
  StrongSum sum{};
  std::ranges::transform(digest.begin(), digest.begin() + sum.size(), sum.begin(),
                         [](unsigned char one) { return std::byte{one}; });
  return sum;
}

void sign_block(ConstBytes block, Bytes out) {
  RollingSum rolling(block.size());
  rolling.begin(block);
  store_big_endian(out.data(), rolling.value());
  std::ranges::copy(strong_sum(block), out.begin() + sizeof(std::uint64_t));
}

}  // namespace sluice::ftx
