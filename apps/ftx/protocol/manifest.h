// SPDX-License-Identifier: Apache-2.0
#pragma once

// The manifest: the list of files of a transfer, encoded as one byte string. ADUs carry it as they carry a file.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "apps/ftx/protocol/exit_code.h"
#include "base/bytes.h"
#include "base/result.h"

namespace sluice::ftx {

struct FileEntry {
  std::string name;  // one path component
  std::uint64_t size_bytes = 0;
  std::uint32_t mode = 0644;  // permission bits, 0777 at most
  std::int64_t mtime_s = 0;
  std::uint32_t mtime_ns = 0;
  bool operator==(const FileEntry&) const = default;
};

inline constexpr std::size_t entry_bytes_min = 27;   // with a name of one byte
inline constexpr std::size_t entry_bytes_max = 281;  // with a name of 255

/// REQUIRES: at most files_max entries, with names that is_component() accepts.
[[nodiscard]] std::vector<std::byte> encode_manifest(const std::vector<FileEntry>& files);

/// Exactly `count` entries whose sizes sum to `total_bytes`, each with an acceptable name of its own. Otherwise an
/// error whose text a terminal can show: EINVAL for a malformed list, EPERM for a refused name.
[[nodiscard]] Result<std::vector<FileEntry>> decode_manifest(ConstBytes bytes, std::size_t count,
                                                             std::uint64_t total_bytes);

}  // namespace sluice::ftx
