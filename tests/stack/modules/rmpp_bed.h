// SPDX-License-Identifier: Apache-2.0
#pragma once

// Nodes that send each other messages through `rmpp` or `utopia`, over a network that loses, doubles, delays and
// damages packets as a seed says, in simulated time. What a node's user gets is checked as it comes: each byte, and
// that no message comes twice or before an earlier one.

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/internet_checksum.h"
#include "base/prng.h"
#include "stack/core/chain.h"
#include "stack/core/primitive.h"
#include "stack/modules/message_protocol.h"
#include "stack/wire/data_unit.h"
#include "tests/stack/modules/harness.h"

namespace sluice::test::messages {

using wire::DataUnit;
using wire::RmppHeader;
using wire::TransportAddress;
using wire::message::Indication;
using wire::message::Request;

inline std::byte byte_of(std::uint64_t tag, std::uint64_t offset) {
  return static_cast<std::byte>((tag * 7 + offset * 131 + (offset >> 8)) & 0xff);
}

struct Packet {
  TransportAddress from;
  TransportAddress to;
  std::vector<std::byte> bytes;
  std::uint16_t sum = 0;  // as UDP's checksum: of the bytes as they were sent
};

struct Weather {
  double loss = 0;
  double burst = 1;  // packets lost in a row, on average
  double duplicate = 0;
  double damage = 0;  // of a packet
  Duration delay = std::chrono::microseconds(100);
  Duration jitter{};
};

/// Good in a fifth of the cases.
inline Weather random_weather(Prng& prng) {
  if (prng.below(5) == 0) {
    return {};
  }
  const double badness = static_cast<double>(prng.below(100)) / 400;
  return {.loss = (prng.below(2) == 0 ? 0 : badness),
          .burst = static_cast<double>(1 + prng.below(4)),
          .duplicate = (prng.below(2) == 0 ? 0 : badness),
          .damage = (prng.below(2) == 0 ? 0 : badness),
          .jitter = std::chrono::microseconds(prng.below(2) * prng.below(5000))};
}

class Network {
 public:
  Network(std::uint64_t seed, const Weather& first_weather) : weather(first_weather), prng_(seed) {}

  void send(Packet packet, TimePoint now) {
    ++sent;
    if (on_send) {
      on_send(packet);
    }
    losing_ = losing_ ? !chance(1 / weather.burst) : chance(weather.loss);
    if (losing_) {
      return;
    }
    for (int copies = chance(weather.duplicate) ? 2 : 1; copies > 0; --copies) {
      Packet copy = packet;
      if (chance(weather.damage)) {
        const std::uint64_t bit = prng_.below(copy.bytes.size() * 8);
        copy.bytes[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
      }
      const auto late =
          weather.jitter.count() == 0 ? 0 : prng_.below(static_cast<std::uint64_t>(weather.jitter.count()));
      flying.emplace(now + weather.delay + Duration(late), std::move(copy));
    }
  }
  bool chance(double probability) { return static_cast<double>(prng_.below(1'000'000)) < probability * 1e6; }
  std::uint64_t below(std::uint64_t bound) { return prng_.below(bound); }

  Weather weather;
  std::multimap<TimePoint, Packet> flying;
  std::uint64_t sent = 0;
  std::function<void(const Packet&)> on_send;

 private:
  Prng prng_;
  bool losing_ = false;
};

/// A transport provider whose network is a Network, with a checksum over the data as UDP has.
class Provider : public Module {
 public:
  Provider(Network& network, const TransportAddress& address)
      : Module("provider", Services::write), network_(network), address_(address) {}
  [[nodiscard]] bool is_driver() const override { return true; }
  [[nodiscard]] bool handles_deferred() const override { return true; }

  void wput(Batch&& batch) override {
    ++puts;
    while (Message message = batch.pop()) {
      if (stuck) {
        write_queue().enable();
        write_queue().enqueue(std::move(message));
      } else {
        leave(std::move(message));
      }
    }
  }
  void wsrv() override {
    while (!stuck) {
      Message message = write_queue().dequeue();
      if (!message) {
        break;
      }
      leave(std::move(message));
    }
  }
  void deliver(const Packet& packet) { deliver_together({packet}); }
  /// Packets that a device hands over as one batch.
  void deliver_together(const std::vector<Packet>& packets) {
    Batch batch;
    for (const Packet& packet : packets) {
      if (Message message = indication_of(packet)) {
        batch.push(std::move(message));
      }
    }
    if (!batch.empty()) {
      read_queue().put_next(std::move(batch));
    }
  }
  bool stuck = false;
  std::size_t puts = 0;  // batches that came down

