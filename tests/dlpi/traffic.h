// SPDX-License-Identifier: Apache-2.0
#pragma once

// Traffic between two streams whose devices are joined, on real time.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tests/dlpi/namespace.h"
#include "tests/dlpi/test_stream.h"

namespace sluice::dlpi::test {

struct Station {
  Stream& stream;
  wire::MacAddress address;
  std::uint32_t received = 0;
};

/// Takes what has come to `station`: numbered frames of `size` bytes, in order.
inline void take_numbered(Station& station, std::size_t size) {
  while (Message up = station.stream.next()) {
    const Message payload = up.unlink();
    EXPECT_EQ(load_big_endian<std::uint32_t>(payload.bytes().data()), station.received) << "in order";
    EXPECT_EQ(payload.size(), size);
    ++station.received;
  }
}

/// Each sends the other `count` numbered frames, with `size` bytes of payload; all arrive in order. They are read as
/// they come, a few at a time: a ring of blocks may close one for each few frames of a slow sender, and be full then.
inline void expect_frames_both_ways(StreamSet& set, Station near, Station far, std::uint16_t sap, std::size_t size,
                                    std::uint32_t count) {
  constexpr std::uint32_t unread_max = 100;
  std::vector<std::byte> data(size);
  for (std::uint32_t sent = 0; sent < count;) {
    for (const std::uint32_t end = std::min(sent + unread_max, count); sent < end; ++sent) {
      store_big_endian(data.data(), sent);
      near.stream.send({far.address, sap}, data);
      far.stream.send({near.address, sap}, data);
    }
    ASSERT_TRUE(run_until(set,
                          [&] {
                            take_numbered(near, size);
                            take_numbered(far, size);
                            return near.received == sent && far.received == sent;
                          }))
        << near.received << " " << far.received << "; " << near.stream.counts() << "; " << far.stream.counts();
  }
}

}  // namespace sluice::dlpi::test
