// SPDX-License-Identifier: Apache-2.0
#pragma once

// For tests on a real file system: a directory of the test's own, which ends with it, and in it the one that is served.

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
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

}  // namespace sluice::ftx