 private:
  [[nodiscard]] Message indication_of(const Packet& packet) {
    Message message = Message::of_native(set().pool(), DataUnit{.kind = DataUnit::Kind::transport_indication,
                                                                .peer = packet.from.address,
                                                                .peer_port = packet.from.port});
    Message data = Message::copy_of(set().pool(), packet.bytes, 64);
    if (!message || !data) {
      return {};
    }
    defer_if_fused(data);
    message.link(std::move(data));
    if (message.transform(Check{.initial = checksum_of(packet.sum)}, handle(), damaged_) == TransformResult::failed) {
      ++damaged_;
      return {};
    }
    return message;
  }
  void leave(Message message) {
    const auto unitdata = native_of<DataUnit>(message, DataUnit::Kind::transport_request);
    if (!unitdata || message.gather() == TransformResult::failed) {
      return;
    }
    Packet packet{.from = address_, .to = {(*unitdata)->peer, (*unitdata)->peer_port}, .bytes = {}};
    packet.bytes.resize(message.data_size());
    SLUICE_REQUIRE(message.copy_data_to(0, packet.bytes));
    packet.sum = header_sum(packet.bytes);
    network_.send(std::move(packet), set().now());
  }

  Network& network_;
  TransportAddress address_;
  Counter damaged_{*this, "damaged", "checksum does not hold"};
};

/// What has come true of messages, by tag.
struct Outcomes {
  std::map<std::uint64_t, int> sent;    // `sent` of this handle
  std::map<std::uint64_t, int> failed;  // `failed`
  std::map<std::uint64_t, int> received;
  std::vector<std::uint64_t> order;  // tags, as they were received
  int lost = 0;
  std::string wrong;  // the last thing that must not be
};

/// The head of a node's stream, and its user: it has a place for every message.
class User : public Module {
 public:
  explicit User(Outcomes& outcomes) : Module("user"), outcomes_(outcomes) {
    read_queue().set_marks({.high_bytes = 64 * 1024, .low_bytes = 16 * 1024});
  }
  [[nodiscard]] bool handles_deferred() const override { return true; }
  void rput(Batch&& batch) override {
    while (Message message = batch.pop()) {
      read_queue().enqueue(std::move(message));
    }
  }
  /// Reads at most `count` messages.
  void run(std::size_t count) {
    for (; count > 0; --count) {
      Message message = read_queue().dequeue();
      if (!message) {
        return;
      }
      take(message);
    }
  }
  std::size_t errors = 0;  // T_UDERROR_IND
  std::uint64_t payload_bytes = 0;

 private:
  void take(Message& message) {
    const auto unit = native_of<DataUnit>(message, DataUnit::Kind::transport_indication);
    if (!unit) {
      ++errors;
      return;
    }
    const TransportAddress from{(*unit)->peer, (*unit)->peer_port};
    std::array<std::byte, Indication::size> head;
    const std::byte* const front = message.front(Indication::size, head.data());
    if (front == nullptr) {
      outcomes_.wrong = "no indication in front";
      return;
    }
    const auto said = Indication::load(front);
    if (!said) {
      outcomes_.wrong = "no kind of indication";
      return;
    }
    const auto key = std::tuple(from, said->incarnation, said->number);
    switch (said->kind) {
      case Indication::Kind::payload: {
        const std::size_t length = message.data_size() - Indication::size;
        if (said->offset + length > said->total_bytes) {
          outcomes_.wrong = "payload outside of its message";
          return;
        }
        std::vector<std::byte>& place = places_[key];
        place.resize(said->total_bytes);
        const std::array<Bytes, 2> places = {Bytes(head), Bytes(place).subspan(said->offset, length)};
        payload_bytes += message.land(places) == TransformResult::failed ? 0 : length;
        break;
      }
      case Indication::Kind::received: {
        const std::vector<std::byte>& place = places_[key];
        bool right = place.size() == said->total_bytes;
        for (std::size_t at = 0; right && at < place.size(); ++at) {
          right = place[at] == byte_of(said->tag, at);
        }
        if (!right) {
          outcomes_.wrong = "wrong bytes in message " + std::to_string(said->tag);
          return;
        }
        places_.erase(key);
        std::uint32_t& last = last_[std::pair(from, said->incarnation)];
        if (said->number <= last) {
          outcomes_.wrong = "out of order, or twice: message " + std::to_string(said->tag);
        }
        last = said->number;
        ++outcomes_.received[said->tag];
        outcomes_.order.push_back(said->tag);
        break;
      }
      case Indication::Kind::lost:
        ++outcomes_.lost;
        places_.erase(key);
        break;
      case Indication::Kind::sent:
        ++outcomes_.sent[said->handle];
        break;
      case Indication::Kind::failed:
        ++outcomes_.failed[said->handle];
        break;
    }
  }

