// SPDX-License-Identifier: Apache-2.0
// What the sender does when the kernel takes a part, nothing, or refuses: a scripted sendmmsg plays the kernel.
#include "tpi/udp_sender.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/udp.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "stack/head/loan.h"
#include "stack/wire/data_unit.h"
#include "tests/tpi/endpoint.h"

namespace sluice::tpi {
namespace {

using Sizes = std::vector<std::size_t>;

/// One entry that the scripted kernel saw.
struct Seen {
  std::vector<std::size_t> blocks;  // sizes of its iovecs
  std::vector<const void*> at;      // where they lie
  std::string bytes;
  std::size_t segment = 0;  // 0: a plain datagram
  std::string asks;         // of other control messages
  std::uint16_t port = 0;
};

/// The scripted kernel: `answer` says of each call how many entries it takes, or the errno it gives, negative.
struct Script {
  std::function<int(const std::vector<Seen>&)> answer;
  std::vector<std::vector<Seen>> taken;  // entries of each call, those that were taken

  [[nodiscard]] std::vector<std::size_t> taken_sizes() const {
    std::vector<std::size_t> sizes;
    for (const auto& call : taken) {
      for (const Seen& seen : call) {
        sizes.insert(sizes.end(), seen.blocks.begin(), seen.blocks.end());
      }
    }
    return sizes;
  }
};

Script script;

Seen seen(const msghdr& header) {
  Seen entry;
  for (std::size_t i = 0; i < header.msg_iovlen; ++i) {
    entry.blocks.push_back(header.msg_iov[i].iov_len);
    entry.at.push_back(header.msg_iov[i].iov_base);
    entry.bytes.append(static_cast<const char*>(header.msg_iov[i].iov_base), header.msg_iov[i].iov_len);
  }
  auto& control = const_cast<msghdr&>(header);
  for (cmsghdr* part = CMSG_FIRSTHDR(&control); part != nullptr; part = CMSG_NXTHDR(&control, part)) {
    if (part->cmsg_level == IPPROTO_UDP) {
      EXPECT_EQ(part->cmsg_type, UDP_SEGMENT);
      std::memcpy(&entry.segment, CMSG_DATA(part), sizeof(std::uint16_t));
    } else if (part->cmsg_type == IP_PKTINFO) {
      in_pktinfo from{};
      std::memcpy(&from, CMSG_DATA(part), sizeof from);
      entry.asks += " from " + std::to_string(from.ipi_spec_dst.s_addr >> 24);
    } else {
      int value = 0;
      std::memcpy(&value, CMSG_DATA(part), sizeof value);
      entry.asks += (part->cmsg_type == IP_TTL ? " ttl " : " tos ") + std::to_string(value);
    }
  }
  entry.port = to_big_endian(static_cast<const sockaddr_in*>(header.msg_name)->sin_port);
  return entry;
}

int scripted(int /*descriptor*/, mmsghdr* entries, unsigned count, int /*flags*/) {
  std::vector<Seen> offered;
  std::transform(entries, entries + count, std::back_inserter(offered),
                 [](const mmsghdr& e) { return seen(e.msg_hdr); });
  const int answer = script.answer ? script.answer(offered) : static_cast<int>(count);
  if (answer < 0) {
    errno = -answer;
    return -1;
  }
  offered.resize(std::min(offered.size(), static_cast<std::size_t>(answer)));
  script.taken.push_back(offered);
  return static_cast<int>(offered.size());
}

class UdpSenderTest : public testing::Test {
 protected:
  void SetUp() override {
    script = {};
    sender.enable_segmentation(true);
  }

  void add(std::size_t size, std::uint16_t port = 1, const wire::network::Sending& how = {}) {
    SocketAddress destination;
    destination.v4.sin_family = AF_INET;
    destination.v4.sin_port = to_big_endian(port);
    destination.size = sizeof destination.v4;
    sender.add(Message::copy_of(pool, as_bytes(std::string(size, 'x'))), destination, 0, how);
  }
  void add_many(std::size_t count, std::size_t size) {
    for (std::size_t i = 0; i < count; ++i) {
      add(size);
    }
  }

