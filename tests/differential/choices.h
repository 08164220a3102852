// SPDX-License-Identifier: Apache-2.0
#pragma once

// Where the choices of a case come from: a seed, or the bytes of a fuzzer's input. Ownership: borrows the bytes.

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <optional>

#include "base/bytes.h"
#include "base/prng.h"

namespace sluice::differential {

class Choices {
 public:
  explicit Choices(std::uint64_t seed) : prng_(seed) {}
  explicit Choices(ConstBytes script) : script_(script) {}

  /// In [0, bound). REQUIRES: bound > 0.
  std::uint64_t below(std::uint64_t bound) {
    if (prng_) {
      return prng_->below(bound);
    }
    std::uint64_t value = 0;
    for (std::uint64_t rest = bound - 1; rest > 0; rest >>= 8) {
      value = value << 8 | (script_.empty() ? 0 : std::to_integer<std::uint64_t>(script_.front()));
      script_ = script_.subspan(std::min<std::size_t>(script_.size(), 1));
    }
    return value % bound;
  }
  bool percent(unsigned chance) { return below(100) < chance; }
  template <class T>
  T one_of(std::initializer_list<T> values) {
    return *(values.begin() + below(values.size()));
  }
  /// What a generator of its own starts from.
  std::uint64_t seed() { return below(65536); }
  /// Small sizes often, sizes near `edge` sometimes, any up to `max` otherwise.
  std::size_t size(std::size_t edge, std::size_t max) {
    switch (below(8)) {
      case 0:
        return std::min(max, below(9));
      case 1:
        return std::min<std::size_t>(max, edge - std::min<std::size_t>(edge, 8) + below(17));
      case 2:
        return below(max + 1);
      default:
        return std::min(max, below(700));
    }
  }
  /// Whether a script has ended; a seed never does.
  [[nodiscard]] bool exhausted() const { return !prng_ && script_.empty(); }

 private:
  std::optional<Prng> prng_;
  ConstBytes script_;
};

}  // namespace sluice::differential
