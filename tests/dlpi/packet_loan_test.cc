// SPDX-License-Identifier: Apache-2.0
// Frames that the packet driver shows where they lie in its ring, to fused streams: what they cost, and what happens
// when they are held.
#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "dlpi/packet.h"
#include "dlpi/packet_ring.h"
#include "edge/run_loop.h"
#include "stack/head/stream.h"
#include "stack/modules/register.h"
#include "stack/wire/address.h"
#include "tests/dlpi/datagram.h"
#include "tests/dlpi/interface_loan.h"
#include "tests/dlpi/namespace.h"
#include "tests/dlpi/test_stream.h"
#include "tests/stack/head/timod_binding.h"

namespace sluice::dlpi::test {
namespace {

constexpr std::int64_t ring_bytes_min = 256 << 10;
/// Room for each frame that a test sends before it reads, though each takes a block of its own: where the machine is
/// slow, the kernel hands a block over before the next frame comes.
constexpr std::int64_t ring_bytes_ample = (2 * PacketRing::loans_max + 8) * PacketRing::block_bytes;

class PacketLoan : public InterfaceLoan<VethTest> {
 protected:
  PacketLoan() : InterfaceLoan({.driver = "packet", .kind = "ring", .room = "ring_bytes"}, ring_bytes_ample) {
    add_modules(registry_);
  }

  [[nodiscard]] static bool by_block() { return GetParam() == std::string_view("block"); }

