// SPDX-License-Identifier: Apache-2.0
#pragma once

// Frames that a driver of interfaces shows where they lie in memory of the kernel's, to fused streams: the fixture, and
// the cases that hold for every such driver. The fixture of a driver derives from this, and names them in tests of its
// own.

#include <cstdint>
#include <optional>
#include <vector>

#include "base/prng.h"
#include "tests/dlpi/interface_driver.h"

namespace sluice::dlpi::test {

/// Sends at the far end, receives at the near one; each end has a set of its own, so that its pool's touches are its
/// own. `Veth`: VethTest, or what derives from it. The parameter is the driver's kind.
template <class Veth>
class InterfaceLoan : public Veth, public testing::WithParamInterface<const char*> {
 protected:
  static constexpr std::uint64_t seed = 77;

  /// `room`: that an interface is opened with unless a test says otherwise; absent: the driver's own.
  explicit InterfaceLoan(const DriverNames& names, std::optional<std::int64_t> room = {}) : names_(names), room_(room) {
    add_drivers(registry_);
  }

  /// The bytes of frame number `at`.
  static std::vector<std::byte> payload_of(std::uint32_t at, std::size_t size = 1400) {
    std::vector<std::byte> bytes(size);
    Prng prng(seed + at);
    for (std::byte& byte : bytes) {
      byte = static_cast<std::byte>(prng());
    }
    store_big_endian(bytes.data(), at);
    return bytes;
  }
  /// The data of what came up, without the primitive.
  static std::vector<std::byte> data_of(Message& indication) {
    std::vector<std::byte> bytes(indication.data_size());
    EXPECT_TRUE(indication.copy_data_to(0, bytes));
    return bytes;
  }
  static std::uint32_t number_of(Message& indication) {
    return load_big_endian<std::uint32_t>(data_of(indication).data());
  }
  static bool is_lent(const Message& indication) { return indication.data_block()->buffer->borrowed(); }

  Parameters parameters(const char* device, std::optional<std::int64_t> room = {}) const {
    return parameters_of(names_, GetParam(), device, room ? room : room_);
  }
  void open(Stream& stream, const char* device, ProcessingMode mode, std::optional<std::int64_t> room = {}) {
    stream.set_mode(mode);
    const Status opened = stream.open(registry_, names_.driver, parameters(device, room));
    ASSERT_TRUE(opened) << opened.error().text;
    stream.bind(test_sap);
    run_timers();
  }
  /// A link that has just been attached to looks for frames unasked; in a test that would be a turn too many.
  void run_timers() { set_.scheduler().poll(set_.now()); }
  void open_far() { open(far_, "far", ProcessingMode::layered); }
  void send(std::uint32_t at, std::size_t size = 1400) { send_to_near(test_sap, payload_of(at, size)); }
  /// Until it has left: while the machine is slow to deliver frames, those before fill the socket's buffer, and what
  /// does not fit waits for an event of the far end's set, which nobody else runs.
  void send_to_near(std::uint16_t to, ConstBytes payload) {
    far_.send({near_mac, to}, payload);
    EXPECT_TRUE(run_until(far_set_, [&] { return far_.driver().write_queue().empty(); })) << far_.counts();
  }
  bool run_until_waiting(Stream& stream, std::size_t messages) {
    return run_until(set_, [&] { return stream.waiting() == messages; });
  }
  Touches& touches() { return set_.pool().touches(); }

  /// Frame 1, which `near`, a fused stream, is shown where it lies.
  Message shown_frame(Stream& near) {
    open(near, "near", ProcessingMode::fused);
    open_far();
    send(1);
    EXPECT_TRUE(run_until_waiting(near, 1));
    Message up = near.next();
    EXPECT_TRUE(up && is_lent(up) && up.fused());
    EXPECT_EQ(touches().stored_bytes, 0U);
    return up;
  }
  /// Headers that were passed can be gone back to.
  static void expect_header_in_front(Message up) {
    up.pop_block();
    const auto header = wire::EthernetHeader::parse(up.prepend(wire::EthernetHeader::size));
    ASSERT_TRUE(header.has_value());
    EXPECT_EQ(header->destination, near_mac);
  }

  void bytes_of_all_sizes_come_as_they_were_sent() {
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

  void copies_frames_below(std::size_t lent_bytes_min) {
    Stream near(set_);
    open(near, "near", ProcessingMode::fused);
    open_far();
    const std::size_t smallest = lent_bytes_min - wire::EthernetHeader::size;
    send(1, smallest - 1);
    send(2, smallest);
    ASSERT_TRUE(run_until_waiting(near, 2));
    EXPECT_FALSE(is_lent(near.next()));
    EXPECT_TRUE(is_lent(near.next()));
  }

  void copies_frames_where_one_stream_is_layered() {
    Stream fused(set_);
    open(fused, "near", ProcessingMode::fused);
    {
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
    Stream other(set_);
    open(other, "near", ProcessingMode::fused);
    send(2);
    ASSERT_TRUE(run_until(set_, [&] { return fused.waiting() == 1 && other.waiting() == 1; }));
    for (Stream* stream : {&fused, &other}) {
      Message up = stream->next();
      EXPECT_EQ(data_of(up), payload_of(2));
    }
  }

  /// More than may be lent, in one turn, and nothing read: all is there, and so many frames are lent still.
  void lends_between(std::size_t least, std::size_t loans_max) {
    Stream near(set_);
    open(near, "near", ProcessingMode::fused);
    near.head().read_queue().set_marks({.high_bytes = 4 << 20, .low_bytes = 1 << 20});
    open_far();
    const std::size_t count = 2 * loans_max;
    for (std::uint32_t at = 0; at < count; ++at) {
      send(at);
    }
    ASSERT_TRUE(run_until_waiting(near, count)) << near.waiting();
    std::size_t lent = 0;
    for (std::uint32_t at = 0; Message up = near.next(); ++at) {
      lent += is_lent(up) ? 1 : 0;
      EXPECT_EQ(data_of(up), payload_of(at));
    }
    EXPECT_GE(lent, least);
    EXPECT_LE(lent, loans_max);
  }

  void held_frames_outlive_the_link() {
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

  DriverNames names_;
  std::optional<std::int64_t> room_;
  StreamSet far_set_;
  StreamSet set_{{.defer_bytes_min = 0}};
  Registry registry_;
  Stream far_{far_set_};
};

}  // namespace sluice::dlpi::test
