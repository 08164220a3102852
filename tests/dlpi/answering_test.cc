// SPDX-License-Identifier: Apache-2.0
// Of the streams of a link that have an address one answers for it.
#include "dlpi/answering.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/prng.h"
#include "stack/core/primitive.h"
#include "tests/dlpi/test_stream.h"

namespace sluice::dlpi::test {
namespace {

const wire::IpAddress first_ip = wire::IpAddress::from_text("10.77.0.1").value();
const wire::IpAddress second_ip = wire::IpAddress::from_text("fd00::2").value();

class AnsweringTest : public testing::Test {
 protected:
  std::unique_ptr<Stream> stream(const std::vector<wire::IpAddress>& addresses) {
    auto made = std::make_unique<Stream>(set_);
    EXPECT_TRUE(made->open(driver_on(link_)));
    made->bind(wire::ethertype_ipv4);
    made->bind_also(wire::ethertype_ipv6);
    for (const wire::IpAddress& address : addresses) {
      says(*made, address, true);
    }
    return made;
  }
  void says(Stream& stream, const wire::IpAddress& address, bool ours) {
    stream.put(primitive_message(set_.pool(), AddressReq{address, ours}, MessageType::ctl));
  }
  void filters(Stream& stream, std::uint16_t sap, std::uint16_t port) {
    stream.put(stream.encoded(FilterReq{sap, std::nullopt, std::uint8_t{17}, port}, MessageType::ctl));
  }
  /// What it was told last, of what it was told about `address` since it was asked last: "answers", "silent", with
  /// " shared"; or nothing.
  static std::string told(Stream& stream, const wire::IpAddress& address) {
    std::string words;
    while (const Message message = stream.next()) {
      const auto told = AnswerInd::decode(message.bytes());
      if (told && told->address == address) {
        EXPECT_EQ(message.type(), MessageType::ctl);
        words = std::string(told->answers ? "answers" : "silent") + (told->shared ? " shared" : "");
      }
    }
    return words;
  }