  /// What the set's sources wait for.
  std::vector<pollfd> waits() {
    std::vector<pollfd> waits;
    for (const EventSource* source : set_.sources()) {
      waits.push_back({source->wants_readable() ? source->descriptor() : -1, POLLIN, 0});
    }
    return waits;
  }
  bool wait_until_readable() {
    constexpr int patience_ms = 10'000;
    std::vector<pollfd> waits = this->waits();
    return ::poll(waits.data(), waits.size(), patience_ms) > 0;
  }
  /// Lets the set run until its descriptors have nothing to say, and answers in how many turns they had.
  int turns_until_idle() {
    constexpr int turns_max = 100;
    constexpr int patience_ms = 20;  // a block comes a millisecond after its first frame
    int turns = 0;
    for (bool idle = false; !idle && turns < turns_max;) {
      set_.scheduler().poll(set_.now());
      std::vector<pollfd> waits = this->waits();
      const std::vector<EventSource*> sources = set_.sources();
      idle = ::poll(waits.data(), waits.size(), patience_ms) == 0;
      turns += idle ? 0 : 1;
      for (std::size_t at = 0; at < waits.size(); ++at) {
        if ((waits[at].revents & POLLIN) != 0) {
          sources[at]->on_readable();
        }
      }
    }
    return turns;
  }
};

TEST_P(PacketLoan, BytesOfAllSizesComeAsTheyWereSent) { bytes_of_all_sizes_come_as_they_were_sent(); }

TEST_P(PacketLoan, AFrameIsShownWhereItLies) {
  Stream near(set_);
  Message up = shown_frame(near);
  ASSERT_TRUE(up);
  // Where the ring wants its memory back, the message keeps its bytes, and headers that were passed can be gone back
  // to.
  run_for(set_, std::chrono::milliseconds(10));
  EXPECT_FALSE(is_lent(up));
  EXPECT_EQ(data_of(up), payload_of(1));
  EXPECT_EQ(touches().stored_bytes, wire::EthernetHeader::size + 1400);
  expect_header_in_front(std::move(up));
}

TEST_P(PacketLoan, SmallFramesAreCopied) { copies_frames_below(PacketLink::lent_bytes_min_default); }

TEST_P(PacketLoan, WhereOneStreamIsLayeredFramesAreCopied) { copies_frames_where_one_stream_is_layered(); }

TEST_P(PacketLoan, AReaderThatNeverReadsDoesNotMakeTheLoopSpin) {
  Stream near(set_);
  open(near, "near", ProcessingMode::fused);
  near.head().read_queue().set_marks({.high_bytes = 1 << 20, .low_bytes = 1 << 18});
  open_far();
  static_cast<void>(turns_until_idle());  // what the interface's monitor has to say
  for (std::uint32_t at = 0; at < 100; ++at) {
    send(at);
  }
  EXPECT_LE(turns_until_idle(), 12);
  ASSERT_EQ(near.waiting(), 100U);
  EXPECT_EQ(turns_until_idle(), 0);
  for (std::uint32_t at = 0; Message up = near.next(); ++at) {
    EXPECT_EQ(data_of(up), payload_of(at));
  }
}

// A frame that is shown where it lies keeps the socket readable, and the run loop is told so: it must not take the link
// for one that ignores what wakes it, and leave the next frames waiting.
TEST_P(PacketLoan, TheLinkTellsThatLentFramesKeepItReadable) {
  Stream near(set_);
  open(near, "near", ProcessingMode::fused);
  open_far();
  const auto keeps = [&] {
    return std::ranges::any_of(set_.sources(), [](const EventSource* source) { return source->keeps_readable(); });
  };
  static_cast<void>(turns_until_idle());  // what the interface's monitor has to say
  EXPECT_FALSE(keeps());
  for (std::uint32_t at = 0; at < 3; ++at) {
    send(at);
    ASSERT_TRUE(run_until_waiting(near, 1));
    EXPECT_TRUE(keeps());
    const Message up = near.next();
    static_cast<void>(turns_until_idle());  // a turn without news ends it, whoever holds the frame
    EXPECT_FALSE(keeps());
    EXPECT_EQ(up.data_size(), payload_of(at).size());
  }
}

// Frame by frame, each read when it has come: the loop, which sleeps in none of these rounds, sees each.
TEST_P(PacketLoan, AReaderThatKeepsUpIsServedAtOnce) {
  Stream near(set_);
  open(near, "near", ProcessingMode::fused);
  open_far();
  const auto loop = RunLoop::open(set_);
  ASSERT_TRUE(loop.has_value());
  for (std::uint32_t at = 0; at < 200; ++at) {
    send(at);
    ASSERT_TRUE(wait_until_readable()) << at;
    for (int rounds = 0; near.waiting() == 0 && rounds < 8; ++rounds) {
      static_cast<void>((*loop)->wait((*loop)->now()));
    }
    ASSERT_EQ(near.waiting(), 1U) << at;
    Message up = near.next();
    EXPECT_EQ(data_of(up), payload_of(at));
  }
}

// A full stream's frames do not take room in the ring: what a layered path keeps is kept.
TEST_P(PacketLoan, AFullStreamLeavesTheWholeRingToTheKernel) {
  Stream near(set_);
  // Slots of 2 KiB take a frame each, and so does a block, where its time is over before the next frame comes.
  const bool by_frame = !by_block();
  constexpr std::uint32_t blocks = 8;
  open(near, "near", ProcessingMode::fused, by_frame ? ring_bytes_min : blocks * PacketRing::block_bytes);
  constexpr std::uint32_t to_head = 60;
  near.head().read_queue().set_marks({.high_bytes = to_head * 1400, .low_bytes = 1400});
  open_far();
  // Two at a time: where the machine is slow, each takes a block of its own, and half of the ring may be held.
  for (std::uint32_t at = 0; at < to_head; at += 2) {
    send(at);
    send(at + 1);
    ASSERT_TRUE(run_until_waiting(near, at + 2)) << near.waiting() << " of " << at + 2;
  }
  const std::uint32_t count = to_head + (by_frame ? ring_bytes_min / 2048 : blocks - 1);  // one is being filled
  for (std::uint32_t at = to_head; at < count; ++at) {
    send(at);
    if (!by_frame) {
      std::this_thread::sleep_for(4 * std::chrono::milliseconds(PacketRing::block_timeout_ms));
    }
  }
  std::uint32_t got = 0;
  EXPECT_TRUE(run_until(set_, [&] {
    while (Message up = near.next()) {
      EXPECT_EQ(data_of(up), payload_of(got));
      ++got;
    }
    return got == count;
  })) << got;
}

TEST_P(PacketLoan, HeldFramesDoNotStallTheRing) {
  Stream near(set_);
  open(near, "near", ProcessingMode::fused, 1 << 20);
  open_far();
  std::vector<Message> held;  // some of the first turns, others on the way
  // So many frames at once have room whatever the machine does meanwhile: at most half of the ring's units are held,
  // and each frame may take a unit of its own, since the kernel hands a block over after a millisecond.
  const std::uint32_t burst = by_block() ? 2 : 50;
  const std::uint32_t count = by_block() ? 800 : 4000;  // five rings full
  std::uint32_t got = 0;
  for (std::uint32_t sent = 0; sent < count;) {
    for (std::uint32_t at = 0; at < burst; ++at) {
      send(sent++);
    }
    ASSERT_TRUE(run_until(set_,
                          [&] {
                            while (Message up = near.next()) {
                              EXPECT_EQ(load_big_endian<std::uint32_t>(up.data_block()->rptr), got);
                              if (got < 100 || got % 500 == 0) {
                                held.push_back(std::move(up));
                              }
                              ++got;
                            }
                            return got == sent;
                          }))
        << got << " " << near.counts();
  }
  EXPECT_EQ(near.counted("kernel_dropped"), 0U);
  for (Message& up : held) {
    EXPECT_EQ(data_of(up), payload_of(number_of(up)));
  }
}

TEST_P(PacketLoan, NoMoreIsLentThanMayBe) { lends_between(0, PacketRing::loans_max); }

TEST_P(PacketLoan, HeldFramesOutliveTheLink) { held_frames_outlive_the_link(); }

TEST_P(PacketLoan, APartialChecksumIsCompletedInTheRing) {
  give_kernel_the_far_end();
  Stream near(set_);
  near.set_mode(ProcessingMode::fused);
  ASSERT_TRUE(near.open(registry_, "packet", parameters("near")));
  near.bind(wire::ethertype_ipv4);
  run_timers();
  const int socket = kernel_socket();
  const std::string odd(1333, 'q');
  ASSERT_EQ(::send(socket, odd.data(), odd.size(), 0), static_cast<ssize_t>(odd.size()));
  ASSERT_TRUE(run_until_waiting(near, 1));
  Message up = near.next();
  EXPECT_TRUE(is_lent(up));
  EXPECT_EQ(verified_payload(up), odd);
  EXPECT_EQ(near.counted("checksum_completed"), 1U);
  ::close(socket);
}

/// A whole stack at the near end; the far end sends it packets that the test made.
class PacketLoanStack : public PacketLoan {
 protected:
  std::unique_ptr<Module> make(std::string_view name, const Parameters& parameters) {
    return registry_.find(name)->make(set_, parameters).value();
  }
  void open_stack(ProcessingMode mode, std::optional<std::int64_t> ring_bytes = {}) {
    stack_ = sluice::Stream::open(set_, make("packet", parameters("near", ring_bytes))).value();
    stack_->set_mode(mode);
    stack_->set_nonblocking(true);
    Parameters ip;
    ip.set("address", std::vector<std::string>{"10.77.0.1/24"});
    ASSERT_TRUE(stack_->push(make("ip", ip)).has_value());
    ASSERT_TRUE(stack_->push(make("udp", {})).has_value());
    ASSERT_TRUE(stack_->push(make("timod", {})).has_value());
    ASSERT_EQ(bind_by_timod(*stack_, {{}, test_port}), 0);
    far_.set_mode(ProcessingMode::layered);
    ASSERT_TRUE(far_.open(registry_, "packet", parameters("far")));
    far_.bind(wire::ethertype_ipv4);
    run_timers();
  }
  void send_packet(ConstBytes packet) { send_to_near(wire::ethertype_ipv4, packet); }
  void send_datagram(std::string_view payload) { send_packet(datagram(kernel_ip, our_ip, payload)); }

