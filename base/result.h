// SPDX-License-Identifier: Apache-2.0
#pragma once

// Operating errors are values. A Result is either what was asked for or an Error that says what went wrong, where,
// and what to do about it. Programmer errors are not values: see base/contract.h.

#include <expected>
#include <string>
#include <utility>

namespace sluice {

/// `code` is an errno value (EINVAL, EAGAIN, ...); `text` is a sentence for a person, empty where the code says all
/// (the data path never builds a text).
struct Error {
  int code = 0;
  std::string text;
};

template <class T>
using Result = std::expected<T, Error>;
using Status = std::expected<void, Error>;

[[nodiscard]] inline std::unexpected<Error> fail(int code, std::string text = {}) {
  return std::unexpected(Error{code, std::move(text)});
}

}  // namespace sluice
