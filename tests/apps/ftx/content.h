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

/// Words of a vocabulary of 32: about a third of it is left when it is compressed.
inline Content text_content(std::size_t size, std::uint64_t seed) {
  const Content words = random_content(32 * sizeof(std::uint64_t), 0);
  Prng prng(seed);
  Content content(size);
  for (std::size_t at = 0; at < size; at += sizeof(std::uint64_t)) {
    std::memcpy(content.data() + at, words.data() + prng.below(32) * sizeof(std::uint64_t),
                std::min(sizeof(std::uint64_t), size - at));
  }
  return content;
}

/// Pieces of up to 40,000 bytes that cannot be compressed, that can, and of zeros, in turn.
inline Content mixed_content(std::size_t size, std::uint64_t seed) {
  Prng prng(seed);
  Content content;
  for (int kind = 0; content.size() < size; ++kind) {
    const std::size_t piece = std::min<std::size_t>(1 + prng.below(40'000), size - content.size());
    const Content bytes = kind % 3 == 0   ? random_content(piece, seed + content.size())
                          : kind % 3 == 1 ? text_content(piece, seed + content.size())
                                          : Content(piece);
    content.insert(content.end(), bytes.begin(), bytes.end());
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
