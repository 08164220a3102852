// SPDX-License-Identifier: Apache-2.0
#pragma once

// Endpoints that send each other messages: over a wire in memory, in simulated time, or over the kernel's UDP on
// loopback, in real time. Whoever waits lets all of them make progress.

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/common/registry.h"
#include "edge/run_loop.h"
#include "msg/endpoint.h"
#include "stack/head/stack_file.h"
#include "stack/modules/null.h"
#include "tests/seeds.h"
#include "tests/stack/head/simulated_waiter.h"

namespace sluice::test::msgs {

using msg::Completion;
using msg::Endpoint;
using msg::Handle;
using msg::Match;
using msg::Peer;
using namespace std::chrono_literals;

/// For Match::ignore: any message.
inline constexpr std::uint64_t any_bits = ~std::uint64_t{0};

/// SLUICE_MSG_CASES: how many are tried instead of `cases`; SLUICE_MSG_SEED: that one alone.
inline void over_seeds(const std::function<void(std::uint64_t)>& one_case, std::uint64_t cases = 40) {
  sluice::over_seeds("SLUICE_MSG", cases, one_case);
}

/// What the endpoints of a bed stand on.
struct Arrangement {
  std::string name = {};
  bool kernel = false;          // kernel_udp; else ip and udp on a wire
  std::string module = "rmpp";  // or connections, without a module of messages: "tcp", "xtp"
  std::string mode = "layered";
  std::string settings = {};  // of the module; of kernel_tcp there are none
  std::string fault = {};     // settings of a fault module below it; empty: none
  std::uint64_t seed = 1;
  bool encode_primitives = false;
  bool watched = false;  // Bed::connections() tells the streams of connections
  bool offload = true;   // the wire makes sums needless where it can
  bool fault_below_ip = false;

  friend std::ostream& operator<<(std::ostream& out, const Arrangement& made) { return out << made.name; }
};

/// As SimulatedWaiter, and every endpoint has its turn first.
class TurnsWaiter final : public SimulatedWaiter {
 public:
  using SimulatedWaiter::SimulatedWaiter;
  bool wait(TimePoint deadline) override {
    bool moved = false;
    for (Endpoint* const endpoint : endpoints) {
      moved = endpoint->progress() || moved;
    }
    return SimulatedWaiter::wait(moved ? std::min(deadline, now()) : deadline) || moved;
  }
  std::vector<Endpoint*> endpoints;
};

/// In a stream, to tell how long that lives.
class Watched final : public Null {
 public:
  explicit Watched(std::vector<Watched*>& all) : all_(all) { all_.push_back(this); }
  ~Watched() override { std::erase(all_, this); }
  Watched(const Watched&) = delete;
  Watched& operator=(const Watched&) = delete;
  Stream* stream = nullptr;  // of a connection

 private:
  std::vector<Watched*>& all_;
};

class Bed {
 public:
  explicit Bed(const Arrangement& arrangement, std::size_t count, msg::Options options = {})
      : arrangement_(arrangement),
        set_({.defer_bytes_min = 0, .encode_primitives = arrangement.encode_primitives, .seed = arrangement.seed}),
        waiter_(set_) {
    registry_.add({.name = "watched",
                   .summary = "tells how long a stream lives",
                   .transparent = true,
                   .make = [this](StreamSet&, const Parameters&) -> Result<std::unique_ptr<Module>> {
                     return std::make_unique<Watched>(watched_);
                   }});
    if (arrangement_.kernel) {
      loop_ = std::move(*RunLoop::open(set_));
    }
    for (std::size_t at = 0; at < count; ++at) {
      auto made = open(at, options);
      EXPECT_TRUE(made) << made.error().text;
      Endpoint* const endpoint = endpoints_.emplace_back(std::move(*made)).get();
      waiter_.endpoints.push_back(endpoint);
      if (loop_) {
        loop_->attend(endpoint->stream(), [endpoint] { return endpoint->progress(); });
      }
    }
  }
  ~Bed() { close_all(); }

  /// A stream like that of the endpoint `at`.
  Result<std::unique_ptr<Stream>> open_stream(std::size_t at) {
    const auto file = StackFile::parse(declared(at), "test", registry_);
    if (!file) {
      return std::unexpected(file.error());
    }
    auto stream = open_stack(set_, **file->find("one"));
    if (stream) {
      (*stream)->set_waiter(loop_ ? static_cast<Waiter*>(loop_.get()) : &waiter_);
    }
    return stream;
  }
  Result<std::unique_ptr<Endpoint>> open(std::size_t at, msg::Options options) {
    auto stream = open_stream(at);
    if (!stream) {
      return std::unexpected(stream.error());
    }
    options.another_stream = [this, at] {
      auto another = open_stream(at);
      if (another && arrangement_.watched) {
        watched_.back()->stream = another->get();
      }
      return another;
    };
    if (!options.local) {
      options.local = loop_ ? *Peer::from_text("127.0.0.1:0")
                            : Peer{*wire::IpAddress::from_text("10.80.0." + std::to_string(1 + at % 2)),
                                   static_cast<std::uint16_t>(7000 + at)};
    }
    return Endpoint::open(std::move(*stream), options);
  }
  void close(std::size_t at) {
    if (loop_) {
      loop_->unattend(endpoints_[at]->stream());
    }
    std::erase(waiter_.endpoints, endpoints_[at].get());
    endpoints_[at].reset();
  }
  void close_all() {
    for (std::size_t at = 0; at < endpoints_.size(); ++at) {
      if (endpoints_[at]) {
        close(at);
      }
    }
  }

