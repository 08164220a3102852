// SPDX-License-Identifier: Apache-2.0
// Small files that workers store: without a name until each is whole, or under a temporary one where the system refuses
// that.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>

#include "apps/ftx/files/descriptor.h"
#include "apps/ftx/files/directory_sink.h"
#include "tests/apps/ftx/files/faulty_system.h"
#include "tests/apps/ftx/files/hasty_system.h"
#include "tests/apps/ftx/files/tree_sink.h"
#include "tests/file_text.h"

namespace sluice::ftx {
namespace {

namespace fs = std::filesystem;
using test::write_file;

/// 60 new files in 20 directories, more than stay open; and one that replaces another.
std::vector<FileEntry> many_new_files() {
  std::vector<FileEntry> entries;
  for (std::uint32_t i = 0; i < 20; ++i) {
    entries.push_back(dated_directory("d" + std::to_string(i)));
    const auto parent = static_cast<std::uint32_t>(entries.size());
    for (const char* const name : {"a", "b", "c"}) {
      entries.push_back(dated_file(name, parent));
    }
  }
  entries.push_back(dated_file("old"));
  return entries;
}

TEST_F(TreeSink, WorkersStoreWhatReplacesNothing) {
  for (const std::size_t takes_max : {std::size_t{1000}, std::size_t{10}, std::size_t{0}}) {
    serve_anew();
    write_file(root_ / "old", "old");
    LateWorkers workers(takes_max);
    destination_->employ(workers);
    Hasty hasty;
    const ReplaceSystem replaced(hasty);
    open(many_new_files());
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      if (entries_[i].kind == EntryKind::packed) {
        ASSERT_EQ(store(i, std::to_string(i % 10)), 0);
      }
    }
    EXPECT_EQ(workers.pieces(), std::min(takes_max, 60 - DirectorySink::fsync_files_max));
    EXPECT_EQ(fs::exists(root_ / "d19/c"), takes_max < 28);
    ASSERT_EQ(finish(), 0);
    EXPECT_EQ(workers.pieces(), 0U);
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      if (entries_[i].kind == EntryKind::packed) {
        EXPECT_EQ(file_text(root_ / path_of(entries_, entries_[i])), std::to_string(i % 10));
      }
    }
    EXPECT_FALSE(leftovers());
    sink_.reset();  // it borrows the workers
  }
}

class WorkersStore : public TreeSink {
 protected:
  using Fault = std::function<int(const FaultySystem::Call&)>;

  static bool unnamed(const FaultySystem::Call& call) {
    return call.name == "openat" && (call.flags & O_TMPFILE) == O_TMPFILE;
  }
  [[nodiscard]] std::ptrdiff_t files() const {
    const fs::recursive_directory_iterator all(root_);
    return std::ranges::count_if(all, [](const fs::directory_entry& entry) { return entry.is_regular_file(); });
  }
  /// Stores files of many_new_files() from entry `from` on; how it failed, or 0.
  int store_next(std::size_t from, std::size_t to) {
    int code = 0;
    for (std::size_t i = from; i < to && code == 0; ++i) {
      code = entries_[i].kind == EntryKind::packed ? store(i) : 0;
    }
    return code;
  }
  /// All but the last files, with workers; `fault` is asked from when they begin.
  void store_all(FaultySystem& system, const Fault& fault) {
    serve_anew();
    destination_->employ(workers_);
    open(many_new_files());
    ASSERT_EQ(store_next(0, 76), 0);
    system.fault = [&fault](std::size_t, const FaultySystem::Call& call) {
      return FaultySystem::Fault{.error = fault(call)};
    };
    workers_.finish();  // they are done before the next file arrives
    system.fault = nullptr;
  }

