// SPDX-License-Identifier: Apache-2.0
#pragma once

// A file through two whole stacks in one program, joined in memory, in simulated time: ftx, TLI, timod, udp, ip, wire
// and back. No system call moves a byte, so the same seed gives the same run.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
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
#include "tests/apps/ftx/session/simulation.h"
#include "tests/e2e/simulated_waiter.h"
#include "tests/file_text.h"

namespace sluice::ftx {

namespace fs = std::filesystem;

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

  // What a test may change before it calls transfer().
  Registry registry_ = standard_registry();
  std::unique_ptr<CongestionControl> congestion_;   // of the next transfer; BBR where there is none
  std::optional<std::size_t> ip_header_bytes_;      // as SenderOptions has it
  std::function<void(const Sender& sender)> look_;  // after each turn
  bool sealed_ = false;
  LandBy land_by_ = LandBy::faster;

  // What transfer() leaves.
  Touches touches_{};               // of both stacks
  std::uint64_t sealed_bytes_ = 0;  // Sender::cipher_bytes()
  std::uint64_t opened_bytes_ = 0;  // Server::cipher_bytes()
  DropCounters drops_{};            // of the server

  /// Moves big.bin from stack a to stack b and gives the receiver's last event.
  Event transfer(const std::string& stacks, const wire::IpAddress& target, std::size_t datagram_bytes,
                 const Disturbance& disturb = {});

  fs::path directory_;
};

inline Event WireTransfer::transfer(const std::string& stacks, const wire::IpAddress& target,
                                    std::size_t datagram_bytes, const Disturbance& disturb) {
  StreamSet set(StreamSet::Options{.defer_bytes_min = 1024, .seed = 3});  // as the program has it
  SimulatedWaiter waiter(set);
  const auto file = StackFile::parse(stacks, "test", registry_);
  EXPECT_TRUE(file) << file.error().text;
  const wire::IpAddress any =
      target.is_v6() ? wire::IpAddress(wire::Ipv6Address{}) : wire::IpAddress(wire::Ipv4Address{});
  auto client = Transport::open(set, waiter, **file->find("a"), {any, 0});
  auto host = Transport::open(set, waiter, **file->find("b"), {target, 7070});
  EXPECT_TRUE(client) << client.error().text;
  EXPECT_TRUE(host) << host.error().text;

  const std::vector<std::string> paths{(directory_ / "big.bin").string()};
  auto source = FileSource::open(paths);
  auto destination = DirectoryDestination::serve((directory_ / "in").string(), 1, land_by_);
  const std::unique_ptr<CongestionControl> congestion =
      congestion_ ? std::move(congestion_) : std::make_unique<Bbr>(datagram_bytes, 1);
  SenderOptions sender_options;
  sender_options.peer = peer_of({target, 7070});
  sender_options.tsdu_bytes = datagram_bytes;
  sender_options.ip_header_bytes = ip_header_bytes_;
  const auto protection = [this](Side side) {
    return sealed_ ? std::optional(test::protection_of(1, side)) : std::nullopt;
  };
  Sender sender(waiter.now(), sender_options, **source, *congestion, protection(Side::initiator));
  ServerOptions server_options;
  server_options.insecure = true;
  server_options.tsdu_bytes = (*host)->tsdu_bytes();
  Server server(server_options, **destination);
  if (sealed_) {
    server.expect(*protection(Side::responder));
  }

  Event last;
  Burst burst;
  Burst answers;
  SenderHandler to_sender(sender);
  ServerHandler to_server(server);
  const TimePoint give_up = waiter.now() + std::chrono::seconds(3600);
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
    if (look_) {
      look_(sender);
    }
    [[maybe_unused]] const bool happened = waiter.wait(
        std::max(now + std::chrono::microseconds(1), std::min(sender.next_deadline(), server.next_deadline())));
  }
  EXPECT_TRUE(sender.finished());
  EXPECT_EQ(sender.exit_code(), ExitCode::ok);
  touches_ = set.pool().touches();
  sealed_bytes_ = sender.cipher_bytes();
  opened_bytes_ = server.cipher_bytes();
  drops_ = server.drops();
  return last;
}

/// Two hosts on one wire, with `pushed` just above the driver of a.
inline std::string two_hosts(std::size_t mtu, const std::string& pushed, const std::string& parameters,
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

}  // namespace sluice::ftx
