// SPDX-License-Identifier: Apache-2.0
#pragma once

// A native descriptor of the tests' own: the core knows a codec, not the primitives. Its encoded form is shorter or
// longer than the value, as the text in it is: "#", the number's digit, then the text.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/codec.h"
#include "stack/core/message.h"

namespace sluice::testing {

struct Notice {
  static const Codec codec;
  static constexpr std::size_t text_max = 90;
  static constexpr std::size_t encoded_size_max = 2 + text_max;

  std::uint8_t number = 0;  // 0..9
  std::uint8_t length = 0;
  std::array<char, text_max> text{};

  static Notice of(std::uint8_t number, std::string_view text) {
    Notice notice{.number = number, .length = static_cast<std::uint8_t>(text.size()), .text = {}};
    std::ranges::copy(text, notice.text.begin());
    return notice;
  }
  friend bool operator==(const Notice&, const Notice&) = default;
};

/// The same bytes of another type.
struct Stranger {
  static const Codec codec;
  static constexpr std::size_t encoded_size_max = 1;

  std::uint8_t number = 0;
};

namespace detail {

template <class T>
const T& value_at(const std::byte* native) {
  return *reinterpret_cast<const T*>(native);
}

inline std::size_t encoded_size_of_notice(const std::byte* native) {
  return std::size_t{2} + value_at<Notice>(native).length;
}

inline std::size_t encode_notice(const std::byte* native, Bytes out) {
  const Notice& notice = value_at<Notice>(native);
  out[0] = std::byte{'#'};
  out[1] = static_cast<std::byte>('0' + notice.number);
  std::ranges::transform(notice.text.begin(), notice.text.begin() + notice.length, out.begin() + 2,
                         [](char letter) { return static_cast<std::byte>(letter); });
  return encoded_size_of_notice(native);
}

}  // namespace detail

inline constexpr Codec Notice::codec{
    .native_size = sizeof(Notice), .encoded_size = detail::encoded_size_of_notice, .encode = detail::encode_notice};
inline constexpr Codec Stranger::codec{.native_size = sizeof(Stranger),
                                       .encoded_size = [](const std::byte*) { return std::size_t{1}; },
                                       .encode =
                                           [](const std::byte* native, Bytes out) {
                                             out[0] = native[0];
                                             return std::size_t{1};
                                           }};

}  // namespace sluice::testing
