// SPDX-License-Identifier: Apache-2.0
#pragma once

// What a client and a standing server say to each other behind their TLS handshake, in its records: the client what it
// wants to fetch, the server why it does not get that (docs/formats/ftx.md, "Fetching"). Values and their encoding.
//
// Threat: a client that names what it must not have, or so much that the server does nothing but listen. Lengths are
// bounded before anything is stored, and what is left over or out of range makes the message malformed. Whether a path
// may be read is not decided here (apps/ftx/files/served_files.h).

#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "apps/ftx/protocol/compress.h"
#include "apps/ftx/protocol/exit_code.h"
#include "apps/ftx/protocol/manifest.h"
#include "apps/ftx/protocol/selection.h"
#include "base/bytes.h"

namespace sluice::ftx {

inline constexpr std::size_t request_header_bytes = 3;
/// Of a message with its header; both directions' bytes have to fit ControlStream::bytes_max beside the handshake.
inline constexpr std::size_t request_bytes_max = 12 * 1024;
inline constexpr std::size_t request_paths_max = 512;
inline constexpr std::size_t request_text_bytes_max = 512;

/// How a sender is to send that the other end asks for files. Only a fixed rate has a `rate`.
enum class AskedCongestion : std::uint8_t { bbr = 1, cubic = 2, background = 3, fixed_rate = 4 };

/// Whether the two fit each other: a rate is there where it is asked for, and nowhere else.
[[nodiscard]] constexpr bool is_congestion(AskedCongestion congestion, std::uint64_t rate) {
  return congestion >= AskedCongestion::bbr && congestion <= AskedCongestion::fixed_rate &&
         (congestion == AskedCongestion::fixed_rate) == (rate != 0);
}

/// How a sender sends that the other end asks for files, in a byte: its congestion control in the lower half, in the
/// upper whether it compresses, and in the highest bit whether it signs what the receiver has earlier versions of.
[[nodiscard]] constexpr std::uint8_t manner_of(AskedCongestion congestion, Compress compress, bool delta) {
  return static_cast<std::uint8_t>(static_cast<unsigned>(congestion) | static_cast<unsigned>(compress) << 4U |
                                   (delta ? 128U : 0U));
}
[[nodiscard]] constexpr AskedCongestion congestion_in(std::uint8_t manner) { return AskedCongestion(manner & 15U); }
[[nodiscard]] constexpr Compress compress_in(std::uint8_t manner) { return Compress((manner & 127U) >> 4U); }
[[nodiscard]] constexpr bool delta_in(std::uint8_t manner) { return (manner & 128U) != 0; }

/// The client wants files.
struct PullRequest {
  AskedCongestion congestion = AskedCongestion::bbr;
  std::uint64_t rate = 0;  // bytes a second, of fixed_rate
  Compress compress = Compress::never;
  bool delta = false;
  std::uint32_t datagram_bytes = 0;  // at most; 0: as the server can
  Trees trees = Trees::none;
  Selection select{};
  std::vector<std::string> paths{};  // one or more, of 1 .. path_bytes_max bytes

  bool operator==(const PullRequest&) const = default;
};

/// The server does not send them.
struct PullRefusal {
  ExitCode code = ExitCode::internal;
  std::string text{};

  bool operator==(const PullRefusal&) const = default;
};

using PullMessage = std::variant<PullRequest, PullRefusal>;

/// Null: it does not fit.
[[nodiscard]] std::optional<std::vector<std::byte>> encode(const PullRequest& request);
/// The text is made printable and cut to request_text_bytes_max.
[[nodiscard]] std::vector<std::byte> encode(const PullRefusal& refusal);

/// The message at the beginning of `bytes`, which must be all of them; null: more bytes are needed. The error says what
/// is wrong: nothing that follows can help.
[[nodiscard]] std::expected<std::optional<PullMessage>, std::string> parse_pull_message(ConstBytes bytes);

}  // namespace sluice::ftx
