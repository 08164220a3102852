// SPDX-License-Identifier: Apache-2.0

// Document 001, Figure 4: how long a process waits for a message after a long computation, during which the message was
// sent. The receive is posted before, and the computation takes three times the message's own time and 2 ms more.
//
// Over the kernel's UDP on loopback: rmpp and utopia whose messages move in a thread of their own (`*_progress`,
// progress/messenger.h), and without, where they move while the program waits. tcp and udp are plain sockets of the
// kernel, blocking, as the document's were; udp only as far as its receive buffer, which nothing keeps from
// overflowing, holds the message. The sender has a thread in every arm.
//
//   overlap         us of waiting after the computation, by message size
//   overlap_share   the same as a share of the message's own time: waiting without a computation

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/descriptor.h"
#include "bench/experiment.h"
#include "bench/opened.h"
#include "progress/messenger.h"

namespace sluice::bench {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// A message from one process to another.
class Transfer {
 public:
  virtual ~Transfer() = default;
  /// Posts the receive, and sends.
  virtual void begin(ConstBytes from, Bytes to) = 0;
  /// Waits for the message; false when it did not come.
  [[nodiscard]] virtual bool finish() = 0;
  /// Waits until the sender is done, too.
  virtual void settle() = 0;
};

class MessengerTransfer final : public Transfer {
 public:
  MessengerTransfer(const std::string& module, bool progress)
      : receiver_(open(module, progress)), sender_(open(module, true)) {}

  void begin(ConstBytes from, Bytes to) override {
    receive_ = needed(receiver_->post(to, {.bits = 0, .ignore = ~std::uint64_t{0}}));
    send_ = needed(sender_->send(receiver_->address(), 1, from));
  }
  [[nodiscard]] bool finish() override {
    const auto done = receiver_->wait(receive_, msg::Messenger::now() + 10s);
    return done && done->error == 0;
  }
  void settle() override {
    // A receiver without a thread answers the sender while it waits.
    for (int tries = 0; tries < 10'000 && !sender_->test(send_); ++tries) {
      static_cast<void>(receiver_->probe({.bits = 0, .ignore = ~std::uint64_t{0}}, msg::Messenger::now() + 1ms));
    }
  }

 private:
  static std::unique_ptr<msg::Messenger> open(const std::string& module, bool progress) {
    return needed(msg::Messenger::open(
        [&module](StreamSet& set) -> Result<std::unique_ptr<Stream>> {
          return opened(set, "driver = { kind = 'kernel_udp' }\npush = ['" + module + "', 'timod']\n");
        },
        {.endpoint = {.local = needed(msg::Peer::from_text("127.0.0.1:0"))}, .progress_thread = progress}));
  }

  std::unique_ptr<msg::Messenger> receiver_;
  std::unique_ptr<msg::Messenger> sender_;
  msg::Handle receive_;
  msg::Handle send_;
};

/// Sockets of the kernel on loopback.
class SocketTransfer final : public Transfer {
 public:
  explicit SocketTransfer(int type) : datagrams_(type == SOCK_DGRAM) {
    Descriptor listener(::socket(AF_INET, type | SOCK_CLOEXEC, 0));
    sender_ = Descriptor(::socket(AF_INET, type | SOCK_CLOEXEC, 0));
    sockaddr_in name{};
    name.sin_family = AF_INET;
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof name;
    auto* const address = reinterpret_cast<sockaddr*>(&name);
    SLUICE_REQUIRE(::bind(listener.get(), address, size) == 0);
    SLUICE_REQUIRE(::getsockname(listener.get(), address, &size) == 0);
    SLUICE_REQUIRE(datagrams_ || ::listen(listener.get(), 1) == 0);
    SLUICE_REQUIRE(::connect(sender_.get(), address, size) == 0);
    receiver_ = datagrams_ ? std::move(listener) : Descriptor(::accept(listener.get(), nullptr, nullptr));
    const timeval patience{.tv_sec = 2, .tv_usec = 0};
    SLUICE_REQUIRE(::setsockopt(receiver_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) == 0);
    SLUICE_REQUIRE(::setsockopt(sender_.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience) == 0);
  }
  ~SocketTransfer() override { settle(); }

