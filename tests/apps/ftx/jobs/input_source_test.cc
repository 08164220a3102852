// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/jobs/input_source.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <thread>

#include "tests/apps/ftx/content.h"
#include "tests/apps/ftx/jobs/ends.h"

namespace sluice::ftx::test {
namespace {

using testing::HasSubstr;

void write_all(int descriptor, ConstBytes bytes) {
  while (!bytes.empty()) {
    const ssize_t done = ::write(descriptor, bytes.data(), bytes.size());
    ASSERT_GT(done, 0);
    bytes = bytes.subspan(static_cast<std::size_t>(done));
  }
}

std::unique_ptr<InputSource> open_input(int descriptor, std::size_t bytes = InputSource::ring_bytes) {
  return InputSource::open(descriptor, "the input", bytes).value();
}

/// Waits for news until `enough` holds of the state.
template <class Enough>
Result<Source::StreamState> wait_for(InputSource& input, Enough enough) {
  for (int i = 0; i < 1000; ++i) {
    const auto state = input.stream_state();
    if (!state || enough(*state)) {
      return state;
    }
    pollfd news{input.news(), POLLIN, 0};
    EXPECT_EQ(::poll(&news, 1, 60'000), 1) << "the loop is not woken";
    input.heard();
  }
  return fail(ETIMEDOUT);
}

/// All of it, delivered piece by piece.
Content take_all(InputSource& input) {
  Content all;
  for (;;) {
    const auto state = wait_for(input, [&](const auto& now) { return now.ended || now.bytes > all.size(); });
    if (!state) {
      ADD_FAILURE() << state.error().text;
      return all;
    }
    const std::size_t before = all.size();
    all.resize(state->bytes);
    EXPECT_TRUE(input.read(0, before, Bytes(all).subspan(before)));
    input.stream_delivered(all.size());
    if (state->ended) {
      return all;
    }
  }
}

bool has_news(const InputSource& input, int milliseconds) {
  pollfd news{input.news(), POLLIN, 0};
  return ::poll(&news, 1, milliseconds) == 1;
}

// Ctrl-C ends the writer, too: the loop is to hear of the signal before it hears of the end.
TEST(InputSource, TheEndIsToldAfterTheLoopHasLookedForSignals) {
  Ends ends = a_pipe();
  const auto input = open_input(ends.reader.get());
  EXPECT_FALSE(input->stream_state()->ended);
  ends.writer = Descriptor();
  ASSERT_TRUE(has_news(*input, 60'000));
  EXPECT_FALSE(input->stream_state()->ended) << "the loop may not have slept since";
  input->heard();
  EXPECT_FALSE(input->stream_state()->ended) << "that news may have been older than the end";
  ASSERT_TRUE(has_news(*input, 0)) << "nothing wakes the loop";
  input->heard();
  EXPECT_TRUE(input->stream_state()->ended);
  EXPECT_FALSE(has_news(*input, 0)) << "the loop spins";
}

TEST(InputSource, WhatIsWrittenIsRead) {
  const Content content = random_content(3'000'000, 1);
  for (auto* const ends_of : {a_pipe, a_socket}) {
    for (const std::size_t size : {0UL, 1UL, 65'536UL, 3'000'000UL}) {
      Ends ends = ends_of();
      const auto input = open_input(ends.reader.get(), 100'000);
      std::thread writer([&] {
        write_all(ends.writer.get(), ConstBytes(content).first(size));
        ends.writer = Descriptor();
      });
      EXPECT_TRUE(std::ranges::equal(take_all(*input), ConstBytes(content).first(size))) << size;
      writer.join();
    }
  }
}

TEST(InputSource, AFileIsAStreamFromWhereItsDescriptorIs) {
  const std::string path = testing::TempDir() + "input_source_file_" + std::to_string(::getpid());
  const Content content = random_content(500'000, 1);
  {
    const Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    write_all(file.get(), content);
  }
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_EQ(::lseek(file.get(), 1000, SEEK_SET), 1000);
  const auto input = open_input(file.get());
  EXPECT_TRUE(std::ranges::equal(take_all(*input), ConstBytes(content).subspan(1000)));
  std::filesystem::remove(path);
}

// A FIFO does not tell of an end that was there before it was opened.
TEST(InputSource, AFifoWhoseWriterIsGoneEnds) {
  const std::string path = testing::TempDir() + "input_source_fifo_" + std::to_string(::getpid());
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  const Descriptor reader(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  {
    const Descriptor writer(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
    write_all(writer.get(), as_bytes("last words"));
  }
  const auto input = open_input(reader.get());
  EXPECT_TRUE(std::ranges::equal(take_all(*input), as_bytes("last words")));
  std::filesystem::remove(path);
}

TEST(InputSource, NothingIsReadBeforeItIsAskedFor) {
  const Ends ends = a_pipe();
  write_all(ends.writer.get(), as_bytes("for the next reader"));
  {
    const auto input = open_input(ends.reader.get());
    EXPECT_TRUE(input->files().front().stream());
    ::usleep(20'000);
  }
  std::array<char, 100> left{};
  EXPECT_EQ(::read(ends.reader.get(), left.data(), left.size()), 19);
}

TEST(InputSource, AWriterWaitsWhileNothingIsDelivered) {
  constexpr std::size_t ring = 100'000;
  const Ends ends = a_pipe();
  ASSERT_EQ(::fcntl(ends.writer.get(), F_SETFL, O_NONBLOCK), 0);
  const auto input = open_input(ends.reader.get(), ring);
  const Content part(10'000);
  std::size_t written = 0;
  for (int waited = 0; waited < 200;) {
    ASSERT_TRUE(input->stream_state());
    const ssize_t done = ::write(ends.writer.get(), part.data(), part.size());
    written += static_cast<std::size_t>(std::max<ssize_t>(done, 0));
    waited = done > 0 ? 0 : waited + 1;
    ::usleep(done > 0 ? 0 : 1000);
  }
  const auto full = input->stream_state();
  ASSERT_TRUE(full);
  EXPECT_LE(full->bytes, ring);
  EXPECT_GT(full->bytes, ring / 2);
  EXPECT_LT(written, ring + (1U << 20)) << "the rest is in the pipe";
  input->stream_delivered(full->bytes - 1);
  const auto more = wait_for(*input, [&](const auto& now) { return now.bytes > full->bytes; });
  ASSERT_TRUE(more);
  Content one(1);
  EXPECT_FALSE(input->read(0, full->bytes - 2, one)) << "it is forgotten";
  EXPECT_TRUE(input->read(0, full->bytes - 1, one));
  EXPECT_TRUE(input->read(0, more->bytes - 1, one));
  EXPECT_FALSE(input->read(0, full->bytes + ring, one)) << "it has not come";
}

TEST(InputSource, WhatCannotBeReadIsAnError) {
  const Descriptor directory(::open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const auto refused = InputSource::open(directory.get(), "the input");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ExitCode::source_unreadable);
  EXPECT_THAT(refused.error().text, HasSubstr("the input: Is a directory"));
  EXPECT_FALSE(InputSource::open(1'000'000, "the input"));

  const Descriptor write_only(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  const auto input = open_input(write_only.get());
  const auto state = wait_for(*input, [](const auto& now) { return now.ended; });
  ASSERT_FALSE(state);
  EXPECT_EQ(state.error().code, EBADF);
}

// The last of several descriptors of a pipe keeps it open; nobody waits for that.
TEST(InputSource, ItGoesWhileNobodyWrites) {
  for (auto* const ends_of : {a_pipe, a_socket}) {
    const Ends ends = ends_of();
    const auto input = open_input(ends.reader.get());
    ASSERT_TRUE(input->stream_state());
    ::usleep(10'000);
  }
}

TEST(InputSource, TheModeIsThatOfARedirection) {
  const mode_t before = ::umask(0027);
  const Ends ends = a_pipe();
  const auto mode = open_input(ends.reader.get())->files().front().mode;
  ::umask(before);
  EXPECT_EQ(mode, 0640);
}

}  // namespace
}  // namespace sluice::ftx::test
