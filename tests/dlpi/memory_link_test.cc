// SPDX-License-Identifier: Apache-2.0
#include "dlpi/memory_link.h"

#include "tests/dlpi/test_stream.h"

namespace sluice::dlpi::test {
namespace {

class Wire : public testing::Test {
 protected:
  Wire() { add_drivers(registry_); }

  static Parameters end(const char* which, std::int64_t mtu = 1500) {
    Parameters parameters;
    parameters.set("name", "lab");
    parameters.set("end", which);
    parameters.set("mtu", mtu);
    return parameters;
  }
  void open(Stream& stream, const char* which, std::int64_t mtu = 1500) {
    const Status opened = stream.open(registry_, "wire", end(which, mtu));
    ASSERT_TRUE(opened) << opened.error().text;
    stream.bind(0x0800);
  }
  static LinkAddress address(Stream& stream) { return {stream.driver().link()->address(), 0x0800}; }
  void poll() { set_.scheduler().poll(TimePoint{}); }

  StreamSet set_;
  Registry registry_;
};

TEST_F(Wire, CarriesDataBothWaysByReference) {
  Stream a(set_);
  Stream b(set_);
  open(a, "a");
  open(b, "b");
  Message request = a.unitdata(address(b), bytes_of("to b"));
  const Buffer* buffer = request.first().cont->buffer;
  a.put(std::move(request));
  EXPECT_EQ(b.waiting(), 0U) << "delivered by a service procedure, not inside put";
  poll();
  const Message up = b.next();
  ASSERT_TRUE(up);
  const auto indication = UnitdataInd::decode(up.bytes());
  ASSERT_TRUE(indication);
  EXPECT_EQ(indication->source, address(a));
  EXPECT_EQ(indication->destination, address(b));
  EXPECT_FALSE(indication->group_address);
  EXPECT_EQ(as_text(up.first().cont->bytes()), "to b");
  EXPECT_EQ(up.first().cont->buffer, buffer);
  b.send({wire::mac_broadcast, 0x0800}, bytes_of("to all"));
  poll();
  EXPECT_TRUE(a.expect<UnitdataInd>().group_address);
}

/// Most frames have the header of the one before: an indication is made anew as soon as one octet is another.
TEST_F(Wire, AnIndicationIsOfItsOwnFrameWhateverCameBefore) {
  Stream a(set_);
  Stream b(set_);
  open(a, "a");
  open(b, "b");
  b.request(PromisconReq{DL_PROMISC_PHYS});
  b.acknowledged();
  const LinkAddress to_b = address(b);
  for (int round = 0; round < 2; ++round) {
    for (std::size_t octet = 0; octet < 6; ++octet) {
      LinkAddress other = to_b;
      other.mac.octets[octet] ^= 0x10;
      for (const LinkAddress& to : {to_b, other, to_b, LinkAddress{wire::mac_broadcast, 0x0800}}) {
        a.send(to, bytes_of("x"));
        poll();
        const auto indication = b.expect<UnitdataInd>();
        EXPECT_EQ(indication.destination, to);
        EXPECT_EQ(indication.source, address(a));
        EXPECT_EQ(indication.group_address, to.mac == wire::mac_broadcast);
      }
    }
    a.request(SetPhysAddrReq{wire::MacAddress{{0x02, 0, 0, 0, 0, static_cast<std::uint8_t>(round)}}});
    a.acknowledged();
  }
}

TEST_F(Wire, LinkStateFollowsTheOtherEnd) {
  Stream a(set_);
  open(a, "a");
  a.request(NotifyReq{.notifications = DL_NOTE_LINK_UP | DL_NOTE_LINK_DOWN});
  a.expect<NotifyAck>();
  EXPECT_EQ(a.expect<NotifyInd>().notification, DL_NOTE_LINK_DOWN);
  a.send({wire::mac_broadcast, 0x0800}, bytes_of("too early"));
  EXPECT_EQ(a.expect<UderrorInd>().error, DL_UNDELIVERABLE);
  {
    Stream b(set_);
    open(b, "b");
    EXPECT_EQ(a.expect<NotifyInd>().notification, DL_NOTE_LINK_UP);
  }
  EXPECT_EQ(a.expect<NotifyInd>().notification, DL_NOTE_LINK_DOWN);
}

TEST_F(Wire, BothEndsAgreeOnTheMtu) {
  Stream a(set_);
  Stream b(set_);
  open(a, "a", 9000);
  const Status refused = b.open(registry_, "wire", end("b", 1500));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, EINVAL);
  EXPECT_NE(refused.error().text.find("9000"), std::string::npos) << refused.error().text;
  Stream again(set_);
  EXPECT_FALSE(again.open(registry_, "wire", end("a", 1500))) << "one end, two MTUs";
}

TEST_F(Wire, CarriesTheLargestMtu) {
  Stream a(set_);
  Stream b(set_);
  open(a, "a", Link::mtu_max);
  open(b, "b", Link::mtu_max);
  const std::vector<std::byte> data(Link::mtu_max, std::byte{7});
  a.send(address(b), data);
  poll();
  const Message up = b.next();
  ASSERT_TRUE(up);
  EXPECT_EQ(up.data_size(), data.size());
}

TEST_F(Wire, StreamsShareAnEnd) {
  Stream a(set_);
  Stream a2(set_);
  Stream b(set_);
  open(a, "a");
  open(a2, "a");
  open(b, "b");
  EXPECT_EQ(a.driver().link(), a2.driver().link());
  b.send(address(a), bytes_of("x"));
  poll();
  EXPECT_EQ(a.waiting(), 1U);
  EXPECT_EQ(a2.waiting(), 1U);
}

// Nobody reads at b: the wire holds its capacity, then a's write queue fills, then the writer is refused. Nothing is
// lost.
TEST_F(Wire, BackPressureReachesTheWriterAndNothingIsLost) {
  Stream a(set_);
  Stream b(set_);
  open(a, "a");
  open(b, "b");
  const std::vector<std::byte> data(1400);
  std::size_t written = 0;
  const auto write_all = [&] {
    while (a.head().write_queue().can_put_next() && written < 100'000) {
      a.send(address(b), data);
      ++written;
      poll();
    }
  };
  write_all();
  ASSERT_LT(written, 2000U);
  const std::size_t first_refusal = written;
  const int services = a.head().write_services;
  std::size_t read = 0;
  for (int round = 0; round < 100'000 && read < 2 * first_refusal; ++round) {
    while (b.next()) {
      ++read;
    }
    poll();
    if (written < 2 * first_refusal) {
      write_all();
    }
  }
  EXPECT_GT(a.head().write_services, services) << "the writer is back-enabled";
  while (b.waiting() > 0) {
    b.forget();
    poll();
  }
  EXPECT_GE(read, 2 * first_refusal);
  EXPECT_EQ(a.counted("transmit_overrun"), 0U);
  EXPECT_EQ(b.counted("flow_dropped"), 0U);
}

TEST_F(Wire, WhatWaitsWhenTheOtherEndClosesIsDroppedAndCounted) {
  Stream a(set_);
  open(a, "a");
  {
    Stream b(set_);
    open(b, "b");
    while (a.head().write_queue().can_put_next()) {
      a.send(address(b), std::vector<std::byte>(1400));
      poll();
    }
  }
  poll();
  EXPECT_GT(a.counted("link_down"), 0U);
  EXPECT_TRUE(a.driver().write_queue().empty());
  EXPECT_EQ(set_.pool().statistics().buffers_in_use, 0U);
}

TEST_F(Wire, TheAddressCanBeChanged) {
  Stream a(set_);
  open(a, "a");
  const wire::MacAddress changed{{0x02, 1, 2, 3, 4, 5}};
  a.request(SetPhysAddrReq{changed});
  EXPECT_EQ(a.acknowledged(), DL_SET_PHYS_ADDR_REQ);
  EXPECT_EQ(a.driver().link()->address(), changed);
}

}  // namespace
}  // namespace sluice::dlpi::test
