// SPDX-License-Identifier: Apache-2.0
#pragma once

// FarSide: the real ftx that a Liar lies to, in a directory of its own, and what must hold of it afterwards.

#include <filesystem>
#include <memory>
#include <optional>
#include <set>

#include "apps/ftx/protocol/exit_code.h"
#include "apps/ftx/remote/start_message.h"
#include "apps/ftx/session/protection.h"
#include "tests/hostile/ftx_process.h"

namespace sluice::ftx::hostile {

// Ends of the real ftx, for the tables.
inline constexpr auto ok = ExitCode::ok;
inline constexpr auto refused = ExitCode::refused;
inline constexpr auto wrong = ExitCode::protocol_error;
inline constexpr auto timed_out = ExitCode::timeout;

/// docs/formats/ftx.md, of either end.
inline constexpr const char* rule_error = "an ERROR is never a success: 0 and unknown codes mean `protocol_error`";

/// What a sender of ours has to send.
inline constexpr std::size_t source_bytes = 200'000;

[[nodiscard]] std::vector<std::byte> random_content(std::size_t size);

class FarSide {
 public:
  /// Sealed: `ftx remote`, which is told of a secret through its pipe. Else `ftx serve` for a push; for a pull, which
  /// then is `ftx a.bin ftx://127.0.0.1:PORT/`, call begin(). `path`: where a push by `ftx remote` goes.
  FarSide(bool sealed, StartDirection direction, const std::string& path = "");
  ~FarSide();

  void begin(std::uint16_t port);
  /// Where it listens; 0: it does not.
  [[nodiscard]] std::uint16_t port() const { return port_; }
  [[nodiscard]] std::optional<Protection> take_protection() { return std::move(protection_); }
  [[nodiscard]] FtxProcess& process() { return *process_; }

  /// Its transfer ends with one of these, and then it does; `interrupted`: no transfer has begun.
  void expect_end(const std::set<ExitCode>& codes);
  /// There is "a.bin" with these bytes, or nothing, and nothing outside.
  void expect_files(const std::optional<std::vector<std::byte>>& content);
  [[nodiscard]] std::filesystem::path home() const { return top_ / "home"; }

 private:
  /// What `ftx serve` says of the transfer.
  [[nodiscard]] std::optional<int> announced(Millis timeout);

  bool sealed_;
  StartDirection direction_;
  std::filesystem::path top_;
  std::unique_ptr<FtxProcess> process_;
  std::optional<Protection> protection_;
  std::uint16_t port_ = 0;
};

}  // namespace sluice::ftx::hostile
