// SPDX-License-Identifier: Apache-2.0
// Groups and broadcasts as programs have them, through the transport library: udp streams of two hosts on the memory
// link, several on one end of it.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <string>
#include <vector>

#include "dlpi/register.h"
#include "stack/core/stream_set.h"
#include "stack/head/stream.h"
#include "stack/modules/register.h"
#include "stack/wire/network.h"
#include "stack/wire/protocol.h"
#include "tests/stack/head/simulated_waiter.h"
#include "tests/stack/modules/harness.h"
#include "tli/endpoint.h"
#include "tli/options.h"

namespace sluice::test {
namespace {

using namespace wire::xti;
using wire::IpAddress;
using wire::TransportAddress;
using Octets = std::vector<std::byte>;

constexpr std::uint16_t port = 5000;
constexpr std::uint16_t other_port = 5001;

IpAddress ip(std::string_view text) { return IpAddress::from_text(text).value(); }

/// What both families have: a group, another, and a third whose MAC address is that of the first.
struct Groups {
  const char* name;
  const char* group;
  const char* other;
  const char* same_mac;
  bool v6;
};
constexpr std::array families{Groups{"v4", "239.1.2.3", "239.1.2.4", "238.129.2.3", false},
                              Groups{"v6", "ff15::1:2:3", "ff15::1:2:4", "ff15::9:1:2:3", true}};

/// A program: an endpoint of one stream.
class Host {
 public:
  Host(StreamSet& set, const Registry& registry, const std::string& end, int number) {
    const auto make = [&](std::string_view name, const std::vector<std::pair<std::string, ParameterValue>>& values) {
      Parameters parameters;
      for (const auto& [parameter, value] : values) {
        parameters.set(parameter, value);
      }
      return registry.find(name)->make(set, parameters).value();
    };
    const std::vector<std::string> addresses{"10.77.0." + std::to_string(number) + "/24",
                                             "fd00:77::" + std::to_string(number) + "/64"};
    auto stream = Stream::open(set, make("wire", {{"name", "lab"}, {"end", end}})).value();
    EXPECT_TRUE(stream->push(make("ip", {{"address", addresses}})));
    EXPECT_TRUE(stream->push(make("udp", {})));
    EXPECT_TRUE(stream->push(make("timod", {})));
    stream->set_nonblocking(true);
    endpoint_ = tli::Endpoint::t_open(std::move(stream), nullptr).value();
  }

  [[nodiscard]] tli::Endpoint& endpoint() { return *endpoint_; }

  void bind(std::string_view address, std::uint16_t to_port = port) {
    Octets bytes = encoded(TransportAddress{ip(address), to_port});
    const tli::t_bind wanted{tli::buffer_of(bytes), 0};
    const auto bound = endpoint_->t_bind(&wanted, nullptr);
    ASSERT_TRUE(bound) << bound.error().t_errno;
  }

  /// Manages one option, and answers the outcome.
  std::int32_t manage(std::int32_t action, Octets request) {
    Octets answer(256);
    tli::t_optmgmt ret{.opt = {.maxlen = answer.size(), .len = 0, .buf = answer.data()}};
    const auto managed = endpoint_->t_optmgmt({.opt = tli::buffer_of(request), .flags = action}, ret);
    EXPECT_TRUE(managed) << "t_errno " << managed.error().t_errno;
    return managed ? ret.flags : 0;
  }
  std::int32_t set(std::uint32_t level, std::uint32_t name, std::uint32_t value) {
    Octets request;
    tli::put_option(request, level, name, value);
    return manage(wire::tpi::T_NEGOTIATE, request);
  }
  std::int32_t join(std::string_view group, bool join = true) {
    Octets request;
    tli::put_membership(request, ip(group), join);
    return manage(wire::tpi::T_NEGOTIATE, request);
  }

  void send(std::string_view to, std::uint16_t to_port = port, std::string_view text = "hello", Octets options = {}) {
    Octets address = encoded(TransportAddress{ip(to), to_port});
    Octets data(as_bytes(text).begin(), as_bytes(text).end());
    tli::t_unitdata unit;
    unit.addr = tli::buffer_of(address);
    unit.opt = tli::buffer_of(options);
    unit.udata = tli::buffer_of(data);
    const auto sent = endpoint_->t_sndudata(unit);
    EXPECT_TRUE(sent) << "t_errno " << sent.error().t_errno;
  }

