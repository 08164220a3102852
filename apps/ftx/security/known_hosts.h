// SPDX-License-Identifier: Apache-2.0
#pragma once

// Who is trusted, in two files of lines. `#` begins a comment line, empty lines count for nothing.
//
//     known hosts   `host:port key`, for a client: the key of each server.       [2001:db8::7]:7070 ftx-key:47DEQp...
//     allowed keys  `key name`, for a server: who may come, by what name.        ftx-key:47DEQp... backup of host seven
//                   `read-only` or `write-only` in front: what alone he may do.  read-only ftx-key:47DEQp... the mirror
//
// Threats: a server that takes a known one's place (mismatch, never asked about again); a line that two readers would
// read in two ways (a line that is not as above makes the whole file fail, as do two lines on one host or key); control
// characters that a terminal obeys (refused in both files, and errors repeat nothing of the file).
//
// Immutable values; the functions on files are in private_file.h.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "apps/ftx/security/access.h"
#include "apps/ftx/security/identity.h"
#include "base/result.h"

namespace sluice::ftx {

inline constexpr std::size_t trust_line_bytes_max = 1024;

/// `host:port` in one spelling: letters in lower case, IPv6 in brackets, the port without zeros in front. Fails with
/// EINVAL.
[[nodiscard]] Result<std::string> host_and_port(std::string_view host, std::uint16_t port);

class KnownHosts {
 public:
  enum class Answer : std::uint8_t { match, mismatch, unknown };

  /// `file` names it in errors: `file:line: what is wrong`.
  static Result<KnownHosts> parse(std::string_view text, const std::string& file);
  /// No file knows no host.
  static Result<KnownHosts> load(const std::string& path);

  /// `host` is that of host_and_port().
  [[nodiscard]] Answer look_up(const std::string& host, const KeyPin& key) const;
  [[nodiscard]] std::optional<KeyPin> find(const std::string& host) const;
  [[nodiscard]] std::size_t size() const { return keys_.size(); }

  /// Adds a line to the file, which is replaced in one step: a reader sees it with or without the line. Of two that add
  /// at the same time one may be lost; its host is then unknown again, never wrong. Fails with EEXIST when the host is
  /// known.
  [[nodiscard]] static Status add(const std::string& path, const std::string& host, const KeyPin& key);

 private:
  std::map<std::string, KeyPin> keys_;
};

class AllowedKeys {
 public:
  static Result<AllowedKeys> parse(std::string_view text, const std::string& file);
  /// Fails with ENOENT where there is no file.
  static Result<AllowedKeys> load(const std::string& path);

  struct Client {
    std::string name;
    Access access = Access::both;
  };
  /// Whose key it is; null when it is not allowed.
  [[nodiscard]] const Client* find(const KeyPin& key) const;
  [[nodiscard]] std::size_t size() const { return clients_.size(); }

 private:
  std::map<KeyPin, Client> clients_;
};

}  // namespace sluice::ftx