  /// Over a wire: the endpoint has no turns any more, while its stream goes on; until resume().
  void hold_back(std::size_t at) { std::erase(waiter_.endpoints, endpoints_[at].get()); }
  void resume(std::size_t at) { waiter_.endpoints.push_back(endpoints_[at].get()); }

  /// With Arrangement::watched: the streams of connections that endpoints have, in the order of their opening.
  [[nodiscard]] std::vector<Stream*> connections() const {
    std::vector<Stream*> open;
    for (const Watched* const one : watched_) {
      if (one->stream != nullptr) {
        open.push_back(one->stream);
      }
    }
    return open;
  }

  Endpoint& operator[](std::size_t at) { return *endpoints_[at]; }
  [[nodiscard]] std::size_t size() const { return endpoints_.size(); }
  [[nodiscard]] Peer peer(std::size_t at) const { return endpoints_[at]->address(); }
  StreamSet& set() { return set_; }
  Waiter& waiter() { return loop_ ? static_cast<Waiter&>(*loop_) : waiter_; }
  /// Long enough for what a test waits for, and the end of one that hangs.
  TimePoint soon() { return waiter().now() + 20s; }

  /// Until nothing happens any more for a while.
  void settle() {
    const Duration quiet = loop_ ? Duration(50ms) : Duration(2s);
    for (int turns = 0; turns < 100'000 && waiter().wait(waiter().now() + quiet); ++turns) {
    }
  }
  /// Lets time pass.
  void pass(Duration time) {
    const TimePoint end = waiter().now() + time;
    while (waiter().now() < end) {
      static_cast<void>(waiter().wait(end));
    }
  }
  std::uint64_t count(std::size_t at, std::string_view module, std::string_view counter) {
    for (const auto& each : endpoints_[at]->stream().chain().modules()) {
      for (const Counter* one : each->counters()) {
        if (each->name() == module && one->name() == counter) {
          return one->value();
        }
      }
    }
    ADD_FAILURE() << module << " has no " << counter;
    return 0;
  }

 private:
  [[nodiscard]] std::string declared(std::size_t at) const {
    const std::string end = at % 2 == 0 ? "a" : "b";
    const bool connects = arrangement_.module == "tcp";
    std::string text = "[stack.one]\nmode = \"" + arrangement_.mode + "\"\n";
    text += arrangement_.kernel
                ? std::string("driver = { kind = \"") + (connects ? "kernel_tcp" : "kernel_udp") + "\" }"
                : R"(driver = { kind = "wire", name = "msg", end = ")" + end +
                      (arrangement_.offload ? "\" }" : "\", offload = false }");
    text += "\npush = [";
    // What a link loses tcp repairs: so its fault stands below ip.
    const std::string fault = arrangement_.fault.empty() ? "" : R"("fault", )";
    const bool below_ip = connects || arrangement_.fault_below_ip;
    text += below_ip ? fault : "";
    text += arrangement_.kernel ? "" : connects ? R"("ip", "tcp", )" : R"("ip", "udp", )";
    text += connects ? "" : (below_ip ? "" : fault) + "\"" + arrangement_.module + "\", ";
    text += std::string(arrangement_.watched ? R"("watched", )" : "") + "\"timod\"]\n";
    text += arrangement_.kernel ? "" : "ip = { address = \"10.80.0." + std::to_string(1 + at % 2) + "/24\" }\n";
    text += arrangement_.fault.empty() ? "" : "fault = { " + arrangement_.fault + " }\n";
    const bool settles = !connects || (!arrangement_.kernel && !arrangement_.settings.empty());
    return text + (settles ? arrangement_.module + " = { " + arrangement_.settings + " }\n" : "");
  }

  Arrangement arrangement_;
  Registry registry_ = standard_registry();
  std::vector<Watched*> watched_;
  StreamSet set_;
  TurnsWaiter waiter_;
  std::unique_ptr<RunLoop> loop_;
  std::vector<std::unique_ptr<Endpoint>> endpoints_;
};

/// `size` bytes that say which message they are of.
inline std::vector<std::byte> content(std::uint64_t which, std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::size_t at = 0; at < size; ++at) {
    bytes[at] = static_cast<std::byte>((which * 7 + at * 131 + (at >> 8) * 3) & 0xff);
  }
  return bytes;
}

}  // namespace sluice::test::msgs
