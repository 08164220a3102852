// SPDX-License-Identifier: Apache-2.0
// Sentences in quotes are those of the manual pages in section 3DLPI.
#include "libdlpi/dlpi_handle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <memory>
#include <string>
#include <vector>

#include "dlpi/link_stream.h"
#include "dlpi/register.h"
#include "stack/wire/ethernet.h"
#include "tests/dlpi/test_stream.h"
#include "tests/libdlpi/simulated_waiter.h"

namespace sluice::dlpi::handle_test {
namespace {

using namespace std::chrono_literals;
using namespace wire::dlpi;  // NOLINT: the specification's names
using test::TestLink;
using testing::ElementsAre;

constexpr std::uint16_t sap = 0x88b5;

/// A driver that is in the way of the tests' questions: it answers every control message with `answer`, or not at all.
class Odd final : public Module {
 public:
  explicit Odd(std::optional<std::uint32_t> answer) : Module("odd"), answer_(answer) {}
  void wput(Batch&& batch) override {
    while (Message message = batch.pop()) {
      if (is_protocol(message.type()) && answer_) {
        const std::array words{*answer_, 0U, 0U, 0U};
        read_queue().put_next(Message::copy_of(set().pool(), std::as_bytes(std::span(words)), 0, MessageType::pcproto));
      }
    }
  }

 private:
  std::optional<std::uint32_t> answer_;
};

class DlpiHandle : public testing::Test {
 protected:
  DlpiHandle() {
    add_drivers(registry_);
    links_.open = [this](std::string_view name) { return open_link(std::string(name)); };
    links_.names = [] { return std::vector<std::string>{"lab.a", "lab.b", "device"}; };
  }

  Result<std::unique_ptr<Stream>> open_link(const std::string& name) {
    auto driver = driver_for(name);
    auto stream = driver ? Stream::open(set_, std::move(*driver)) : std::unexpected(driver.error());
    if (stream) {
      (*stream)->set_waiter(&waiter_);
    }
    return stream;
  }
  Result<std::unique_ptr<Module>> driver_for(const std::string& name) {
    if (name == "lab.a" || name == "lab.b") {
      Parameters parameters;
      parameters.set("name", "lab");
      parameters.set("end", name.substr(4));
      return registry_.find("wire")->make(set_, parameters);
    }
    if (name == "device") {
      return test::driver_on(device_);
    }
    if (name.starts_with("device")) {
      return test::driver_on(device_, LinkStream::Style::two);
    }
    if (name == "mute") {
      return std::make_unique<Odd>(std::nullopt);
    }
    if (name == "stranger") {
      return std::make_unique<Odd>(22);  // T_ERROR_ACK of a transport provider
    }
    return name == "locked" ? fail(EPERM, "this needs CAP_NET_RAW") : fail(ENODEV, "no device '" + name + "'");
  }

  std::unique_ptr<Handle> open(std::string_view name, unsigned flags = 0) {
    auto handle = Handle::dlpi_open(links_, name, flags);
    EXPECT_TRUE(handle) << dlpi_strerror(handle.error());
    return handle ? std::move(*handle) : nullptr;
  }
  std::unique_ptr<Handle> open_bound(std::string_view name, unsigned flags = 0) {
    auto handle = open(name, flags);
    EXPECT_TRUE(handle->dlpi_bind(sap, nullptr));
    return handle;
  }
  int open_error(std::string_view name, unsigned flags = 0) {
    const auto handle = Handle::dlpi_open(links_, name, flags);
    return handle ? int{DLPI_SUCCESS} : handle.error().error;
  }
  template <class T>
  static int error_of(const Outcome<T>& outcome) {
    return outcome ? int{DLPI_SUCCESS} : outcome.error().error;
  }
  static wire::MacAddress address_of(Handle& handle) { return *handle.dlpi_get_physaddr(DL_CURR_PHYS_ADDR); }
  std::string receive(Handle& handle, int timeout_ms = 0) {
    const auto received = handle.dlpi_recv(buffer_, timeout_ms);
    return received ? std::string(as_text(ConstBytes(buffer_).first(received->bytes)))
                    : dlpi_strerror(received.error());
  }