  BufferPool pool;
  UdpSender sender{scripted};
};

TEST_F(UdpSenderTest, ARunIsOfOneSizeAndOneDestinationAndAShorterOneEndsIt) {
  for (const std::size_t size : Sizes{1400, 1400, 600, 1400, 1400}) {
    add(size);
  }
  add(1400, 2);
  add(0, 2);
  add(0, 2);
  add(1401, 2);
  EXPECT_EQ(sender.send(0), UdpSender::Progress::done);
  ASSERT_EQ(script.taken.size(), 1U);
  const auto& entries = script.taken[0];
  ASSERT_EQ(entries.size(), 6U);
  EXPECT_EQ(entries[0].blocks, (Sizes{1400, 1400, 600}));
  EXPECT_EQ(entries[0].segment, 1400U);
  EXPECT_EQ(entries[1].blocks, (Sizes{1400, 1400}));
  EXPECT_EQ(entries[2].blocks, (Sizes{1400}));
  EXPECT_EQ(entries[2].segment, 0U);
  EXPECT_EQ(entries[2].port, 2);
  EXPECT_TRUE(entries[3].blocks.empty());
  EXPECT_TRUE(entries[4].blocks.empty());
  EXPECT_EQ(entries[5].blocks, (Sizes{1401}));
}

TEST_F(UdpSenderTest, ARunLeavesInOneWay) {
  const wire::network::Sending near{.hop_limit = 1};
  const wire::network::Sending all{
      .source = wire::IpAddress(wire::Ipv4Address{{10, 0, 0, 7}}), .hop_limit = 255, .traffic_class = 1};
  for (const auto& how : {near, near, {}, {}, all, all, near}) {
    add(1400, 1, how);
  }
  EXPECT_EQ(sender.send(0), UdpSender::Progress::done);
  ASSERT_EQ(script.taken.size(), 1U);
  std::string entries;
  for (const Seen& entry : script.taken[0]) {
    entries += std::to_string(entry.blocks.size()) + " of " + std::to_string(entry.segment) + entry.asks + "; ";
  }
  EXPECT_EQ(entries, "2 of 1400 ttl 1; 2 of 1400; 2 of 1400 ttl 255 tos 1 from 7; 1 of 0 ttl 1; ");
}

TEST_F(UdpSenderTest, ARunFitsAPacketAndTheSegmentLimit) {
  add_many(100, 1400);
  EXPECT_EQ(sender.send(0), UdpSender::Progress::done);
  const auto& large = script.taken.at(0);
  ASSERT_EQ(large.size(), 3U);
  EXPECT_EQ(large[0].blocks.size(), UdpSender::run_bytes_max / 1400);
  script.taken.clear();
  add_many(100, 10);
  EXPECT_EQ(sender.send(0), UdpSender::Progress::done);
  EXPECT_EQ(script.taken.at(0).at(0).blocks.size(), UdpSender::run_datagrams_max);
}

TEST_F(UdpSenderTest, WithoutSegmentationEachGoesAlone) {
  sender.enable_segmentation(false);
  add_many(3, 1400);
  EXPECT_EQ(sender.send(0), UdpSender::Progress::done);
  EXPECT_EQ(script.taken.at(0).size(), 3U);
}

TEST_F(UdpSenderTest, EveryPartialAnswerSendsEachOnceInOrder) {
  for (int at_once = 1; at_once <= 8; ++at_once) {
    script = {};
    script.answer = [at_once](const auto&) { return at_once; };
    Sizes sizes;
    for (std::size_t i = 0; i < 8; ++i) {
      sizes.push_back(1000 - 10 * i * (i % 3));
      add(sizes.back());
    }
    EXPECT_EQ(sender.send(0), UdpSender::Progress::done);
    EXPECT_EQ(script.taken_sizes(), sizes) << at_once;
    EXPECT_TRUE(sender.empty());
  }
}

TEST_F(UdpSenderTest, BlockedKeepsWhatIsLeft) {
  sender.enable_segmentation(false);
  int calls = 0;
  script.answer = [&calls](const auto&) { return ++calls == 1 ? 2 : -EAGAIN; };
  for (const std::size_t size : Sizes{1, 2, 3, 4}) {
    add(size);
  }
  EXPECT_EQ(sender.send(0), UdpSender::Progress::blocked);
  EXPECT_EQ(sender.take_back().size(), 4U);
  EXPECT_EQ(sender.take_back().size(), 3U);
  EXPECT_TRUE(sender.empty());
}

TEST_F(UdpSenderTest, ClearingGivesTheMessagesBack) {
  add_many(3, 100);
  sender.clear();
  EXPECT_TRUE(sender.empty());
  EXPECT_EQ(pool.statistics().buffers_in_use, 0U);
}

/// The run goes plainly, then more datagrams do, and then a run is tried again.
TEST_F(UdpSenderTest, ARefusedRunGoesPlainlyAndRunsComeBack) {
  for (const int error : {EMSGSIZE, EINVAL, EIO}) {
    script = {};
    UdpSender fresh(scripted);
    std::swap(sender, fresh);
    sender.enable_segmentation(true);
    bool refuses = true;
    script.answer = [&](const std::vector<Seen>& entries) {
      return refuses && entries[0].segment > 0 ? -error : static_cast<int>(entries.size());
    };
    add_many(40, 1400);
    EXPECT_EQ(sender.send(0), UdpSender::Progress::done);
    EXPECT_EQ(script.taken.at(0).size(), 40U);
    EXPECT_EQ(sender.statistics().refused_runs, 1U);
    refuses = false;
    // 64 - 40 more go plainly, and the next may be a run.
    add_many(40, 1400);
    EXPECT_EQ(sender.send(0), UdpSender::Progress::done);
    EXPECT_EQ(script.taken.at(1).size(), 24U + 1);
    EXPECT_EQ(sender.statistics().runs, 1U);
    // A run that went makes the next refusal the first again.
    refuses = true;
    add_many(40, 1400);
    EXPECT_EQ(sender.send(0), UdpSender::Progress::done);
    refuses = false;
    add_many(40, 1400);
    EXPECT_EQ(sender.send(0), UdpSender::Progress::done);
    EXPECT_EQ(script.taken.at(3).size(), 24U + 1);
  }
}

TEST_F(UdpSenderTest, RunsThatAreAlwaysRefusedAreTriedLessAndLess) {
  script.answer = [](const std::vector<Seen>& entries) {
    // sendmmsg tells an error only of the first entry.
    const auto run = std::find_if(entries.begin(), entries.end(), [](const Seen& s) { return s.segment > 0; });
    return run == entries.begin() ? -EMSGSIZE : static_cast<int>(run - entries.begin());
  };
  constexpr std::size_t total = 100'000;
  for (std::size_t sent = 0; sent < total; sent += 100) {
    add_many(100, 1400);
    ASSERT_EQ(sender.send(0), UdpSender::Progress::done);
  }
  EXPECT_EQ(sender.statistics().datagrams, total);
  EXPECT_LE(sender.statistics().refused_runs, 12U);
}

TEST_F(UdpSenderTest, AnInterruptedCallIsRepeated) {
  int calls = 0;
  script.answer = [&calls](const auto& entries) { return ++calls == 1 ? -EINTR : static_cast<int>(entries.size()); };
  add(1);
  EXPECT_EQ(sender.send(0), UdpSender::Progress::done);
  EXPECT_EQ(calls, 2);
}

// ---- The driver above it ----

class KernelUdpScripted : public KernelUdpTest {
 protected:
  void SetUp() override { script = {}; }
  [[nodiscard]] static wire::TransportAddress destination() { return {wire::Ipv4Address{{127, 0, 0, 1}}, 9}; }
  /// Bound, with one datagram of each size waiting.
  void send_sizes(Endpoint& endpoint, const Sizes& sizes) {
    for (const std::size_t size : sizes) {
      endpoint.send(destination(), std::string(size, 'x'));
    }
    set.scheduler().poll(loop->now());
  }
};

TEST_F(KernelUdpScripted, WhatTheKernelDoesNotTakeWaitsForWritabilityInOrder) {
  bool blocked = true;
  script.answer = [&](const auto& entries) { return blocked ? -EAGAIN : static_cast<int>(entries.size()); };
  Endpoint endpoint(set, {}, scripted);
  endpoint.bind("127.0.0.1:0");
  send_sizes(endpoint, {5, 4, 3});
  EXPECT_TRUE(set.sources().at(0)->wants_writable());
  EXPECT_EQ(endpoint.driver().write_queue().messages(), 3U);
  send_sizes(endpoint, {2, 1});
  EXPECT_TRUE(script.taken.empty());
  EXPECT_EQ(endpoint.counter("write_waits"), 1U) << "more data must not make it try again";
  blocked = false;
  EXPECT_TRUE(loop->run_until([] { return !script.taken.empty(); }, loop->now() + std::chrono::seconds(10)));
  EXPECT_EQ(script.taken_sizes(), (Sizes{5, 4, 3, 2, 1}));
  EXPECT_FALSE(set.sources().at(0)->wants_writable());
  send_sizes(endpoint, {7});
  EXPECT_EQ(script.taken_sizes().back(), 7U);
}

TEST_F(KernelUdpScripted, AFullQueueStopsTheWriterAndADrainedOneEnablesIt) {
  bool blocked = true;
  script.answer = [&](const auto& entries) { return blocked ? -EAGAIN : static_cast<int>(entries.size()); };
  Endpoint endpoint(set, {}, scripted);
  endpoint.bind("127.0.0.1:0");
  std::size_t written = 0;
  while (endpoint.down().can_put_next() && written < 10'000) {
    send_sizes(endpoint, {1400});
    ++written;
  }
  EXPECT_LE(written * 1400, KernelUdp::write_marks.high_bytes + 1400);
  EXPECT_GT(written, 100U);
  EXPECT_EQ(endpoint.head().enabled, 0);
  blocked = false;
  EXPECT_TRUE(loop->run_until([&] { return endpoint.head().enabled > 0; }, loop->now() + std::chrono::seconds(10)));
  run_until_quiet();
  EXPECT_EQ(script.taken_sizes().size(), written);
  EXPECT_TRUE(endpoint.down().can_put_next());
}

/// A full device queue leaves the socket writable: only time helps.
TEST_F(KernelUdpScripted, NoBufferSpaceIsTriedAgainLater) {
  int calls = 0;
  script.answer = [&](const auto& entries) { return ++calls <= 3 ? -ENOBUFS : static_cast<int>(entries.size()); };
  Endpoint endpoint(set, {}, scripted);
  endpoint.bind("127.0.0.1:0");
  send_sizes(endpoint, {3, 2, 1});
  EXPECT_EQ(calls, 1);
  EXPECT_TRUE(loop->run_until([] { return !script.taken.empty(); }, loop->now() + std::chrono::seconds(10)));
  EXPECT_EQ(script.taken_sizes(), (Sizes{3, 2, 1}));
  EXPECT_EQ(calls, 4);
}

// What waited for a later try goes with the endpoint (T_UNBIND_REQ), and so does the timer: bound again, the endpoint
// sends and waits as a new one, at no time of the old one's.
TEST_F(KernelUdpScripted, NoLaterTryOutlivesItsEndpoint) {
  int calls = 0;
  script.answer = [&](const auto&) {
    ++calls;
    return -ENOBUFS;
  };
  Endpoint endpoint(set, {}, scripted);
  endpoint.bind("127.0.0.1:0");
  send_sizes(endpoint, {3, 2, 1});
  EXPECT_EQ(calls, 1);
  endpoint.put(wire::tpi::UnbindReq{});
  endpoint.expect<wire::tpi::OkAck>();
  endpoint.bind("127.0.0.1:0");
  script.answer = [&](const auto&) {
    ++calls;
    return -EAGAIN;
  };
  send_sizes(endpoint, {7});
  EXPECT_EQ(calls, 2);
  set.scheduler().poll(loop->now() + std::chrono::seconds(1));
  EXPECT_EQ(calls, 2) << "the new socket has not said that it is writable";
  EXPECT_TRUE(set.sources().at(0)->wants_writable());
}

// T_UDERROR_IND is an ordinary message: a head that is full gets none, and each that it does not get is counted.
TEST_F(KernelUdpScripted, ErrorsHeedFlowControl) {
  script.answer = [](const auto&) { return -EACCES; };
  Endpoint endpoint(set, {}, scripted);
  endpoint.bind("127.0.0.1:0");
  endpoint.head().read_queue().set_marks({.high_bytes = 200, .low_bytes = 1});
  constexpr std::size_t count = 100;
  send_sizes(endpoint, Sizes(count, 1));
  const std::size_t reported = endpoint.head().read_queue().messages();
  EXPECT_GT(reported, 0U);
  EXPECT_LT(reported, count / 2);
  EXPECT_FALSE(endpoint.driver().read_queue().can_put_next());
  EXPECT_EQ(endpoint.counter("reports_dropped"), count - reported);
  EXPECT_EQ(endpoint.counter("denied"), count) << "what is not reported is counted all the same";
  while (endpoint.take()) {
  }
  send_sizes(endpoint, {1});
  EXPECT_EQ(endpoint.receive().primitive, wire::tpi::T_UDERROR_IND);
}

TEST_F(KernelUdpScripted, AnErrorThatRepeatsIsTheDatagramsOwn) {
  script.answer = [](const std::vector<Seen>& entries) {
    return entries[0].blocks.at(0) == 2 ? -EACCES : 1;  // takes one at a time
  };
  Endpoint endpoint(set, {}, scripted);
  endpoint.bind("127.0.0.1:0");
  send_sizes(endpoint, {1, 2, 3});
  EXPECT_EQ(script.taken_sizes(), (Sizes{1, 3}));
  const Received error = endpoint.receive();
  EXPECT_EQ(error.primitive, wire::tpi::T_UDERROR_IND);
  EXPECT_EQ(error.error, EACCES);
  EXPECT_EQ(error.address, destination());
  EXPECT_EQ(endpoint.counter("denied"), 1U);
}

TEST_F(KernelUdpScripted, AnErrorThatDoesNotRepeatIsNobodysHere) {
  int calls = 0;
  script.answer = [&](const auto& entries) { return ++calls == 1 ? -ECONNREFUSED : static_cast<int>(entries.size()); };
  Endpoint endpoint(set, {}, scripted);
  endpoint.bind("127.0.0.1:0");
  send_sizes(endpoint, {1, 2, 3});
  EXPECT_EQ(script.taken_sizes(), (Sizes{1, 2, 3}));
  EXPECT_FALSE(endpoint.take());
}

TEST_F(KernelUdpScripted, ABlockedEndpointCanBeUnboundAndBoundAgain) {
  bool blocked = true;
  script.answer = [&](const auto& entries) { return blocked ? -EAGAIN : static_cast<int>(entries.size()); };
  Endpoint endpoint(set, {}, scripted);
  endpoint.bind("127.0.0.1:0");
  send_sizes(endpoint, {3, 2, 1});
  endpoint.put(wire::tpi::UnbindReq{});
  endpoint.expect<wire::tpi::OkAck>();
  EXPECT_TRUE(endpoint.driver().write_queue().empty());
  blocked = false;
  endpoint.bind("127.0.0.1:0");
  send_sizes(endpoint, {9});
  EXPECT_EQ(script.taken_sizes(), (Sizes{9}));
}

TEST_F(KernelUdpScripted, AManyBlockDatagramIsMadeContiguousRatherThanRefused) {
  Endpoint endpoint(set, {}, scripted);
  endpoint.bind("127.0.0.1:0");
  std::array<std::byte, wire::TransportAddress::encoded_size_max> bytes{};
  const wire::tpi::UnitdataReq request{.address = ConstBytes(bytes).first(destination().encode(bytes)), .options = {}};
  Message message = Message::allocate(set.pool(), request.encoded_size(), 0, MessageType::proto);
  request.encode(message.append(request.encoded_size()));
  const std::string text(5000, 'x');
  message.link(Message::copy_of(set.pool(), as_bytes(text), 0, MessageType::data, 2));
  endpoint.down().put_next(std::move(message));
  set.scheduler().poll(loop->now());
  EXPECT_EQ(script.taken_sizes(), (Sizes{5000}));
}

// ---- Segmented messages: several datagrams in one ----

class KernelUdpSegments : public KernelUdpScripted {
 protected:
  void SetUp() override {
    KernelUdpScripted::SetUp();
    endpoint.bind("127.0.0.1:0");
  }