  Outcomes& outcomes_;
  std::map<std::tuple<TransportAddress, std::uint32_t, std::uint32_t>, std::vector<std::byte>> places_;
  std::map<std::pair<TransportAddress, std::uint32_t>, std::uint32_t> last_;
};

class Node {
 public:
  Node(Network& network, Outcomes& outcomes, const TransportAddress& address, const rmpp::Options& options,
       ProcessingMode mode, std::uint64_t seed, std::size_t defer_bytes_min)
      : set_({.defer_bytes_min = defer_bytes_min, .seed = seed}), user_(outcomes) {
    auto provider = std::make_unique<Provider>(network, address);
    provider_ = provider.get();
    SLUICE_REQUIRE(chain_.open_driver(std::move(provider)).has_value());
    auto module = std::make_unique<rmpp::Protocol>("rmpp", options);
    module_ = module.get();
    SLUICE_REQUIRE(chain_.push(std::move(module)).has_value());
    chain_.set_mode(mode);
  }

  /// Tag and handle are the same.
  void send(const TransportAddress& to, std::uint64_t tag, std::size_t size) {
    std::vector<std::byte> bytes(Request::size + size);
    Request{.tag = tag, .handle = tag}.store(bytes.data());
    for (std::size_t at = 0; at < size; ++at) {
      bytes[Request::size + at] = byte_of(tag, at);
    }
    send_bytes(to, bytes);
  }
  void send_bytes(const TransportAddress& to, const std::vector<std::byte>& bytes) {
    Message message = Message::of_native(
        set_.pool(), DataUnit{.kind = DataUnit::Kind::transport_request, .peer = to.address, .peer_port = to.port});
    message.link(Message::copy_of(set_.pool(), bytes, 0, MessageType::data, 700));
    user_.write_queue().put_next(std::move(message));
  }

  StreamSet& set() { return set_; }
  User& user() { return user_; }
  Provider& provider() { return *provider_; }
  rmpp::Protocol& module() { return *module_; }

 private:
  StreamSet set_;
  User user_;
  Chain chain_{set_, user_};
  Provider* provider_ = nullptr;
  rmpp::Protocol* module_ = nullptr;
};

/// Nodes on one network, in simulated time. A node has a stream set, and a user above its stream whose run(count) reads
/// at most `count` messages.
template <class Node>
class Nodes {
 public:
  virtual ~Nodes() = default;
  Nodes(const Nodes&) = delete;
  Nodes& operator=(const Nodes&) = delete;

  [[nodiscard]] static TransportAddress address(std::size_t at) {
    return {wire::Ipv4Address{{10, 0, 0, static_cast<std::uint8_t>(at + 1)}}, 7000};
  }
  Node& operator[](std::size_t at) { return *nodes_[at]; }
  [[nodiscard]] std::size_t size() const { return nodes_.size(); }
  [[nodiscard]] TimePoint now() const { return now_; }

