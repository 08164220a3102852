// SPDX-License-Identifier: Apache-2.0
#pragma once

// Reader and Writer: big-endian fields, one after the other. A Reader that runs past its end returns zeros and makes
// ok() false, so a parse function checks once, at its end.

#include <concepts>

#include "base/bytes.h"
#include "base/contract.h"

namespace sluice::ftx {

class Reader {
 public:
  explicit Reader(ConstBytes bytes) : rest_(bytes) {}

  template <std::unsigned_integral T>
  T number() {
    const ConstBytes field = take(sizeof(T));
    return field.size() == sizeof(T) ? load_big_endian<T>(field.data()) : T{0};
  }

  /// The next `count` bytes, or none at all when fewer remain.
  ConstBytes take(std::size_t count) {
    if (count > rest_.size()) {
      ok_ = false;
      rest_ = {};
      return {};
    }
    const ConstBytes field = rest_.first(count);
    rest_ = rest_.subspan(count);
    return field;
  }

  [[nodiscard]] ConstBytes rest() const { return rest_; }
  [[nodiscard]] bool ok() const { return ok_; }
  /// True when every read succeeded and nothing is left over.
  [[nodiscard]] bool exhausted() const { return ok_ && rest_.empty(); }

 private:
  ConstBytes rest_;
  bool ok_ = true;
};

/// REQUIRES: the buffer holds everything that is written.
class Writer {
 public:
  explicit Writer(Bytes out) : out_(out) {}

  template <std::unsigned_integral T>
  Writer& number(T value) {
    SLUICE_REQUIRE(out_.size() - used_ >= sizeof(T));
    store_big_endian(out_.data() + used_, value);
    used_ += sizeof(T);
    return *this;
  }

  Writer& bytes(ConstBytes field) {
    SLUICE_REQUIRE(out_.size() - used_ >= field.size());
    if (!field.empty()) {
      std::memcpy(out_.data() + used_, field.data(), field.size());
    }
    used_ += field.size();
    return *this;
  }

  Writer& zeros_up_to(std::size_t size) {
    SLUICE_REQUIRE(size <= out_.size());
    for (; used_ < size; ++used_) {
      out_[used_] = std::byte{0};
    }
    return *this;
  }

  [[nodiscard]] std::size_t size() const { return used_; }

 private:
  Bytes out_;
  std::size_t used_ = 0;
};

}  // namespace sluice::ftx
