// SPDX-License-Identifier: Apache-2.0
#pragma once

// Operand: what a SRC or DEST of the command line is: a local path, HOST:PATH, or an ftx:// URL. The rules are scp's,
// so that nobody has to learn new ones: what has a '/' before its first ':' is local, and so is what begins with ':'.
//
// Threat: a host or user that ssh takes for an option ("-oProxyCommand=..."). Such a name is refused here, and ssh gets
// it behind "--" besides.

#include <string>
#include <string_view>

#include "base/result.h"

namespace sluice::ftx {

struct Operand {
  enum class Kind : std::uint8_t { local, remote, url };
  Kind kind = Kind::local;
  std::string path;  // local, remote: as it was written; may be empty. url: the whole URL
  std::string user;  // remote; empty: ssh's choice
  std::string host;  // remote; without brackets

  bool operator==(const Operand&) const = default;
  /// [user@]host, as ssh takes it.
  [[nodiscard]] std::string login() const { return user.empty() ? host : user + "@" + host; }
};

/// EINVAL, with a text that says what is wrong.
[[nodiscard]] Result<Operand> parse_operand(std::string_view text);

}  // namespace sluice::ftx
