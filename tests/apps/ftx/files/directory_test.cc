// SPDX-License-Identifier: Apache-2.0
// The file side on a real file system: names, links, full disks, sources that change.
#include "apps/ftx/files/directory.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>

#include "apps/ftx/files/source.h"
#include "apps/ftx/recovery/fixed_rate.h"
#include "apps/ftx/session/sender.h"
#include "apps/ftx/session/server.h"
#include "tests/apps/ftx/files/faulty_system.h"
#include "tests/apps/ftx/files/served_directory.h"
#include "tests/apps/ftx/transmit.h"
#include "tests/file_text.h"

namespace sluice::ftx {
namespace {

namespace fs = std::filesystem;

class Directory : public ServedDirectory {
 protected:
  Directory() {
    fs::create_directory(root_ / "sub");
    fs::create_directory(base_ / "outside");
    destination_ = std::move(DirectoryDestination::serve(root_.string(), 1).value());
  }

  static void write(const fs::path& path, const std::string& content) {
    std::ofstream(path, std::ios::binary) << content;
  }
  static std::size_t entries(const fs::path& path) {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(path), fs::directory_iterator()));
  }

  /// A sink for so many files.
  Result<std::unique_ptr<Sink>> open(std::string_view path, std::size_t files) {
    entries_.assign(files, {"file"});
    return destination_->open(path, entries_);
  }

  std::vector<FileEntry> entries_;
  std::unique_ptr<DirectoryDestination> destination_;
};

