// SPDX-License-Identifier: Apache-2.0
#pragma once

// Named event counts. Every dropped or refused message is counted under a name; a counter makes itself known to the
// module that it is a member of, so the owner of a module can list what happened there.

#include <cstdint>
#include <string_view>

namespace sluice {

class Module;

class Counter {
 public:
  /// `name` is one snake_case word a program can match; `meaning` is for people. Both must be string literals.
  Counter(Module& owner, std::string_view name, std::string_view meaning);
  Counter(const Counter&) = delete;
  Counter& operator=(const Counter&) = delete;

  Counter& operator++() {
    ++value_;
    return *this;
  }
  Counter& operator+=(std::uint64_t count) {
    value_ += count;
    return *this;
  }
  [[nodiscard]] std::uint64_t value() const { return value_; }
  [[nodiscard]] std::string_view name() const { return name_; }
  [[nodiscard]] std::string_view meaning() const { return meaning_; }

 private:
  std::string_view name_;
  std::string_view meaning_;
  std::uint64_t value_ = 0;
};

}  // namespace sluice