  struct Received {
    std::string text;
    wire::network::Received how;
  };
  std::vector<Received> received() {
    std::vector<Received> all;
    Octets options(wire::network::Received::size);
    Octets data(2000);
    tli::t_unitdata unit;
    unit.opt = tli::buffer_of(options);
    unit.udata = tli::buffer_of(data);
    int flags = 0;
    while (endpoint_->t_rcvudata(unit, flags)) {
      all.push_back({std::string(as_text(ConstBytes(data).first(unit.udata.len))),
                     wire::network::Received::decode(ConstBytes(options).first(unit.opt.len)).value()});
    }
    return all;
  }
  std::size_t count() { return received().size(); }

  [[nodiscard]] std::uint64_t counted(std::string_view module, std::string_view name) const {
    for (const auto& one : endpoint_->stream().chain().modules()) {
      for (const Counter* counter : one->counters()) {
        if (one->name() == module && counter->name() == name) {
          return counter->value();
        }
      }
    }
    ADD_FAILURE() << module << " has no counter " << name;
    return 0;
  }

  /// The errno of a unit data error that waits, or 0.
  int error() {
    tli::t_uderr uderr;
    return endpoint_->t_rcvuderr(&uderr) ? uderr.error : 0;
  }

 private:
  std::unique_ptr<tli::Endpoint> endpoint_;
};

class Multicast : public testing::TestWithParam<Groups> {
 protected:
  Multicast() {
    add_modules(registry_);
    dlpi::add_drivers(registry_);
  }

  std::unique_ptr<Host> host(const std::string& end, int number) {
    auto made = std::make_unique<Host>(set_, registry_, end, number);
    return made;
  }
  void run() {
    for (int turn = 0; turn < 8; ++turn) {
      set_.scheduler().poll(now_);
      now_ += std::chrono::milliseconds(100);
    }
  }
  [[nodiscard]] std::string any() const { return GetParam().v6 ? "::" : "0.0.0.0"; }
  [[nodiscard]] std::string address(int number) const {
    return (GetParam().v6 ? "fd00:77::" : "10.77.0.") + std::to_string(number);
  }

