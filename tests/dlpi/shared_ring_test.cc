// SPDX-License-Identifier: Apache-2.0
#include "dlpi/shared_ring.h"

#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "base/prng.h"
#include "stack/core/stream_set.h"

namespace sluice::dlpi::test {
namespace {

constexpr std::size_t ring_bytes = 256;
constexpr std::size_t frame_max = 100;

/// A ring between two words that must stay what they are.
class Shared {
 public:
  explicit Shared(std::size_t size = ring_bytes) : memory_(size + 16, std::byte{0xa5}), size_(size) {}
  ~Shared() {
    for (std::size_t at = 0; at < 8; ++at) {
      EXPECT_EQ(memory_[at], std::byte{0xa5}) << "written in front of the ring";
      EXPECT_EQ(memory_[memory_.size() - 1 - at], std::byte{0xa5}) << "written behind the ring";
    }
  }
  [[nodiscard]] SharedRing ring() { return {&words, Bytes(memory_).subspan(8, size_)}; }
  /// Puts the size of a frame at a position, as a writer does.
  void tell_size(std::uint64_t at, std::uint32_t size) {
    std::memcpy(ring().bytes.data() + at % size_, &size, sizeof size);
  }

  SharedRingWords words{};

 private:
  std::vector<std::byte> memory_;
  std::size_t size_;
};

class SharedRingTest : public testing::Test {
 protected:
  Message frame(std::size_t size, std::uint64_t seed = 1) {
    Prng prng(seed);
    std::vector<std::byte> bytes(size);
    for (std::byte& byte : bytes) {
      byte = static_cast<std::byte>(prng());
    }
    return Message::copy_of(set_.pool(), bytes, 0, MessageType::data, 33);  // a chain of blocks
  }
  static std::vector<std::byte> bytes_in(const Message& message) {
    std::vector<std::byte> bytes(message.data_size());
    EXPECT_TRUE(message.copy_data_to(0, bytes));
    return bytes;
  }

  StreamSet set_;
};

// Whatever the sizes, and wherever the ring's end falls in a frame: every byte, once, in order.
TEST_F(SharedRingTest, IsAQueue) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    Prng prng(seed);
    Shared shared(8 * (20 + prng.below(40)));
    SharedRingWriter writer(shared.ring());
    SharedRingReader reader(shared.ring(), frame_max);
    std::deque<std::vector<std::byte>> expected;
    std::size_t used = 0;
    for (int step = 0; step < 2000; ++step) {
      if (prng.below(2) == 0) {
        const std::size_t size = prng.below(frame_max + 1);
        const Message sent = frame(size, prng());
        const bool fits = used + SharedRing::record_bytes(size) <= shared.ring().bytes.size();
        ASSERT_EQ(writer.write(sent), fits ? SharedRingWriter::Result::written : SharedRingWriter::Result::no_room);
        if (fits) {
          expected.push_back(bytes_in(sent));
          used += SharedRing::record_bytes(size);
        }
        ASSERT_FALSE(writer.publish());
      } else {
        const SharedRingReader::Next next = reader.next();
        ASSERT_EQ(next, expected.empty() ? SharedRingReader::Next::nothing : SharedRingReader::Next::frame);
        if (next == SharedRingReader::Next::frame) {
          std::vector<std::byte> got(reader.frame_bytes());
          reader.copy(got);
          ASSERT_EQ(got, expected.front());
          expected.pop_front();
          used -= SharedRing::record_bytes(got.size());
          reader.skip();
          ASSERT_FALSE(reader.publish());
        }
      }
    }
  }
}

TEST_F(SharedRingTest, AFrameIsSeenOnceItIsPublished) {
  Shared shared;
  SharedRingWriter writer(shared.ring());
  SharedRingReader reader(shared.ring(), frame_max);
  ASSERT_EQ(writer.write(frame(10)), SharedRingWriter::Result::written);
  EXPECT_EQ(reader.next(), SharedRingReader::Next::nothing);
  EXPECT_FALSE(writer.publish());
  EXPECT_EQ(reader.next(), SharedRingReader::Next::frame);
}

