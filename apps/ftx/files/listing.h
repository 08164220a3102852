// SPDX-License-Identifier: Apache-2.0
#pragma once

// Listing: the names in a directory that is open.
//
// Not thread-safe.

#include <algorithm>
#include <cerrno>
#include <string>
#include <string_view>
#include <vector>

#include "apps/ftx/files/descriptor.h"
#include "apps/ftx/files/system.h"

namespace sluice::ftx {

/// A directory that is read; closes itself.
class Listing {
 public:
  /// Takes the descriptor.
  explicit Listing(Descriptor directory) : stream_(os().fdopendir(directory.get())) {
    if (stream_ != nullptr) {
      descriptor_ = directory.release();
    }
  }
  ~Listing() {
    if (stream_ != nullptr) {
      os().closedir(stream_);
    }
  }
  Listing(const Listing&) = delete;
  Listing& operator=(const Listing&) = delete;

  [[nodiscard]] bool valid() const { return stream_ != nullptr; }
  [[nodiscard]] int descriptor() const { return descriptor_; }
  /// In the order of their bytes. False, and errno: it cannot be read.
  [[nodiscard]] bool names(std::vector<std::string>& names) {
    for (const dirent* entry = next(); entry != nullptr; entry = next()) {
      names.emplace_back(entry->d_name);
    }
    std::ranges::sort(names);
    return errno == 0;
  }
  /// False as well where it cannot be read.
  [[nodiscard]] bool empty() { return next() == nullptr && errno == 0; }

 private:
  /// Null: there are no more, or errno is set.
  [[nodiscard]] const dirent* next() {
    for (;;) {
      errno = 0;
      const dirent* const entry = os().readdir(stream_);
      const std::string_view name = entry != nullptr ? std::string_view(entry->d_name) : std::string_view();
      if (name != "." && name != "..") {
        return entry;
      }
    }
  }

  DIR* stream_;
  int descriptor_ = -1;
};

}  // namespace sluice::ftx