TEST_F(Directory, AFileHasItsNameModeAndTimeOnlyWhenCommitted) {
  auto sink = open("sub", 1).value();
  auto file = sink->create({"name", 6, 1'600'000'000, 5, 0640}).value();
  ASSERT_TRUE(file->write(3, as_bytes("def")));
  ASSERT_TRUE(file->write(0, as_bytes("abc")));
  std::array<std::byte, 6> back{};
  ASSERT_TRUE(file->read(0, back));
  EXPECT_EQ(as_text(back), "abcdef");
  EXPECT_FALSE(fs::exists(root_ / "sub/name"));
  EXPECT_EQ(entries(root_ / "sub"), 1U);
  ASSERT_TRUE(file->finalize());
  ASSERT_TRUE(file->commit());
  ASSERT_TRUE(sink->finish());
  EXPECT_EQ(file_text(root_ / "sub/name"), "abcdef");
  EXPECT_EQ(entries(root_ / "sub"), 1U);
  struct stat status{};
  ASSERT_EQ(::stat((root_ / "sub/name").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777U, 0640U);
  EXPECT_EQ(status.st_mtim.tv_sec, 1'600'000'000);
  EXPECT_EQ(status.st_mtim.tv_nsec, 5);
  EXPECT_EQ(sink->path({"name"}), "sub/name");
}

TEST_F(Directory, AnAbandonedFileLeavesNothingUnlessKept) {
  auto sink = open("", 1).value();
  {
    auto file = sink->create({"name", 6}).value();
  }
  EXPECT_EQ(entries(root_), 1U);  // sub
  auto file = sink->create({"name", 6}).value();
  const std::string kept = file->keep();
  file.reset();
  EXPECT_TRUE(kept.starts_with(".name.ftx-"));
  EXPECT_TRUE(fs::exists(root_ / kept));
}

TEST_F(Directory, APathNamesADirectoryOrANewFile) {
  EXPECT_EQ(open("", 3).value()->path({"f"}), "f");
  EXPECT_EQ(open("sub", 3).value()->path({"f"}), "sub/f");
  EXPECT_EQ(open("sub/", 1).value()->path({"f"}), "sub/f");
  EXPECT_EQ(open("new", 1).value()->path({"f"}), "new");
  EXPECT_EQ(open("sub/new", 1).value()->path({"f"}), "sub/new");
  EXPECT_EQ(open("new", 2).error().code, ENOTDIR);
  EXPECT_EQ(open("new/", 1).error().code, ENOENT);
  EXPECT_EQ(open("absent/new", 1).error().code, ENOENT);
  EXPECT_EQ(open("sub", 1).value()->create({"x", 1}).has_value(), true);
  fs::create_directory(root_ / "sub/taken");
  EXPECT_EQ(open("sub", 1).value()->create({"taken", 1}).error().code, EISDIR);
}

TEST_F(Directory, WhetherNothingOfATreeIsThereIsSaidWithoutMakingAnything) {
  fs::create_directories(root_ / "full/tree");
  fs::create_directory(root_ / "empty");
  write(root_ / "file", "x");
  fs::create_symlink(base_ / "outside", root_ / "link");
  fs::create_symlink("nowhere", root_ / "sub/tree");
  struct Row {
    const char* path;
    const char* name;  // empty: what lies in a directory
    bool nothing;
  };
  constexpr Row rows[] = {
      {"", "tree", true},          {"", "full", false},          {"", "file", false},
      {"", "link", false},         {"full", "tree", false},      {"full", "other", true},
      {"full/", "other", true},    {"empty", "tree", true},      {"sub", "tree", false},
      {"new", "tree", true},       {"file", "tree", false},      {"link", "tree", false},
      {"missing/", "tree", false}, {"missing/x", "tree", false}, {"", "", false},
      {"full", "", false},         {"empty", "", true},          {"empty/", "", true},
      {"new", "", true},           {"file", "", true},  // open() refuses it
      {"link", "", false},         {"full/new", "", true},
  };
  const std::size_t before = entries(root_);
  for (const Row& row : rows) {
    FileEntry first{row.name};
    first.kind = EntryKind::directory;
    EXPECT_EQ(destination_->nothing_there(row.path, first), row.nothing) << row.path << " " << row.name;
  }
  EXPECT_EQ(entries(root_), before);
  EXPECT_EQ(entries(root_ / "full"), 1U);
}

TEST_F(Directory, ASymbolicLinkLeadsNowhere) {
  fs::create_directory_symlink(base_ / "outside", root_ / "link");
  fs::create_symlink(base_ / "outside/victim", root_ / "file");
  write(base_ / "outside/victim", "untouched");
  EXPECT_FALSE(open("link", 1));
  EXPECT_FALSE(open("link/", 1));
  EXPECT_FALSE(open("link/x", 1));
  EXPECT_FALSE(open("file", 1));
  // A link where a file is to be: the link is replaced, what it points to stays as it is.
  auto sink = open("", 1).value();
  auto file = sink->create({"file", 3}).value();
  ASSERT_TRUE(file->write(0, as_bytes("new")));
  ASSERT_TRUE(file->finalize());
  ASSERT_TRUE(file->commit());
  EXPECT_EQ(file_text(base_ / "outside/victim"), "untouched");
  EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(root_ / "file")));
  EXPECT_EQ(entries(base_ / "outside"), 1U);
}

TEST_F(Directory, ADirectorySwappedForALinkAfterTheWalkDoesNotMatter) {
  auto sink = open("sub", 1).value();
  fs::rename(root_ / "sub", root_ / "moved");
  fs::create_directory_symlink(base_ / "outside", root_ / "sub");
  auto file = sink->create({"name", 1}).value();
  ASSERT_TRUE(file->write(0, as_bytes("x")));
  ASSERT_TRUE(file->finalize());
  ASSERT_TRUE(file->commit());
  EXPECT_EQ(entries(base_ / "outside"), 0U);
  EXPECT_EQ(file_text(root_ / "moved/name"), "x");
}

TEST_F(Directory, ADirectoryThatVanishesIsAnError) {
  auto sink = open("sub", 1).value();
  fs::remove_all(root_ / "sub");
  EXPECT_EQ(sink->create({"name", 1}).error().code, ENOENT);
}

TEST_F(Directory, ALongNameHasATemporaryOfLegalLength) {
  auto sink = open("", 1).value();
  const std::string name(255, 'n');
  auto file = sink->create({name, 0}).value();
  ASSERT_TRUE(file->finalize());
  ASSERT_TRUE(file->commit());
  EXPECT_TRUE(fs::exists(root_ / name));
}

/// Limits the size of files while it lives, without the signal.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    EXPECT_EQ(::getrlimit(RLIMIT_FSIZE, &before_), 0);
    const rlimit limited{bytes, before_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &limited), 0);
  }
  ~FileSizeLimit() {
    EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &before_), 0);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_{};
  void (*handler_)(int);
};

