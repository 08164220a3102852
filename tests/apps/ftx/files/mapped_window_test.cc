// SPDX-License-Identifier: Apache-2.0
// Windows on files: the file as it is, and where it is cut, zeros and a word about it, not SIGBUS.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>

#include "apps/ftx/files/mapped_window.h"
#include "apps/ftx/files/window_set.h"
#include "base/prng.h"
#include "tests/apps/ftx/files/mapped.h"

namespace sluice::ftx {
namespace {

// --- Windows and their guard ---------------------------------------------------------------------------------------

TEST_F(Mapped, AWindowIsTheFile) {
  Content content;
  const fs::path path = file("f", 5 * page + 100, &content);
  auto window = MappedWindow::map(open(path).get(), page, 4 * page + 100, MappedWindow::Access::write);
  ASSERT_TRUE(window);
  EXPECT_TRUE(equal(window->bytes(), ConstBytes(content).subspan(page)));
  window->bytes()[7] ^= std::byte{1};
  content[page + 7] ^= std::byte{1};
  EXPECT_EQ(content_of(path), content);
  MappedWindow moved = std::move(*window);
  EXPECT_TRUE(window->bytes().empty());
  EXPECT_EQ(moved.bytes()[7], content[page + 7]);
  EXPECT_FALSE(moved.failed());
}

TEST_F(Mapped, ACutFileReadsAsZerosBehindTheCutAndSaysSo) {
  Content content;
  const fs::path path = file("f", 8 * page, &content);
  const Descriptor descriptor = open(path);
  auto window = MappedWindow::map(descriptor.get(), 0, 8 * page, MappedWindow::Access::read).value();
  auto other = MappedWindow::map(descriptor.get(), 0, 8 * page, MappedWindow::Access::read).value();
  fs::resize_file(path, 3 * page);
  EXPECT_TRUE(equal(window.bytes().first(3 * page), ConstBytes(content).first(3 * page)));
  EXPECT_FALSE(window.failed());
  EXPECT_TRUE(all_zero(window.bytes().subspan(3 * page)));
  EXPECT_TRUE(window.failed());
  EXPECT_FALSE(other.failed());
  // What stands in stays, though the file is long again; a new window is the file.
  fs::resize_file(path, 8 * page);
  EXPECT_TRUE(window.failed());
  window = MappedWindow::map(descriptor.get(), 0, 8 * page, MappedWindow::Access::read).value();
  EXPECT_TRUE(equal(window.bytes().first(3 * page), ConstBytes(content).first(3 * page)));
  EXPECT_FALSE(window.failed());
}

TEST_F(Mapped, WritingBehindTheCutGoesNowhereAndSaysSo) {
  const fs::path path = file("f", 4 * page);
  auto window = MappedWindow::map(open(path).get(), 0, 4 * page, MappedWindow::Access::write).value();
  fs::resize_file(path, page);
  std::ranges::fill(window.bytes(), std::byte{1});
  EXPECT_TRUE(window.failed());
  EXPECT_EQ(content_of(path), Content(page, std::byte{1}));
}

TEST_F(Mapped, ASystemCallMeetsNoSignal) {
  const fs::path path = file("f", 2 * page);
  auto window = MappedWindow::map(open(path).get(), 0, 2 * page, MappedWindow::Access::read).value();
  fs::resize_file(path, 0);
  const Descriptor out = open(file("out", 1));
  EXPECT_EQ(::pwrite(out.get(), window.bytes().data(), page, 0), -1);
  EXPECT_EQ(errno, EFAULT);
  EXPECT_FALSE(window.failed());
}

TEST_F(Mapped, WindowsHaveABoundAndAreGivenBack) {
  const Descriptor descriptor = open(file("f", page));
  for (int round = 0; round < 2; ++round) {
    std::vector<MappedWindow> all;
    for (std::size_t i = 0; i < MappedWindow::windows_max; ++i) {
      all.push_back(MappedWindow::map(descriptor.get(), 0, page, MappedWindow::Access::read).value());
    }
    EXPECT_EQ(MappedWindow::map(descriptor.get(), 0, page, MappedWindow::Access::read).error().code, ENFILE);
  }
}

TEST_F(Mapped, WhatCannotBeMappedIsAnErrorAndCostsNoEntry) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  const Descriptor in(ends[0]), out(ends[1]);
  for (std::size_t i = 0; i <= MappedWindow::windows_max; ++i) {
    EXPECT_EQ(MappedWindow::map(in.get(), 0, page, MappedWindow::Access::read).error().code, ENODEV);
  }
}

/// Touches a page of a cut file that no MappedWindow knows of, while one exists.
void fault_outside(const fs::path& path) {
  const Descriptor descriptor(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  const auto window = MappedWindow::map(descriptor.get(), 0, page, MappedWindow::Access::read);
  void* const at = ::mmap(nullptr, 2 * page, PROT_READ, MAP_SHARED, descriptor.get(), 0);
  fs::resize_file(path, page);
  const volatile std::byte* const byte = static_cast<std::byte*>(at) + page;
  [[maybe_unused]] const std::byte value = *byte;
}

using MappedDeathTest = Mapped;

TEST_F(MappedDeathTest, AFaultElsewhereEndsTheProcessAsBefore) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const fs::path path = file("f", 2 * page);
  const auto by_signal = testing::KilledBySignal(SIGBUS);
  // A sanitizer that was there before us reports it and exits.
  const auto ended = [&](int status) { return by_signal(status) || (WIFEXITED(status) && WEXITSTATUS(status) != 0); };
  EXPECT_EXIT(
      {
        fault_outside(path);
        std::_Exit(0);
      },
      ended, "");
}

TEST_F(MappedDeathTest, AFaultElsewhereReachesTheHandlerThatWasThereBefore) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const fs::path path = file("f", 2 * page);
  EXPECT_EXIT(
      {
        std::signal(SIGBUS, [](int) { std::_Exit(42); });
        fault_outside(path);
        std::_Exit(0);
      },
      testing::ExitedWithCode(42), "");
}

