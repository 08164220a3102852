// SPDX-License-Identifier: Apache-2.0
#pragma once

// Files for tests that work on them through maps, in a directory that ends with the test.

#include <fcntl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "apps/ftx/files/directory.h"
#include "apps/ftx/files/mapped_window.h"
#include "apps/ftx/files/source.h"
#include "tests/apps/ftx/content.h"
#include "tests/apps/ftx/files/served_directory.h"

namespace sluice::ftx {

namespace fs = std::filesystem;
using test::Content;
using test::content_of;
using test::random_content;

inline const std::size_t page = MappedWindow::page_bytes();
inline constexpr std::size_t mebibyte = 1U << 20;
inline constexpr std::string_view shorter = "it became shorter while it was sent";

inline bool equal(ConstBytes a, ConstBytes b) { return std::ranges::equal(a, b); }
inline bool all_zero(ConstBytes bytes) {
  return std::ranges::all_of(bytes, [](std::byte byte) { return byte == std::byte{0}; });
}
inline void put(Bytes place, ConstBytes bytes) { std::copy(bytes.begin(), bytes.end(), place.begin()); }

class Mapped : public ServedDirectory {
 protected:
  /// A file of `size` random bytes, and what is in it.
  fs::path file(const std::string& name, std::size_t size, Content* content = nullptr) {
    const Content bytes = random_content(size, size + name.size());
    std::ofstream(base_ / name, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(size));
    if (content != nullptr) {
      *content = bytes;
    }
    return base_ / name;
  }
  static Descriptor open(const fs::path& path) { return Descriptor(::open(path.c_str(), O_RDWR | O_CLOEXEC)); }
  static std::unique_ptr<FileSource> source_of(const fs::path& path, ReadBy read_by = ReadBy::map) {
    const std::vector<std::string> paths{path.string()};
    return std::move(FileSource::open(paths, {.read_by = read_by}).value());
  }
  std::unique_ptr<DirectoryDestination> destination(LandBy land_by = LandBy::map) {
    return std::move(DirectoryDestination::serve(root_.string(), 1, land_by).value());
  }
  fs::path only_file() const {
    EXPECT_EQ(std::distance(fs::directory_iterator(root_), fs::directory_iterator()), 1);
    return fs::directory_iterator(root_)->path();
  }
};

}  // namespace sluice::ftx
