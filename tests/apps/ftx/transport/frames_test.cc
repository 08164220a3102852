// SPDX-License-Identifier: Apache-2.0
// Datagrams in a byte stream: however it is cut, and what a liar may do with a length.
#include "apps/ftx/transport/frames.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace sluice::ftx {
namespace {

using Stream = std::vector<std::byte>;

Stream datagram(std::size_t size, std::uint8_t first) {
  Stream bytes(size);
  for (std::byte& byte : bytes) {
    byte = static_cast<std::byte>(first++);
  }
  return bytes;
}

void frame(Stream& out, ConstBytes datagram) {
  append_frame(out, datagram.first(frame_datagram_bytes_min), datagram.subspan(frame_datagram_bytes_min));
}

/// Feeds all of it, at most `step` bytes at a time.
std::vector<Stream> read(FrameReader& reader, ConstBytes stream, std::size_t step) {
  std::vector<Stream> datagrams;
  while (!stream.empty() && !reader.broken()) {
    const Bytes room = reader.room();
    const std::size_t count = std::min({step, stream.size(), room.size()});
    if (count == 0) {
      ADD_FAILURE() << "no room";
      break;
    }
    std::copy_n(stream.begin(), count, room.begin());
    reader.fed(count);
    stream = stream.subspan(count);
    while (const auto next = reader.next()) {
      datagrams.emplace_back(next->begin(), next->end());
    }
  }
  return datagrams;
}

TEST(Frames, ComeOutAsTheyWentInHoweverTheStreamIsCut) {
  std::vector<Stream> sent;
  Stream stream;
  for (const std::size_t size : {frame_datagram_bytes_min, std::size_t{17}, std::size_t{255}, std::size_t{256},
                                 std::size_t{1472}, frame_datagram_bytes_max, frame_datagram_bytes_max,
                                 frame_datagram_bytes_max, frame_datagram_bytes_max, frame_datagram_bytes_min}) {
    sent.push_back(datagram(size, static_cast<std::uint8_t>(size)));
    frame(stream, sent.back());
  }
  for (const std::size_t step :
       {std::size_t{1}, std::size_t{2}, std::size_t{17}, std::size_t{4096}, std::size_t{65536}, stream.size()}) {
    FrameReader reader;
    EXPECT_EQ(read(reader, stream, step), sent) << step;
    EXPECT_FALSE(reader.in_frame()) << step;
  }
}

/// docs/formats/ftx-start.md has this example.
TEST(Frames, TheWorkedExample) {
  Stream out;
  const Stream bytes = datagram(24, 0xa0);
  frame(out, bytes);
  EXPECT_EQ(out[0], std::byte{0x00});
  EXPECT_EQ(out[1], std::byte{0x18});
  EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), out.begin() + 2, out.end()));
}

TEST(Frames, ALengthThatNoDatagramHasEndsTheStream) {
  for (std::size_t length = 0; length < frame_datagram_bytes_min; ++length) {
    Stream stream;
    frame(stream, datagram(16, 1));
    stream.push_back(std::byte{0});
    stream.push_back(static_cast<std::byte>(length));
    frame(stream, datagram(16, 2));
    FrameReader reader;
    EXPECT_EQ(read(reader, stream, stream.size()).size(), 1U) << length;
    EXPECT_TRUE(reader.broken()) << length;
    EXPECT_FALSE(reader.next()) << length;
  }
}

TEST(Frames, AStreamThatEndsInTheMiddleIsNoticed) {
  Stream stream;
  frame(stream, datagram(100, 1));
  for (std::size_t size = 1; size < stream.size(); ++size) {
    FrameReader reader;
    EXPECT_TRUE(read(reader, ConstBytes(stream).first(size), 7).empty()) << size;
    EXPECT_TRUE(reader.in_frame()) << size;
  }
}

/// Whatever length is announced, the room stays that of a few frames.
TEST(Frames, AnnouncedLengthsTakeNoMemory) {
  FrameReader reader;
  const std::size_t before = reader.room().size();
  Bytes room = reader.room();
  room[0] = room[1] = std::byte{0xff};
  reader.fed(2);
  EXPECT_FALSE(reader.next());
  EXPECT_EQ(reader.room().size(), before - 2);
}

}  // namespace
}  // namespace sluice::ftx
