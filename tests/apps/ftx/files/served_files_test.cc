// SPDX-License-Identifier: Apache-2.0
// What of a served directory may be fetched, and what not.
#include "apps/ftx/files/served_files.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>

#include "tests/apps/ftx/files/faulty_system.h"
#include "tests/apps/ftx/files/served_directory.h"

namespace sluice::ftx {
namespace {

class ServedFilesTest : public ServedDirectory {
 protected:
  ServedFilesTest() {
    std::filesystem::create_directories(root_ / "sub" / "deep");
    write(root_ / "a", "content of a");
    write(root_ / "sub" / "deep" / "b", "b");
    write(base_ / "outside", "secret");
  }
  static void write(const std::filesystem::path& path, std::string_view content) { std::ofstream(path) << content; }

  /// ok, or how it failed.
  ExitCode open(const std::vector<std::string>& paths) {
    const auto files = ServedFiles::serve(root_);
    EXPECT_TRUE(files.has_value());
    const auto source = files->open(paths);
    return source ? ExitCode::ok : source.error().code;
  }
};

TEST_F(ServedFilesTest, FilesBelowAreThere) {
  const auto files = ServedFiles::serve(root_).value();
  const auto source = files.open(std::vector<std::string>{"a", "sub/deep/b"});
  ASSERT_TRUE(source.has_value()) << source.error().text;
  ASSERT_EQ((*source)->files().size(), 2U);
  EXPECT_EQ((*source)->files()[0].name, "a");
  EXPECT_EQ((*source)->files()[1].name, "b");
  std::vector<std::byte> bytes(12);
  ASSERT_TRUE((*source)->read(0, 0, bytes));
  EXPECT_EQ(as_text(bytes), "content of a");
}

TEST_F(ServedFilesTest, TheSourceHoldsTheDirectory) {
  std::unique_ptr<FileSource> source;
  {
    const auto files = ServedFiles::serve(root_).value();
    source = files.open(std::vector<std::string>{"sub/deep/b"}).value();
  }
  std::filesystem::rename(root_, base_ / "moved");
  std::vector<std::byte> bytes(1);
  EXPECT_TRUE(source->read(0, 0, bytes)) << "it was opened, and goes on from there";
}

TEST_F(ServedFilesTest, PathsThatLeadOutAreRefused) {
  for (const std::string& path :
       {std::string(".."), std::string("../outside"), std::string("sub/../../outside"), std::string("/etc/passwd"),
        (base_ / "outside").string(), std::string(""), std::string("."), std::string("./a"), std::string("sub//deep/b"),
        std::string("sub/"), std::string("a/"), std::string("/"), std::string("a\0b", 3), std::string("a\x1b[2J"),
        std::string(256, 'x'), "sub/" + std::string(256, 'x')}) {
    EXPECT_EQ(open({path}), ExitCode::refused) << path;
    EXPECT_EQ(open({"a", path}), ExitCode::refused) << path;
  }
}

TEST_F(ServedFilesTest, LinksLeadNowhere) {
  std::filesystem::create_symlink(base_ / "outside", root_ / "out");
  std::filesystem::create_symlink("a", root_ / "in");
  std::filesystem::create_symlink(base_, root_ / "up");
  std::filesystem::create_symlink("sub", root_ / "down");
  for (const char* path : {"out", "in", "up/outside", "up/served/a", "down/deep/b", "sub/deep/b/c"}) {
    EXPECT_EQ(open({path}), ExitCode::source_unreadable) << path;
  }
}

/// Opening a device or a FIFO may do something, so what is no regular file is not opened.
TEST_F(ServedFilesTest, WhatIsNoRegularFileIsNotEvenOpened) {
  ASSERT_EQ(::mkfifo((root_ / "fifo").c_str(), 0600), 0);
  const int socket = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  (root_ / "socket").string().copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(::bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  FaultySystem system;
  const ReplaceSystem replaced(system);
  std::vector<std::string> paths{"fifo", "socket", "sub", "sub/deep"};
  if (::mknod((root_ / "null").c_str(), S_IFCHR | 0600, 1 * 256 + 3) == 0) {  // root alone may
    paths.push_back("null");
  }
  for (const std::string& path : paths) {
    EXPECT_EQ(open({path}), ExitCode::source_unreadable) << path;
    const std::string last = path.substr(path.rfind('/') + 1);
    EXPECT_TRUE(std::ranges::none_of(system.calls, [&](const FaultySystem::Call& call) {
      return call.name == "openat" && call.file == last && path != "sub/deep";
    })) << path;
  }
  ::close(socket);
}

/// Threat: who may write in the directory swaps a file for a link or a FIFO between the look and the opening.
TEST_F(ServedFilesTest, AFileThatIsSwappedAfterTheLookLeadsNowhere) {
  class Swapper final : public System {
   public:
    explicit Swapper(std::function<void()> swap) : swap_(std::move(swap)) {}
    int fstatat(int directory, const char* path, struct stat* status, int flags) override {
      const int result = System::fstatat(directory, path, status, flags);
      swap_();
      return result;
    }

   private:
    std::function<void()> swap_;
  };
  Swapper to_link([&] {
    std::filesystem::remove(root_ / "a");
    std::filesystem::create_symlink(base_ / "outside", root_ / "a");
  });
  {
    const ReplaceSystem replaced(to_link);
    EXPECT_EQ(open({"a"}), ExitCode::source_unreadable);
  }
  std::filesystem::remove(root_ / "a");
  write(root_ / "a", "again");
  Swapper to_fifo([&] {
    std::filesystem::remove(root_ / "a");
    ASSERT_EQ(::mkfifo((root_ / "a").c_str(), 0600), 0);
  });
  const ReplaceSystem replaced(to_fifo);
  EXPECT_EQ(open({"a"}), ExitCode::source_unreadable) << "and it does not hang";
}

TEST_F(ServedFilesTest, EachCallThatFailsIsAFailureAndLeavesNothingOpen) {
  std::size_t calls = 0;
  {
    FaultySystem counting;
    const ReplaceSystem replaced(counting);
    EXPECT_EQ(open({"sub/deep/b"}), ExitCode::ok);
    calls = counting.calls.size();
  }
  for (std::size_t number = 2; number <= calls; ++number) {
    FaultySystem system;
    const ReplaceSystem replaced(system);
    system.fault = [number](std::size_t at, const FaultySystem::Call& call) {
      return at == number && call.name != "close" ? FaultySystem::Fault{.error = EIO} : FaultySystem::Fault{};
    };
    const bool closes = open({"sub/deep/b"}) == ExitCode::ok;
    EXPECT_TRUE(closes || system.calls[number - 1].name != "close") << number;
    EXPECT_TRUE(!closes || system.calls[number - 1].name == "close") << number;
    EXPECT_TRUE(system.open_files.empty()) << number;
  }
}

TEST_F(ServedFilesTest, TheDirectoryMustBeOne) {
  EXPECT_FALSE(ServedFiles::serve(root_ / "a"));
  const auto missing = ServedFiles::serve(root_ / "missing");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ENOENT);
}

}  // namespace
}  // namespace sluice::ftx
