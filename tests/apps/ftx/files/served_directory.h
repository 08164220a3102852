// SPDX-License-Identifier: Apache-2.0
#pragma once

// For tests on a real file system: a directory of the test's own, which ends with it, and in it the one that is served.

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

namespace sluice::ftx {

class ServedDirectory : public testing::Test {
 protected:
  ServedDirectory() {
    std::string pattern = (std::filesystem::temp_directory_path() / "ftx_test.XXXXXX").string();  // for mkdtemp()
    EXPECT_NE(::mkdtemp(pattern.data()), nullptr);
    base_ = pattern;
    root_ = base_ / "served";
    std::filesystem::create_directory(root_);
  }
  ~ServedDirectory() override { std::filesystem::remove_all(base_); }

  std::filesystem::path base_, root_;
};

/// A race with somebody who swaps directories meanwhile: so many rounds, or SLUICE_RACE_SECONDS if that is there.
class Race {
 public:
  explicit Race(int rounds) : rounds_(rounds) {
    if (const char* const seconds = std::getenv("SLUICE_RACE_SECONDS")) {
      until_ = std::chrono::steady_clock::now() + std::chrono::seconds(std::strtol(seconds, nullptr, 10));
    }
  }
  /// Whether there is another round.
  [[nodiscard]] bool next() { return until_ ? std::chrono::steady_clock::now() < *until_ : rounds_-- > 0; }

 private:
  int rounds_;
  std::optional<std::chrono::steady_clock::time_point> until_;
};

}  // namespace sluice::ftx
