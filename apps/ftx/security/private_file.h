// SPDX-License-Identifier: Apache-2.0
#pragma once

// Small files that say who is trusted: keys, known hosts, allowed keys.
//
// Threats: another user who reads a key or writes a list; a file swapped between the check and its use; a FIFO or
// device in a file's place that blocks or never ends; a crash that leaves half a file.
//
// All checks are made on the opened file. A file must be a regular one of this user or of root.

#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"

namespace sluice::ftx {

inline constexpr std::size_t private_file_bytes_max = std::size_t{1} << 20;

enum class Readers : std::uint8_t {
  owner_only,  // a secret: neither group nor others may do anything
  anybody,     // a list: group and others may not write
};

/// The whole file. Fails with EPERM where others may do too much, EFBIG over private_file_bytes_max, EINVAL when it is
/// no regular file, else with what the operating system says; the text names the file and what to do.
[[nodiscard]] Result<std::vector<std::byte>> read_private_file(const std::string& path, Readers readers);

enum class IfPresent : std::uint8_t { refuse, replace };

/// Writes a file of mode 0600 in one step: a reader of `path` sees it as it was, or all of `content`; it is on disk
/// (fsync) before it has its name. A failure leaves what was there and no temporary file. IfPresent::refuse fails with
/// EEXIST when there is anything, a dangling link included; IfPresent::replace replaces a link, not what it points to.
[[nodiscard]] Status write_private_file(const std::string& path, ConstBytes content, IfPresent present);

}  // namespace sluice::ftx
