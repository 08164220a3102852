// SPDX-License-Identifier: Apache-2.0
#pragma once

// Boxed: a value that is seldom there, and then lies on the heap: as std::optional, but empty it takes a pointer's room
// in the object that has it. Copies copy the value.
//
// Not thread-safe.

#include <concepts>
#include <memory>
#include <utility>

namespace sluice {

template <class T>
class Boxed {
 public:
  Boxed() = default;
  template <class From>
    requires(!std::same_as<std::remove_cvref_t<From>, Boxed> && std::constructible_from<T, From>)
  Boxed(From&& value) : value_(std::make_unique<T>(std::forward<From>(value))) {}  // as a T converts, so does this
  Boxed(const Boxed& other) : value_(other.value_ ? std::make_unique<T>(*other.value_) : nullptr) {}
  Boxed(Boxed&&) noexcept = default;
  Boxed& operator=(const Boxed& other) { return *this = Boxed(other); }
  Boxed& operator=(Boxed&&) noexcept = default;
  ~Boxed() = default;

  [[nodiscard]] bool has_value() const { return value_ != nullptr; }
  explicit operator bool() const { return has_value(); }
  /// REQUIRES of these: has_value().
  [[nodiscard]] T& operator*() { return *value_; }
  [[nodiscard]] const T& operator*() const { return *value_; }
  /// Null when empty.
  [[nodiscard]] const T* get() const { return value_.get(); }
  [[nodiscard]] T* operator->() { return value_.get(); }
  [[nodiscard]] const T* operator->() const { return value_.get(); }

  /// Two empty ones are equal.
  bool operator==(const Boxed& other) const {
    return has_value() == other.has_value() && (!has_value() || *value_ == *other.value_);
  }

 private:
  std::unique_ptr<T> value_;
};

}  // namespace sluice
