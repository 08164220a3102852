// SPDX-License-Identifier: Apache-2.0
#pragma once

// What two ftx processes say to each other through the pipe of ssh before a transfer begins, or before it goes on
// through that pipe: values, their encoding, and a reader of the byte stream. docs/formats/ftx-start.md has the layout.
// Sans-I/O.
//
// Threat: the far side may be no ftx at all, another version, or a liar. Lengths are bounded before anything is
// stored, every field is checked, and text that is shown holds no control character. What precedes the first message
// from the far side (a login shell that prints something) is skipped, 64 KiB at most.
//
// Not thread-safe.

#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "apps/ftx/protocol/exit_code.h"
#include "apps/ftx/protocol/request.h"
#include "apps/ftx/security/aead.h"
#include "apps/ftx/security/key_schedule.h"
#include "base/bytes.h"
#include "stack/wire/address.h"

namespace sluice::ftx {

inline constexpr std::uint8_t start_version = 2;
inline constexpr std::size_t start_header_bytes = 18;
inline constexpr std::size_t start_body_bytes_max = 32 * 1024;
inline constexpr std::size_t start_paths_max = 1024;
inline constexpr std::size_t start_path_bytes_max = 4095;  // PATH_MAX without its NUL
inline constexpr std::size_t start_program_bytes_max = 64;
inline constexpr std::size_t start_text_bytes_max = 512;
/// What may precede the first message of the far side.
inline constexpr std::size_t preamble_bytes_max = 64 * 1024;

enum class StartDirection : std::uint8_t { push = 1, pull = 2 };

/// UDP ports from `first` to `last`; both 0: any.
struct PortRange {
  std::uint16_t first = 0;
  std::uint16_t last = 0;
  bool operator==(const PortRange&) const = default;
};

/// PORT or FIRST-LAST. Null: neither, or 0.
[[nodiscard]] std::optional<PortRange> parse_ports(std::string_view text);

/// What the near side wants.
struct StartRequest {
  Secret secret{};  // session_secret_bytes
  Cipher cipher = Cipher::aes_128_gcm;
  StartDirection direction = StartDirection::push;
  bool keep_partial = true;          // of a push: what a later transfer goes on with stays
  bool verify = false;               // of a push: that is read before it is believed
  std::uint8_t session_version = 0;  // of docs/formats/ftx.md
  std::uint32_t datagram_bytes = 0;  // at most; 0: as the far side can
  std::uint32_t idle_timeout_ms = 0;
  AskedCongestion congestion = AskedCongestion::bbr;  // of a pull
  std::uint64_t rate = 0;                             // bytes a second, of fixed_rate
  Compress compress = Compress::never;                // of a pull
  bool delta = false;                                 // likewise
  PortRange ports{};                                  // where the far side may listen
  Trees trees = Trees::none;                          // of a pull
  Selection select{};                                 // of a pull
  std::string program{};                              // the program's version
  std::vector<std::string> paths{};                   // push: one, where the files go; may be empty. pull: one or more
};

/// The far side is ready.
struct StartReady {
  std::uint8_t session_version = 0;
  std::uint16_t udp_port = 0;                // where it listens
  std::uint32_t datagram_bytes = 0;          // at most
  std::optional<wire::IpAddress> address{};  // where ssh has reached it, as it sees it
  std::string program{};

  bool operator==(const StartReady&) const = default;
};

/// The far side cannot, or could not go on.
struct StartFailure {
  ExitCode code = ExitCode::internal;
  std::string text{};

  bool operator==(const StartFailure&) const = default;
};

/// Is answered by the same: how long the pipe takes.
struct StartEcho {
  bool operator==(const StartEcho&) const = default;
};

/// The near side goes on through the pipe, with a session of this secret.
struct StartSwitch {
  Secret secret{};  // session_secret_bytes
};

/// The far side has gone over to the pipe: all that follows are frames.
struct StartSwitched {
  bool operator==(const StartSwitched&) const = default;
};

using StartMessage = std::variant<StartRequest, StartReady, StartFailure, StartEcho, StartSwitch, StartSwitched>;

/// Null: it does not fit (too many paths, too long ones, more than start_body_bytes_max together). The caller wipes
/// what it gets.
[[nodiscard]] std::optional<std::vector<std::byte>> encode(const StartRequest& request);
/// REQUIRES: program within its bounds.
[[nodiscard]] std::vector<std::byte> encode(const StartReady& ready);
/// The text is made printable and cut to start_text_bytes_max.
[[nodiscard]] std::vector<std::byte> encode(const StartFailure& failure);
[[nodiscard]] std::vector<std::byte> encode(const StartEcho& echo);
/// The caller wipes what it gets.
[[nodiscard]] std::vector<std::byte> encode(const StartSwitch& change);
[[nodiscard]] std::vector<std::byte> encode(const StartSwitched& changed);

/// Cuts a byte stream into messages.
class StartReader {
 public:
  enum class Preamble : std::uint8_t { none, skipped };
  explicit StartReader(Preamble preamble);
  ~StartReader() { wipe(buffer_); }
  StartReader(const StartReader&) = delete;
  StartReader& operator=(const StartReader&) = delete;

  /// How many bytes feed() takes now; at least 1 when next() has just answered that it needs more.
  [[nodiscard]] std::size_t room() const { return buffer_.size() - used_; }
  /// REQUIRES: bytes.size() <= room().
  void feed(ConstBytes bytes);

  /// The next message; null: it needs more bytes. A failure is final: protocol_error, or remote_version.
  [[nodiscard]] std::expected<std::optional<StartMessage>, Failure> next();
  /// What preceded the first message, made printable: its beginning, for an error text.
  [[nodiscard]] std::string preamble() const;
  /// Whether the stream ended in the middle of a message. What is no message at all does not count.
  [[nodiscard]] bool in_message() const { return aligned_ && used_ > 0; }
  /// Whether bytes wait that next() has not used.
  [[nodiscard]] bool holds_more() const { return used_ > 0; }

 private:
  [[nodiscard]] std::expected<bool, Failure> align();
  void drop(std::size_t count);

  Preamble mode_;
  std::size_t preamble_left_;
  std::string preamble_{};
  bool aligned_ = false;           // the buffer begins where a message does
  std::vector<std::byte> buffer_;  // never grows, so that no copy of a secret stays behind
  std::size_t used_ = 0;
};

}  // namespace sluice::ftx
