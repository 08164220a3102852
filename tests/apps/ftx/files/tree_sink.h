// SPDX-License-Identifier: Apache-2.0
#pragma once

// For tests of trees that arrive on a real file system: the sink of a served directory, entries for it, and workers.

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/ftx/files/directory.h"
#include "apps/ftx/files/workers.h"
#include "tests/apps/ftx/files/served_directory.h"
#include "tests/apps/ftx/files/trees.h"

namespace sluice::ftx {

inline FileEntry dated_directory(std::string name, std::uint32_t parent = 0, std::uint16_t mode = 0755) {
  return {.name = std::move(name),
          .mtime_s = 1'500'000'000,
          .mtime_ns = 7,
          .mode = mode,
          .kind = EntryKind::directory,
          .parent = parent};
}
inline FileEntry dated_file(std::string name, std::uint32_t parent = 0) {
  return {
      .name = std::move(name), .size_bytes = 1, .mtime_s = 1'600'000'000, .kind = EntryKind::packed, .parent = parent};
}

class TreeSink : public ServedDirectory {
 protected:
  TreeSink() {
    outside_ = base_ / "outside";
    std::filesystem::create_directory(outside_);
    serve();
  }
  ~TreeSink() override { test::remove_tree(root_); }

  void serve() { destination_ = std::move(DirectoryDestination::serve(root_.string(), 1).value()); }
  /// As serve(), of a directory in which nothing is.
  void serve_anew() {
    test::remove_tree(root_);
    std::filesystem::create_directory(root_);
    serve();
  }
  void open(std::vector<FileEntry> entries, std::string_view path = "") {
    sink_.reset();  // it borrows the entries
    entries_ = std::move(entries);
    auto sink = destination_->open(path, entries_);
    ASSERT_TRUE(sink) << sink.error().text;
    sink_ = std::move(*sink);
  }
  /// 0, or how it failed.
  int store(std::size_t index, std::string_view content = "x") {
    const Status status = sink_->store(entries_[index], as_bytes(content));
    return status ? 0 : status.error().code;
  }
  int finish() {
    const Status status = sink_->finish();
    return status ? 0 : status.error().code;
  }
  int open_error(const std::vector<FileEntry>& entries, std::string_view path) {
    const auto sink = destination_->open(path, entries);
    return sink ? 0 : sink.error().code;
  }
  [[nodiscard]] bool leftovers() const {
    for (const std::filesystem::directory_entry& entry : std::filesystem::recursive_directory_iterator(root_)) {
      if (entry.path().string().find(".ftx-") != std::string::npos) {
        return true;
      }
    }
    return false;
  }

  std::filesystem::path outside_;
  std::vector<FileEntry> entries_;
  std::unique_ptr<DirectoryDestination> destination_;
  std::unique_ptr<Sink> sink_;
};

/// Takes `takes_max` pieces of work, and does them when it is asked to finish: the latest that workers may.
class LateWorkers final : public Workers {
 public:
  explicit LateWorkers(std::size_t takes_max) : takes_max_(takes_max) {}
  [[nodiscard]] bool take(std::size_t bytes, std::function<void()>& work) override {
    if (pieces_.size() == takes_max_) {
      return false;
    }
    EXPECT_EQ(bytes, 1U);
    pieces_.push_back(std::exchange(work, nullptr));
    return true;
  }
  void finish() override {
    for (const auto& piece : std::exchange(pieces_, {})) {
      piece();
    }
  }
  [[nodiscard]] std::size_t pieces() const { return pieces_.size(); }

 private:
  std::size_t takes_max_;
  std::vector<std::function<void()>> pieces_;
};

}  // namespace sluice::ftx
