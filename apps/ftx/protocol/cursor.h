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

  std::uint32_t number24() {
    const auto high = number<std::uint8_t>();
    return std::uint32_t{high} << 16 | number<std::uint16_t>();
  }

  std::uint64_t number48() {
    const auto high = number<std::uint16_t>();
    return std::uint64_t{high} << 32 | number<std::uint32_t>();
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

  /// REQUIRES: value < 2^24.
  Writer& number24(std::uint32_t value) {
    SLUICE_REQUIRE(value >> 24 == 0);
    return number(static_cast<std::uint8_t>(value >> 16)).number(static_cast<std::uint16_t>(value));
  }

  /// REQUIRES: value < 2^48.
  Writer& number48(std::uint64_t value) {
    SLUICE_REQUIRE(value >> 48 == 0);
    return number(static_cast<std::uint16_t>(value >> 32)).number(static_cast<std::uint32_t>(value));
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