  /// The next datagram's payload, once it is here.
  std::string received() {
    std::string text(65536, '\0');
    std::array<std::byte, 256> control;
    std::optional<std::size_t> size;
    EXPECT_TRUE(run_until(set_, [&] {
      const auto got = stack_->getmsg(Bytes(control), Bytes(reinterpret_cast<std::byte*>(text.data()), text.size()));
      size = got ? got->data : std::nullopt;
      return size.has_value();
    })) << "nothing came";
    text.resize(size.value_or(0));
    return text;
  }

  static std::string text_of(std::uint32_t at, std::size_t size) { return std::string(as_text(payload_of(at, size))); }

  /// Receives datagrams, each of whose bytes is to be touched so many times; headers may be, but no more often.
  void expect_touches(ProcessingMode mode, const Touches& times) {
    constexpr std::size_t size = 1472;
    constexpr std::size_t headers = 14 + 20 + 8;
    constexpr std::uint32_t count = 20;
    open_stack(mode);
    const Touches before = touches();
    for (std::uint32_t at = 0; at < count; ++at) {
      send_datagram(text_of(at, size));
      ASSERT_EQ(received(), text_of(at, size));
    }
    const std::uint64_t loaded = touches().loaded_bytes - before.loaded_bytes;
    const std::uint64_t stored = touches().stored_bytes - before.stored_bytes;
    EXPECT_GE(loaded, count * times.loaded_bytes * size);
    EXPECT_LE(loaded, count * times.loaded_bytes * (size + headers));
    EXPECT_GE(stored, count * times.stored_bytes * size);
    EXPECT_LE(stored, count * times.stored_bytes * (size + headers));
  }

