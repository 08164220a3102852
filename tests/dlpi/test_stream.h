// SPDX-License-Identifier: Apache-2.0
#pragma once

// A stream of a head and a driver, as a DLS user sees it: requests go down, what comes up waits until it is taken.

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dlpi/link_stream.h"
#include "dlpi/register.h"
#include "stack/core/chain.h"
#include "stack/core/ioctl.h"
#include "stack/core/registry.h"
#include "stack/core/stream_set.h"
#include "stack/wire/dlpi.h"
#include "stack/wire/ethernet.h"
#include "stack/wire/ipv4.h"
#include "stack/wire/udp.h"

namespace sluice::dlpi::test {

using namespace wire::dlpi;  // NOLINT: the specification's names

/// The EtherType of tests' frames, which the kernel has no use for.
inline constexpr std::uint16_t test_sap = 0x9000;
inline constexpr wire::Ipv4Address here_ip{{10, 0, 0, 1}};
inline constexpr wire::MacAddress other_mac{{0x02, 0, 0, 0, 0, 0x77}};
inline constexpr wire::MacAddress group_mac{{0x01, 0, 0x5e, 0, 0, 5}};

class Head final : public Module {
 public:
  Head() : Module("head", Services::both) {}
  void rput(Batch&& batch) override {
    ++bursts;
    while (Message message = batch.pop()) {
      read_queue().enqueue(std::move(message));
    }
    if (on_burst) {
      on_burst();
    }
  }
  void wsrv() override { ++write_services; }
  [[nodiscard]] bool handles_segments() const override { return segments; }
  [[nodiscard]] bool handles_deferred() const override { return segments; }

  bool segments = false;
  int bursts = 0;
  std::function<void()> on_burst;
  int write_services = 0;
};

class Stream {
 public:
  explicit Stream(StreamSet& set) : set_(set), chain_(set, head_) {}

  Status open(std::unique_ptr<Module> driver) { return chain_.open_driver(std::move(driver)); }
  Status open(const Registry& registry, std::string_view kind, const Parameters& parameters) {
    Result<std::unique_ptr<Module>> driver = registry.find(kind)->make(set_, parameters);
    return driver ? open(std::move(*driver)) : std::unexpected(driver.error());
  }

  void set_mode(ProcessingMode mode) { chain_.set_mode(mode); }
  /// From now on several datagrams may come as one message. What the link says that it can. REQUIRES: head().segments
  /// was true at open().
  CapabilityAck accept_segments() {
    request(CapabilityReq{SegmentsCapability{}});
    return expect<CapabilityAck>();
  }
  Head& head() { return head_; }
  LinkStream& driver() { return static_cast<LinkStream&>(chain_.driver()); }
  std::uint64_t counted(std::string_view name) {
    for (const Counter* counter : chain_.driver().counters()) {
      if (counter->name() == name) {
        return counter->value();
      }
    }
    ADD_FAILURE() << "no counter " << name;
    return 0;
  }

  /// All counters that are not zero, for a failure's text.
  std::string counts() {
    std::string text;
    for (const Counter* counter : chain_.driver().counters()) {
      if (counter->value() > 0) {
        text += std::string(counter->name()) + "=" + std::to_string(counter->value()) + " ";
      }
    }
    return text;
  }

  template <class Primitive>
  Message encoded(const Primitive& primitive, MessageType type = MessageType::proto) {
    Message message = Message::allocate(set_.pool(), Primitive::encoded_size_max, 0, type);
    const std::size_t size = primitive.encode(message.append(Primitive::encoded_size_max));
    message.trim_back(Primitive::encoded_size_max - size);
    return message;
  }
  void put(Message message) { head_.write_queue().put_next(std::move(message)); }
  template <class Primitive>
  void request(const Primitive& primitive, MessageType type = MessageType::proto) {
    put(encoded(primitive, type));
  }
  Message unitdata(const LinkAddress& destination, ConstBytes data) {
    Message message = encoded(UnitdataReq{destination, {}});
    message.link(Message::copy_of(set_.pool(), data, 64));
    return message;
  }
  void send(const LinkAddress& destination, ConstBytes data) { put(unitdata(destination, data)); }

