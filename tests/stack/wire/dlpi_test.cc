// SPDX-License-Identifier: Apache-2.0
#include "stack/wire/dlpi.h"

#include <gtest/gtest.h>

#include "stack/wire/protocol.h"
#include "tests/stack/wire/bytes.h"

namespace sluice::wire::dlpi {
namespace {

using namespace test;  // bytes.h

const LinkAddress here{{{2, 0, 0, 0, 0, 1}}, 0x0800};
const LinkAddress there{{{2, 0, 0, 0, 0, 2}}, 0x0800};
const Buffer here_bytes = hex("020000000001 0800");
const Buffer there_bytes = hex("020000000002 0800");

template <class X>
Buffer encoded(const X& value) {
  Buffer block(X::encoded_size_max);
  block.resize(value.encode(block));
  return block;
}

/// The value encodes to exactly these bytes, they decode to it, and no shorter block does.
template <class X>
void expect_layout(const X& value, const Buffer& layout) {
  EXPECT_EQ(encoded(value), layout) << "primitive " << X::primitive;
  EXPECT_EQ(X::decode(layout), value) << "primitive " << X::primitive;
  EXPECT_EQ(primitive_of(layout), X::primitive);
  for (std::size_t size = 0; size < layout.size(); ++size) {
    const auto cut = X::decode(first(layout, size));
    ASSERT_FALSE(cut) << "primitive " << X::primitive << " of " << size << " bytes";
    EXPECT_TRUE(cut.error() == Malformed::short_block || cut.error() == Malformed::bad_offset);
  }
  Buffer other = layout;
  other[1] ^= std::byte{0x40};
  EXPECT_EQ(X::decode(other).error(), Malformed::wrong_primitive) << "primitive " << X::primitive;
}

// The C structures of <sys/dlpi.h> of DLPI 2.0.0, word by word.
TEST(Dlpi, DataTransferHasTheLayoutOfTheSpecification) {
  expect_layout(UnitdataReq{there, {1, -2}}, words({0x07, 8, 20, 1, 0xfffffffe}) + there_bytes);
  expect_layout(UnitdataInd{here, there, true}, words({0x08, 8, 24, 8, 32, 1}) + here_bytes + there_bytes);
  expect_layout(UderrorInd{there, 101, DL_UNDELIVERABLE}, words({0x09, 8, 20, 101, 0x11}) + there_bytes);
  expect_layout(UderrorInd{{}, 0, DL_BADADDR}, words({0x09, 0, 0, 0, 0x01}));
}

TEST(Dlpi, LocalManagementHasTheLayoutOfTheSpecification) {
  expect_layout(InfoReq{}, words({0x00}));
  expect_layout(AttachReq{3}, words({0x0b, 3}));
  expect_layout(DetachReq{}, words({0x0c}));
  expect_layout(UnbindReq{}, words({0x02}));
  expect_layout(OkAck{DL_BIND_REQ}, words({0x06, 0x01}));
  expect_layout(ErrorAck{DL_BIND_REQ, DL_OUTSTATE, 0}, words({0x05, 0x01, 0x03, 0}));
  expect_layout(BindAck{0x0800, here, 0, 0}, words({0x04, 0x0800, 8, 24, 0, 0}) + here_bytes);
  expect_layout(SubsBindReq{0x0806, DL_PEER_BIND}, words({0x1b, 16, 2, 1}) + hex("0806"));
  expect_layout(SubsBindAck{0x0806}, words({0x1c, 12, 2}) + hex("0806"));
  expect_layout(SubsUnbindReq{0x0806}, words({0x15, 12, 2}) + hex("0806"));
  expect_layout(PromisconReq{DL_PROMISC_MULTI}, words({0x1f, 3}));
  expect_layout(PromiscoffReq{DL_PROMISC_PHYS}, words({0x20, 1}));
  const Buffer mac = hex("01005e000001");
  const MacAddress group{{0x01, 0x00, 0x5e, 0, 0, 1}};
  expect_layout(EnabmultiReq{group}, words({0x1d, 6, 12}) + mac);
  expect_layout(DisabmultiReq{group}, words({0x1e, 6, 12}) + mac);
  expect_layout(PhysAddrReq{DL_CURR_PHYS_ADDR}, words({0x31, 2}));
  expect_layout(PhysAddrAck{group}, words({0x32, 6, 12}) + mac);
  expect_layout(SetPhysAddrReq{group}, words({0x33, 6, 12}) + mac);
  expect_layout(GetStatisticsReq{}, words({0x34}));
  expect_layout(NotifyReq{DL_NOTE_LINK_UP | DL_NOTE_LINK_DOWN, 250}, words({0x100, 0x18, 250}));
  expect_layout(NotifyAck{DL_NOTE_SDU_SIZE}, words({0x101, 0x80}));
  expect_layout(NotifyInd{DL_NOTE_SDU_SIZE, 1400, {}}, words({0x102, 0x80, 1400, 0, 0}));
  expect_layout(NotifyInd{DL_NOTE_PHYS_ADDR, 0, here}, words({0x102, 1, 0, 8, 20}) + here_bytes);
}

// dl_service_mode and dl_conn_mgmt of DL_BIND_REQ are 16 bits each.
TEST(Dlpi, BindRequestHasTwoHalfWords) {
  Buffer layout = words({0x01, 0x86dd, 5, 0, 1});
  const std::uint16_t halves[] = {DL_CLDLS, 7};
  std::memcpy(layout.data() + 12, halves, sizeof halves);
  expect_layout(BindReq{0x86dd, 5, DL_CLDLS, 7, 1}, layout);
}

TEST(Dlpi, InfoAckHasTheLayoutOfTheSpecification) {
  const Buffer unbound = words({0x03, 1500, 0, 0, DL_ETHER, 0, DL_UNBOUND, 0xfffffffe, DL_CLDLS, 0, 0, 0, 0, DL_STYLE2,
                                0, DL_VERSION_2, 6, 76, 0}) +
                         hex("ffffffffffff");
  InfoAck info{.max_sdu = 1500, .broadcast = mac_broadcast};
  expect_layout(info, unbound);

  info.current_state = DL_IDLE;
  info.address = here;
  const Buffer bound = words({0x03, 1500, 0, 8, DL_ETHER, 0, DL_IDLE, 0xfffffffe, DL_CLDLS, 0, 0, 0, 0, DL_STYLE2, 76,
                              DL_VERSION_2, 6, 84, 0}) +
                       here_bytes + hex("ffffffffffff");
  expect_layout(info, bound);
}

TEST(Dlpi, StatisticsAreOpaque) {
  const Buffer statistics = hex("00010203040506");
  const GetStatisticsAck ack{statistics};
  Buffer block(ack.encoded_size());
  EXPECT_EQ(ack.encode(block), block.size());
  EXPECT_EQ(block, words({0x35, 7, 12}) + statistics);
  EXPECT_EQ(test::copy(GetStatisticsAck::decode(block).value().statistics), statistics);
  EXPECT_EQ(GetStatisticsAck::decode(first(block, 18)).error(), Malformed::bad_offset);
}

TEST(Dlpi, FilterHasTheLayoutItDocuments) {
  const Buffer v6 = hex("fd000000000000000000000000000001");
  expect_layout(FilterReq{0x0800, {}, {}, {}}, words({0x80000001, 0x0800, 0, 0, 0xffffffff, 0xffffffff}));
  expect_layout(FilterReq{0x0800, Ipv4Address{{10, 77, 0, 1}}, std::uint8_t{17}, std::uint16_t{7000}},
                words({0x80000001, 0x0800, 4, 24, 17, 7000}) + hex("0a4d0001"));
  expect_layout(FilterReq{0x86dd, Ipv6Address::from_text("fd00::1").value(), std::uint8_t{0}, {}},
                words({0x80000001, 0x86dd, 16, 24, 0, 0xffffffff}) + v6);
  // Of a connection: the remote end, too, announced in the SAP's word.
  const Ipv4Address here4{{10, 77, 0, 1}};
  const Ipv4Address there4{{10, 77, 0, 2}};
  expect_layout(FilterReq{0x0800, here4, protocol_tcp, std::uint16_t{7000}, there4, std::uint16_t{5000}},
                words({0x80000001, 0x10800, 4, 36, 6, 7000, 4, 40, 5000}) + hex("0a4d0001 0a4d0002"));
  expect_layout(
      FilterReq{0x86dd, Ipv6Address::from_text("fd00::1").value(), protocol_tcp, std::uint16_t{7000},
                Ipv6Address::from_text("fd00::2").value(), std::uint16_t{0}},
      words({0x80000001, 0x186dd, 16, 36, 6, 7000, 16, 52, 0}) + v6 + hex("fd000000000000000000000000000002"));
  expect_layout(FilterReq{0x0800, {}, {}, std::uint16_t{7000}, there4, std::uint16_t{5000}},
                words({0x80000001, 0x10800, 0, 0, 0xffffffff, 7000, 4, 36, 5000}) + hex("0a4d0002"));
  expect_layout(FilterReq{0x0800, {}, {}, {}, there4, {}},
                words({0x80000001, 0x10800, 0, 0, 0xffffffff, 0xffffffff, 4, 36, 0xffffffff}) + hex("0a4d0002"));
  expect_layout(FilterReq{0x0800, {}, {}, {}, {}, std::uint16_t{5000}},
                words({0x80000001, 0x10800, 0, 0, 0xffffffff, 0xffffffff, 0, 0, 5000}));
  EXPECT_EQ(FilterReq::decode(words({0x80000001, 0x10800, 0, 0, 17, 1, 0, 0, 0xffffffff})),
            (FilterReq{0x0800, {}, protocol_udp, std::uint16_t{1}}))
      << "announced, and not there";
}

// A user may put the address anywhere behind the fixed part.
TEST(Dlpi, AddressesMayLieAnywhereInTheBlock) {
  const Buffer block =
      words({0x08, 8, 36, 8, 26, 0}) + hex("aaaa") + there_bytes + hex("bbbb") + here_bytes + hex("cc");
  EXPECT_EQ(UnitdataInd::decode(block), (UnitdataInd{here, there, false}));
  const Buffer filter = words({0x80000001, 0x10800, 4, 42, 6, 1, 4, 37, 2}) + hex("aa 0a4d0002 bb 0a4d0001 cc");
  EXPECT_EQ(FilterReq::decode(filter), (FilterReq{0x0800, Ipv4Address{{10, 77, 0, 1}}, protocol_tcp, std::uint16_t{1},
                                                  Ipv4Address{{10, 77, 0, 2}}, std::uint16_t{2}}));
}

struct Case {
  const char* why;
  Buffer block;
  Malformed error;
};

TEST(Dlpi, MalformedUnitdataRequestsAreNamed) {
  using enum Malformed;
  for (const auto& [why, block, error] : {
           Case{"empty", {}, short_block},
           Case{"fixed part cut", words({7, 8, 20, 0}), short_block},
           Case{"offset in the fixed part", words({7, 8, 16, 0, 0}) + there_bytes, bad_offset},
           Case{"offset at the end", words({7, 8, 28, 0, 0}) + there_bytes, bad_offset},
           Case{"one byte too far", words({7, 8, 21, 0, 0}) + there_bytes, bad_offset},
           Case{"length too great", words({7, 9, 20, 0, 0}) + there_bytes, bad_offset},
           Case{"sum overflows 32 bits", words({7, 8, 0xfffffffc, 0, 0}) + there_bytes, bad_offset},
           Case{"length overflows 32 bits", words({7, 0xfffffff0, 20, 0, 0}) + there_bytes, bad_offset},
           Case{"a MAC address without SAP", words({7, 6, 20, 0, 0}) + there_bytes, bad_address},
           Case{"no address", words({7, 0, 0, 0, 0}), bad_address},
       }) {
    const auto request = UnitdataReq::decode(block);
    ASSERT_FALSE(request) << why;
    EXPECT_EQ(request.error(), error) << why;
  }
}

TEST(Dlpi, MalformedPrimitivesAreNamed) {
  using enum Malformed;
  EXPECT_FALSE(primitive_of(hex("070000")));
  EXPECT_EQ(UnitdataInd::decode(words({8, 8, 24, 8, 25, 0}) + there_bytes).error(), bad_offset);
  EXPECT_EQ(UnitdataInd::decode(words({8, 8, 24, 0, 0, 0}) + there_bytes).error(), bad_address);
  EXPECT_EQ(BindAck::decode(words({4, 0, 0, 0, 0, 0})).error(), bad_address);
  EXPECT_EQ(SubsBindReq::decode(words({0x1b, 16, 2, 3}) + hex("0806")).error(), bad_value);
  EXPECT_EQ(SubsBindReq::decode(words({0x1b, 16, 4, 1}) + hex("00000806")).error(), bad_address);
  EXPECT_EQ(SubsUnbindReq::decode(words({0x15, 8, 2}) + hex("0806")).error(), bad_offset);
  EXPECT_EQ(EnabmultiReq::decode(words({0x1d, 8, 12}) + there_bytes).error(), bad_address);
  EXPECT_EQ(NotifyInd::decode(words({0x102, 1, 0, 8, 20})).error(), bad_offset);
  EXPECT_EQ(UderrorInd::decode(words({9, 6, 20, 0, 0}) + there_bytes).error(), bad_address);
  EXPECT_EQ(FilterReq::decode(words({0x80000001, 0x20000, 0, 0, 17, 1})).error(), bad_value);
  EXPECT_EQ(FilterReq::decode(words({0x80000001, 0x800, 0, 0, 256, 1})).error(), bad_value);
  EXPECT_EQ(FilterReq::decode(words({0x80000001, 0x800, 0, 0, 17, 65536})).error(), bad_value);
  EXPECT_EQ(FilterReq::decode(words({0x80000001, 0x800, 8, 24, 17, 1}) + there_bytes).error(), bad_address);
  EXPECT_EQ(FilterReq::decode(words({0x80000001, 0x10800, 0, 0, 17, 1, 0, 0})).error(), short_block);
  EXPECT_EQ(FilterReq::decode(words({0x80000001, 0x30800, 0, 0, 17, 1, 0, 0, 1})).error(), bad_value);
  EXPECT_EQ(FilterReq::decode(words({0x80000001, 0x10800, 0, 0, 17, 1, 0, 0, 65536})).error(), bad_value);
  EXPECT_EQ(FilterReq::decode(words({0x80000001, 0x10800, 0, 0, 17, 1, 4, 32, 1, 0})).error(), bad_offset);
  EXPECT_EQ(FilterReq::decode(words({0x80000001, 0x10800, 4, 24, 17, 1, 0, 0, 1, 0})).error(), bad_offset);
  EXPECT_EQ(FilterReq::decode(words({0x80000001, 0x10800, 0, 0, 17, 1, 4, 37, 1, 0})).error(), bad_offset);
  EXPECT_EQ(FilterReq::decode(words({0x80000001, 0x10800, 0, 0, 17, 1, 8, 36, 1, 0, 0})).error(), bad_address);
}

}  // namespace
}  // namespace sluice::wire::dlpi
