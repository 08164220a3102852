// SPDX-License-Identifier: Apache-2.0
#pragma once

// Primitives as messages: what modules need to ask and answer. A primitive is any type with encode(Bytes) and a size
// (encoded_size(), encoded_size_max or size): which ones there are, stack/wire/ knows. Header only, no state.

#include <array>
#include <cstddef>
#include <expected>
#include <optional>
#include <utility>

#include "stack/core/message.h"

namespace sluice {

template <class Primitive>
[[nodiscard]] std::size_t encoded_size_of(const Primitive& primitive) {
  if constexpr (requires { primitive.encoded_size(); }) {
    return primitive.encoded_size();
  } else if constexpr (requires { Primitive::encoded_size_max; }) {
    return Primitive::encoded_size_max;
  } else {
    return Primitive::size;
  }
}

/// An address or options as bytes, for a primitive that views them; lives as long as this.
template <class T>
class Encoded {
 public:
  explicit Encoded(const T& value) : size_(value.encode(bytes_)) {}
  [[nodiscard]] ConstBytes bytes() const { return ConstBytes(bytes_).first(size_); }

 private:
  static constexpr std::size_t size_max() {
    if constexpr (requires { T::encoded_size_max; }) {
      return T::encoded_size_max;
    } else {
      return T::size;
    }
  }
  std::array<std::byte, size_max()> bytes_{};
  std::size_t size_;
};

/// A message of one block that holds `primitive`; empty when the pool is exhausted.
template <class Primitive>
[[nodiscard]] Message primitive_message(BufferPool& pool, const Primitive& primitive, MessageType type) {
  const std::size_t size_max = encoded_size_of(primitive);
  Message message = Message::allocate(pool, size_max, 0, type);
  if (message) {
    Block& block = message.first();
    block.wptr = block.rptr + primitive.encode({block.rptr, size_max});
  }
  return message;
}

/// Why a message has no native descriptor.
template <class Native>
struct NoNative {
  /// What is wrong with the bytes; nothing: the pool is exhausted.
  std::optional<typename Native::Malformed> malformed;
};

/// The primitive of `kind` that the bytes in front of `message` hold, which become its descriptor.
template <class Native>
[[nodiscard]] std::expected<Native*, NoNative<Native>> make_native(Message& message, typename Native::Kind kind) {
  const auto decoded = Native::decode(std::as_const(message).bytes(), kind);
  if (!decoded) {
    return std::unexpected(NoNative<Native>{decoded.error()});
  }
  if (!message.set_native(*decoded)) {
    return std::unexpected(NoNative<Native>{});
  }
  return message.native<Native>();
}

/// The primitive of `kind` in front of `message`, in native form: as it is, or decoded now, in its place.
template <class Native>
[[nodiscard]] inline std::expected<Native*, NoNative<Native>> native_of(Message& message, typename Native::Kind kind) {
  if (Native* const native = message.native<Native>()) [[likely]] {
    return native->kind == kind ? std::expected<Native*, NoNative<Native>>(native)
                                : std::unexpected(NoNative<Native>{Native::Malformed::primitive});
  }
  return make_native<Native>(message, kind);
}

}  // namespace sluice
