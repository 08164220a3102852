// SPDX-License-Identifier: Apache-2.0
// Of the streams of a link that have an address one answers for it.
#include "dlpi/answering.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

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
