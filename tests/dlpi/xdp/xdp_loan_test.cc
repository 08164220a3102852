// SPDX-License-Identifier: Apache-2.0
// Frames that the xdp driver shows where they lie in its slots, to fused streams: what they cost, and what happens when
// they are held.
#include <algorithm>
#include <string>
#include <vector>

#include "base/prng.h"
#include "dlpi/xdp.h"
#include "tests/dlpi/test_stream.h"
#include "tests/dlpi/xdp/xdp_namespace.h"

namespace sluice::dlpi::test {
namespace {

constexpr std::uint64_t seed = 78;

/// The bytes of frame number `at`.
std::vector<std::byte> payload_of(std::uint32_t at, std::size_t size = 1400) {
  std::vector<std::byte> bytes(size);
  Prng prng(seed + at);
  for (std::byte& byte : bytes) {
    byte = static_cast<std::byte>(prng());
  }
  store_big_endian(bytes.data(), at);
  return bytes;
}

/// The data of what came up, without the primitive.
std::vector<std::byte> data_of(Message& indication) {
  std::vector<std::byte> bytes(indication.data_size());
  EXPECT_TRUE(indication.copy_data_to(0, bytes));
  return bytes;
}

std::uint32_t number_of(Message& indication) { return load_big_endian<std::uint32_t>(data_of(indication).data()); }

bool is_lent(const Message& indication) { return indication.data_block()->buffer->borrowed(); }

/// Sends at the far end, receives at the near one; each end has a set of its own, so that its pool's touches are its
/// own.
class XdpLoan : public XdpVethTest, public testing::WithParamInterface<const char*> {
 protected:
  XdpLoan() { add_drivers(registry_); }

  void open(Stream& stream, const char* device, ProcessingMode mode, std::int64_t frames = 2048) {
    Parameters parameters;
    parameters.set("device", device);
    parameters.set("mode", GetParam());
    parameters.set("frames", frames);
    stream.set_mode(mode);
    const Status opened = stream.open(registry_, "xdp", parameters);
    ASSERT_TRUE(opened) << opened.error().text;
    stream.bind(test_sap);
    set_.scheduler().poll(set_.now());
  }
  void open_far() { open(far_, "far", ProcessingMode::layered); }
  void send(std::uint32_t at, std::size_t size = 1400) { far_.send({near_mac, test_sap}, payload_of(at, size)); }
  bool run_until_waiting(Stream& stream, std::size_t messages) {
    return run_until(set_, [&] { return stream.waiting() == messages; });
  }
  Touches& touches() { return set_.pool().touches(); }

