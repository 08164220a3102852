// SPDX-License-Identifier: Apache-2.0
// Every state against every primitive, and each request's own errors. Quotations are from DLPI 2.0.0 (X/Open XNS C614).

#include <array>
#include <map>

#include "stack/wire/receive_room.h"
#include "tests/dlpi/test_stream.h"

namespace sluice::dlpi::test {
namespace {

class DlpiState : public testing::Test {
 protected:
  /// A style 2 stream, brought to `state`.
  std::unique_ptr<Stream> stream_in(State state) {
    auto stream = std::make_unique<Stream>(set_);
    EXPECT_TRUE(stream->open(driver_on(link_, LinkStream::Style::two)));
    if (state != DL_UNATTACHED) {
      stream->request(AttachReq{1});
      EXPECT_EQ(stream->acknowledged(), DL_ATTACH_REQ);
    }
    if (state == DL_IDLE) {
      stream->bind(0x0800);
      stream->bind_also(0x0806);
    }
    EXPECT_EQ(stream->driver().state(), state);
    return stream;
  }
  std::unique_ptr<Stream> idle() { return stream_in(DL_IDLE); }

  StreamSet set_;
  std::shared_ptr<TestLink> link_ = std::make_shared<TestLink>(set_);
};

/// A request of each kind that would be right in a state where it is valid.
Message right_request(Stream& stream, std::uint32_t primitive) {
  constexpr wire::MacAddress group{{0x01, 0, 0x5e, 0, 0, 1}};
  switch (primitive) {
    case DL_INFO_REQ:
      return stream.encoded(InfoReq{});
    case DL_ATTACH_REQ:
      return stream.encoded(AttachReq{1});
    case DL_DETACH_REQ:
      return stream.encoded(DetachReq{});
    case DL_BIND_REQ:
      return stream.encoded(BindReq{.sap = 0x0800});
    case DL_UNBIND_REQ:
      return stream.encoded(UnbindReq{});
    case DL_SUBS_BIND_REQ:
      return stream.encoded(SubsBindReq{.sap = 0x86dd});
    case DL_SUBS_UNBIND_REQ:
      return stream.encoded(SubsUnbindReq{.sap = 0x0806});
    case DL_UNITDATA_REQ:
      return stream.unitdata({TestLink::mac, 0x0800}, bytes_of("x"));
    case DL_ENABMULTI_REQ:
      return stream.encoded(EnabmultiReq{group});
    case DL_DISABMULTI_REQ:
      return stream.encoded(DisabmultiReq{group});
    case DL_PROMISCON_REQ:
      return stream.encoded(PromisconReq{DL_PROMISC_PHYS});
    case DL_PROMISCOFF_REQ:
      return stream.encoded(PromiscoffReq{DL_PROMISC_PHYS});
    case DL_PHYS_ADDR_REQ:
      return stream.encoded(PhysAddrReq{DL_CURR_PHYS_ADDR});
    case DL_SET_PHYS_ADDR_REQ:
      return stream.encoded(SetPhysAddrReq{TestLink::mac});
    case DL_GET_STATISTICS_REQ:
      return stream.encoded(GetStatisticsReq{});
    case DL_NOTIFY_REQ:
      return stream.encoded(NotifyReq{});
    case DL_CAPABILITY_REQ:
      return stream.encoded(CapabilityReq{});
    case DL_FILTER_REQ:
      return stream.encoded(FilterReq{.sap = 0x0800, .local = {}, .protocol = 17, .local_port = {}});
    default:
      ADD_FAILURE() << "no request for " << primitive;
      return {};
  }
}

/// What acknowledges it, and in which states; written down here again, from the text of each primitive.
struct Expected {
  std::uint32_t acknowledgement;
  bool unattached, unbound, idle;
  State next_from_valid;
  bool changes;
};
constexpr std::uint32_t none = 0xffff'ffff;
const std::map<std::uint32_t, Expected> expectations{
    {DL_INFO_REQ, {DL_INFO_ACK, true, true, true, DL_IDLE, false}},
    {DL_ATTACH_REQ, {DL_OK_ACK, true, false, false, DL_UNBOUND, true}},
    {DL_DETACH_REQ, {DL_OK_ACK, false, true, false, DL_UNATTACHED, true}},
    {DL_BIND_REQ, {DL_BIND_ACK, false, true, false, DL_IDLE, true}},
    {DL_UNBIND_REQ, {DL_OK_ACK, false, false, true, DL_UNBOUND, true}},
    {DL_SUBS_BIND_REQ, {DL_SUBS_BIND_ACK, false, false, true, DL_IDLE, true}},
    {DL_SUBS_UNBIND_REQ, {DL_OK_ACK, false, false, true, DL_IDLE, true}},
    {DL_UNITDATA_REQ, {none, false, false, true, DL_IDLE, false}},
    {DL_ENABMULTI_REQ, {DL_OK_ACK, false, true, true, DL_IDLE, false}},
    {DL_DISABMULTI_REQ, {DL_ERROR_ACK, false, true, true, DL_IDLE, false}},  // DL_NOTENAB: nothing was enabled
    {DL_PROMISCON_REQ, {DL_OK_ACK, false, true, true, DL_IDLE, false}},
    {DL_PROMISCOFF_REQ, {DL_ERROR_ACK, false, true, true, DL_IDLE, false}},  // DL_NOTENAB
    {DL_PHYS_ADDR_REQ, {DL_PHYS_ADDR_ACK, false, true, true, DL_IDLE, false}},
    {DL_SET_PHYS_ADDR_REQ, {DL_ERROR_ACK, false, true, true, DL_IDLE, false}},  // DL_NOTSUPPORTED by this device
    {DL_GET_STATISTICS_REQ, {DL_GET_STATISTICS_ACK, false, true, true, DL_IDLE, false}},
    {DL_NOTIFY_REQ, {DL_NOTIFY_ACK, false, true, true, DL_IDLE, false}},
    {DL_CAPABILITY_REQ, {DL_CAPABILITY_ACK, false, true, true, DL_IDLE, false}},
    {DL_FILTER_REQ, {DL_OK_ACK, false, false, true, DL_IDLE, false}},
};

TEST_F(DlpiState, EveryStateAndEveryPrimitive) {
  ASSERT_EQ(expectations.size(), state_table.size());
  for (const State state : {DL_UNATTACHED, DL_UNBOUND, DL_IDLE}) {
    for (const auto& [primitive, expected] : expectations) {
      SCOPED_TRACE(testing::Message() << "state " << state << ", primitive " << primitive);
      const auto stream = stream_in(state);
      const bool valid = state == DL_UNATTACHED ? expected.unattached
                         : state == DL_UNBOUND  ? expected.unbound
                                                : expected.idle;
      stream->put(right_request(*stream, primitive));
      const Message answer = stream->next();
      if (valid && expected.acknowledgement == none) {
        EXPECT_FALSE(answer);
      } else if (valid) {
        ASSERT_TRUE(answer);
        EXPECT_EQ(primitive_of(answer.bytes()), expected.acknowledgement);
      } else if (primitive == DL_UNITDATA_REQ) {
        ASSERT_TRUE(answer);
        EXPECT_EQ(UderrorInd::decode(answer.bytes())->error, DL_OUTSTATE);
      } else {
        ASSERT_TRUE(answer);
        EXPECT_EQ(answer.type(), MessageType::pcproto);
        EXPECT_EQ(ErrorAck::decode(answer.bytes())->error_primitive, primitive);
        EXPECT_EQ(ErrorAck::decode(answer.bytes())->error, DL_OUTSTATE);
      }
      EXPECT_EQ(stream->driver().state(), valid && expected.changes ? expected.next_from_valid : state);
      EXPECT_EQ(stream->waiting(), 0U);
    }
  }
}

// "DL_BADPRIM"; and DL_NOTSUPPORTED: "Primitive is known, but not supported by the DLS Provider."
TEST_F(DlpiState, OtherPrimitivesAreRefused) {
  const auto stream = idle();
  constexpr std::uint32_t connect_request = 0x0d;
  stream->request(Bare<connect_request>{});
  EXPECT_EQ(stream->error(), DL_NOTSUPPORTED);
  stream->request(Bare<0x7777>{});
  EXPECT_EQ(stream->error(), DL_BADPRIM);
  stream->put(Message::copy_of(set_.pool(), bytes_of("ab"), 0, MessageType::proto));
  EXPECT_EQ(stream->waiting(), 0U);
  EXPECT_EQ(stream->counted("malformed"), 1U);
}

TEST_F(DlpiState, RequestsCutShortAreRefused) {
  for (const auto& [primitive, expected] : expectations) {
    const auto stream = idle();
    Message request = right_request(*stream, primitive);
    if (request.bytes().size() <= 4) {
      continue;
    }
    Message rest = request.unlink();
    request.trim_back(request.size() - 4);
    stream->put(std::move(request));
    const Message answer = stream->next();
    ASSERT_TRUE(answer) << primitive;
    const std::uint32_t refusal = primitive == DL_UNITDATA_REQ ? DL_UDERROR_IND : DL_ERROR_ACK;
    EXPECT_EQ(primitive_of(answer.bytes()), refusal) << primitive;
  }
}

TEST_F(DlpiState, StyleOneOpensUnboundAndHasNoAttach) {
  Stream stream(set_);
  ASSERT_TRUE(stream.open(driver_on(link_, LinkStream::Style::one)));
  EXPECT_EQ(stream.driver().state(), DL_UNBOUND);
  stream.request(AttachReq{1});
  EXPECT_EQ(stream.error(), DL_OUTSTATE);
  stream.request(DetachReq{});
  EXPECT_EQ(stream.error(), DL_NOTSUPPORTED);
  stream.request(InfoReq{});
  EXPECT_EQ(stream.expect<InfoAck>().provider_style, DL_STYLE1);
}

// DL_ATTACH_REQ: "DL_BADPPA: The specified PPA is invalid."
TEST_F(DlpiState, AttachToAnUnknownPpa) {
  const auto stream = stream_in(DL_UNATTACHED);
  stream->request(AttachReq{99});
  EXPECT_EQ(stream->error(), DL_BADPPA);
  EXPECT_EQ(stream->driver().state(), DL_UNATTACHED);
}

TEST_F(DlpiState, InfoTellsStateLimitsAndAddress) {
  const auto stream = idle();
  stream->request(InfoReq{});
  const InfoAck ack = stream->expect<InfoAck>();
  EXPECT_EQ(ack.current_state, DL_IDLE);
  EXPECT_EQ(ack.provider_style, DL_STYLE2);
  EXPECT_EQ(ack.service_mode, DL_CLDLS);
  EXPECT_EQ(ack.max_sdu, 1500U);
  EXPECT_EQ(ack.address, (LinkAddress{TestLink::mac, 0x0800}));
  EXPECT_EQ(ack.broadcast, wire::mac_broadcast);
}

TEST_F(DlpiState, BindErrors) {
  const auto stream = stream_in(DL_UNBOUND);
  stream->request(BindReq{.sap = 0x5ff});  // an IEEE 802.3 length
  EXPECT_EQ(stream->error(), DL_BADADDR);
  stream->request(BindReq{.sap = 0x10000});
  EXPECT_EQ(stream->error(), DL_BADADDR);
  stream->request(BindReq{.sap = 0x0800, .service_mode = DL_CODLS});
  EXPECT_EQ(stream->error(), DL_UNSUPPORTED);
  stream->request(BindReq{.sap = 0x0800, .xid_test = 1});
  EXPECT_EQ(stream->error(), DL_NOAUTO);
  stream->request(BindReq{.sap = 0x0800});
  EXPECT_EQ(stream->expect<BindAck>().address, (LinkAddress{TestLink::mac, 0x0800}));
}

// DL_SUBS_BIND_REQ: "DL_UNSUPPORTED: Requested addressing class not supported." "DL_TOOMANY: Limit exceeded on the
// maximum number of DLSAPs per stream."
TEST_F(DlpiState, SubsequentBindErrors) {
  const auto stream = idle();
  stream->request(SubsBindReq{.sap = 0x86dd, .bind_class = DL_HIERARCHICAL_BIND});
  EXPECT_EQ(stream->error(), DL_UNSUPPORTED);
  stream->request(SubsBindReq{.sap = 5});
  EXPECT_EQ(stream->error(), DL_BADADDR);
  for (std::uint16_t sap = 0x9000; stream->driver().subscription().saps.size() < Subscription::saps_max; ++sap) {
    stream->bind_also(sap);
  }
  stream->request(SubsBindReq{.sap = 0xa000});
  EXPECT_EQ(stream->error(), DL_TOOMANY);
  stream->request(SubsUnbindReq{.sap = 0x0800});  // bound by DL_BIND_REQ
  EXPECT_EQ(stream->error(), DL_BADADDR);
  stream->request(SubsUnbindReq{.sap = 0xb000});
  EXPECT_EQ(stream->error(), DL_BADADDR);
}

// "the DL_UNBIND_REQ will unbind all the subsequent DLSAPs for that stream along with the DLSAP bound"
TEST_F(DlpiState, UnbindUnbindsAll) {
  const auto stream = idle();
  stream->request(UnbindReq{});
  EXPECT_EQ(stream->acknowledged(), DL_UNBIND_REQ);
  link_->bring(frame(TestLink::mac, 0x0806, bytes_of("arp")));
  EXPECT_EQ(stream->waiting(), 0U);
  EXPECT_EQ(stream->counted("unclaimed"), 1U);
}

struct BadUnitdata {
  const char* what;
  LinkAddress destination;
  std::size_t size;
  Priority priority;
  std::uint32_t error;
};

// DL_UNITDATA_REQ: "If the request is erroneous, message DL_UDERROR_IND is returned, and the resulting state is
// unchanged."
TEST_F(DlpiState, BadUnitdataIsAnsweredWithUderror) {
  const LinkAddress peer{{{0x02, 0, 0, 0, 0, 2}}, 0x0800};
  const std::array cases{
      BadUnitdata{"no data", peer, 0, {}, DL_BADDATA},
      BadUnitdata{"above the MTU", peer, 1501, {}, DL_BADDATA},
      BadUnitdata{"no EtherType", {peer.mac, 0x100}, 10, {}, DL_BADADDR},
      BadUnitdata{"priority", peer, 10, {0, 101}, DL_UNSUPPORTED},
  };
  for (const BadUnitdata& bad : cases) {
    SCOPED_TRACE(bad.what);
    const auto stream = idle();
    Message request = stream->encoded(UnitdataReq{bad.destination, bad.priority});
    if (bad.size > 0) {
      request.link(Message::copy_of(set_.pool(), std::vector<std::byte>(bad.size)));
    }
    stream->put(std::move(request));
    const UderrorInd answer = stream->expect<UderrorInd>();
    EXPECT_EQ(answer.error, bad.error);
    EXPECT_EQ(answer.destination, bad.destination);
    EXPECT_EQ(stream->counted("bad_unitdata"), 1U);
    EXPECT_TRUE(link_->out.empty());
  }
}

// "DL_UNDELIVERABLE may be returned if the request was valid but for some reason the DLS provider could not deliver the
// data unit"
TEST_F(DlpiState, NothingIsSentOnALinkThatIsDown) {
  const auto stream = idle();
  link_->set_up(false);
  stream->send({{{0x02, 0, 0, 0, 0, 2}}, 0x0800}, bytes_of("x"));
  EXPECT_EQ(stream->expect<UderrorInd>().error, DL_UNDELIVERABLE);
}

TEST_F(DlpiState, UnitdataBecomesAFrame) {
  const auto stream = idle();
  const wire::MacAddress peer{{0x02, 0, 0, 0, 0, 2}};
  stream->send({peer, 0x86dd}, bytes_of("payload"));
  const Message sent = link_->out.pop();
  ASSERT_TRUE(sent);
  EXPECT_EQ(sent.block_count(), 1U) << "the header goes into the headroom";
  EXPECT_EQ(*wire::EthernetHeader::parse(sent.bytes()), (wire::EthernetHeader{peer, TestLink::mac, 0x86dd}));
  EXPECT_EQ(as_text(sent.bytes().subspan(14)), "payload");
}

TEST_F(DlpiState, MulticastErrors) {
  const auto stream = idle();
  stream->request(EnabmultiReq{TestLink::mac});
  EXPECT_EQ(stream->error(), DL_BADADDR);
  for (std::uint8_t at = 0; at < Subscription::groups_max; ++at) {
    stream->request(EnabmultiReq{{{1, 0, 0x5e, 0, 0, at}}});
    EXPECT_EQ(stream->acknowledged(), DL_ENABMULTI_REQ);
  }
  stream->request(EnabmultiReq{{{1, 0, 0x5e, 1, 0, 0}}});
  EXPECT_EQ(stream->error(), DL_TOOMANY);
  stream->request(DisabmultiReq{{{1, 0, 0x5e, 1, 0, 0}}});
  EXPECT_EQ(stream->error(), DL_NOTENAB);
  stream->request(DisabmultiReq{{{1, 0, 0x5e, 0, 0, 3}}});
  EXPECT_EQ(stream->acknowledged(), DL_DISABMULTI_REQ);
  EXPECT_EQ(link_->interests.groups.size(), Subscription::groups_max - 1);
}

TEST_F(DlpiState, WhatTheDeviceRefusesIsNotWanted) {
  const auto stream = idle();
  link_->refuse_interests = true;
  stream->request(PromisconReq{DL_PROMISC_PHYS});
  const ErrorAck refused = stream->expect<ErrorAck>();
  EXPECT_EQ(refused.error, DL_SYSERR);
  EXPECT_EQ(refused.unix_errno, static_cast<std::uint32_t>(EPERM));
  EXPECT_FALSE(stream->driver().subscription().promiscuous_phys);
  stream->request(SubsBindReq{.sap = 0x9999});
  EXPECT_EQ(stream->expect<ErrorAck>().error, DL_SYSERR);
  link_->bring(frame(TestLink::mac, 0x9999, bytes_of("refused")));
  EXPECT_EQ(stream->waiting(), 0U);
}

TEST_F(DlpiState, PromiscuousLevels) {
  const auto stream = idle();
  stream->request(PromisconReq{9});
  EXPECT_EQ(stream->error(), DL_UNSUPPORTED);
  stream->request(PromiscoffReq{DL_PROMISC_SAP});
  EXPECT_EQ(stream->error(), DL_NOTENAB);
  stream->request(PromisconReq{DL_PROMISC_PHYS});
  EXPECT_EQ(stream->acknowledged(), DL_PROMISCON_REQ);
  EXPECT_TRUE(link_->interests.promiscuous);
  stream->request(PromiscoffReq{DL_PROMISC_PHYS});
  EXPECT_EQ(stream->acknowledged(), DL_PROMISCOFF_REQ);
  EXPECT_FALSE(link_->interests.promiscuous);
}

TEST_F(DlpiState, PhysicalAddresses) {
  const auto stream = idle();
  const wire::MacAddress changed{{0x02, 0, 0, 0, 0, 7}};
  link_->change_address(changed);
  stream->request(PhysAddrReq{DL_CURR_PHYS_ADDR});
  EXPECT_EQ(stream->expect<PhysAddrAck>().address, changed);
  stream->request(PhysAddrReq{DL_FACT_PHYS_ADDR});
  EXPECT_EQ(stream->expect<PhysAddrAck>().address, TestLink::mac);
  stream->request(PhysAddrReq{3});
  EXPECT_EQ(stream->error(), DL_UNSUPPORTED);
  stream->request(SetPhysAddrReq{changed});
  EXPECT_EQ(stream->error(), DL_NOTSUPPORTED);
  stream->request(SetPhysAddrReq{wire::mac_broadcast});
  EXPECT_EQ(stream->error(), DL_BADADDR);
}

TEST_F(DlpiState, NotificationsAreToldAtOnceAndOnChange) {
  const auto stream = idle();
  stream->request(NotifyReq{.notifications = DL_NOTE_LINK_UP | DL_NOTE_LINK_DOWN | DL_NOTE_SDU_SIZE | DL_NOTE_SPEED});
  EXPECT_EQ(stream->expect<NotifyAck>().value & DL_NOTE_SPEED, 0U);
  EXPECT_EQ(stream->expect<NotifyInd>().notification, DL_NOTE_LINK_UP);
  EXPECT_EQ(stream->expect<NotifyInd>().data, 1500U);
  link_->set_up(false);
  EXPECT_EQ(stream->expect<NotifyInd>().notification, DL_NOTE_LINK_DOWN);
  link_->set_up(false);
  link_->set_mtu(9000);
  const NotifyInd size = stream->expect<NotifyInd>();
  EXPECT_EQ(size.notification, DL_NOTE_SDU_SIZE);
  EXPECT_EQ(size.data, 9000U);
  link_->change_address({{0x02, 0, 0, 0, 0, 7}});  // not asked for
  EXPECT_EQ(stream->waiting(), 0U);
}

TEST_F(DlpiState, StatisticsCountFrames) {
  const auto stream = idle();
  stream->send({{{0x02, 0, 0, 0, 0, 2}}, 0x0800}, bytes_of("1234"));
  link_->bring(frame(TestLink::mac, 0x9999, bytes_of("nobody's")));
  stream->request(GetStatisticsReq{});
  const Message answer = stream->next();
  const auto ack = GetStatisticsAck::decode(answer.bytes());
  ASSERT_TRUE(ack);
  LinkStatistics statistics;
  ASSERT_EQ(ack->statistics.size(), sizeof statistics);
  std::memcpy(&statistics, ack->statistics.data(), sizeof statistics);
  EXPECT_EQ(statistics.frames_sent, 1U);
  EXPECT_EQ(statistics.bytes_sent, 18U);
  EXPECT_EQ(statistics.frames_received, 1U);
  EXPECT_EQ(statistics.frames_unclaimed, 1U);
}

TEST_F(DlpiState, RawModeCarriesWholeFrames) {
  const auto stream = idle();
  const auto ioctl = [&](std::int32_t command) {
    Message request = Message::allocate(set_.pool(), sizeof(IoctlBlock), 0, MessageType::ioctl);
    static_cast<void>(request.append(sizeof(IoctlBlock)));
    set_ioctl_block(request, {.command = command, .id = 5});
    stream->put(std::move(request));
    return stream->next();
  };
  const auto whole = frame(TestLink::mac, 0x0800, bytes_of("raw"));
  stream->put(Message::copy_of(set_.pool(), whole));
  EXPECT_EQ(stream->counted("unexpected"), 1U) << "M_DATA is for raw mode";
  EXPECT_EQ(ioctl(4711).type(), MessageType::iocnak);
  const Message room = ioctl(wire::SLIOCRECEIVEROOM);
  EXPECT_EQ(room.type(), MessageType::iocack);
  EXPECT_EQ(ioctl_block(room).return_value, 12'345) << "as the link says";
  EXPECT_EQ(ioctl(DLIOCRAW).type(), MessageType::iocack);
  stream->put(Message::copy_of(set_.pool(), whole));
  EXPECT_EQ(link_->out.size(), 1U);
  link_->bring(whole);
  const Message up = stream->next();
  ASSERT_TRUE(up);
  EXPECT_EQ(up.type(), MessageType::data);
  EXPECT_TRUE(std::ranges::equal(up.bytes(), whole));
}

TEST_F(DlpiState, DetachForgetsEverything) {
  const auto stream = idle();
  stream->request(EnabmultiReq{{{1, 0, 0x5e, 0, 0, 1}}});
  stream->request(UnbindReq{});
  stream->request(DetachReq{});
  stream->forget();
  EXPECT_EQ(stream->driver().link(), nullptr);
  EXPECT_TRUE(link_->interests.groups.empty());
  stream->request(AttachReq{2});
  EXPECT_EQ(stream->acknowledged(), DL_ATTACH_REQ);
}

}  // namespace
}  // namespace sluice::dlpi::test