  /// The process ends without a word, and another takes its place.
  void restart(std::size_t at) {
    nodes_[at] = made(at, next_seed());
    nodes_[at]->set().scheduler().advance(now_);
  }
  /// Runs for so long, or until nothing will happen any more.
  void run(Duration time, bool lazy_readers = false) {
    const TimePoint end = now_ + time;
    for (std::size_t steps = 0; steps < 1'000'000; ++steps) {
      TimePoint next = network.flying.empty() ? never : network.flying.begin()->first;
      for (const auto& node : nodes_) {
        next = std::min(next, node->set().scheduler().next_deadline());
        if (!node->user().read_queue().empty()) {  // a lazy reader comes back
          next = std::min(next, now_ + std::chrono::microseconds(50));
        }
      }
      if (next > end) {
        break;
      }
      now_ = std::max(now_, next);
      step(lazy_readers);
    }
    now_ = end;
    step(false);
  }
  void step(bool lazy_readers) {
    while (!network.flying.empty() && network.flying.begin()->first <= now_) {
      arrive(std::move(network.flying.extract(network.flying.begin()).mapped()), lazy_readers);
    }
    for (const auto& node : nodes_) {
      node->set().scheduler().poll(now_);
      if (!lazy_readers) {
        settle(*node);
      } else if (network.chance(0.3)) {
        node->user().run(1 + network.below(8));
        node->set().scheduler().poll(now_);
      }
    }
  }
  /// Reads until nothing comes any more: what is read verifies packets, and what follows from that comes up, too.
  void settle(Node& node) {
    do {
      node.user().run(10'000);
      node.set().scheduler().poll(now_);
    } while (!node.user().read_queue().empty());
  }

  Network network;

 protected:
  Nodes(std::uint64_t seed, const Weather& weather) : network(seed, weather), seed_(seed) {}

  void make(std::size_t count) {
    while (nodes_.size() < count) {
      nodes_.push_back(made(nodes_.size(), next_seed()));
    }
  }
  /// The node that `packet` is to has it; nothing: there is none.
  Node* deliver(const Packet& packet) {
    for (std::size_t at = 0; at < nodes_.size(); ++at) {
      if (address(at) == packet.to) {
        nodes_[at]->set().scheduler().advance(now_);
        nodes_[at]->provider().deliver(packet);
        return nodes_[at].get();
      }
    }
    return nullptr;
  }

 private:
  [[nodiscard]] virtual std::unique_ptr<Node> made(std::size_t at, std::uint64_t seed) = 0;
  virtual void arrive(Packet packet, bool lazy_readers) = 0;
  std::uint64_t next_seed() { return seed_ * 1000 + made_++; }

  std::uint64_t seed_;
  std::uint64_t made_ = 0;
  TimePoint now_{};
  std::vector<std::unique_ptr<Node>> nodes_;
};

class Bed : public Nodes<Node> {
 public:
  Bed(std::size_t nodes, const rmpp::Options& options, ProcessingMode mode, std::uint64_t seed,
      const Weather& weather = {}, std::size_t defer_bytes_min = 1)
      : Nodes(seed, weather), options_(options), mode_(mode), defer_bytes_min_(defer_bytes_min) {
    make(nodes);
  }

  Outcomes outcomes;

 private:
  std::unique_ptr<Node> made(std::size_t at, std::uint64_t seed) override {
    return std::make_unique<Node>(network, outcomes, address(at), options_, mode_, seed, defer_bytes_min_);
  }
  void arrive(Packet packet, bool lazy_readers) override {
    Node* const node = deliver(packet);
    if (node != nullptr && !lazy_readers) {
      settle(*node);
    }
  }

  rmpp::Options options_;
  ProcessingMode mode_;
  std::size_t defer_bytes_min_;
};

// ---- A peer that is the test ----

/// A packet with this header, and behind it so much of the message as it says.
inline std::vector<std::byte> packet_of(const RmppHeader& header) {
  std::vector<std::byte> bytes(RmppHeader::size + header.length);
  header.emit(bytes);
  for (std::size_t at = 0; at < header.length; ++at) {
    bytes[RmppHeader::size + at] = byte_of(header.tag, header.offset() + at);
  }
  return bytes;
}

/// A packet that node 0 gets from node 1's address, or another's.
inline void inject(Bed& bed, const RmppHeader& header, std::size_t from = 1) {
  const std::vector<std::byte> bytes = packet_of(header);
  const std::uint16_t sum = header_sum(bytes);
  bed[0].provider().deliver({.from = Bed::address(from), .to = Bed::address(0), .bytes = bytes, .sum = sum});
  bed.step(false);
}

inline RmppHeader request_of(std::uint32_t number, std::uint64_t total, std::uint32_t incarnation = 77) {
  return {.type = RmppHeader::Type::request,
          .source_incarnation = incarnation,
          .number = number,
          .packet_bytes = 100,
          .length = static_cast<std::uint16_t>(std::min<std::uint64_t>(total, 100)),
          .total_bytes = total,
          .tag = number};
}

}  // namespace sluice::test::messages