  std::unique_ptr<sluice::Stream> stack_;
};

// The argument of integrated layer processing: from the slot to user memory each byte is loaded and stored once; the
// layered path copies from the slot, checks, and copies to the user.
TEST_P(PacketLoanStack, AFusedPathTouchesEachByteOnce) { expect_touches(ProcessingMode::fused, {1, 1}); }
TEST_P(PacketLoanStack, ALayeredPathLoadsEachByteThreeTimesAndStoresItTwice) {
  expect_touches(ProcessingMode::layered, {3, 2});
}

TEST_P(PacketLoanStack, ADamagedDatagramIsDroppedWhereItLies) {
  open_stack(ProcessingMode::fused);
  std::vector<std::byte> damaged = datagram(kernel_ip, our_ip, text_of(1, 1000));
  damaged[500] ^= std::byte{1};
  send_packet(damaged);
  send_datagram(text_of(2, 1000));
  EXPECT_EQ(received(), text_of(2, 1000));
}

// A datagram whose last fragment is late: what is there waits in the module while the ring turns many times.
TEST_P(PacketLoanStack, FragmentsWaitWhileOtherFramesPass) {
  open_stack(ProcessingMode::fused, 1 << 20);
  constexpr std::size_t size = 4000;
  constexpr std::size_t step = 1480;
  const std::string payload = text_of(1, size);
  const std::vector<std::byte> whole = datagram(kernel_ip, our_ip, payload);
  const ConstBytes data = ConstBytes(whole).subspan(wire::Ipv4Header::size);
  const auto send_fragment = [&](std::size_t offset) {
    const ConstBytes part = data.subspan(offset, std::min(step, data.size() - offset));
    std::vector<std::byte> packet(wire::Ipv4Header::size + part.size());
    wire::Ipv4Header ip;
    ip.payload_length = static_cast<std::uint16_t>(part.size());
    ip.identification = 7;
    ip.more_fragments = offset + part.size() < data.size();
    ip.fragment_offset = static_cast<std::uint16_t>(offset);
    ip.protocol = wire::protocol_udp;
    ip.source = kernel_ip;
    ip.destination = our_ip;
    ip.emit(packet);
    std::ranges::copy(part, packet.begin() + wire::Ipv4Header::size);
    send_packet(packet);
  };
  send_fragment(2 * step);
  send_fragment(0);
  // As many at once as the ring has room for, each in a unit of its own.
  const std::uint32_t count = by_block() ? 500 : 5000;
  const std::uint32_t at_once = by_block() ? 2 : 20;
  for (std::uint32_t at = 0; at < count; at += at_once) {
    for (std::uint32_t next = at; next < at + at_once; ++next) {
      send_datagram(text_of(next, 1000));
    }
    for (std::uint32_t next = at; next < at + at_once; ++next) {
      ASSERT_EQ(received(), text_of(next, 1000));
    }
  }
  send_fragment(step);
  EXPECT_EQ(received(), payload);
}

INSTANTIATE_TEST_SUITE_P(Rings, PacketLoan, testing::Values("block", "frame"), name_of_driver);
INSTANTIATE_TEST_SUITE_P(Rings, PacketLoanStack, testing::Values("block", "frame"), name_of_driver);

}  // namespace
}  // namespace sluice::dlpi::test