  StreamSet far_set_;
  StreamSet set_{{.defer_bytes_min = 0}};
  Registry registry_;
  Stream far_{far_set_};
};

TEST_P(XdpLoan, BytesOfAllSizesComeAsTheyWereSent) {
  Stream near(set_);
  open(near, "near", ProcessingMode::fused);
  open_far();
  Prng prng(seed);
  std::vector<Message> held;  // every seventh, for a while
  std::uint32_t got = 0;
  for (std::uint32_t sent = 0; sent < 3000;) {
    std::vector<std::size_t> sizes;
    for (int at = 0; at < 100; ++at) {
      sizes.push_back(46 + prng.below(1455));
      send(sent++, sizes.back());
    }
    std::size_t taken = 0;
    const bool all = run_until(set_, [&] {
      while (Message up = near.next()) {
        EXPECT_EQ(data_of(up), payload_of(got, sizes[taken])) << "frame " << got << ", seed " << seed;
        if (got++ % 7 == 0) {
          held.push_back(std::move(up));
        }
        ++taken;
      }
      return taken == sizes.size();
    });
    ASSERT_TRUE(all) << taken << " " << near.counts();
    for (Message& up : held) {
      EXPECT_EQ(data_of(up), payload_of(number_of(up), up.data_size())) << "held; seed " << seed;
    }
    held.erase(held.begin(), held.begin() + static_cast<std::ptrdiff_t>(held.size() / 2));
  }
}

TEST_P(XdpLoan, AFrameIsShownWhereItLies) {
  Stream near(set_);
  open(near, "near", ProcessingMode::fused);
  open_far();
  send(1);
  ASSERT_TRUE(run_until_waiting(near, 1));
  Message up = near.next();
  EXPECT_TRUE(is_lent(up));
  EXPECT_TRUE(up.fused());
  EXPECT_EQ(touches().stored_bytes, 0U);
  // A slot that is held keeps nobody waiting: it stays where it is, and headers that were passed can be gone back to.
  run_for(set_, std::chrono::milliseconds(10));
  EXPECT_TRUE(is_lent(up));
  EXPECT_EQ(data_of(up), payload_of(1));
  up.pop_block();
  const auto header = wire::EthernetHeader::parse(up.prepend(wire::EthernetHeader::size));
  ASSERT_TRUE(header.has_value());
  EXPECT_EQ(header->destination, near_mac);
}

TEST_P(XdpLoan, SmallFramesAreCopied) {
  Stream near(set_);
  open(near, "near", ProcessingMode::fused);
  open_far();
  const std::size_t smallest = XdpLink::lent_bytes_min - wire::EthernetHeader::size;
  send(1, smallest - 1);
  send(2, smallest);
  ASSERT_TRUE(run_until_waiting(near, 2));
  EXPECT_FALSE(is_lent(near.next()));
  EXPECT_TRUE(is_lent(near.next()));
}

TEST_P(XdpLoan, WhereOneStreamIsLayeredFramesAreCopied) {
  Stream fused(set_);
  open(fused, "near", ProcessingMode::fused);
  Stream layered(set_);
  open(layered, "near", ProcessingMode::layered);
  open_far();
  send(1);
  ASSERT_TRUE(run_until(set_, [&] { return fused.waiting() == 1 && layered.waiting() == 1; }));
  for (Stream* stream : {&fused, &layered}) {
    Message up = stream->next();
    EXPECT_FALSE(is_lent(up));
    EXPECT_EQ(data_of(up), payload_of(1));
  }
}

// A full stream's frames do not take slots: all of them are there for what comes.
TEST_P(XdpLoan, AFullStreamLeavesAllSlotsToTheKernel) {
  Stream near(set_);
  constexpr std::uint32_t slots = 128;
  open(near, "near", ProcessingMode::fused, slots);
  constexpr std::uint32_t to_head = 60;
  near.head().read_queue().set_marks({.high_bytes = to_head * 1400, .low_bytes = 1400});
  open_far();
  for (std::uint32_t at = 0; at < to_head; ++at) {
    send(at);
  }
  ASSERT_TRUE(run_until_waiting(near, to_head));
  for (std::uint32_t at = to_head; at < to_head + slots; ++at) {
    send(at);
  }
  std::uint32_t got = 0;
  EXPECT_TRUE(run_until(set_,
                        [&] {
                          while (Message up = near.next()) {
                            EXPECT_EQ(data_of(up), payload_of(got));
                            ++got;
                          }
                          return got == to_head + slots;
                        }))
      << got << " " << near.counts();
}

// More than may be lent is held for good, and more comes all the same. What was lent first is recalled first.
TEST_P(XdpLoan, HeldFramesDoNotStallTheQueue) {
  Stream near(set_);
  constexpr std::uint32_t slots = 64;
  open(near, "near", ProcessingMode::fused, slots);
  open_far();
  std::vector<Message> held;
  constexpr std::uint32_t count = 40 * slots;
  for (std::uint32_t sent = 0; sent < count;) {
    for (std::uint32_t at = 0; at < slots / 4; ++at) {
      send(sent++);
    }
    ASSERT_TRUE(run_until(set_,
                          [&] {
                            while (Message up = near.next()) {
                              EXPECT_TRUE(is_lent(up));
                              EXPECT_EQ(number_of(up), held.size());
                              held.push_back(std::move(up));
                            }
                            return held.size() == sent;
                          }))
        << held.size() << " " << near.counts();
    const auto first_lent = std::ranges::find_if(held, [](const Message& up) { return is_lent(up); });
    EXPECT_TRUE(std::all_of(first_lent, held.end(), [](const Message& up) { return is_lent(up); }));
    EXPECT_LE(held.end() - first_lent, slots / 2);
  }
  EXPECT_EQ(near.counted("kernel_dropped"), 0U);
  for (Message& up : held) {
    EXPECT_EQ(data_of(up), payload_of(number_of(up)));
  }
}

// More than may be lent, in one turn, and nothing read: all is there.
TEST_P(XdpLoan, NoMoreIsLentThanMayBe) {
  Stream near(set_);
  open(near, "near", ProcessingMode::fused);
  near.head().read_queue().set_marks({.high_bytes = 4 << 20, .low_bytes = 1 << 20});
  open_far();
  constexpr std::uint32_t count = 2 * XdpQueue::loans_max;
  for (std::uint32_t at = 0; at < count; ++at) {
    send(at);
  }
  ASSERT_TRUE(run_until_waiting(near, count)) << near.waiting();
  std::size_t lent = 0;
  for (std::uint32_t at = 0; Message up = near.next(); ++at) {
    lent += is_lent(up) ? 1 : 0;
    EXPECT_EQ(data_of(up), payload_of(at));
  }
  EXPECT_GT(lent, 0U);
  EXPECT_LE(lent, XdpQueue::loans_max);
}

TEST_P(XdpLoan, HeldFramesOutliveTheLink) {
  std::vector<Message> held;
  {
    Stream near(set_);
    open(near, "near", ProcessingMode::fused);
    open_far();
    for (std::uint32_t at = 0; at < 40; ++at) {
      send(at);
    }
    ASSERT_TRUE(run_until_waiting(near, 40));
    for (std::uint32_t at = 0; at < 20; ++at) {
      held.push_back(near.next());  // the others go with the head, after the link
    }
  }
  for (std::uint32_t at = 0; at < held.size(); ++at) {
    EXPECT_FALSE(is_lent(held[at]));
    EXPECT_EQ(data_of(held[at]), payload_of(at));
  }
  held.clear();
  EXPECT_EQ(set_.pool().statistics().buffers_in_use, 0U);
}

INSTANTIATE_TEST_SUITE_P(Modes, XdpLoan, testing::Values("generic", "native"),
                         [](const auto& parameter) { return std::string(parameter.param); });

}  // namespace
}  // namespace sluice::dlpi::test
