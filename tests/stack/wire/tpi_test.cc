// SPDX-License-Identifier: Apache-2.0
#include "stack/wire/tpi.h"

#include <gtest/gtest.h>

#include "stack/wire/tpi_connection.h"
#include "tests/stack/wire/bytes.h"

namespace sluice::wire::tpi {
namespace {

using namespace test;  // bytes.h

const Buffer address = hex("04001b58 0a4d0001");
const Buffer odd = hex("0102030405");

/// The value encodes to exactly these bytes, they decode and encode to themselves, and no shorter block decodes.
template <class X>
void expect_layout(const X& value, const Buffer& layout) {
  Buffer block(value.encoded_size());
  EXPECT_EQ(value.encode(block), block.size());
  EXPECT_EQ(block, layout) << "primitive " << X::primitive;
  EXPECT_EQ(primitive_of(layout), X::primitive);
  const auto decoded = X::decode(layout);
  ASSERT_TRUE(decoded) << "primitive " << X::primitive;
  Buffer again(decoded->encoded_size());
  decoded->encode(again);
  EXPECT_EQ(again, layout);
  for (std::size_t size = 0; size < layout.size(); ++size) {
    const auto cut = X::decode(first(layout, size));
    ASSERT_FALSE(cut) << "primitive " << X::primitive << " of " << size << " bytes";
    EXPECT_EQ(cut.error(), size < X::fixed_size ? Malformed::short_block : Malformed::bad_offset);
  }
  Buffer other = layout;
  other[1] ^= std::byte{0x40};
  EXPECT_EQ(X::decode(other).error(), Malformed::wrong_primitive);
}

// The C structures of <sys/tihdr.h>, word by word.
TEST(Tpi, DataTransferHasTheLayoutOfTheSpecification) {
  expect_layout(UnitdataReq{address, {}}, words({8, 8, 20, 0, 0}) + address);
  expect_layout(UnitdataReq{address, odd}, words({8, 8, 20, 5, 28}) + address + odd);
  // Options start at a multiple of 4, behind zeros.
  expect_layout(UnitdataInd{odd, address}, words({20, 5, 20, 8, 28}) + odd + hex("000000") + address);
  expect_layout(UnitdataInd{{}, odd}, words({20, 0, 0, 5, 20}) + odd);
  expect_layout(UderrorInd{address, {}, 111}, words({21, 8, 24, 0, 0, 111}) + address);
}

TEST(Tpi, LocalManagementHasTheLayoutOfTheSpecification) {
  expect_layout(InfoReq{}, words({5}));
  expect_layout(UnbindReq{}, words({7}));
  expect_layout(AddrReq{}, words({24}));
  expect_layout(BindReq{address, 0}, words({26, 8, 16, 0}) + address);
  expect_layout(BindReq{{}, 0}, words({26, 0, 0, 0}));
  expect_layout(OldBindReq{address, 2}, words({6, 8, 16, 2}) + address);
  expect_layout(BindAck{address, 0}, words({17, 8, 16, 0}) + address);
  expect_layout(OptmgmtReq{odd, T_NEGOTIATE}, words({27, 5, 16, 4}) + odd);
  expect_layout(Svr4OptmgmtReq{{}, T_DEFAULT}, words({9, 0, 0, 0x10}));
  expect_layout(OptmgmtAck{odd, T_SUCCESS}, words({22, 5, 16, 0x20}) + odd);
  expect_layout(OkAck{T_UNBIND_REQ}, words({19, 7}));
  expect_layout(ErrorAck{T_BIND_REQ, TSYSERR, 12}, words({18, 26, 8, 12}));
  expect_layout(AddrAck{address, {}}, words({25, 8, 20, 0, 0}) + address);
  expect_layout(AddrAck{odd, address}, words({25, 5, 20, 8, 28}) + odd + hex("000000") + address);
  expect_layout(CapabilityReq{TC1_INFO}, words({30, 1}));
}

TEST(Tpi, InfoHasTheLayoutOfTheSpecification) {
  const InfoAck info{.tsdu_size = 65507,
                     .etsdu_size = T_INVALID,
                     .cdata_size = 3,
                     .ddata_size = 4,
                     .addr_size = 20,
                     .opt_size = 64,
                     .tidu_size = 1024,
                     .serv_type = T_CLTS,
                     .current_state = TS_IDLE,
                     .provider_flag = SENDZERO | XPG4_1};
  const Buffer layout = words({16, 65507, 0xfffffffe, 3, 4, 20, 64, 1024, 3, 3, 5});
  expect_layout(info, layout);
  EXPECT_EQ(InfoAck::decode(layout), info);

  const CapabilityAck ack{TC1_INFO | TC1_ACCEPTOR_ID, info, 77};
  const Buffer ack_layout = words({31, 3}) + layout + words({77});
  expect_layout(ack, ack_layout);
  EXPECT_EQ(CapabilityAck::decode(ack_layout), ack);
}

TEST(Tpi, ConnectionModeHasTheLayoutOfTheSpecification) {
  expect_layout(ConnReq{address, {}}, words({0, 8, 20, 0, 0}) + address);
  expect_layout(ConnReq{address, odd}, words({0, 8, 20, 5, 28}) + address + odd);
  expect_layout(ConnCon{odd, address}, words({12, 5, 20, 8, 28}) + odd + hex("000000") + address);
  expect_layout(ConnInd{address, {}, 7}, words({11, 8, 24, 0, 0, 7}) + address);
  expect_layout(ConnInd{odd, address, 7}, words({11, 5, 24, 8, 32, 7}) + odd + hex("000000") + address);
  expect_layout(ConnRes{77, {}, 7}, words({28, 77, 0, 0, 7}));
  expect_layout(ConnRes{77, odd, 7}, words({28, 77, 5, 20, 7}) + odd);
  expect_layout(OldConnRes{77, odd, 7}, words({1, 77, 5, 20, 7}) + odd);
  expect_layout(DisconReq{7}, words({2, 7}));
  expect_layout(DisconReq{}, words({2, 0xffffffff}));
  expect_layout(DisconInd{104, 7}, words({13, 104, 7}));
  expect_layout(DataReq{1}, words({3, 1}));
  expect_layout(DataInd{0}, words({14, 0}));
  expect_layout(ExdataReq{1}, words({4, 1}));
  expect_layout(ExdataInd{0}, words({15, 0}));
  expect_layout(OrdrelReq{}, words({10}));
  expect_layout(OrdrelInd{}, words({23}));
}

TEST(Tpi, DecodedSpansViewTheBlock) {
  const Buffer block = words({20, 8, 20, 5, 28}) + address + odd;
  const auto indication = UnitdataInd::decode(block);
  ASSERT_TRUE(indication);
  EXPECT_EQ(indication->address.data(), block.data() + 20);
  EXPECT_EQ(copy(indication->address), address);
  EXPECT_EQ(copy(indication->options), odd);
}

struct Case {
  const char* why;
  Buffer block;
  Malformed error;
};

TEST(Tpi, MalformedUnitdataRequestsAreNamed) {
  using enum Malformed;
  for (const auto& [why, block, error] : {
           Case{"empty", {}, short_block},
           Case{"fixed part cut", first(words({8, 0, 0, 0, 0}), 19), short_block},
           Case{"an indication", words({20, 8, 20, 0, 0}) + address, wrong_primitive},
           Case{"address in the fixed part", words({8, 8, 12, 0, 0}) + address, bad_offset},
           Case{"address one byte too far", words({8, 8, 21, 0, 0}) + address, bad_offset},
           Case{"address offset overflows", words({8, 8, 0xfffffff8, 0, 0}) + address, bad_offset},
           Case{"address length negative", words({8, 0xffffffff, 20, 0, 0}) + address, bad_offset},
           Case{"options in the fixed part", words({8, 8, 20, 4, 0}) + address, bad_offset},
           Case{"options too long", words({8, 8, 20, 1, 28}) + address, bad_offset},
       }) {
    const auto request = UnitdataReq::decode(block);
    ASSERT_FALSE(request) << why;
    EXPECT_EQ(request.error(), error) << why;
  }
  EXPECT_FALSE(primitive_of(hex("080000")));
}

TEST(Tpi, ConnectionPrimitivesThatLieAreRefused) {
  using enum Malformed;
  EXPECT_EQ(ConnInd::decode(words({11, 8, 20, 0, 0, 7}) + address).error(), bad_offset) << "in the fixed part";
  EXPECT_EQ(ConnInd::decode(words({11, 0xffffffff, 24, 0, 0, 7}) + address).error(), bad_offset);
  EXPECT_EQ(ConnInd::decode(words({11, 8, 24, 8, 0xfffffff8, 7}) + address).error(), bad_offset);
  EXPECT_EQ(ConnInd::decode(words({11, 8, 25, 0, 0, 7}) + address).error(), bad_offset) << "one byte too far";
  EXPECT_EQ(ConnRes::decode(words({28, 77, 8, 16, 7}) + address).error(), bad_offset) << "in the fixed part";
  EXPECT_EQ(ConnRes::decode(words({28, 77, 9, 20, 7}) + address).error(), bad_offset) << "one byte too long";
  EXPECT_EQ(ConnRes::decode(words({1, 77, 0, 0, 7})).error(), wrong_primitive) << "TLI's number";
  EXPECT_EQ(ConnReq::decode(words({0, 8, 0xfffffff8, 0, 0}) + address).error(), bad_offset);
  // An offset without a length means nothing.
  EXPECT_TRUE(ConnRes::decode(words({28, 77, 0, 0xffffffff, 7})));
}

}  // namespace
}  // namespace sluice::wire::tpi