  /// A request for `text` in datagrams of `segment` bytes, as t_sndsudata makes it.
  [[nodiscard]] Message request(std::size_t segment, Message data) {
    wire::DataUnit unit{.kind = wire::DataUnit::Kind::transport_request,
                        .options = wire::DataUnit::Options::sending,
                        .peer = destination().address,
                        .peer_port = destination().port,
                        .segment_size = static_cast<std::uint16_t>(segment)};
    Message message = Message::of_native(set.pool(), unit);
    message.link(std::move(data));
    return message;
  }
  void put(std::size_t segment, const std::string& text) {
    endpoint.put(request(segment, Message::copy_of(set.pool(), as_bytes(text))));
  }
  /// Bytes of every datagram that the kernel took.
  [[nodiscard]] static std::vector<std::string> datagrams() {
    std::vector<std::string> all;
    for (const auto& call : script.taken) {
      for (const Seen& seen : call) {
        const std::size_t step = seen.segment == 0 ? std::max<std::size_t>(seen.bytes.size(), 1) : seen.segment;
        for (std::size_t at = 0; at < seen.bytes.size(); at += step) {
          all.push_back(seen.bytes.substr(at, step));
        }
      }
    }
    return all;
  }

  Endpoint endpoint{set, {}, scripted};
};

TEST_F(KernelUdpSegments, GoAsOneRunWithinTheCallWhereNothingWaits) {
  put(4, "aaaabbbbcc");
  ASSERT_EQ(script.taken.size(), 1U) << "no service procedure has run";
  ASSERT_EQ(script.taken[0].size(), 1U);
  EXPECT_EQ(script.taken[0][0].segment, 4U);
  EXPECT_EQ(script.taken[0][0].bytes, "aaaabbbbcc");
  EXPECT_EQ(endpoint.counter("sent"), 3U);
  EXPECT_EQ(endpoint.counter("segmented_runs"), 1U);
}

TEST_F(KernelUdpSegments, OneThatFitsASegmentIsADatagram) {
  put(4, "abc");
  set.scheduler().poll(loop->now());
  ASSERT_EQ(script.taken.size(), 1U);
  EXPECT_EQ(script.taken[0][0].segment, 0U);
  EXPECT_EQ(endpoint.counter("sent"), 1U);
}

TEST_F(KernelUdpSegments, WaitTheirTurnBehindWhatWaits) {
  endpoint.send(destination(), "first");
  put(4, "aaaabb");
  endpoint.send(destination(), "last");
  EXPECT_TRUE(script.taken.empty());
  set.scheduler().poll(loop->now());
  EXPECT_EQ(datagrams(), (std::vector<std::string>{"first", "aaaa", "bb", "last"}));
}

/// The kernel gets the user's own bytes; those that it does not take are copied before the call returns.
TEST_F(KernelUdpSegments, LeaveFromTheUsersMemoryOrAreCopiedInTime) {
  for (const bool blocked : {false, true}) {
    script = {};
    script.answer = [&](const auto& entries) { return blocked ? -EAGAIN : static_cast<int>(entries.size()); };
    std::string users(600, 'u');
    std::string more(500, 'm');
    const std::array<ConstBytes, 2> parts{as_bytes(users), as_bytes(more)};
    {
      Loan loan(set.pool(), ProcessingMode::fused, 0);
      endpoint.put(request(700, loan.segmented(parts, 0)));
    }
    std::string sent = users + more;
    users.assign(600, '-');  // the call has returned
    if (blocked) {
      EXPECT_TRUE(script.taken.empty());
      script.answer = nullptr;
      EXPECT_TRUE(loop->run_until([] { return !script.taken.empty(); }, loop->now() + std::chrono::seconds(10)));
    } else {
      EXPECT_EQ(script.taken.at(0).at(0).at, (std::vector<const void*>{users.data(), more.data()}));
    }
    EXPECT_EQ(datagrams(), (std::vector<std::string>{sent.substr(0, 700), sent.substr(700)})) << blocked;
  }
}

/// "no run": taken apart, in order, the user's memory or not, and what came behind it still comes behind it.
TEST_F(KernelUdpSegments, AreTakenApartWhereTheKernelTakesNoRun) {
  for (const int error : {EMSGSIZE, EINVAL, EIO}) {
    script = {};
    script.answer = [error](const std::vector<Seen>& entries) {
      const auto run = std::find_if(entries.begin(), entries.end(), [](const Seen& seen) { return seen.segment > 0; });
      return run == entries.begin() ? -error : static_cast<int>(run - entries.begin());
    };
    const std::uint64_t sent = endpoint.counter("sent");
    endpoint.send(destination(), "first");
    put(4, "aaaabbbbcc");
    put(5, "dddddeeeeef");
    endpoint.send(destination(), "last");
    set.scheduler().poll(loop->now());
    EXPECT_EQ(datagrams(), (std::vector<std::string>{"first", "aaaa", "bbbb", "cc", "ddddd", "eeeee", "f", "last"}));
    EXPECT_EQ(endpoint.counter("sent") - sent, 8U);
    const std::string users(800, 'u');
    const ConstBytes part = as_bytes(users);
    Loan loan(set.pool(), ProcessingMode::fused, 0);
    script.taken.clear();
    endpoint.put(request(700, loan.segmented(std::span(&part, 1), 0)));
    EXPECT_EQ(datagrams(), (std::vector<std::string>{users.substr(0, 700), users.substr(700)}));
  }
  EXPECT_FALSE(endpoint.take()) << "no error came up";
}

TEST_F(KernelUdpSegments, AreTakenApartWithoutSegmentation) {
  UdpSocket::Options options;
  options.gso = false;
  Endpoint plain(set, options, scripted);
  plain.bind("127.0.0.1:0");
  plain.put(request(4, Message::copy_of(set.pool(), as_bytes(std::string_view("aaaabbbbcc")))));
  ASSERT_EQ(script.taken.size(), 1U);
  EXPECT_EQ(script.taken[0].size(), 3U);
  EXPECT_EQ(datagrams(), (std::vector<std::string>{"aaaa", "bbbb", "cc"}));
}

TEST_F(KernelUdpSegments, OneErrorAnswersAllAndCountsEach) {
  script.answer = [](const auto&) { return -EACCES; };
  put(4, "aaaabbbbcc");
  const Received error = endpoint.receive();
  EXPECT_EQ(error.primitive, wire::tpi::T_UDERROR_IND);
  EXPECT_EQ(error.error, EACCES);
  EXPECT_EQ(error.address, destination());
  EXPECT_EQ(endpoint.counter("denied"), 3U);
  EXPECT_FALSE(endpoint.take());
}

TEST_F(KernelUdpSegments, MoreThanARunHoldsIsRefused) {
  put(1, std::string(UdpSender::run_datagrams_max + 1, 'x'));
  EXPECT_EQ(endpoint.receive().error, EINVAL);
  put(2000, std::string(UdpSender::run_bytes_max + 1, 'x'));
  EXPECT_EQ(endpoint.receive().error, EINVAL);
  EXPECT_TRUE(script.taken.empty());
  put(1, std::string(UdpSender::run_datagrams_max, 'x'));
  EXPECT_EQ(script.taken.size(), 1U);
}

/// A burst that is full when a run must be taken apart still has room for it.
TEST_F(KernelUdpSegments, ManyAreTakenApartInOrder) {
  script.answer = [](const std::vector<Seen>& entries) {
    const auto run = std::find_if(entries.begin(), entries.end(), [](const Seen& seen) { return seen.segment > 0; });
    return run == entries.begin() ? -EMSGSIZE : static_cast<int>(run - entries.begin());
  };
  std::vector<std::string> expected;
  endpoint.send(destination(), "0");
  expected.emplace_back("0");
  for (int run = 0; run < 10; ++run) {
    std::string text;
    for (std::size_t i = 0; i < UdpSender::run_datagrams_max; ++i) {
      expected.push_back(std::to_string(100000 + expected.size()));
      text += expected.back();
    }
    put(6, text);
  }
  set.scheduler().poll(loop->now());
  EXPECT_EQ(datagrams(), expected);
}

}  // namespace
}  // namespace sluice::tpi