  void begin(ConstBytes from, Bytes to) override {
    to_ = to;
    thread_ = std::thread([this, from]() mutable {
      while (!from.empty()) {
        const ssize_t sent = ::send(sender_.get(), from.data(), std::min(from.size(), piece()), 0);
        if (sent <= 0) {
          return;
        }
        from = from.subspan(static_cast<std::size_t>(sent));
      }
    });
  }
  [[nodiscard]] bool finish() override {
    while (!to_.empty()) {
      const ssize_t got = ::recv(receiver_.get(), to_.data(), to_.size(), 0);
      if (got <= 0) {
        return false;
      }
      to_ = to_.subspan(static_cast<std::size_t>(got));
    }
    return true;
  }
  void settle() override {
    if (thread_.joinable()) {
      thread_.join();
    }
  }

 private:
  [[nodiscard]] std::size_t piece() const { return datagrams_ ? 1400 : std::size_t{1} << 30; }

  bool datagrams_;
  Descriptor receiver_;
  Descriptor sender_;
  Bytes to_;
  std::thread thread_;
};

/// Seconds of waiting after a computation of so many seconds; negative when the message did not come.
double waited(Transfer& transfer, ConstBytes from, Bytes to, double computation) {
  std::ranges::fill(to, std::byte{0});
  transfer.begin(from, to);
  for (const auto start = Clock::now(); since(start) < computation;) {
  }
  const auto start = Clock::now();
  const bool came = transfer.finish();
  const double seconds = since(start);
  transfer.settle();
  return came && std::ranges::equal(from, to) ? seconds : -1;
}

TEST(rmpp, overlap) {
  const Figure wait("overlap", "us");
  const Figure share("overlap_share", "ratio");
  constexpr std::size_t udp_bytes_max = 60'000;
  std::vector<std::pair<std::string, std::unique_ptr<Transfer>>> transfers;
  for (const std::string module : {"rmpp", "utopia"}) {
    transfers.emplace_back(module + "_progress", std::make_unique<MessengerTransfer>(module, true));
    transfers.emplace_back(module, std::make_unique<MessengerTransfer>(module, false));
  }
  transfers.emplace_back("tcp", std::make_unique<SocketTransfer>(SOCK_STREAM));
  transfers.emplace_back("udp", std::make_unique<SocketTransfer>(SOCK_DGRAM));
  for (const std::size_t size :
       full_or_tiny<std::size_t>({1000, 10'000, 60'000, 200'000, 500'000, 1'000'000, 4'000'000}, {60'000})) {
    std::vector<std::byte> from(size, std::byte{9});
    std::vector<std::byte> to(size);
    std::map<std::string, Samples> shares;
    std::vector<Arm> arms;
    for (const auto& [name, transfer] : transfers) {
      if (name == "udp" && size > udp_bytes_max) {
        continue;
      }
      arms.push_back({name, [&, &its_shares = shares[name], &its_name = name, one = transfer.get()] {
                        const double own = waited(*one, from, to, 0);
                        const double after = waited(*one, from, to, 3 * own + 2e-3);
                        EXPECT_TRUE(own > 0 && after >= 0) << its_name << ' ' << size;
                        its_shares.add(std::max(after, 0.0) / std::max(own, 1e-9));
                        return std::max(after, 0.0);
                      }});
    }
    const Rounds rounds(std::move(arms));
    for (const std::string& arm : rounds.arms()) {
      wait.add(arm, size, rounds.nanoseconds(arm).times(1e-3));
      share.add(arm, size, shares[arm]);
    }
  }
}

}  // namespace
}  // namespace sluice::bench
