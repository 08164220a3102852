// SPDX-License-Identifier: Apache-2.0
#pragma once

// StreamEnd: what a sender says of a stream (EntryKind::stream) when it has ended. It is all that the digest stream has
// then:
//
//   digests := digest[16] size:u64                         docs/formats/ftx.md, "Files of unknown size"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "apps/ftx/protocol/cursor.h"
#include "apps/ftx/protocol/digest.h"
#include "apps/ftx/protocol/message.h"

namespace sluice::ftx {

/// The largest stream.
inline constexpr std::uint64_t stream_bytes_max = file_content_max - 1;

struct StreamEnd {
  Digest digest{};
  std::uint64_t size_bytes = 0;  // stream_bytes_max at most
  bool operator==(const StreamEnd&) const = default;
};
inline constexpr std::size_t stream_end_bytes = digest_bytes + 8;

[[nodiscard]] inline std::vector<std::byte> encode_stream_end(const StreamEnd& end) {
  std::vector<std::byte> bytes(stream_end_bytes);
  Writer(bytes).bytes(end.digest).number(end.size_bytes);
  return bytes;
}

/// Null: malformed.
[[nodiscard]] inline std::optional<StreamEnd> parse_stream_end(ConstBytes bytes) {
  Reader reader(bytes);
  StreamEnd end;
  std::ranges::copy(reader.take(end.digest.size()), end.digest.begin());
  end.size_bytes = reader.number<std::uint64_t>();
  return reader.exhausted() && end.size_bytes <= stream_bytes_max ? std::optional(end) : std::nullopt;
}

}  // namespace sluice::ftx