  StreamSet set_{{.seed = 1}};
  Registry registry_;
  TimePoint now_{};
};

// RFC 1112 section 2: "IP multicasting is the transmission of an IP datagram to a "host group"": to its members, each
// on the port, and to nobody else: not to who joined another group, not even one with the same MAC address, nor to who
// is on another port.
TEST_P(Multicast, EveryMemberOnThePortAndNobodyElse) {
  const Groups& groups = GetParam();
  const auto sender = host("a", 1);
  const auto wild = host("b", 2);
  const auto bound = host("b", 3);
  const auto stranger = host("b", 4);
  const auto neighbour = host("b", 5);
  const auto elsewhere = host("b", 6);
  const auto other_family = host("b", 7);
  sender->bind(any());
  wild->bind(any());
  bound->bind(address(3));
  stranger->bind(address(4));
  neighbour->bind(address(5));
  elsewhere->bind(any(), other_port);
  other_family->bind(groups.v6 ? "10.77.0.7" : "fd00:77::7");
  for (Host* const member : {wild.get(), bound.get(), elsewhere.get(), other_family.get()}) {
    EXPECT_EQ(member->join(groups.group), wire::tpi::T_SUCCESS);
  }
  EXPECT_EQ(neighbour->join(groups.same_mac), wire::tpi::T_SUCCESS);
  run();
  sender->send(groups.group);
  sender->send(groups.group, other_port);
  run();
  EXPECT_EQ(wild->count(), 1U);
  EXPECT_EQ(bound->count(), 1U);
  EXPECT_EQ(stranger->count(), 0U);
  EXPECT_EQ(neighbour->count(), 0U);
  EXPECT_EQ(elsewhere->count(), 1U);
  EXPECT_EQ(other_family->count(), 0U) << "a member, but bound to an address of the other family";
  EXPECT_EQ(sender->count(), 0U);

  sender->send(groups.same_mac);
  run();
  EXPECT_EQ(neighbour->count(), 1U);
  EXPECT_EQ(wild->count() + bound->count() + stranger->count() + elsewhere->count(), 0U);

  // A unicast still has one owner.
  sender->send(address(3));
  run();
  EXPECT_EQ(bound->count(), 1U);
  EXPECT_EQ(wild->count(), 0U);
}

TEST_P(Multicast, MembershipEndsWithLeaveUnbindAndClose) {
  const Groups& groups = GetParam();
  const auto sender = host("a", 1);
  sender->bind(any());
  const auto member = host("b", 2);
  EXPECT_EQ(member->join(groups.group), wire::tpi::T_SUCCESS) << "before it is bound";
  EXPECT_EQ(member->join(groups.group), wire::tpi::T_FAILURE) << "twice";
  EXPECT_EQ(member->join(groups.other, false), wire::tpi::T_FAILURE) << "left, and never joined";
  EXPECT_EQ(member->join(address(7)), wire::tpi::T_FAILURE) << "no group";
  member->bind(any());
  sender->send(groups.group);
  run();
  EXPECT_EQ(member->count(), 1U);
  EXPECT_EQ(member->join(groups.group, false), wire::tpi::T_SUCCESS);
  sender->send(groups.group);
  run();
  EXPECT_EQ(member->count(), 0U);

  EXPECT_EQ(member->join(groups.group), wire::tpi::T_SUCCESS);
  ASSERT_TRUE(member->endpoint().t_unbind());
  member->bind(any());
  sender->send(groups.group);
  run();
  EXPECT_EQ(member->count(), 0U) << "unbind leaves";
  EXPECT_EQ(member->join(groups.group), wire::tpi::T_SUCCESS) << "and it may join again";
}

// The streams of a link are one host: routers are told by one of its members, and of the leave by the last of them,
// however it goes.
TEST_P(Multicast, RoutersHearOfOneHost) {
  const Groups& groups = GetParam();
  const auto told = [](const Host& member) { return member.counted("ip", "group_reports_out"); };
  const auto wait = [&] {
    for (int turn = 0; turn < 40; ++turn) {
      run();
    }
  };
  auto first = host("b", 2);
  auto second = host("b", 3);
  wait();
  const std::uint64_t first_before = told(*first);
  const std::uint64_t second_before = told(*second);
  EXPECT_EQ(first->join(groups.group), wire::tpi::T_SUCCESS);
  wait();
  EXPECT_EQ(told(*first), first_before + 2) << "joined, and repeated";
  EXPECT_EQ(second->join(groups.group), wire::tpi::T_SUCCESS);
  wait();
  EXPECT_EQ(told(*second), second_before) << "the first has said so";
  EXPECT_EQ(first->join(groups.group, false), wire::tpi::T_SUCCESS);
  wait();
  EXPECT_EQ(told(*first), first_before + 2) << "the second is left";
  EXPECT_EQ(told(*second), second_before);
  EXPECT_EQ(first->join(groups.group), wire::tpi::T_SUCCESS);
  wait();
  first.reset();
  wait();
  EXPECT_EQ(told(*second), second_before) << "nothing is said of a stream that is closed";
  EXPECT_EQ(second->join(groups.group, false), wire::tpi::T_SUCCESS);
  wait();
  EXPECT_EQ(told(*second), second_before + 2) << "the last one says that the group is left";
}

// RFC 1112 section 6.1: "by default, a copy of the datagram is looped back."
TEST_P(Multicast, LoopsToMembersInThisHost) {
  const Groups& groups = GetParam();
  const std::uint32_t level = groups.v6 ? T_INET_IPV6 : T_INET_IP;
  const std::uint32_t loop = groups.v6 ? std::uint32_t{T_IPV6_MULTICAST_LOOP} : std::uint32_t{T_IP_MULTICAST_LOOP};
  const std::uint32_t hops = groups.v6 ? std::uint32_t{T_IPV6_MULTICAST_HOPS} : std::uint32_t{T_IP_MULTICAST_TTL};
  const auto sender = host("b", 1);
  const auto member = host("b", 2);
  const auto stranger = host("b", 3);
  const auto far = host("a", 4);
  sender->bind(address(1));
  member->bind(address(2));
  stranger->bind(address(3));
  far->bind(any());
  for (Host* const joins : {sender.get(), member.get(), far.get()}) {
    EXPECT_EQ(joins->join(groups.group), wire::tpi::T_SUCCESS);
  }
  sender->send(groups.group);
  run();
  EXPECT_EQ(member->count(), 1U);
  EXPECT_EQ(sender->count(), 1U) << "its own, since it is a member";
  EXPECT_EQ(stranger->count(), 0U);
  const auto came = far->received();
  ASSERT_EQ(came.size(), 1U);
  EXPECT_EQ(came[0].how.hop_limit, 1) << "RFC 1112 section 6.1: it should default to 1";
  EXPECT_TRUE(came[0].how.group);
  EXPECT_EQ(came[0].how.local, ip(groups.group));

  EXPECT_EQ(sender->set(level, loop, 0), wire::tpi::T_SUCCESS);
  EXPECT_EQ(sender->set(level, hops, 7), wire::tpi::T_SUCCESS);
  sender->send(groups.group);
  run();
  EXPECT_EQ(member->count() + sender->count(), 0U);
  const auto again = far->received();
  ASSERT_EQ(again.size(), 1U);
  EXPECT_EQ(again[0].how.hop_limit, 7);

  // A hop limit of 0 keeps it in this host.
  EXPECT_EQ(sender->set(level, loop, 1), wire::tpi::T_SUCCESS);
  EXPECT_EQ(sender->set(level, hops, 0), wire::tpi::T_SUCCESS);
  sender->send(groups.group);
  sender->send(groups.group);
  run();
  EXPECT_EQ(member->count(), 2U);
  EXPECT_EQ(far->count(), 0U);
}

// In fragments, too, which the link gives to every stream.
TEST_P(Multicast, LargeDatagramsReachTheMembers) {
  const Groups& groups = GetParam();
  const auto sender = host("a", 1);
  const auto member = host("b", 2);
  const auto stranger = host("b", 3);
  const auto local = host("a", 4);
  sender->bind(address(1));
  member->bind(any());
  stranger->bind(address(3));
  local->bind(address(4));
  EXPECT_EQ(member->join(groups.group), wire::tpi::T_SUCCESS);
  EXPECT_EQ(local->join(groups.group), wire::tpi::T_SUCCESS);
  sender->send(groups.group, port, std::string(1900, 'x'));
  run();
  const auto came = member->received();
  ASSERT_EQ(came.size(), 1U);
  EXPECT_EQ(came[0].text, std::string(1900, 'x'));
  EXPECT_EQ(local->count(), 1U);
  EXPECT_EQ(stranger->count(), 0U);
}

// A member that does not read must stop no sender, itself least of all.
TEST_P(Multicast, AMemberThatDoesNotReadStopsNobody) {
  const Groups& groups = GetParam();
  const auto sender = host("a", 1);
  const auto far = host("b", 2);
  sender->bind(any());
  far->bind(any());
  EXPECT_EQ(sender->join(groups.group), wire::tpi::T_SUCCESS);
  EXPECT_EQ(far->join(groups.group), wire::tpi::T_SUCCESS);
  constexpr std::size_t datagrams = 3000;
  std::size_t came = 0;
  for (std::size_t sent = 0; sent < datagrams; ++sent) {
    sender->send(groups.group, port, std::string(1000, 'x'));
    if (sent % 16 == 0) {
      run();
      came += far->count();
    }
  }
  run();
  EXPECT_EQ(came + far->count(), datagrams);
}

// XTI, T_IP_BROADCAST: without it a broadcast is an error of that datagram. RFC 1122 section 3.3.6.
TEST(Broadcast, NeedsPermission) {
  StreamSet set{{.seed = 1}};
  Registry registry;
  add_modules(registry);
  dlpi::add_drivers(registry);
  Host sender(set, registry, "a", 1);
  Host wild(set, registry, "b", 2);
  Host bound(set, registry, "b", 3);
  Host elsewhere(set, registry, "b", 4);
  Host local(set, registry, "a", 5);
  sender.bind("10.77.0.1");
  wild.bind("0.0.0.0");
  bound.bind("10.77.0.3");
  elsewhere.bind("0.0.0.0", other_port);
  local.bind("0.0.0.0");
  const auto run = [&] {
    for (int turn = 0; turn < 8; ++turn) {
      set.scheduler().poll(TimePoint{});
    }
  };
  for (const char* const destination : {"255.255.255.255", "10.77.0.255"}) {
    SCOPED_TRACE(destination);
    EXPECT_EQ(sender.set(T_INET_IP, T_IP_BROADCAST, T_NO), wire::tpi::T_SUCCESS);
    sender.send(destination);
    run();
    EXPECT_EQ(sender.error(), EACCES);
    EXPECT_EQ(wild.count() + bound.count() + local.count(), 0U);

    EXPECT_EQ(sender.set(T_INET_IP, T_IP_BROADCAST, T_YES), wire::tpi::T_SUCCESS);
    sender.send(destination);
    run();
    EXPECT_EQ(sender.error(), 0);
    const auto came = wild.received();
    ASSERT_EQ(came.size(), 1U);
    EXPECT_TRUE(came[0].how.group);
    EXPECT_EQ(came[0].how.local, ip(destination));
    EXPECT_EQ(came[0].how.hop_limit, 64);
    EXPECT_EQ(bound.count(), 1U) << "bound to one address, on that port";
    EXPECT_EQ(elsewhere.count(), 0U);
    EXPECT_EQ(local.count(), 1U) << "on the same host";
    EXPECT_EQ(sender.count(), 1U) << "on that port, too";
  }
}

// Of the endpoint, and of one datagram, which changes nothing for the next.
TEST_P(Multicast, TtlAndTypeOfService) {
  const bool v6 = GetParam().v6;
  const auto sender = host("a", 1);
  const auto far = host("b", 2);
  sender->bind(any());
  far->bind(any());
  run();
  const std::uint32_t level = v6 ? T_INET_IPV6 : T_INET_IP;
  const std::uint32_t hops = v6 ? std::uint32_t{T_IPV6_UNICAST_HOPS} : std::uint32_t{T_IP_TTL};
  const auto how = [&](const Octets& options) {
    sender->send(address(2), port, "hello", options);
    run();
    const auto came = far->received();
    EXPECT_EQ(came.size(), 1U);
    return came.size() == 1 ? std::pair(int{came[0].how.hop_limit}, int{came[0].how.traffic_class}) : std::pair(0, 0);
  };
  Octets own;
  tli::put_option(own, level, hops, 9);
  if (!v6) {
    tli::put_option(own, T_INET_IP, T_IP_TOS, 0x10);
  }
  EXPECT_EQ(how({}), std::pair(64, 0));
  EXPECT_EQ(how({}), std::pair(64, 0)) << "by the template of the last";
  EXPECT_EQ(how(own), std::pair(9, v6 ? 0 : 0x10));
  EXPECT_EQ(how({}), std::pair(64, 0));
  EXPECT_EQ(sender->set(level, hops, 33), wire::tpi::T_SUCCESS);
  if (!v6) {
    EXPECT_EQ(sender->set(T_INET_IP, T_IP_TOS, 0x20), wire::tpi::T_SUCCESS);
  }
  EXPECT_EQ(how({}), std::pair(33, v6 ? 0 : 0x20));
  EXPECT_EQ(how({}), std::pair(33, v6 ? 0 : 0x20));
  EXPECT_EQ(how(own), std::pair(9, v6 ? 0 : 0x10));
}

// What a datagram cannot have is an error of that datagram.
TEST_P(Multicast, OptionsThatADatagramCannotHave) {
  const auto sender = host("a", 1);
  sender->bind(any());
  Octets membership;
  tli::put_membership(membership, ip(GetParam().group));
  Octets ttl_of_zero;
  tli::put_option(ttl_of_zero, T_INET_IP, T_IP_TTL, 0);
  Octets malformed;
  tli::put_option(malformed, T_INET_IP, T_IP_TTL, 9);
  malformed[0] = std::byte{21};
  for (const Octets& options : {membership, ttl_of_zero, malformed}) {
    sender->send(address(2), port, "hello", options);
    run();
    EXPECT_EQ(sender->error(), EINVAL);
  }
}

INSTANTIATE_TEST_SUITE_P(Families, Multicast, testing::ValuesIn(families),
                         [](const auto& param) { return std::string(param.param.name); });

}  // namespace
}  // namespace sluice::test