  /// A call `name` of theirs fails once: nothing partial is left, and the transfer fails with what it says.
  void expect_failure(std::string_view name, const Fault& refused,
                      const std::function<bool(std::string_view)>& is_theirs) {
    SCOPED_TRACE(name);
    FaultySystem system;
    const ReplaceSystem replaced(system);
    std::size_t failed = 0;
    store_all(system, [&](const FaultySystem::Call& call) {
      const bool now = call.name == name && is_theirs(call.file) && failed < 1;
      failed += now ? 1 : 0;
      return now ? EDQUOT : refused(call);
    });
    EXPECT_EQ(failed, 1U);
    EXPECT_EQ(files(), stored_files - 1);
    EXPECT_EQ(store_next(76, 80), EDQUOT);
    EXPECT_EQ(finish(), EDQUOT);
    sink_.reset();
    EXPECT_FALSE(leftovers());
    EXPECT_TRUE(fs::exists(root_ / "d0/a"));
  }
  /// Calls `name` of theirs answer `error`, 0: succeed. All is stored; without a name it is tried `tried` times.
  void expect_stored(std::string_view name, int error, std::size_t tried) {
    SCOPED_TRACE(std::string(name) + std::to_string(error));
    FaultySystem system;
    const ReplaceSystem replaced(system);
    store_all(system, [&](const FaultySystem::Call& call) {
      return call.name == name && (call.name != "openat" || unnamed(call)) ? error : 0;
    });
    EXPECT_EQ(static_cast<std::size_t>(std::ranges::count_if(system.calls, unnamed)), tried);
    EXPECT_EQ(system.all("renameat").size(), error == 0 ? DirectorySink::fsync_files_max : stored_files);
    EXPECT_EQ(files(), stored_files);
    EXPECT_EQ(finish(), 0);
    EXPECT_EQ(file_text(root_ / "d18/c"), "x");
    EXPECT_EQ(fs::status(root_ / "d18/c").permissions(), fs::perms(0644));
    sink_.reset();
    EXPECT_FALSE(leftovers());
  }

  static constexpr std::ptrdiff_t stored_files = 57;
  static constexpr std::size_t stored_by_workers = stored_files - DirectorySink::fsync_files_max;
  LateWorkers workers_{1000};
};

/// For what needs a file system that has files without a name.
class WorkersStoreUnnamed : public WorkersStore {
 protected:
  void SetUp() override {
    const Descriptor file(::open(root_.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600));
    if (!file.valid()) {
      GTEST_SKIP() << root_ << ": this file system has no files without a name (O_TMPFILE)";
    }
  }
};

TEST_F(WorkersStore, WhatFailsForThemFailsTheTransfer) {
  for (const char* const name : {"openat", "pwritev", "fchmod", "futimens", "close", "renameat"}) {
    expect_failure(
        name, [](const FaultySystem::Call& call) { return unnamed(call) ? EOPNOTSUPP : 0; },
        [](std::string_view file) { return file.find(".ftx-") != std::string_view::npos; });
  }
}

TEST_F(WorkersStoreUnnamed, WhatFailsForThemFailsTheTransfer) {
  for (const char* const name : {"pwritev", "fchmod", "futimens", "close"}) {
    expect_failure(
        name, [](const FaultySystem::Call&) { return 0; }, [](std::string_view file) { return file == "."; });
  }
}

TEST_F(WorkersStore, WhereThereAreNoFilesWithoutANameTheyGetTemporaryOnes) {
  expect_stored("openat", EOPNOTSUPP, 1);
  expect_stored("openat", EISDIR, 1);
}

/// Where none can be named by its descriptor, or something has that name by now.
TEST_F(WorkersStoreUnnamed, WhatCannotBeNamedGetsATemporaryName) {
  expect_stored("linkat", ENOENT, 1);
  expect_stored("linkat", EXDEV, 1);
  expect_stored("linkat", EEXIST, stored_by_workers);
  expect_stored("linkat", 0, stored_by_workers);
}

TEST_F(TreeSink, WhatIsGivenUpWaitsForItsWorkers) {
  LateWorkers workers(1000);
  destination_->employ(workers);
  Hasty hasty;
  const ReplaceSystem replaced(hasty);
  open(many_new_files());
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    ASSERT_EQ(entries_[i].kind == EntryKind::packed ? store(i) : 0, 0);
  }
  ASSERT_GT(workers.pieces(), 0U);
  sink_.reset();
  EXPECT_EQ(workers.pieces(), 0U);
  EXPECT_FALSE(leftovers());
}

}  // namespace
}  // namespace sluice::ftx