TEST_F(MappedDeathTest, ASignalThatWasSentIsNotAFault) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const fs::path path = file("f", page);
  EXPECT_EXIT(
      {
        std::signal(SIGBUS, SIG_DFL);
        const auto window = MappedWindow::map(open(path).get(), 0, page, MappedWindow::Access::read);
        ::kill(::getpid(), SIGBUS);
        std::_Exit(0);
      },
      testing::KilledBySignal(SIGBUS), "");
}

TEST_F(Mapped, AnyRangeOfAFileOfManyWindows) {
  Content content;
  const std::size_t size = 3 * WindowSet::window_bytes + 12'345;
  const fs::path path = file("f", size, &content);
  const Descriptor descriptor = open(path);
  WindowSet set(2, MappedWindow::Access::read, WindowSet::Far::map);
  Prng prng(3);
  std::vector<std::pair<std::uint64_t, ConstBytes>> held;
  for (int i = 0; i < 2000; ++i) {
    if (i % 32 == 0) {
      for (const auto& [offset, range] : held) {
        ASSERT_TRUE(equal(range, ConstBytes(content).subspan(offset, range.size()))) << offset;
      }
      held.clear();
      set.release();
    }
    const std::uint64_t near =
        prng.chance(0.5) ? WindowSet::window_bytes * (1 + prng.below(3)) - 70'000 : prng.below(size);
    const std::uint64_t offset = std::min<std::uint64_t>(near + prng.below(70'000), size - 1);
    const std::size_t length = 1 + prng.below(std::min<std::uint64_t>(size - offset, 66'000));
    const auto range = set.range({7, descriptor.get(), size}, offset, length);
    ASSERT_TRUE(range) << offset << " " << length;
    ASSERT_TRUE(equal(*range, ConstBytes(content).subspan(offset, length))) << offset << " " << length;
    held.emplace_back(offset, *range);
  }
  const auto largest = set.range({7, descriptor.get(), size}, WindowSet::window_bytes - 1, WindowSet::range_bytes_max);
  EXPECT_TRUE(equal(*largest, ConstBytes(content).subspan(WindowSet::window_bytes - 1, WindowSet::range_bytes_max)));
}

}  // namespace
}  // namespace sluice::ftx
