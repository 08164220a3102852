// SPDX-License-Identifier: Apache-2.0
#pragma once

// Digester: XXH3-128 of a file, seed 0, in canonical (big-endian) form. It finds faults but not forgeries.
//
// Not thread-safe.

#include <memory>

#include "apps/ftx/protocol/message.h"

struct XXH3_state_s;

namespace sluice::ftx {

class Digester {
 public:
  Digester();
  ~Digester();
  Digester(Digester&&) noexcept;
  Digester& operator=(Digester&&) noexcept;

  void reset();
  void update(ConstBytes bytes);
  [[nodiscard]] Digest value() const;

 private:
  struct Free {
    void operator()(XXH3_state_s* state) const;
  };
  std::unique_ptr<XXH3_state_s, Free> state_;
};

[[nodiscard]] Digest digest_of(ConstBytes bytes);

}  // namespace sluice::ftx
