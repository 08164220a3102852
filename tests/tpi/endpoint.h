// SPDX-License-Identifier: Apache-2.0
#pragma once

// A transport endpoint for tests: a stream of `kernel_udp` under a head that keeps what comes up, so that tests speak
// TPI by hand.

#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "edge/run_loop.h"
#include "stack/core/chain.h"
#include "stack/core/stream_set.h"
#include "stack/wire/address.h"
#include "stack/wire/tpi.h"
#include "tpi/kernel_udp.h"

namespace sluice::tpi {

/// A stream head: keeps what comes up on its read queue.
class KeepingHead final : public Module {
 public:
  KeepingHead() : Module("head", Services::write) {}

  void rput(Batch&& batch) override {
    while (Message message = batch.pop()) {
      if (message.type() == MessageType::flush) {
        turn_flush_around(std::move(message));
      } else {
        read_queue().enqueue(std::move(message));
      }
    }
  }
  void wsrv() override { ++enabled; }
  [[nodiscard]] bool handles_deferred() const override { return segments; }
  [[nodiscard]] bool handles_segments() const override { return segments; }

  int enabled = 0;  // how often the write side was back-enabled
  int flushes = 0;
  bool segments = false;

 private:
  /// As a stream head does: flushes the read side, sends the write side's flag back down.
  void turn_flush_around(Message message) {
    ++flushes;
    flush_queues(message);
    message.bytes()[0] = std::byte{flush_write};
    write_queue().put_next(std::move(message));
  }
};

/// A data unit or error as it came up, with everything copied out.
struct Received {
  std::int32_t primitive = 0;
  wire::TransportAddress address;
  std::string data;
  std::int32_t error = 0;
};

/// A stream of a driver under a head that keeps what comes up.
class DriverStream {
 public:
  explicit DriverStream(StreamSet& set) : set_(set), chain_(set, head_) {}

  [[nodiscard]] KeepingHead& head() { return head_; }
  [[nodiscard]] Module& driver() { return chain_.driver(); }
  [[nodiscard]] Queue& down() { return head_.write_queue(); }

  /// Sends one primitive down, with data behind it.
  template <class Primitive>
  void put(const Primitive& primitive, std::string_view data = {}, bool with_data = false,
           MessageType type = MessageType::proto) {
    Message message = Message::allocate(set_.pool(), primitive.encoded_size(), 0, type);
    primitive.encode(message.append(primitive.encoded_size()));
    if (with_data || !data.empty()) {
      message.link(Message::copy_of(set_.pool(), as_bytes(data)));
    }
    down().put_next(std::move(message));
  }

  void put(Message message) { down().put_next(std::move(message)); }

  /// The next message that has come up; empty when there is none.
  [[nodiscard]] Message take() { return head_.read_queue().dequeue(); }

  /// The next message, decoded. REQUIRES: it is a `Primitive`. Views are of `kept_`.
  template <class Primitive>
  Primitive expect() {
    kept_ = take();
    EXPECT_TRUE(kept_) << "nothing came up";
    if (!kept_) {
      return {};
    }
    const auto decoded = Primitive::decode(kept_.bytes());
    EXPECT_TRUE(decoded) << "another primitive came up: " << wire::tpi::primitive_of(kept_.bytes()).value_or(-1);
    return decoded.value_or(Primitive{});
  }

  [[nodiscard]] std::uint64_t counter(std::string_view name) {
    for (const Counter* counter : driver().counters()) {
      if (counter->name() == name) {
        return counter->value();
      }
    }
    ADD_FAILURE() << "no counter " << name;
    return 0;
  }

 protected:
  StreamSet& set_;
  KeepingHead head_;
  Chain chain_;
  Message kept_;
};

class Endpoint : public DriverStream {
 public:
  /// `segments`: several datagrams may come up as one message, native descriptors as they are.
  explicit Endpoint(StreamSet& set, const UdpSocket::Options& options = {}, UdpSender::SendCall send_call = ::sendmmsg,
                    bool segments = false)
      : DriverStream(set) {
    head_.segments = segments;
    EXPECT_TRUE(chain_.open_driver(std::make_unique<KernelUdp>(set, options, send_call)));
  }

  /// Binds and returns the address that it is bound to.
  wire::TransportAddress bind(std::string_view text) {
    put_bind<wire::tpi::BindReq>(text);
    const auto bound = wire::TransportAddress::decode(expect<wire::tpi::BindAck>().address);
    EXPECT_TRUE(bound);
    return bound.value_or(wire::TransportAddress{});
  }

  template <class Request>
  void put_bind(std::string_view text) {
    std::array<std::byte, wire::TransportAddress::encoded_size_max> bytes{};
    const auto address = wire::TransportAddress::from_text(text);
    ASSERT_TRUE(address) << text;
    put(Request{.address = ConstBytes(bytes).first(address->encode(bytes))});
  }

  void send(const wire::TransportAddress& destination, std::string_view data) {
    std::array<std::byte, wire::TransportAddress::encoded_size_max> bytes{};
    const std::size_t size = destination.encode(bytes);
    put(wire::tpi::UnitdataReq{.address = ConstBytes(bytes).first(size), .options = {}}, data, true);
  }

  /// The next data unit or error; primitive 0 when there is none.
  [[nodiscard]] Received receive() {
    Message message = take();
    return message ? decode(message) : Received{};
  }

  [[nodiscard]] static Received decode(Message& message) {
    Received received;
    received.primitive = wire::tpi::primitive_of(message.bytes()).value_or(-1);
    if (const auto data = wire::tpi::UnitdataInd::decode(message.bytes())) {
      received.address = wire::TransportAddress::decode(data->address).value_or(wire::TransportAddress{});
    } else if (const auto error = wire::tpi::UderrorInd::decode(message.bytes())) {
      received.address = wire::TransportAddress::decode(error->destination).value_or(wire::TransportAddress{});
      received.error = error->error_type;
    }
    received.data.resize(message.data_size());
    EXPECT_TRUE(message.copy_data_to(0, std::as_writable_bytes(std::span(received.data))));
    return received;
  }
};

class KernelUdpTest : public testing::Test {
 protected:
  /// Runs until `endpoint` has `count` messages, for at most some seconds.
  [[nodiscard]] bool run_until_received(Endpoint& endpoint, std::size_t count) const {
    return loop->run_until([&] { return endpoint.head().read_queue().messages() >= count; },
                           loop->now() + std::chrono::seconds(10));
  }
  /// Lets the loop work until nothing has happened for a while.
  void run_until_quiet() const {
    for (int rounds = 0; rounds < 10000 && loop->wait(loop->now() + std::chrono::milliseconds(20)); ++rounds) {
    }
  }
  /// One round: service procedures run, so that what was put is sent.
  void run_one_round() const { static_cast<void>(loop->wait(loop->now())); }

  StreamSet set;
  std::unique_ptr<RunLoop> loop = std::move(RunLoop::open(set)).value();
};

}  // namespace sluice::tpi
