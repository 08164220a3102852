// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/jobs/output_destination.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <future>
#include <thread>

#include "apps/ftx/files/descriptor.h"
#include "tests/apps/ftx/content.h"
#include "tests/apps/ftx/jobs/ends.h"

namespace sluice::ftx::test {
namespace {

using testing::HasSubstr;

FileEntry file_of(std::uint64_t size) { return {.name = "file", .size_bytes = size}; }

/// All until the end.
Content read_all(int descriptor) {
  Content all;
  std::array<std::byte, 64 * 1024> part;
  for (ssize_t got = 0; (got = ::read(descriptor, part.data(), part.size())) > 0;) {
    all.insert(all.end(), part.begin(), part.begin() + got);
  }
  return all;
}

/// An output with one file begun.
struct Begun {
  Begun(int descriptor, FileEntry what) : entry(std::move(what)) {
    output = OutputDestination::open(descriptor, "the output").value();
    sink = output->open("", {&entry, 1}).value();
    file = sink->create(entry).value();
  }
  Status drain() {
    return output->drain([] { return true; });
  }
  FileEntry entry;
  std::unique_ptr<OutputDestination> output;
  std::unique_ptr<Sink> sink;
  std::unique_ptr<SinkFile> file;
};

/// What comes out when the content comes backwards, in parts of `part` bytes.
Content through(Ends ends, const FileEntry& entry, const Content& content, std::size_t part) {
  auto out = std::async(std::launch::async, [&ends] { return read_all(ends.reader.get()); });
  {
    Begun begun(ends.writer.get(), entry);
    for (std::size_t left = content.size(); left > 0;) {
      const std::size_t size = std::min(part, left);
      left -= size;
      EXPECT_TRUE(begun.file->takes(left, size));
      EXPECT_TRUE(begun.file->write(left, ConstBytes(content).subspan(left, size)));
    }
    EXPECT_TRUE(begun.file->finalize());
    EXPECT_TRUE(begun.file->commit());
    EXPECT_TRUE(begun.sink->finish());
    EXPECT_TRUE(begun.drain());
  }
  ends.writer = Descriptor();
  return out.get();
}

TEST(OutputDestination, AFileComesOutInOrderOfAPipeAndASocket) {
  const Content content = random_content(3'000'000, 1);
  EXPECT_EQ(through(a_pipe(), file_of(content.size()), content, 60'000), content);
  EXPECT_EQ(through(a_socket(), file_of(content.size()), content, 60'000), content);
}

TEST(OutputDestination, ATerminalGetsItAsWell) {
  const int terminal = ::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  ASSERT_GE(terminal, 0);
  ASSERT_EQ(::grantpt(terminal), 0);
  ASSERT_EQ(::unlockpt(terminal), 0);
  Ends ends{Descriptor(terminal), Descriptor(::open(::ptsname(terminal), O_RDWR | O_NOCTTY | O_CLOEXEC))};
  ASSERT_TRUE(ends.writer.valid());
  const ConstBytes text = as_bytes("hello, terminal");
  const Content content(text.begin(), text.end());
  EXPECT_EQ(through(std::move(ends), file_of(content.size()), content, 4), content);
}

TEST(OutputDestination, AnEmptyFileIsNothing) { EXPECT_EQ(through(a_pipe(), file_of(0), {}, 1), Content()); }

TEST(OutputDestination, HolesAreZeros) {
  const Content content = random_content(300'000, 2);
  FileEntry entry = file_of(1'000'000);
  entry.form = Extents(std::array{ByteRange{100'000, 200'000}, ByteRange{500'000, 700'000}});
  Content expected(1'000'000);
  std::copy_n(content.begin(), 100'000, expected.begin() + 100'000);
  std::copy_n(content.begin() + 100'000, 200'000, expected.begin() + 500'000);
  EXPECT_EQ(through(a_pipe(), entry, content, 70'000), expected);
}

TEST(OutputDestination, WhoReadsSlowlyHoldsBackWhatComes) {
  const Ends ends = a_pipe();
  const std::uint64_t size = 2 * OutputDestination::window_bytes;
  Begun begun(ends.writer.get(), file_of(size));
  const Content part = random_content(1'000'000, 3);
  EXPECT_GE(begun.sink->room_bytes(), OutputDestination::window_bytes);
  std::uint64_t at = 0;
  while (begun.file->takes(at, part.size())) {
    ASSERT_TRUE(begun.file->write(at, part));
    at += part.size();
    ASSERT_LT(at, size) << "nobody reads";
  }
  EXPECT_GE(at, OutputDestination::window_bytes);
  EXPECT_LT(begun.sink->room_bytes(), part.size() + OutputDestination::kept_bytes);
  // What has come is there to be read again for its digest.
  Content again(part.size());
  EXPECT_TRUE(begun.file->read(at - part.size(), again));
  EXPECT_EQ(again, part);
}

TEST(OutputDestination, WhoEndsReadingIsAnErrorAndNoSignal) {
  Ends ends = a_pipe();
  Begun begun(ends.writer.get(), file_of(10'000'000));
  ends.reader = Descriptor();
  const Content part = random_content(100'000, 4);
  Status written;
  for (std::uint64_t at = 0; written && at < 10'000'000; at += part.size()) {
    written = begun.file->write(at, part);
    ::usleep(1000);
  }
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, EPIPE);
  EXPECT_THAT(written.error().text, HasSubstr("the output: Broken pipe"));
  EXPECT_EQ(begun.drain().error().code, EPIPE);
}

TEST(OutputDestination, AWaitForWhoDoesNotReadEndsWhenItIsToEnd) {
  const Ends ends = a_pipe();
  Begun begun(ends.writer.get(), file_of(1'000'000));
  const Content content = random_content(1'000'000, 5);
  ASSERT_TRUE(begun.file->write(0, content));
  ASSERT_TRUE(begun.file->finalize());
  int turns = 0;
  const Status drained = begun.output->drain([&turns] { return ++turns < 10; });
  ASSERT_FALSE(drained);
  EXPECT_EQ(drained.error().code, EINTR);
}

TEST(OutputDestination, OnlyOneFileIsTaken) {
  const Ends ends = a_pipe();
  const auto output = OutputDestination::open(ends.writer.get(), "the output").value();
  const std::vector<FileEntry> two{file_of(1), {.name = "other", .size_bytes = 1}};
  EXPECT_FALSE(output->open("", two));
  const FileEntry directory{.name = "d", .mode = 0755, .kind = EntryKind::directory};
  const auto sink = output->open("", {&directory, 1});
  ASSERT_FALSE(sink);
  EXPECT_THAT(sink.error().text, HasSubstr("only one file, and no directory, goes to the output"));
  EXPECT_FALSE(OutputDestination::open(-1, "nothing"));
}

}  // namespace
}  // namespace sluice::ftx::test