  StreamSet set_;
  SimulatedWaiter waiter_{set_};
  Registry registry_;
  std::shared_ptr<TestLink> device_ = std::make_shared<TestLink>(set_);
  Links links_;
  std::array<std::byte, 1600> buffer_{};
};

constexpr int timed_out = DLPI_ETIMEDOUT;

// ---- dlpi_open, dlpi_walk ----

TEST_F(DlpiHandle, OpensUnbound) {
  // "The DLPI handle is left in the DL_UNBOUND DLPI state after a successful open of the DLPI link."
  const auto handle = open("lab.a");
  EXPECT_EQ(handle->dlpi_info()->state, DL_UNBOUND);
  EXPECT_EQ(handle->dlpi_linkname(), "lab.a");
}

TEST_F(DlpiHandle, AttachesStyle2Links) {
  // "This function can open both DL_STYLE1 and DL_STYLE2 DLPI links."
  EXPECT_EQ(open("device3")->dlpi_info()->state, DL_UNBOUND);
  EXPECT_EQ(open_error("device99"), DL_BADPPA);
  EXPECT_EQ(open_error("devicex"), DLPI_ELINKNAMEINVAL);
  EXPECT_EQ(open_error("device99999999999"), DLPI_ELINKNAMEINVAL);
}

TEST_F(DlpiHandle, TellsWhyALinkCannotBeOpened) {
  EXPECT_EQ(open_error(""), DLPI_ELINKNAMEINVAL);
  EXPECT_EQ(open_error(std::string(DLPI_LINKNAME_MAX, 'x')), DLPI_ELINKNAMEINVAL);
  EXPECT_EQ(open_error("nowhere"), DLPI_ENOLINK);
  EXPECT_EQ(open_error("stranger"), DLPI_EBADLINK);
  EXPECT_EQ(open_error("lab.a", 0x0002), DLPI_EINVAL) << "DLPI_PASSIVE is not supported";
  const auto locked = Handle::dlpi_open(links_, "locked");
  ASSERT_FALSE(locked);
  EXPECT_EQ(locked.error(), (Failure{DL_SYSERR, EPERM, "this needs CAP_NET_RAW"}));
  EXPECT_EQ(dlpi_strerror(locked.error()), "Operation not permitted: this needs CAP_NET_RAW");
}

TEST_F(DlpiHandle, GivesUpOnASilentLinkAfterTheTimeout) {
  // "The default timeout value ensures that DLPI_ETIMEDOUT is returned from a libdlpi operation only in the event that
  // the DLPI link becomes unresponsive."
  EXPECT_EQ(open_error("mute"), timed_out);
  EXPECT_EQ(waiter_.now(), TimePoint(std::chrono::seconds(DLPI_DEF_TIMEOUT)));
}

TEST_F(DlpiHandle, WalksUntilTold) {
  std::vector<std::string> visited;
  Handle::dlpi_walk(links_, [&](std::string_view name) {
    visited.emplace_back(name);
    return false;
  });
  EXPECT_THAT(visited, ElementsAre("lab.a", "lab.b", "device"));
  // "The walk terminates either when all links have been visited or when fn() returns B_TRUE."
  visited.clear();
  Handle::dlpi_walk(links_, [&](std::string_view name) {
    visited.emplace_back(name);
    return name == "lab.b";
  });
  EXPECT_THAT(visited, ElementsAre("lab.a", "lab.b"));
}

// ---- dlpi_bind, dlpi_unbind, dlpi_info ----

TEST_F(DlpiHandle, BindsAndUnbinds) {
  const auto handle = open("device");
  std::uint32_t bound = 0;
  // "The handle must be in the DL_UNBOUND DLPI state and will transition to the DL_IDLE DLPI state upon success."
  EXPECT_TRUE(handle->dlpi_bind(sap, &bound));
  EXPECT_EQ(bound, sap);
  EXPECT_EQ(error_of(handle->dlpi_bind(sap, &bound)), DL_OUTSTATE);
  EXPECT_EQ(handle->dlpi_info()->state, DL_IDLE);
  // "upon success, the handle transitions to the DL_UNBOUND state."
  EXPECT_TRUE(handle->dlpi_unbind());
  EXPECT_EQ(handle->dlpi_info()->state, DL_UNBOUND);
  EXPECT_EQ(error_of(handle->dlpi_unbind()), DL_OUTSTATE);
  EXPECT_EQ(error_of(handle->dlpi_bind(5, nullptr)), DL_BADADDR) << "5 is a length, not an EtherType";
}

TEST_F(DlpiHandle, ForgetsWhatCameBeforeUnbinding) {
  const auto handle = open_bound("device");
  device_->bring(test::frame(TestLink::mac, sap, test::bytes_of("old")));
  ASSERT_TRUE(handle->dlpi_unbind());
  ASSERT_TRUE(handle->dlpi_bind(sap, nullptr));
  EXPECT_EQ(receive(*handle), "timed out");
}

TEST_F(DlpiHandle, TellsAboutTheLink) {
  const auto handle = open("device");
  Info info = *handle->dlpi_info();
  EXPECT_EQ(info.max_sdu, 1500U);
  EXPECT_EQ(info.min_sdu, 1U);
  EXPECT_EQ(info.mac_type, DL_ETHER);
  EXPECT_EQ(info.linkname, "device");
  EXPECT_EQ(info.broadcast_address, wire::mac_broadcast);
  EXPECT_EQ(info.timeout_s, DLPI_DEF_TIMEOUT);
  // "If dh is in the DL_UNBOUND DLPI state, di_physaddrlen is set to zero", and "di_sap is set to zero."
  EXPECT_FALSE(info.physical_address);
  EXPECT_EQ(info.sap, 0U);
  ASSERT_TRUE(handle->dlpi_bind(sap, nullptr));
  info = *handle->dlpi_info();
  EXPECT_EQ(info.physical_address, TestLink::mac);
  EXPECT_EQ(info.sap, sap);
}

TEST_F(DlpiHandle, SetsItsTimeout) {
  const auto handle = open("lab.a");
  EXPECT_TRUE(handle->dlpi_set_timeout(1));
  EXPECT_EQ(handle->dlpi_info()->timeout_s, 1);
  // "Attempts to set the timeout value to less than 1 second will fail."
  EXPECT_EQ(error_of(handle->dlpi_set_timeout(0)), DLPI_EINVAL);
  EXPECT_EQ(error_of(handle->dlpi_set_timeout(-1)), DLPI_EINVAL);
  // "If sec is set to DLPI_DEF_TIMEOUT, the default timeout value is restored."
  EXPECT_TRUE(handle->dlpi_set_timeout(DLPI_DEF_TIMEOUT));
  EXPECT_EQ(handle->dlpi_info()->timeout_s, DLPI_DEF_TIMEOUT);
}

// ---- Addresses ----

TEST_F(DlpiHandle, GetsAndSetsThePhysicalAddress) {
  const auto a = open("lab.a");
  const wire::MacAddress factory = address_of(*a);
  const wire::MacAddress mine{{0x02, 1, 2, 3, 4, 5}};
  EXPECT_TRUE(a->dlpi_set_physaddr(mine));
  EXPECT_EQ(a->dlpi_get_physaddr(DL_CURR_PHYS_ADDR), mine);
  EXPECT_EQ(a->dlpi_get_physaddr(DL_FACT_PHYS_ADDR), factory);
  EXPECT_EQ(error_of(a->dlpi_get_physaddr(7)), DL_UNSUPPORTED);
  EXPECT_EQ(error_of(a->dlpi_set_physaddr(wire::mac_broadcast)), DL_BADADDR);
  EXPECT_EQ(error_of(open("device")->dlpi_set_physaddr(mine)), DL_NOTSUPPORTED);
}

TEST_F(DlpiHandle, ReceivesFromGroupsWhileEnabled) {
  const auto a = open_bound("lab.a");
  const auto b = open_bound("lab.b");
  const wire::MacAddress group{{0x33, 0x33, 0, 0, 0, 7}};
  ASSERT_TRUE(a->dlpi_send(group, as_bytes("nobody wants this")));
  EXPECT_EQ(receive(*b), "timed out");
  ASSERT_TRUE(b->dlpi_enabmulti(group));
  ASSERT_TRUE(a->dlpi_send(group, as_bytes("to the group")));
  EXPECT_EQ(receive(*b), "to the group");
  EXPECT_TRUE(b->dlpi_disabmulti(group));
  EXPECT_EQ(error_of(b->dlpi_disabmulti(group)), DL_NOTENAB);
  EXPECT_EQ(error_of(b->dlpi_enabmulti(address_of(*a))), DL_BADADDR);
}

TEST_F(DlpiHandle, ReceivesEverySapInPromiscuousMode) {
  // "If the caller does not care which SAP is chosen, DLPI_ANY_SAP can be specified for sap. This is primarily useful
  // in conjunction with dlpi_promiscon() and DL_PROMISC_SAP to receive traffic from all SAPs."
  const auto a = open_bound("lab.a");
  const auto b = open("lab.b");
  ASSERT_TRUE(b->dlpi_bind(DLPI_ANY_SAP, nullptr));
  ASSERT_TRUE(b->dlpi_promiscon(DL_PROMISC_SAP));
  ASSERT_TRUE(a->dlpi_send(address_of(*b), as_bytes("some SAP")));
  EXPECT_EQ(receive(*b), "some SAP");
  // "any transmitted messages must explicitly specify a SAP using dlpi_send"
  EXPECT_EQ(error_of(b->dlpi_send(address_of(*a), as_bytes("which?"))), DLPI_EINVAL);
  const SendInfo how{.sap = sap};
  EXPECT_TRUE(b->dlpi_send(address_of(*a), as_bytes("this one"), &how));
  EXPECT_EQ(receive(*a), "this one");
  EXPECT_TRUE(b->dlpi_promiscoff(DL_PROMISC_SAP));
  EXPECT_EQ(error_of(b->dlpi_promiscoff(DL_PROMISC_SAP)), DL_NOTENAB);
  EXPECT_EQ(error_of(b->dlpi_promiscon(9)), DL_UNSUPPORTED);
}

// ---- dlpi_send, dlpi_recv ----

TEST_F(DlpiHandle, CarriesMessagesBothWays) {
  const auto a = open_bound("lab.a");
  const auto b = open_bound("lab.b");
  ASSERT_TRUE(a->dlpi_send(address_of(*b), as_bytes("to b")));
  const auto received = b->dlpi_recv(buffer_, 0);
  ASSERT_TRUE(received);
  EXPECT_EQ(as_text(ConstBytes(buffer_).first(received->bytes)), "to b");
  EXPECT_EQ(received->source, address_of(*a));
  EXPECT_EQ(received->destination, address_of(*b));
  // "If the destination address is unicast, dri_destaddrtype is set to DLPI_ADDRTYPE_UNICAST. Otherwise, it is set to
  // DLPI_ADDRTYPE_GROUP."
  EXPECT_FALSE(received->group_address);
  ASSERT_TRUE(b->dlpi_send(wire::mac_broadcast, as_bytes("to all")));
  const auto answer = a->dlpi_recv(buffer_, 0);
  ASSERT_TRUE(answer);
  EXPECT_TRUE(answer->group_address);
}

TEST_F(DlpiHandle, TellsTheWholeLengthOfAMessageThatDidNotFit) {
  // "the caller can use dri_totmsglen to determine the original total length of the message."
  const auto a = open_bound("lab.a");
  const auto b = open_bound("lab.b");
  ASSERT_TRUE(a->dlpi_send(address_of(*b), as_bytes("123456789")));
  ASSERT_TRUE(a->dlpi_send(address_of(*b), as_bytes("next")));
  const auto received = b->dlpi_recv(Bytes(buffer_).first(4), 0);
  ASSERT_TRUE(received);
  EXPECT_EQ(received->bytes, 4U);
  EXPECT_EQ(received->total_bytes, 9U);
  EXPECT_EQ(as_text(ConstBytes(buffer_).first(4)), "1234");
  EXPECT_EQ(receive(*b), "next") << "the rest of the first message is lost";
}

TEST_F(DlpiHandle, WaitsForAMessageAsLongAsAsked) {
  const auto handle = open_bound("device");
  // "If msec is 0, dlpi_recv() does not block."
  EXPECT_EQ(error_of(handle->dlpi_recv(buffer_, 0)), timed_out);
  EXPECT_EQ(waiter_.now(), TimePoint());
  // "If no message is received within msec milliseconds, dlpi_recv() returns DLPI_ETIMEDOUT."
  EXPECT_EQ(error_of(handle->dlpi_recv(buffer_, 250)), timed_out);
  EXPECT_EQ(waiter_.now(), TimePoint(250ms));
  waiter_.at(300ms, [&] { device_->bring(test::frame(TestLink::mac, sap, test::bytes_of("in time"))); });
  EXPECT_EQ(receive(*handle, 100), "in time");
  EXPECT_EQ(waiter_.now(), TimePoint(300ms));
  // "If msec is -1, dlpi_recv() does block until a data message is received."
  waiter_.at(1h, [&] { device_->bring(test::frame(TestLink::mac, sap, test::bytes_of("at last"))); });
  EXPECT_EQ(receive(*handle, -1), "at last");
  EXPECT_EQ(error_of(handle->dlpi_recv(buffer_, -2)), DLPI_EINVAL);
}

TEST_F(DlpiHandle, NeverWaitsOnANonblockingStream) {
  const auto handle = open_bound("device");
  handle->stream().set_nonblocking(true);
  waiter_.waits = 0;
  EXPECT_EQ(error_of(handle->dlpi_recv(buffer_, -1)), timed_out);
  EXPECT_TRUE(handle->dlpi_info()) << "the driver answers at once";
  EXPECT_EQ(waiter_.waits, 0);
  device_->room = 0;
  const std::vector<std::byte> full(1500);
  Outcome<> sent;
  for (int count = 0; count < 1'000'000 && sent; ++count) {
    sent = handle->dlpi_send(wire::mac_broadcast, full);
  }
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error(), (Failure{DL_SYSERR, EAGAIN}));
}

TEST_F(DlpiHandle, WaitsForFlowControlWhenSending) {
  const auto handle = open_bound("device");
  device_->room = 0;
  const std::vector<std::byte> full(1500);
  while (handle->stream().can_put()) {
    ASSERT_TRUE(handle->dlpi_send(wire::mac_broadcast, full));
  }
  waiter_.at(1s, [&] {
    device_->room = 1'000'000;
    device_->transmit_ready();
  });
  EXPECT_TRUE(handle->dlpi_send(wire::mac_broadcast, full));
  EXPECT_EQ(waiter_.now(), TimePoint(1s));
}

TEST_F(DlpiHandle, SendsAndReceivesOnlyWhileBound) {
  // dlpi_send: "The attempt will fail if dh is not in the DL_IDLE DLPI state"; dlpi_recv: "If dh is not in the DL_IDLE
  // DLPI state, the attempt fails."
  const auto handle = open("device");
  EXPECT_EQ(error_of(handle->dlpi_send(wire::mac_broadcast, as_bytes("x"))), DL_OUTSTATE);
  EXPECT_EQ(error_of(handle->dlpi_recv(buffer_, 0)), DL_OUTSTATE);
}

TEST_F(DlpiHandle, SendsWhatTheLinkTakes) {
  // "The attempt will fail if [...] msglen is outside the range reported by dlpi_info(3DLPI)."
  const auto handle = open_bound("device");
  const std::vector<std::byte> large(1501);
  EXPECT_EQ(error_of(handle->dlpi_send(wire::mac_broadcast, {})), DL_BADDATA);
  EXPECT_EQ(error_of(handle->dlpi_send(wire::mac_broadcast, large)), DL_BADDATA);
  EXPECT_EQ(device_->out.size(), 0U);
  device_->set_mtu(9000);
  EXPECT_TRUE(handle->dlpi_send(wire::mac_broadcast, large)) << "the range has grown";
  EXPECT_EQ(device_->out.size(), 1U);
}

TEST_F(DlpiHandle, TellsWhichSendsTheLinkRefused) {
  const auto a = open_bound("lab.a");  // the other end is not there
  EXPECT_TRUE(a->dlpi_send(wire::mac_broadcast, as_bytes("lost")));
  EXPECT_EQ(error_of(a->dlpi_recv(buffer_, 0)), DL_UNDELIVERABLE);
  EXPECT_EQ(error_of(a->dlpi_recv(buffer_, 0)), timed_out) << "told once";
  const auto b = open_bound("lab.b");
  const SendInfo how{.sap = sap, .priority = {0, 101}};
  EXPECT_TRUE(a->dlpi_send(address_of(*b), as_bytes("out of range"), &how));
  EXPECT_EQ(error_of(a->dlpi_recv(buffer_, 0)), DL_UNSUPPORTED);
}

TEST_F(DlpiHandle, KeepsMessagesThatComeDuringACall) {
  const auto a = open_bound("lab.a");
  const auto b = open_bound("lab.b");
  constexpr std::size_t too_many = 3;
  for (std::size_t count = 0; count < Handle::messages_kept_max + too_many; ++count) {
    ASSERT_TRUE(a->dlpi_send(address_of(*b), as_bytes("x")));
  }
  set_.scheduler().poll(TimePoint());
  // The acknowledgement of DL_NOTIFY_REQ is an ordinary message: it comes behind the data.
  ASSERT_TRUE(b->dlpi_enabnotify(DL_NOTE_LINK_UP, [](Handle&, const NotifyInfo&) {}));
  EXPECT_EQ(b->messages_dropped(), too_many);
  std::size_t received = 0;
  while (b->dlpi_recv(buffer_, 0)) {
    ++received;
  }
  EXPECT_EQ(received, Handle::messages_kept_max);
}

TEST_F(DlpiHandle, SpeaksFramesInRawMode) {
  // "If the handle is in raw mode, msgbuf must start with the link-layer header", and on receipt "starts with the
  // link-layer header".
  const auto a = open_bound("lab.a", DLPI_RAW);
  const auto b = open_bound("lab.b", DLPI_RAW);
  const std::vector<std::byte> frame = test::frame(address_of(*b), sap, test::bytes_of("whole frame"));
  ASSERT_TRUE(a->dlpi_send({}, frame));
  const auto received = b->dlpi_recv(buffer_, 0);
  ASSERT_TRUE(received) << dlpi_strerror(received.error());
  EXPECT_EQ(std::vector(buffer_.begin(), buffer_.begin() + static_cast<std::ptrdiff_t>(received->bytes)), frame);
  EXPECT_EQ(received->source, wire::MacAddress{}) << "it is in the frame";
  const std::vector<std::byte> largest(1500 + wire::EthernetHeader::size);
  const std::vector<std::byte> too_large(largest.size() + 1);
  EXPECT_TRUE(a->dlpi_send({}, largest));
  EXPECT_EQ(error_of(a->dlpi_send({}, too_large)), DL_BADDATA);
  EXPECT_EQ(error_of(a->dlpi_send({}, ConstBytes(frame).first(wire::EthernetHeader::size))), DL_BADDATA);
}

// ---- Notifications ----

TEST_F(DlpiHandle, TellsNotifications) {
  const auto handle = open("device");
  std::vector<NotifyInfo> seen;
  const auto id = handle->dlpi_enabnotify(DL_NOTE_LINK_DOWN | DL_NOTE_SDU_SIZE | DL_NOTE_PHYS_ADDR,
                                          [&](Handle& from, const NotifyInfo& info) {
                                            EXPECT_EQ(&from, handle.get());
                                            seen.push_back(info);
                                          });
  ASSERT_TRUE(id);
  // "Although there may be no expected data messages to be received, dlpi_recv() can be called with a null buffer to
  // force a check for pending events".
  EXPECT_FALSE(handle->dlpi_recv({}, 0));
  EXPECT_EQ(seen.size(), 2U) << "MTU and address as they are; the link is not down";
  seen.clear();
  device_->set_mtu(4000);
  device_->set_up(false);
  device_->change_address({{0x02, 9, 9, 9, 9, 9}});
  EXPECT_FALSE(handle->dlpi_recv({}, 0));
  ASSERT_EQ(seen.size(), 3U);
  EXPECT_EQ(seen[0].note, DL_NOTE_SDU_SIZE);
  EXPECT_EQ(seen[0].max_sdu, 4000U);
  EXPECT_EQ(seen[1].note, DL_NOTE_LINK_DOWN);
  EXPECT_EQ(seen[2].note, DL_NOTE_PHYS_ADDR);
  EXPECT_EQ(seen[2].physical_address, (wire::MacAddress{{0x02, 9, 9, 9, 9, 9}}));
  EXPECT_TRUE(handle->dlpi_disabnotify(*id));
  EXPECT_EQ(error_of(handle->dlpi_disabnotify(*id)), DLPI_ENOTEIDINVAL);
  device_->set_mtu(1500);
  EXPECT_FALSE(handle->dlpi_recv({}, 0));
  EXPECT_EQ(seen.size(), 3U);
}

TEST_F(DlpiHandle, LooksForNotificationsWithoutTakingMessages) {
  const auto handle = open_bound("device");
  device_->bring(test::frame(TestLink::mac, sap, test::bytes_of("stays")));
  EXPECT_EQ(error_of(handle->dlpi_recv({}, -1)), timed_out);
  EXPECT_EQ(receive(*handle), "stays");
}

TEST_F(DlpiHandle, TellsEveryRegistration) {
  // "the same event type can be registered multiple times on the same handle."
  const auto handle = open("device");
  int first = 0;
  int second = 0;
  ASSERT_TRUE(handle->dlpi_enabnotify(DL_NOTE_LINK_DOWN, [&](Handle&, const NotifyInfo&) { ++first; }));
  ASSERT_TRUE(
      handle->dlpi_enabnotify(DL_NOTE_LINK_DOWN | DL_NOTE_LINK_UP, [&](Handle&, const NotifyInfo&) { ++second; }));
  EXPECT_FALSE(handle->dlpi_recv({}, 0));
  first = second = 0;
  device_->set_up(false);
  EXPECT_TRUE(handle->dlpi_info()) << "other calls tell notifications, too";
  EXPECT_FALSE(handle->dlpi_recv({}, 0));
  EXPECT_EQ(first, 1);
  EXPECT_EQ(second, 1);
  device_->set_up(true);
  EXPECT_FALSE(handle->dlpi_recv({}, 0));
  EXPECT_EQ(first, 1);
  EXPECT_EQ(second, 2);
}

TEST_F(DlpiHandle, RefusesBadRegistrations) {
  const auto handle = open("device");
  const auto callback = [](Handle&, const NotifyInfo&) {};
  EXPECT_EQ(error_of(handle->dlpi_enabnotify(0, callback)), DLPI_ENOTEINVAL);
  EXPECT_EQ(error_of(handle->dlpi_enabnotify(0x8000, callback)), DLPI_ENOTEINVAL);
  EXPECT_EQ(error_of(handle->dlpi_enabnotify(DL_NOTE_SPEED, callback)), DLPI_ENOTENOTSUP);
  EXPECT_EQ(error_of(handle->dlpi_enabnotify(DL_NOTE_LINK_UP, nullptr)), DLPI_EINVAL);
  for (std::size_t count = 0; count < Handle::registrations_max; ++count) {
    ASSERT_TRUE(handle->dlpi_enabnotify(DL_NOTE_LINK_UP, callback));
  }
  EXPECT_EQ(error_of(handle->dlpi_enabnotify(DL_NOTE_LINK_UP, callback)), DLPI_FAILURE);
}

TEST_F(DlpiHandle, CallbacksMustNotWait) {
  // "The callback is not allowed to block. This precludes calling dlpi_enabnotify() from a callback, but non-blocking
  // libdlpi functions, including dlpi_disabnotify(), can be called."
  const auto handle = open_bound("device");
  Handle::NotifyId id = 0;
  int calls = 0;
  const auto registered = handle->dlpi_enabnotify(DL_NOTE_LINK_UP, [&](Handle& from, const NotifyInfo&) {
    ++calls;
    EXPECT_EQ(error_of(from.dlpi_enabnotify(DL_NOTE_LINK_UP, [](Handle&, const NotifyInfo&) {})), DLPI_FAILURE);
    EXPECT_EQ(error_of(from.dlpi_recv(buffer_, 0)), DLPI_FAILURE);
    EXPECT_TRUE(from.dlpi_send(wire::mac_broadcast, as_bytes("up again")));
    EXPECT_TRUE(from.dlpi_disabnotify(id));
  });
  ASSERT_TRUE(registered);
  id = *registered;
  EXPECT_FALSE(handle->dlpi_recv({}, 0));
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(device_->out.size(), 1U);
  device_->set_up(false);
  device_->set_up(true);
  EXPECT_FALSE(handle->dlpi_recv({}, 0));
  EXPECT_EQ(calls, 1);
}

// ---- Errors ----

TEST(DlpiStrerror, NamesEveryError) {
  EXPECT_EQ(dlpi_strerror({DLPI_ETIMEDOUT}), "timed out");
  EXPECT_EQ(dlpi_strerror({DL_SYSERR, EAGAIN}), "Resource temporarily unavailable");
  // "If the error code is unknown, the string 'Unknown DLPI error' is returned."
  EXPECT_EQ(dlpi_strerror({9999}), "Unknown DLPI error");
  for (int error = DL_BADSAP; error <= int{DL_PENDING}; ++error) {
    EXPECT_NE(dlpi_strerror({error}), "Unknown DLPI error") << error;
  }
  for (int error = DLPI_SUCCESS; error <= DLPI_EIPNETINFONOTSUP; ++error) {
    EXPECT_NE(dlpi_strerror({error}), "Unknown DLPI error") << error;
  }
}

}  // namespace
}  // namespace sluice::dlpi::handle_test