TEST_F(Directory, WhatDoesNotFitIsAnErrorOfItsOwn) {
  auto sink = open("", 1).value();
  auto file = sink->create({"name", 100'000}).value();
  const FileSizeLimit limit(4096);
  const std::vector<std::byte> bytes(3000);
  EXPECT_TRUE(file->write(0, bytes));
  const auto status = file->write(3000, bytes);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, EFBIG);
}

/// Moves `paths` to `path` below the served directory, without a link in between.
Event move(DirectoryDestination& destination, const std::vector<std::string>& paths, const std::string& path) {
  auto source = FileSource::open(paths).value();
  Server server({.seed = 1, .insecure = true}, destination);
  FixedRate rate(100'000'000);
  TimePoint now{std::chrono::hours(1)};
  SenderOptions options;
  options.path = path;
  Sender sender(now, options, *source, rate);
  const Peer peer(as_bytes("peer"));
  for (int i = 0; i < 100'000 && !sender.finished(); ++i, now += std::chrono::microseconds(100)) {
    transmit_all(sender, now, [&](ConstBytes datagram, const Peer&) { server.receive(now, datagram, peer); });
    transmit_all(server, now, [&](ConstBytes datagram, const Peer&) { sender.receive(now, datagram); });
  }
  Event last;
  while (auto event = server.next_event()) {
    last = *event;
  }
  EXPECT_EQ(last.kind == Event::Kind::done, sender.finished() && sender.exit_code() == ExitCode::ok);
  return last;
}

TEST_F(Directory, RealFilesMoveWithModeAndTime) {
  write(base_ / "a", std::string(3'000'000, 'a') + "end");
  write(base_ / "b", "");
  fs::permissions(base_ / "a", fs::perms(0600));
  fs::last_write_time(base_ / "a", fs::file_time_type(std::chrono::seconds(1000)));
  const Event done = move(*destination_, {(base_ / "a").string(), (base_ / "b").string()}, "sub/");
  EXPECT_EQ(done.kind, Event::Kind::done);
  EXPECT_EQ(done.bytes, 3'000'003U);
  EXPECT_EQ(file_text(root_ / "sub/a"), file_text(base_ / "a"));
  EXPECT_EQ(file_text(root_ / "sub/b"), "");
  EXPECT_EQ(entries(root_ / "sub"), 2U);
  EXPECT_EQ(fs::status(root_ / "sub/a").permissions(), fs::perms(0600));
  EXPECT_EQ(fs::last_write_time(root_ / "sub/a"), fs::last_write_time(base_ / "a"));
  EXPECT_EQ(move(*destination_, {(base_ / "a").string()}, "renamed").path, "renamed");
  EXPECT_EQ(file_text(root_ / "renamed"), file_text(base_ / "a"));
}

TEST_F(Directory, AFullDiskKeepsThePartialFileAndTheOldOne) {
  write(base_ / "a", std::string(1'000'000, 'a'));
  write(root_ / "a", "old");
  Event error;
  {
    const FileSizeLimit limit(500'000);
    error = move(*destination_, {(base_ / "a").string()}, "");
  }
  EXPECT_EQ(error.code, ExitCode::disk_full);
  EXPECT_EQ(file_text(root_ / "a"), "old");
  EXPECT_EQ(entries(root_), 3U);  // sub, the old file, the partial one
}

TEST_F(Directory, SourcesMustBeReadableRegularFilesWithDistinctNames) {
  write(base_ / "a", "aaaa");
  write(base_ / "outside/a", "bb");
  ::mkfifo((base_ / "fifo").c_str(), 0600);
  write(base_ / "bad\nname", "x");
  const auto code = [&](std::vector<std::string> paths) {
    for (std::string& path : paths) {
      path = (base_ / path).string();
    }
    const auto source = FileSource::open(paths);
    return source ? ExitCode::ok : source.error().code;
  };
  EXPECT_EQ(code({"a"}), ExitCode::ok);
  EXPECT_EQ(code({"absent"}), ExitCode::source_unreadable);
  EXPECT_EQ(code({"outside"}), ExitCode::source_unreadable);
  EXPECT_EQ(code({"fifo"}), ExitCode::source_unreadable);
  EXPECT_EQ(code({"bad\nname"}), ExitCode::source_unreadable);
  EXPECT_EQ(code({"a", "outside/a"}), ExitCode::usage);
}

TEST_F(Directory, ASourceThatChangesIsNoticedHoweverItChanges) {
  const std::vector<std::string> path{(base_ / "a").string()};
  const auto fresh = [&] {
    fs::remove(path[0]);
    write(path[0], "0123456789");
    return std::move(FileSource::open(path).value());
  };
  std::array<std::byte, 10> out{};
  {
    auto source = fresh();
    ASSERT_TRUE(source->read(0, 0, out));
    EXPECT_TRUE(source->unchanged(0));
    fs::resize_file(path[0], 5);
    EXPECT_EQ(source->unchanged(0).error().code, ESTALE);
    EXPECT_EQ(source->read(0, 0, out).error().code, ESTALE);  // and no SIGBUS
  }
  {
    auto source = fresh();
    write(path[0], "9876543210");
    fs::last_write_time(path[0], fs::last_write_time(path[0]) + std::chrono::seconds(5));
    EXPECT_EQ(source->unchanged(0).error().code, ESTALE);
  }
  {
    auto source = fresh();
    write(base_ / "other", "0123456789");
    fs::rename(base_ / "other", path[0]);  // another file under the same name
    EXPECT_EQ(source->unchanged(0).error().code, ESTALE);
  }
  {
    auto source = fresh();
    fs::remove(path[0]);
    EXPECT_EQ(source->read(0, 0, out).error().code, ENOENT);
  }
}

TEST_F(Directory, ASourceThatWasReplacedAndMayNotBeOpenedHasChanged) {
  const std::vector<std::string> path{(base_ / "a").string()};
  write(path[0], "0123456789");
  auto source = FileSource::open(path).value();
  // As a confined process meets it.
  FaultySystem system;
  system.fault = [](std::size_t, const FaultySystem::Call& call) {
    return FaultySystem::Fault{.error = call.name == "openat" ? EACCES : 0};
  };
  const ReplaceSystem replaced(system);
  std::array<std::byte, 10> out{};
  EXPECT_EQ(source->read(0, 0, out).error().code, EACCES);
  EXPECT_EQ(source->read_whole(0, out).error().code, EACCES);
  write(base_ / "other", "0123456789");
  fs::rename(base_ / "other", path[0]);
  EXPECT_EQ(source->read(0, 0, out).error().code, ESTALE);
  EXPECT_EQ(source->read_whole(0, out).error().code, ESTALE);
}

TEST_F(Directory, MoreSourcesThanDescriptors) {
  std::vector<std::string> paths;
  for (int i = 0; i < 100; ++i) {
    paths.push_back((base_ / ("s" + std::to_string(i))).string());
    write(paths.back(), std::to_string(i + 100));
  }
  auto source = FileSource::open(paths).value();
  for (const std::uint32_t index : {0U, 32U, 64U, 0U, 99U, 0U, 32U}) {
    std::array<std::byte, 3> out{};
    ASSERT_TRUE(source->read(index, 0, out));
    EXPECT_EQ(as_text(out), std::to_string(index + 100));
  }
}

}  // namespace
}  // namespace sluice::ftx