  /// What came up first; empty when nothing is there.
  Message next() { return head_.read_queue().empty() ? Message() : head_.read_queue().dequeue(); }
  std::size_t waiting() { return head_.read_queue().messages(); }
  void forget() {
    while (next()) {
    }
  }
  /// The next message, which must be this primitive.
  template <class Primitive>
  Primitive expect() {
    const Message message = next();
    if (!message) {
      ADD_FAILURE() << "nothing came up the stream";
      return {};
    }
    auto decoded = Primitive::decode(message.bytes());
    EXPECT_TRUE(decoded) << "primitive " << primitive_of(message.bytes()).value_or(0xffff);
    return decoded ? *decoded : Primitive{};
  }
  std::uint32_t error() { return expect<ErrorAck>().error; }
  std::uint32_t acknowledged() { return expect<OkAck>().value; }

  void bind(std::uint16_t sap) {
    request(BindReq{.sap = sap});
    EXPECT_EQ(expect<BindAck>().sap, sap);
  }
  void bind_also(std::uint16_t sap) {
    request(SubsBindReq{.sap = sap});
    EXPECT_EQ(expect<SubsBindAck>().sap, sap);
  }
  void filter(const FilterReq& wanted) {
    request(wanted, MessageType::ctl);
    EXPECT_EQ(acknowledged(), DL_FILTER_REQ);
  }

 private:
  StreamSet& set_;
  Head head_;
  Chain chain_;
};

/// A link whose device is the test: it takes as many frames as it has room for, and brings what it is told to.
class TestLink final : public Link {
 public:
  static constexpr wire::MacAddress mac{{0x02, 0, 0, 0, 0, 1}};

  explicit TestLink(StreamSet& set, std::size_t mtu = 1500) : Link(set, "test", mac, mtu) {}

  void send(Batch& frames) override {
    for (; room > 0 && !frames.empty(); --room) {
      Message frame = frames.pop();
      sent(1, frame.size());
      out.push(std::move(frame));
    }
  }
  void on_room() override { ++rooms; }
  [[nodiscard]] std::size_t receive_room() const override { return 12'345; }
  Status set_interests(const Interests& wanted, const Interests&) override {
    interests = wanted;
    return refuse_interests ? fail(EPERM) : Status{};
  }

  void bring(ConstBytes frame) { receive(Batch(Message::copy_of(set().pool(), frame))); }
  void bring(Batch frames) { receive(std::move(frames)); }
  using Link::change_address;
  using Link::may_receive;
  using Link::set_mtu;
  using Link::set_up;
  using Link::transmit_ready;

  std::size_t room = 1'000'000;
  Batch out;
  int rooms = 0;
  Interests interests;
  bool refuse_interests = false;
};

/// Streams on one TestLink.
inline std::unique_ptr<LinkStream> driver_on(std::shared_ptr<Link> link,
                                             LinkStream::Style style = LinkStream::Style::one) {
  return std::make_unique<LinkStream>("test", style,
                                      [link](StreamSet&, std::uint32_t ppa) -> Result<std::shared_ptr<Link>> {
                                        if (ppa > 7) {
                                          return fail(ENXIO, "no such interface");
                                        }
                                        return link;
                                      });
}

inline std::vector<std::byte> bytes_of(std::string_view text) {
  const ConstBytes bytes = as_bytes(text);
  return {bytes.begin(), bytes.end()};
}

inline std::vector<std::byte> frame(const wire::MacAddress& destination, std::uint16_t type, ConstBytes payload) {
  std::vector<std::byte> out(wire::EthernetHeader::size + payload.size());
  wire::EthernetHeader{destination, {{0x02, 0, 0, 0, 0, 0x99}}, type}.emit(out);
  std::copy(payload.begin(), payload.end(), out.begin() + wire::EthernetHeader::size);
  return out;
}

}  // namespace sluice::dlpi::test
