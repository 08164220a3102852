// SPDX-License-Identifier: Apache-2.0
// A file through two whole stacks in one program, joined in memory, in simulated time: ftx, TLI, timod, udp, ip, wire
// and back. No system call moves a byte, so the same seed gives the same run.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/common/registry.h"
#include "apps/ftx/files/directory.h"
#include "apps/ftx/files/source.h"
#include "apps/ftx/recovery/bbr.h"
#include "apps/ftx/session/sender.h"
#include "apps/ftx/session/server.h"
#include "apps/ftx/transport/session_handlers.h"
#include "apps/ftx/transport/transport.h"
#include "base/prng.h"
#include "stack/modules/capture.h"

namespace sluice::ftx {
namespace {

namespace fs = std::filesystem;

/// Waits by moving the clock to the next deadline.
class SimulatedWaiter final : public Waiter {
 public:
  explicit SimulatedWaiter(StreamSet& set) : set_(set) {}
  bool wait(TimePoint deadline) override {
    now_ = std::max(now_, std::min(deadline, set_.scheduler().next_deadline()));
    return set_.scheduler().poll(now_);
  }
  TimePoint now() override { return now_; }

 private:
  StreamSet& set_;
  TimePoint now_{std::chrono::seconds(1)};
};

std::string contents_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class WireTransfer : public testing::Test {
 protected:
  void SetUp() override {
    directory_ = fs::path(testing::TempDir()) / fmt::format("wire_transfer_{}", ::getpid());
    fs::create_directories(directory_ / "in");
  }
  void TearDown() override { fs::remove_all(directory_); }

  void write_source(std::size_t size) {
    Prng prng(7);
    std::string content(size, '\0');
    std::ranges::generate(content, [&] { return static_cast<char>(prng()); });
    std::ofstream(directory_ / "big.bin", std::ios::binary) << content;
  }

  /// What happens to both streams between two turns of the transfer.
  using Disturbance = std::function<void(Stream& sender, Stream& receiver)>;

  /// Moves big.bin from stack a to stack b and gives the receiver's last event.
  Event transfer(const std::string& stacks, const wire::IpAddress& target, std::size_t datagram_bytes,
                 const Disturbance& disturb = {});

  fs::path directory_;
};

Event WireTransfer::transfer(const std::string& stacks, const wire::IpAddress& target, std::size_t datagram_bytes,
                             const Disturbance& disturb) {
  StreamSet set(StreamSet::Options{.defer_bytes_min = 1024, .seed = 3});  // as the program has it
  SimulatedWaiter waiter(set);
  const Registry registry = standard_registry();
  const auto file = StackFile::parse(stacks, "test", registry);
  EXPECT_TRUE(file) << file.error().text;
  const wire::IpAddress any =
      target.is_v6() ? wire::IpAddress(wire::Ipv6Address{}) : wire::IpAddress(wire::Ipv4Address{});
  auto client = Transport::open(set, waiter, **file->find("a"), {any, 0});
  auto host = Transport::open(set, waiter, **file->find("b"), {target, 7070});
  EXPECT_TRUE(client) << client.error().text;
  EXPECT_TRUE(host) << host.error().text;

  const std::vector<std::string> paths{(directory_ / "big.bin").string()};
  auto source = FileSource::open(paths);
  auto destination = DirectoryDestination::serve((directory_ / "in").string(), 1);
  Bbr congestion(datagram_bytes, 1);
  SenderOptions sender_options;
  sender_options.peer = peer_of({target, 7070});
  sender_options.tsdu_bytes = datagram_bytes;
  Sender sender(waiter.now(), sender_options, **source, congestion);
  ServerOptions server_options;
  server_options.insecure = true;
  server_options.tsdu_bytes = (*host)->tsdu_bytes();
  Server server(server_options, **destination);

  Event last;
  Burst burst;
  Burst answers;
  SenderHandler to_sender(sender);
  ServerHandler to_server(server);
  const TimePoint give_up = waiter.now() + std::chrono::seconds(600);
  while (!sender.finished() && waiter.now() < give_up) {
    const TimePoint now = waiter.now();
    to_sender.now = to_server.now = now;
    (*client)->receive(to_sender);
    (*host)->receive(to_server);
    if ((*client)->send(burst) && (*client)->can_send()) {
      sender.transmit(now, burst);
      (*client)->send(burst);
    }
    if (disturb) {
      disturb((*client)->stream(), (*host)->stream());
    }
    server.transmit(now, answers);
    EXPECT_TRUE((*host)->send(answers));
    while (const auto event = server.next_event()) {
      last = *event;
    }
    [[maybe_unused]] const bool happened = waiter.wait(
        std::max(now + std::chrono::microseconds(1), std::min(sender.next_deadline(), server.next_deadline())));
  }
  EXPECT_TRUE(sender.finished());
  EXPECT_EQ(sender.exit_code(), ExitCode::ok);
  return last;
}

/// Two hosts on one wire, with `pushed` just above the driver of a.
std::string two_hosts(std::size_t mtu, const std::string& pushed, const std::string& parameters,
                      std::string_view mode = "layered") {
  return fmt::format(R"(
[stack.a]
mode   = "{3}"
driver = {{ kind = "wire", name = "lab", end = "a", mtu = {0} }}
push   = [{1}"ip", "udp", "timod"]
ip     = {{ address = ["10.79.0.1/24", "fd00:79::1/64"] }}
{2}
[stack.b]
mode   = "{3}"
driver = {{ kind = "wire", name = "lab", end = "b", mtu = {0} }}
push   = ["ip", "udp", "timod"]
ip     = {{ address = ["10.79.0.2/24", "fd00:79::2/64"] }}
)",
                     mtu, pushed, parameters, mode);
}

TEST_F(WireTransfer, OverIpv4) {
  write_source(3'000'001);
  const Event done = transfer(two_hosts(1500, "", ""), *wire::IpAddress::from_text("10.79.0.2"), 1472);
  EXPECT_EQ(done.kind, Event::Kind::done);
  EXPECT_EQ(done.out_of_order, 0U);
  EXPECT_EQ(contents_of(directory_ / "big.bin"), contents_of(directory_ / "in" / "big.bin"));
}

TEST_F(WireTransfer, OverIpv6) {
  write_source(1'000'000);
  transfer(two_hosts(1500, "", ""), *wire::IpAddress::from_text("fd00:79::2"), 1452);
  EXPECT_EQ(contents_of(directory_ / "big.bin"), contents_of(directory_ / "in" / "big.bin"));
}

TEST_F(WireTransfer, InFragments) {
  write_source(1'000'000);
  transfer(two_hosts(1500, "", ""), *wire::IpAddress::from_text("10.79.0.2"), 8192);
  EXPECT_EQ(contents_of(directory_ / "big.bin"), contents_of(directory_ / "in" / "big.bin"));
}

TEST_F(WireTransfer, OverABadLink) {
  write_source(2'000'000);
  const std::string fault =
      "fault = { loss = 5, reorder = 5, duplicate = 1, bit_errors = 1e-7, delay_ms = 2, reorder_ms = 3, seed = 11 }";
  const Event done = transfer(two_hosts(1500, "\"fault\", ", fault), *wire::IpAddress::from_text("10.79.0.2"), 1472);
  EXPECT_EQ(done.kind, Event::Kind::done);
  EXPECT_GT(done.out_of_order, 0U);
  EXPECT_GT(done.repaired, 0U);
  EXPECT_EQ(contents_of(directory_ / "big.bin"), contents_of(directory_ / "in" / "big.bin"));
}

TEST_F(WireTransfer, OnTheFusedPathTheRunIsTheSame) {
  write_source(2'000'000);
  const std::string fault =
      "fault = { loss = 5, reorder = 5, duplicate = 1, bit_errors = 1e-7, delay_ms = 2, reorder_ms = 3, seed = 11 }";
  std::vector<Event> done;
  for (const std::string_view path : {"layered", "fused"}) {
    done.push_back(
        transfer(two_hosts(1500, "\"fault\", ", fault, path), *wire::IpAddress::from_text("10.79.0.2"), 1472));
    EXPECT_EQ(contents_of(directory_ / "big.bin"), contents_of(directory_ / "in" / "big.bin"));
    fs::remove(directory_ / "in" / "big.bin");
  }
  EXPECT_EQ(done[0].kind, Event::Kind::done);
  EXPECT_EQ(done[0].adus, done[1].adus);
  EXPECT_EQ(done[0].repaired, done[1].repaired);
  EXPECT_EQ(done[0].out_of_order, done[1].out_of_order);
  EXPECT_EQ(done[0].seconds, done[1].seconds);
}

// A capture de-fuses both streams and lets go of them again, a thousand times, between two turns of a transfer that
// never pauses: nothing is lost, nothing comes out of order, no byte is wrong, and what the capture saw was real.
TEST_F(WireTransfer, ACaptureComesAndGoesWhileDataFlows) {
  write_source(100'000'000);
  int pushed = 0;
  int popped = 0;
  std::uint64_t materialized = 0;
  std::uint64_t written_bytes = 0;
  const auto capture = [&] {
    return std::make_unique<Capture>(Capture::Options{.sink = {},
                                                      .open_sink = [&]() -> Result<CaptureSink> {
                                                        return CaptureSink([&](ConstBytes bytes) {
                                                          written_bytes += bytes.size();
                                                          return true;
                                                        });
                                                      },
                                                      .wall_clock = [] { return Duration(); }});
  };
  const Event done = transfer(two_hosts(1500, "", "", "fused"), *wire::IpAddress::from_text("10.79.0.2"), 1472,
                              [&](Stream& sender, Stream& receiver) {
                                for (Stream* stream : {&sender, &receiver}) {
                                  if (stream->find("capture")) {
                                    materialized +=
                                        stream->chain().modules().front()->read_queue().statistics().materialized;
                                    ASSERT_TRUE(stream->pop());
                                    ++popped;
                                  } else if (pushed < 1500) {
                                    ASSERT_TRUE(stream->push(capture()));
                                    ++pushed;
                                  }
                                }
                              });
  EXPECT_EQ(pushed, 1500) << "each side, hundreds of times";
  EXPECT_GE(popped, 1498);
  EXPECT_GT(materialized, 1000U) << "checks were still owed when messages reached the capture";
  EXPECT_GT(written_bytes, 1'000'000U);
  EXPECT_EQ(done.kind, Event::Kind::done);
  EXPECT_EQ(done.repaired, 0U) << "the link loses nothing";
  EXPECT_EQ(done.out_of_order, 0U);
  EXPECT_TRUE(contents_of(directory_ / "big.bin") == contents_of(directory_ / "in" / "big.bin"));
}

}  // namespace
}  // namespace sluice::ftx