  StreamSet set_;
  std::shared_ptr<TestLink> link_ = std::make_shared<TestLink>(set_);
};

TEST_F(AnsweringTest, OneAloneIsToldNothing) {
  const auto alone = stream({first_ip, second_ip});
  filters(*alone, wire::ethertype_ipv4, 7);
  EXPECT_EQ(told(*alone, first_ip), "");
  EXPECT_EQ(told(*alone, second_ip), "");
  alone->request(UnbindReq{});
  EXPECT_EQ(told(*alone, first_ip), "") << "nobody else answers either";
}

TEST_F(AnsweringTest, TheFirstAnswersAndWhenItLeavesTheNext) {
  auto a = stream({first_ip});
  auto b = stream({first_ip});
  auto c = stream({first_ip});
  EXPECT_EQ(told(*a, first_ip), "");
  EXPECT_EQ(told(*b, first_ip), "silent");
  EXPECT_EQ(told(*c, first_ip), "silent");
  a.reset();
  EXPECT_EQ(told(*b, first_ip), "answers");
  EXPECT_EQ(told(*c, first_ip), "");
  b->request(UnbindReq{});
  EXPECT_EQ(told(*c, first_ip), "answers") << "one that is not bound gets no question";
}

TEST_F(AnsweringTest, OneWithoutAFilterComesFirst) {
  const auto user = stream({first_ip});
  const auto host = stream({first_ip});
  EXPECT_EQ(told(*host, first_ip), "silent");
  filters(*user, wire::ethertype_ipv4, 7);
  EXPECT_EQ(told(*host, first_ip), "answers shared");
  EXPECT_EQ(told(*user, first_ip), "silent");
  filters(*host, wire::ethertype_ipv4, 8);
  EXPECT_EQ(told(*user, first_ip), "answers shared");
  EXPECT_EQ(told(*host, first_ip), "silent shared");
}

/// A filter is one SAP's.
TEST_F(AnsweringTest, FamiliesAreDecidedApart) {
  const auto user = stream({first_ip, second_ip});
  const auto host = stream({first_ip, second_ip});
  told(*host, first_ip);
  filters(*user, wire::ethertype_ipv6, 7);
  EXPECT_EQ(told(*user, first_ip), "");
  EXPECT_EQ(told(*host, second_ip), "answers shared");
}

TEST_F(AnsweringTest, EachAnswersForWhatOnlyItHas) {
  const auto a = stream({first_ip});
  const auto b = stream({second_ip});
  EXPECT_EQ(told(*a, first_ip), "");
  EXPECT_EQ(told(*b, second_ip), "");
  says(*b, first_ip, true);
  EXPECT_EQ(told(*b, first_ip), "silent");
  says(*a, first_ip, false);
  EXPECT_EQ(told(*b, first_ip), "answers");
}

/// Of a group's members one tells routers of it, and each knows whether another is left, with a filter or without.
TEST_F(AnsweringTest, AGroupHasMembers) {
  const wire::IpAddress group = wire::IpAddress::from_text("239.1.2.3").value();
  auto a = stream({group});
  auto b = stream({group});
  EXPECT_EQ(told(*a, group), "answers shared");
  EXPECT_EQ(told(*b, group), "silent shared");
  filters(*a, wire::ethertype_ipv4, 7);
  EXPECT_EQ(told(*a, group), "silent shared");
  EXPECT_EQ(told(*b, group), "answers shared");
  says(*b, group, false);
  EXPECT_EQ(told(*a, group), "answers") << "and is the last";
  says(*b, group, true);
  a.reset();
  EXPECT_EQ(told(*b, group), "answers");
}

/// Against the rule itself, with streams, bindings, filters and addresses that come and go; and so is what a device is
/// told that filters.
TEST_F(AnsweringTest, OneAnswersWhateverThereIs) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Prng prng(seed);
  const wire::IpAddress group = wire::IpAddress::from_text("239.1.2.3").value();
  const std::array addresses{first_ip, second_ip, group};
  constexpr std::array<std::uint16_t, 3> saps{wire::ethertype_ipv4, wire::ethertype_ipv6, wire::ethertype_ipv4};
  struct User {
    std::unique_ptr<Stream> stream;
    std::array<bool, 3> has{};
    std::array<AnswerInd, 3> told;
    bool knows(std::uint16_t sap) const { return stream->driver().subscription().has_sap(sap); }
    bool filters(std::uint16_t sap) const { return stream->driver().subscription().has_filter(sap); }
  };
  std::vector<User> users;  // in the order of attachment
  const auto join = [&] {
    User& user = users.emplace_back(User{.stream = std::make_unique<Stream>(set_), .has = {}, .told = {}});
    EXPECT_TRUE(user.stream->open(driver_on(link_)));
    for (std::size_t at = 0; at < addresses.size(); ++at) {
      user.told[at].address = addresses[at];
    }
  };
  const auto listen = [&](User& user) {
    while (const Message message = user.stream->next()) {
      if (const auto told = AnswerInd::decode(message.bytes())) {
        const auto at = std::ranges::find(addresses, told->address) - addresses.begin();
        user.told[static_cast<std::size_t>(at)] = *told;
      }
    }
  };
  const auto change = [&](User& user, std::uint64_t what, std::uint16_t port) {
    const std::uint16_t sap = prng.chance(0.5) ? wire::ethertype_ipv4 : wire::ethertype_ipv6;
    const std::size_t at = prng.below(addresses.size());
    switch (what) {
      case 0:
        return user.stream->request(BindReq{.sap = sap});
      case 1:
        return user.stream->request(SubsBindReq{.sap = sap});
      case 2:
        return user.stream->request(UnbindReq{});
      case 3:
      case 4:
        return filters(*user.stream, sap, port);
      case 5:
        return user.stream->put(user.stream->encoded(FilterReq{sap, {}, {}, {}}, MessageType::ctl));
      default:
        user.has[at] = prng.chance(0.6);
        user.told[at] = user.has[at] ? user.told[at] : AnswerInd{.address = addresses[at]};
        return says(*user.stream, addresses[at], user.has[at]);
    }
  };
  stream({});  // has the device told something
  for (int round = 0; round < 3'000; ++round) {
    const std::uint64_t what = prng.below(20);
    if (users.empty() || (what == 18 && users.size() < 12)) {
      join();
    } else if (what == 19) {
      users.erase(users.begin() + static_cast<std::ptrdiff_t>(prng.below(users.size())));
    } else {
      change(users[prng.below(users.size())], what % 9, static_cast<std::uint16_t>(1 + round));
    }
    std::ranges::for_each(users, listen);
    for (std::size_t at = 0; at < addresses.size(); ++at) {
      const auto claims = [&](const User& user) { return user.has[at] && user.knows(saps[at]); };
      const auto shares = [&](const User& user) {
        return claims(user) && (user.filters(saps[at]) || addresses[at] == group);
      };
      auto first =
          std::ranges::find_if(users, [&](const User& user) { return claims(user) && !user.filters(saps[at]); });
      first = first == users.end() ? std::ranges::find_if(users, claims) : first;
      const std::ptrdiff_t sharing = std::ranges::count_if(users, shares);
      for (auto user = users.begin(); user != users.end(); ++user) {
        if (user->has[at]) {
          ASSERT_EQ(user->told[at].answers, first == users.end() || user == first) << "round " << round;
          ASSERT_EQ(user->told[at].shared, sharing > (shares(*user) ? 1 : 0)) << "round " << round;
        }
      }
    }
    Link::Interests wanted;
    wanted.hosts.emplace();
    for (const User& user : users) {
      const std::vector<std::uint16_t>& bound = user.stream->driver().subscription().saps;
      wanted.saps.insert(wanted.saps.end(), bound.begin(), bound.end());
      if (!bound.empty() && std::ranges::none_of(user.has, std::identity())) {
        wanted.hosts.reset();
      }
      for (std::size_t at = 0; at < addresses.size() && wanted.hosts && !bound.empty(); ++at) {
        if (user.has[at] && addresses[at] != group) {
          wanted.hosts->push_back(addresses[at]);
        }
      }
    }
    const auto unite = [](auto& values) {
      std::ranges::sort(values);
      const auto repeated = std::ranges::unique(values);
      values.erase(repeated.begin(), repeated.end());
    };
    unite(wanted.saps);
    if (wanted.hosts) {
      unite(*wanted.hosts);
    }
    ASSERT_EQ(link_->interests, wanted) << "round " << round;
  }
}

/// Among a thousand streams that share an address, what one of them does is told to it alone.
TEST_F(AnsweringTest, AnotherConnectionIsNoNewsToTheRest) {
  const auto host = stream({first_ip});
  std::vector<std::unique_ptr<Stream>> connections;
  for (std::uint16_t port = 1; port <= 1000; ++port) {
    connections.push_back(stream({first_ip}));
    filters(*connections.back(), wire::ethertype_ipv4, port);
  }
  std::ranges::for_each(connections, [](const auto& connection) { connection->forget(); });
  EXPECT_EQ(told(*host, first_ip), "answers shared");
  auto another = stream({first_ip});
  filters(*another, wire::ethertype_ipv4, 1001);
  EXPECT_EQ(told(*another, first_ip), "silent shared");
  another.reset();
  EXPECT_EQ(host->waiting(), 0U);
  for (const auto& connection : connections) {
    ASSERT_EQ(connection->waiting(), 0U);
  }
}

TEST_F(AnsweringTest, WhatCouldNotBeToldIsDueAgain) {
  const std::array users{stream({}), stream({})};
  Answering answering;
  for (const auto& user : users) {
    answering.add(user->driver());
    answering.renew(user->driver(), user->driver().subscription());
    EXPECT_TRUE(answering.set(user->driver(), {first_ip, true}));
  }
  const auto due = answering.next();
  ASSERT_TRUE(due.has_value());
  EXPECT_EQ(due->stream, &users[1]->driver());
  EXPECT_FALSE(answering.next().has_value());
  answering.not_told(*due);
  const auto again = answering.next();
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(again->told, due->told);
  answering.not_told(*again);
  answering.forget(users[1]->driver());
  EXPECT_FALSE(answering.next().has_value()) << "it has left";
  answering.not_told(*again);
  EXPECT_FALSE(answering.next().has_value());
}

/// What is no request of this kind, and more addresses than there is room for, change nothing.
TEST_F(AnsweringTest, IsBounded) {
  const auto many = stream({});
  for (unsigned n = 0; n < 2 * Answering::addresses_max; ++n) {
    says(*many, wire::Ipv4Address{{10, 0, static_cast<std::uint8_t>(n >> 8), static_cast<std::uint8_t>(n)}}, true);
  }
  EXPECT_EQ(many->counted("unexpected"), Answering::addresses_max);
  Message cut = primitive_message(set_.pool(), AddressReq{first_ip, true}, MessageType::ctl);
  cut.trim_back(1);
  many->put(std::move(cut));
  EXPECT_EQ(many->counted("unexpected"), Answering::addresses_max + 1);
}

}  // namespace
}  // namespace sluice::dlpi::test
