// SPDX-License-Identifier: Apache-2.0
#pragma once

// Content of files: made, and read back. Tests are not optimised under sanitizers and have megabytes of it, so nothing
// here goes byte by byte.

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <vector>

#include "base/prng.h"

namespace sluice::ftx::test {

using Content = std::vector<std::byte>;

inline Content random_content(std::size_t size, std::uint64_t seed) {
  Prng prng(seed);
  Content content(size);
  for (std::size_t at = 0; at < size; at += sizeof(std::uint64_t)) {
    const std::uint64_t word = prng();
    std::memcpy(content.data() + at, &word, std::min(sizeof word, size - at));
  }
  return content;
}

/// All that is in a file; nothing when it cannot be read.
inline Content content_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  Content content(file ? static_cast<std::size_t>(file.tellg()) : 0);
  file.seekg(0);
  file.read(reinterpret_cast<char*>(content.data()), static_cast<std::streamsize>(content.size()));
  return content;
}

}  // namespace sluice::ftx::test
