// SPDX-License-Identifier: Apache-2.0
#include "stack/modules/xdr.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>

#include "tests/stack/modules/harness.h"

namespace sluice::test {
namespace {

using wire::tpi::UderrorInd;

const std::vector<std::byte> destination = encoded(wire::TransportAddress{wire::Ipv4Address{{10, 0, 0, 1}}, 7000});

/// The bytes of host-order integers, and of the same integers as RFC 4506 orders them.
template <class T>
std::string host_order(std::initializer_list<T> values) {
  return {reinterpret_cast<const char*>(std::data(values)), values.size() * sizeof(T)};
}
template <class T>
std::string big_endian(std::initializer_list<T> values) {
  std::string text(values.size() * sizeof(T), '\0');
  auto* at = reinterpret_cast<std::byte*>(text.data());
  for (const T value : values) {
    store_big_endian(at, value);
    at += sizeof(T);
  }
  return text;
}

template <class T>
void expect_integers_travel_big_endian(std::initializer_list<T> values) {
  Stack stack;
  stack.push<Xdr>(sizeof(T));
  stack.down(unitdata_req(stack, destination, {}, host_order(values)));
  EXPECT_EQ(data_text(stack.driver().take()), big_endian(values));
  stack.up(unitdata_ind(stack, destination, {}, big_endian(values)));
  EXPECT_EQ(data_text(stack.head().take()), host_order(values));
}

// RFC 4506 section 4.1: "The most and least significant bytes are 0 and 3, respectively."
TEST(Xdr, TheUsersIntegersTravelBigEndian) {
  expect_integers_travel_big_endian<std::uint16_t>({0x0102, 0xa0b0});
  expect_integers_travel_big_endian<std::uint32_t>({0x01020304, 0xa0b0c0d0, 5});
  expect_integers_travel_big_endian<std::uint64_t>({0x0102030405060708, 0xa0b0c0d0e0f00010});
}

TEST(Xdr, AUnitMayStraddleBlocks) {
  Stack stack;
  stack.push<Xdr>(4);
  stack.down(data_chain(stack, {"123", "4567", "8"}));
  EXPECT_EQ(data_text(stack.driver().take()), big_endian<std::uint32_t>({0x34333231, 0x38373635}));
}

TEST(Xdr, ProtocolBlocksAndPrimitivesWithoutDataPassUnchanged) {
  Stack stack;
  stack.push<Xdr>(4);
  stack.down(proto(stack, wire::tpi::InfoReq{}, MessageType::pcproto));
  Message passed = stack.driver().take();
  EXPECT_TRUE(wire::tpi::InfoReq::decode(passed.bytes()).has_value());
  stack.down(unitdata_req(stack, destination, {}, "12345678"));
  passed = stack.driver().take();
  const auto request = wire::tpi::UnitdataReq::decode(passed.bytes());
  ASSERT_TRUE(request.has_value());
  EXPECT_TRUE(std::ranges::equal(request->address, destination));
}

TEST(Xdr, ARequestThatIsNoWholeNumberOfUnitsIsAnsweredWithUderror) {
  Stack stack;
  Xdr& xdr = stack.push<Xdr>(4);
  stack.down(unitdata_req(stack, destination, {}, "12345"));
  EXPECT_EQ(stack.driver().count(), 0U);
  const Message answer = stack.head().take();
  const auto error = UderrorInd::decode(answer.bytes());
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->error_type, EINVAL);
  EXPECT_TRUE(std::ranges::equal(error->destination, destination));
  EXPECT_EQ(count(xdr, "not_whole_units"), 1U);
}

TEST(Xdr, PlainDataThatIsNoWholeNumberOfUnitsFailsFurtherWrites) {
  Stack stack;
  stack.push<Xdr>(8);
  stack.down(data(stack, "1234567"));
  const Message answer = stack.head().take();
  ASSERT_EQ(answer.type(), MessageType::error);
  EXPECT_EQ(answer.bytes()[0], std::byte{0xff});
  EXPECT_EQ(answer.bytes()[1], std::byte{EINVAL});
}

TEST(Xdr, UpwardsSuchDataIsDroppedAndCountedAndTheRestOfTheBatchGoesOn) {
  Stack stack;
  Xdr& xdr = stack.push<Xdr>(2);
  Batch batch(unitdata_ind(stack, destination, {}, "123"));
  batch.push(unitdata_ind(stack, destination, {}, "1234"));
  stack.up(std::move(batch));
  EXPECT_EQ(take_texts(stack.head()), std::vector<std::string>{"2143"});
  EXPECT_EQ(count(xdr, "not_whole_units"), 1U);
}

TEST(Xdr, SharedBytesAreCopiedBeforeTheyChange) {
  Stack stack;
  stack.push<Xdr>(2);
  Message original = data(stack, "abcd");
  stack.down(original.duplicate());
  EXPECT_EQ(data_text(stack.driver().take()), "badc");
  EXPECT_EQ(data_text(original), "abcd");
}

TEST(Xdr, WhenThereIsNoMemoryForThatCopyTheSenderIsTold) {
  Stack stack(1, 128 * 1024);
  Xdr& xdr = stack.push<Xdr>(2);
  Message shared = Message::copy_of(stack.pool(), std::vector<std::byte>(48 * 1024));
  Message request =
      with_data(proto(stack, wire::tpi::UnitdataReq{.address = destination, .options = {}}), shared.duplicate());
  stack.down(std::move(request));
  EXPECT_EQ(stack.driver().count(), 0U);
  EXPECT_EQ(count(xdr, "no_memory"), 1U);
  const Message answer = stack.head().take();
  EXPECT_EQ(UderrorInd::decode(answer.bytes()).value().error_type, ENOMEM);
}

TEST(Xdr, AMalformedPrimitiveWithOddDataIsRefusedWithoutAnAnswer) {
  Stack stack;
  Xdr& xdr = stack.push<Xdr>(4);
  stack.down(with_data(raw_proto(stack, {wire::tpi::T_UNITDATA_REQ, 100, 4000}), data(stack, "odd")));
  EXPECT_EQ(stack.driver().count() + stack.head().count(), 0U);
  EXPECT_EQ(count(xdr, "not_whole_units"), 1U);
}

TEST(Xdr, TheUnitIsTwoFourOrEight) {
  Stack stack;
  EXPECT_TRUE(make(xdr_entry(), stack).has_value());
  EXPECT_TRUE(make(xdr_entry(), stack, {{"unit", std::int64_t{8}}}).has_value());
  const auto refused = make(xdr_entry(), stack, {{"unit", std::int64_t{3}}});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, EINVAL);
}

TEST(Xdr, AWriterLooksThroughItAtTheDriversQueue) {
  Stack stack;
  stack.push<Xdr>(4);
  stack.driver().hold();
  stack.down(data(stack, "1234"));
  EXPECT_FALSE(stack.can_write());
  stack.driver().release();
  EXPECT_TRUE(stack.can_write());
}

}  // namespace
}  // namespace sluice::test
