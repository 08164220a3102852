// SPDX-License-Identifier: Apache-2.0
#include "stack/modules/timod.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "stack/wire/timod.h"
#include "tests/stack/modules/harness.h"

namespace sluice::test {
namespace {

using namespace wire::tpi;
using namespace wire::timod;

const std::vector<std::byte> own_address = encoded(wire::TransportAddress{wire::Ipv4Address{{10, 0, 0, 1}}, 7000});

/// An ioctl's argument: the primitive's bytes as data.
template <class Primitive>
Message argument(Stack& stack, const Primitive& primitive) {
  return proto(stack, primitive, MessageType::data);
}

class TimodStack : public Stack {
 public:
  TimodStack() : timod_(push<Timod>()) {}
  [[nodiscard]] std::uint64_t counted(std::string_view name) const { return count(timod_, name); }

  void request(std::int32_t command, Message with = {}) { down(ioctl(*this, command, 7, std::move(with))); }
  template <class Primitive>
  void answer(const Primitive& primitive) {
    up(proto(*this, primitive, MessageType::pcproto));
  }
  /// What the head got: an M_IOCACK or M_IOCNAK of the request.
  Message ioctl_answer(MessageType type) {
    Message message = head().take();
    EXPECT_EQ(message.type(), type);
    EXPECT_EQ(ioctl_block(message).id, 7U);
    return message;
  }
  void expect_refused(std::int32_t error) { EXPECT_EQ(ioctl_block(ioctl_answer(MessageType::iocnak)).error, error); }