TEST_F(SharedRingTest, AWriterThatWaitsIsToldOnce) {
  Shared shared;
  SharedRingWriter writer(shared.ring());
  SharedRingReader reader(shared.ring(), frame_max);
  writer.wait();
  EXPECT_TRUE(reader.publish());
  EXPECT_FALSE(reader.publish());
}

TEST_F(SharedRingTest, AReaderThatWaitsIsToldOnce) {
  Shared shared;
  SharedRingWriter writer(shared.ring());
  SharedRingReader reader(shared.ring(), frame_max);
  reader.wait();
  ASSERT_EQ(writer.write(frame(10)), SharedRingWriter::Result::written);
  EXPECT_TRUE(writer.publish());
  EXPECT_FALSE(writer.publish());
}

// A writer that lies is found out before anything is read that he has not written.
TEST_F(SharedRingTest, LiesOfTheWriter) {
  struct Row {
    const char* name;
    std::uint64_t written;
    std::uint32_t size;
    SharedRingReader::Next expected;
  };
  using enum SharedRingReader::Next;
  for (const Row& row : {
           Row{"nothing", 0, 7, nothing},
           Row{"less than a header", 7, 0, broken},
           Row{"an empty frame", 8, 0, frame},
           Row{"a frame", 24, 10, frame},
           Row{"the largest", 8 + 104, frame_max, frame},
           Row{"one byte larger", 256, frame_max + 1, broken},
           Row{"all ones", 256, 0xffff'ffff, broken},
           Row{"more than has been written", 16, 9, broken},
           Row{"the padding is missing", 8 + 15, 9, broken},
           Row{"a full ring", 256, 100, frame},
           Row{"more than the ring", 257, 10, broken},
           Row{"very much more", ~std::uint64_t{0}, 10, broken},
       }) {
    SCOPED_TRACE(row.name);
    Shared shared;
    SharedRingReader reader(shared.ring(), frame_max);
    shared.tell_size(0, row.size);
    shared.words.written = row.written;
    ASSERT_EQ(reader.next(), row.expected);
    if (row.expected == frame) {
      EXPECT_EQ(reader.frame_bytes(), row.size);
    }
  }
}

TEST_F(SharedRingTest, APositionDoesNotGoBack) {
  Shared shared;
  SharedRingReader reader(shared.ring(), frame_max);
  shared.tell_size(0, 10);
  shared.words.written = 48;
  ASSERT_EQ(reader.next(), SharedRingReader::Next::frame);
  shared.words.written = 40;
  EXPECT_EQ(reader.next(), SharedRingReader::Next::broken);
}

// What the reader has once seen counts: a size that changes afterwards changes nothing.
TEST_F(SharedRingTest, ASizeIsReadOnce) {
  Shared shared;
  SharedRingReader reader(shared.ring(), frame_max);
  shared.tell_size(0, 10);
  shared.words.written = 24;
  ASSERT_EQ(reader.next(), SharedRingReader::Next::frame);
  shared.tell_size(0, 0xffff'ffff);
  EXPECT_EQ(reader.frame_bytes(), 10U);
  reader.skip();
  EXPECT_EQ(reader.next(), SharedRingReader::Next::nothing);
}

// A reader that lies about what he has taken would have the writer write over what he has not: of his own frames only,
// and he is found out.
TEST_F(SharedRingTest, LiesOfTheReader) {
  for (const std::uint64_t taken : {std::uint64_t{25}, std::uint64_t{1000}, ~std::uint64_t{0}}) {
    Shared shared;
    SharedRingWriter writer(shared.ring());
    ASSERT_EQ(writer.write(frame(10)), SharedRingWriter::Result::written);
    shared.words.taken = taken;
    EXPECT_EQ(writer.write(frame(10)), SharedRingWriter::Result::broken) << taken;
  }
  Shared shared;
  SharedRingWriter writer(shared.ring());
  ASSERT_EQ(writer.write(frame(10)), SharedRingWriter::Result::written);
  shared.words.taken = 24;
  ASSERT_EQ(writer.write(frame(10)), SharedRingWriter::Result::written);
  shared.words.taken = 8;
  EXPECT_EQ(writer.write(frame(10)), SharedRingWriter::Result::broken) << "it went back";
}

}  // namespace
}  // namespace sluice::dlpi::test