 private:
  Timod& timod_;
};

TEST(Timod, BindIsAnAtomicRequestAndAcknowledgement) {
  TimodStack stack;
  stack.request(TI_BIND, argument(stack, BindReq{.address = own_address, .connect_indications = 0}));
  const Message asked = stack.driver().take();
  EXPECT_EQ(asked.type(), MessageType::proto);
  EXPECT_TRUE(std::ranges::equal(BindReq::decode(asked.bytes())->address, own_address));
  EXPECT_EQ(stack.head().count(), 0U);

  stack.answer(BindAck{.address = own_address});
  Message acknowledged = stack.ioctl_answer(MessageType::iocack);
  EXPECT_EQ(ioctl_block(acknowledged).return_value, 0);
  const Message ack = acknowledged.unlink();
  EXPECT_EQ(ack.type(), MessageType::data);
  EXPECT_TRUE(std::ranges::equal(BindAck::decode(ack.bytes())->address, own_address));
  EXPECT_EQ(stack.counted("acknowledged"), 1U);
}

/// Sends `command` and checks which primitive goes down as what, and that `ack` comes back as the ioctl's data.
template <class Request, class Ack>
void expect_request(std::int32_t command, const Request& request, MessageType type, const Ack& ack) {
  TimodStack stack;
  stack.request(command, argument(stack, request));
  const Message asked = stack.driver().take();
  EXPECT_EQ(asked.type(), type) << command;
  EXPECT_EQ(primitive_of(asked.bytes()), Request::primitive) << command;
  stack.answer(ack);
  Message acknowledged = stack.ioctl_answer(MessageType::iocack);
  EXPECT_EQ(primitive_of(acknowledged.unlink().bytes()), Ack::primitive) << command;
}

TEST(Timod, EachIoctlIsItsPrimitiveAndItsAcknowledgement) {
  expect_request(TI_GETINFO, InfoReq{}, MessageType::pcproto, InfoAck{});
  expect_request(TI_BIND, OldBindReq{.address = {}}, MessageType::proto, BindAck{.address = {}});
  expect_request(TI_UNBIND, UnbindReq{}, MessageType::proto, OkAck{T_UNBIND_REQ});
  expect_request(TI_OPTMGMT, OptmgmtReq{.options = {}}, MessageType::proto, OptmgmtAck{.options = {}});
  expect_request(TI_OPTMGMT, Svr4OptmgmtReq{.options = {}}, MessageType::proto, OptmgmtAck{.options = {}});
  expect_request(TI_CAPABILITY, CapabilityReq{TC1_INFO}, MessageType::pcproto, CapabilityAck{});
  expect_request(TI_GETADDRS, AddrReq{}, MessageType::pcproto, AddrAck{.local = {}, .remote = {}});
}

TEST(Timod, SyncAndGetmynameMakeTheirRequests) {
  TimodStack stack;
  stack.request(TI_SYNC);
  EXPECT_TRUE(InfoReq::decode(stack.driver().take().bytes()).has_value());
  stack.answer(InfoAck{.serv_type = T_CLTS});
  EXPECT_TRUE(InfoAck::decode(stack.ioctl_answer(MessageType::iocack).unlink().bytes()).has_value());

  stack.request(TI_GETMYNAME);
  EXPECT_TRUE(AddrReq::decode(stack.driver().take().bytes()).has_value());
  stack.answer(AddrAck{.local = own_address, .remote = {}});
  EXPECT_TRUE(std::ranges::equal(stack.ioctl_answer(MessageType::iocack).unlink().bytes(), own_address));

  stack.request(TI_GETMYNAME);
  stack.answer(AddrAck{.local = {}, .remote = {}});
  EXPECT_EQ(stack.ioctl_answer(MessageType::iocack).data_size(), 0U);
}

// timod(7M): "the lower 8 bits of the return value will be one of the TI error codes as defined in <sys/tiuser.h>. If
// the TI error is of type TSYSERR, then the next 8 bits of the return value will contain an error as defined in
// <sys/errno.h>".
TEST(Timod, AnErrorOfTheProviderIsTheReturnValue) {
  TimodStack stack;
  stack.request(TI_BIND, argument(stack, BindReq{.address = own_address}));
  stack.answer(ErrorAck{T_BIND_REQ, TADDRBUSY, 0});
  Message acknowledged = stack.ioctl_answer(MessageType::iocack);
  EXPECT_EQ(ioctl_block(acknowledged).return_value, TADDRBUSY);
  EXPECT_EQ(acknowledged.block_count(), 1U);

  stack.request(TI_UNBIND, argument(stack, UnbindReq{}));
  stack.answer(ErrorAck{T_UNBIND_REQ, TSYSERR, ENXIO});
  EXPECT_EQ(ioctl_block(stack.ioctl_answer(MessageType::iocack)).return_value, TSYSERR | ENXIO << 8);
}

TEST(Timod, AnArgumentMayLieInSeveralBlocks) {
  TimodStack stack;
  std::vector<std::byte> bytes(64);
  bytes.resize(BindReq{.address = own_address}.encode(bytes));
  Message split = Message::copy_of(stack.pool(), ConstBytes(bytes).first(10));
  split.link(Message::copy_of(stack.pool(), ConstBytes(bytes).subspan(10)));
  stack.request(TI_BIND, std::move(split));
  EXPECT_TRUE(BindReq::decode(stack.driver().take().bytes()).has_value());
}

TEST(Timod, AnArgumentThatIsNotThePrimitiveIsRefused) {
  TimodStack stack;
  stack.request(TI_BIND);
  stack.expect_refused(EINVAL);
  stack.request(TI_BIND, argument(stack, UnbindReq{}));
  stack.expect_refused(EINVAL);
  stack.request(TI_GETINFO, data(stack, "ab"));
  stack.expect_refused(EINVAL);
  EXPECT_EQ(stack.driver().count(), 0U);
  EXPECT_EQ(stack.counted("refused"), 3U);
}

// A provider that never answers must not keep the endpoint from its next request for ever.
TEST(Timod, ARequestThatTheHeadGaveUpEndsWhenTheNextOneComes) {
  TimodStack stack;
  stack.down(ioctl(stack, TI_UNBIND, 6, argument(stack, UnbindReq{})));
  stack.request(TI_GETINFO, argument(stack, InfoReq{}));
  const Message given_up = stack.head().take();
  EXPECT_EQ(given_up.type(), MessageType::iocnak);
  EXPECT_EQ(ioctl_block(given_up).id, 6U);
  EXPECT_EQ(ioctl_block(given_up).error, ETIME);
  EXPECT_EQ(stack.driver().count(), 2U);
  stack.answer(OkAck{T_UNBIND_REQ});  // late
  EXPECT_EQ(stack.head().take().type(), MessageType::pcproto);
  stack.answer(InfoAck{});
  EXPECT_EQ(primitive_of(stack.ioctl_answer(MessageType::iocack).unlink().bytes()), T_INFO_ACK);
}

TEST(Timod, OtherMessagesPassInTheMiddleOfARequest) {
  TimodStack stack;
  stack.request(TI_BIND, argument(stack, BindReq{.address = own_address}));
  stack.driver().take().reset();
  stack.down(unitdata_req(stack, own_address, {}, "down"));
  stack.up(unitdata_ind(stack, own_address, {}, "up"));
  stack.answer(InfoAck{});                            // of a T_INFO_REQ that the user sent himself
  stack.answer(OkAck{T_UNBIND_REQ});                  // likewise
  stack.answer(ErrorAck{T_OPTMGMT_REQ, TBADOPT, 0});  // likewise
  EXPECT_EQ(data_text(stack.driver().take()), "down");
  EXPECT_EQ(data_text(stack.head().take()), "up");
  EXPECT_EQ(primitive_of(stack.head().take().bytes()), T_INFO_ACK);
  EXPECT_EQ(primitive_of(stack.head().take().bytes()), T_OK_ACK);
  EXPECT_EQ(primitive_of(stack.head().take().bytes()), T_ERROR_ACK);
  stack.answer(BindAck{.address = own_address});
  stack.ioctl_answer(MessageType::iocack);
}

/// T_OK_ACK says of what it is: TLI's user may have asked for something else himself.
TEST(Timod, AnAcknowledgementOfSomethingElsePasses) {
  TimodStack stack;
  stack.request(TI_UNBIND, argument(stack, UnbindReq{}));
  stack.driver().take().reset();
  stack.answer(OkAck{T_BIND_REQ});
  EXPECT_EQ(primitive_of(stack.head().take().bytes()), T_OK_ACK);
  stack.answer(OkAck{T_UNBIND_REQ});
  stack.ioctl_answer(MessageType::iocack);
}

TEST(Timod, WithoutARequestAcknowledgementsPass) {
  TimodStack stack;
  stack.answer(BindAck{.address = own_address});
  EXPECT_EQ(stack.head().take().type(), MessageType::pcproto);
}

TEST(Timod, IoctlsOfOthersPass) {
  TimodStack stack;
  stack.request(TIMOD | 1, data(stack, "x"));
  EXPECT_EQ(stack.driver().take().type(), MessageType::ioctl);
}

TEST(Timod, FlushInTheMiddleOfARequestLeavesIt) {
  TimodStack stack;
  stack.request(TI_UNBIND, argument(stack, UnbindReq{}));
  stack.driver().take().reset();
  stack.down(flush(stack, flush_read | flush_write));
  stack.up(flush(stack, flush_read));
  EXPECT_EQ(stack.driver().take().type(), MessageType::flush);
  EXPECT_EQ(stack.head().take().type(), MessageType::flush);
  stack.answer(OkAck{T_UNBIND_REQ});
  stack.ioctl_answer(MessageType::iocack);
}

TEST(Timod, HangupAndErrorEndARequestBeforeTheyPass) {
  TimodStack hung_up;
  hung_up.request(TI_UNBIND, argument(hung_up, UnbindReq{}));
  hung_up.up(bare(hung_up, MessageType::hangup));
  hung_up.expect_refused(ENXIO);
  EXPECT_EQ(hung_up.head().take().type(), MessageType::hangup);

  for (const auto& [errors, expected] : {std::pair(std::array{std::byte{EPROTO}, std::byte{EPROTO}}, EPROTO),
                                         std::pair(std::array{std::byte{EPROTO}, std::byte{0xff}}, EIO)}) {
    TimodStack failed;
    failed.request(TI_UNBIND, argument(failed, UnbindReq{}));
    failed.up(Message::copy_of(failed.pool(), errors, 0, MessageType::error));
    failed.expect_refused(expected);
    EXPECT_EQ(failed.head().take().type(), MessageType::error);
  }
}

TEST(Timod, ItCanBePoppedInTheMiddleOfARequest) {
  TimodStack stack;
  stack.request(TI_UNBIND, argument(stack, UnbindReq{}));
  stack.driver().take().reset();
  EXPECT_TRUE(stack.pop().has_value());
  EXPECT_EQ(stack.pool().statistics().buffers_in_use, 0U);
}

TEST(Timod, ABatchIsABatchAndKeepsItsOrder) {
  TimodStack stack;
  Batch batch(data(stack, "1"));
  batch.push(data(stack, "2"));
  batch.push(ioctl(stack, TI_GETINFO, 7, argument(stack, InfoReq{})));
  batch.push(data(stack, "3"));
  stack.down(std::move(batch));
  EXPECT_EQ(stack.driver().batch_sizes(), (std::vector<std::size_t>{2, 1, 1}));
  EXPECT_EQ(data_text(stack.driver().take()), "1");
  EXPECT_EQ(data_text(stack.driver().take()), "2");
  EXPECT_EQ(stack.driver().take().type(), MessageType::pcproto);
}

TEST(Timod, AWriterLooksThroughItAtTheDriversQueue) {
  TimodStack stack;
  stack.driver().hold();
  stack.down(data(stack, "x"));
  EXPECT_FALSE(stack.can_write());
  stack.driver().release();
  EXPECT_TRUE(stack.can_write());
}

}  // namespace
}  // namespace sluice::test
