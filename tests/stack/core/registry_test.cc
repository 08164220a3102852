// SPDX-License-Identifier: Apache-2.0
#include "stack/core/registry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <set>

#include "stack/core/ioctl.h"
#include "tests/stack/core/support.h"

namespace sluice::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::string_view nearest_of(std::string_view word) {
  static constexpr std::array<std::string_view, 6> names = {"udp", "ip", "timod", "capture", "fault", "kernel_udp"};
  return nearest_spelling(word, names);
}

TEST(NearestSpelling, FindsWhatIsOneSlipAway) {
  EXPECT_EQ(nearest_of("udp"), "udp");
  EXPECT_EQ(nearest_of("upd"), "udp") << "two neighbours swapped are one slip";
  EXPECT_EQ(nearest_of("ud"), "udp") << "one is allowed even in a short word";
  EXPECT_EQ(nearest_of("timmod"), "timod");
  EXPECT_EQ(nearest_of("captuer"), "capture");
  EXPECT_EQ(nearest_of("kernl_up"), "kernel_udp");
}

TEST(NearestSpelling, IsSilentWhereNothingIsNear) {
  EXPECT_EQ(nearest_of("xy"), "");
  EXPECT_EQ(nearest_of("timeout"), "");
  EXPECT_EQ(nearest_of(""), "");
  EXPECT_EQ(nearest_spelling("udp", {}), "");
}

TEST(NearestSpelling, AllowsAThirdOfTheWord) {
  constexpr std::array<std::string_view, 1> names = {"abcdef"};
  EXPECT_EQ(nearest_spelling("abcxyf", names), "abcdef");
  EXPECT_EQ(nearest_spelling("abxyzf", names), "");
}

TEST(NearestSpelling, PrefersTheNearest) {
  constexpr std::array<std::string_view, 3> names = {"portals", "ports", "port"};
  EXPECT_EQ(nearest_spelling("porta", names), "ports") << "equally near: the first";
  EXPECT_EQ(nearest_spelling("portal", names), "portals");
}

Entry entry(std::string_view name, Entry::Kind kind = Entry::Kind::module) {
  return {.name = name, .summary = "for a test", .kind = kind, .make = [](StreamSet&, const Parameters&) {
            return Result<std::unique_ptr<Module>>(std::make_unique<Scripted>());
          }};
}

TEST(RegistryTest, FindsWhatWasAdded) {
  Registry registry;
  registry.add(entry("udp"));
  registry.add(entry("tap", Entry::Kind::driver));
  ASSERT_NE(registry.find("udp"), nullptr);
  EXPECT_EQ(registry.find("udp")->summary, "for a test");
  EXPECT_EQ(registry.find("udq"), nullptr);
  EXPECT_EQ(registry.entries().size(), 2U);
  StreamSet set;
  const auto made = registry.find("udp")->make(set, {});
  ASSERT_TRUE(made);
  EXPECT_NE(*made, nullptr);
}

TEST(RegistryTest, TheNearestIsOfTheSameKind) {
  Registry registry;
  registry.add(entry("tap", Entry::Kind::driver));
  registry.add(entry("tar"));
  EXPECT_EQ(registry.nearest("taq", Entry::Kind::driver), "tap");
  EXPECT_EQ(registry.nearest("taq", Entry::Kind::module), "tar");
  EXPECT_EQ(registry.nearest("ethernet", Entry::Kind::driver), "");
}

TEST(RegistryTest, TwoEntriesOfOneNameBreakTheContract) {
  Registry registry;
  registry.add(entry("udp"));
  EXPECT_DEATH(registry.add(entry("udp")), "contract broken");
}

TEST(RegistryTest, EveryServiceHasANameAndABitOfItsOwn) {
  std::set<std::string_view> names;
  ServiceSet all = 0;
  for (const Service service : {Service::link, Service::network, Service::transport, Service::user}) {
    names.insert(service_name(service));
    EXPECT_EQ(all & accepts(service), 0);
    all = static_cast<ServiceSet>(all | accepts(service));
    EXPECT_NE(accepts_any & accepts(service), 0);
  }
  EXPECT_EQ(names.size(), 4U);
  EXPECT_FALSE(names.contains(""));
}

TEST(ParametersTest, GivesValuesOrWhatStandsForAbsence) {
  Parameters parameters;
  parameters.set("on", true);
  parameters.set("count", std::int64_t{7});
  parameters.set("rate", 0.5);
  parameters.set("name", std::string("x"));
  parameters.set("list", std::vector<std::string>{"a", "b"});
  EXPECT_TRUE(parameters.boolean("on", false));
  EXPECT_TRUE(parameters.boolean("off", true));
  EXPECT_EQ(parameters.integer("count", 1), 7);
  EXPECT_EQ(parameters.integer("other", 1), 1);
  EXPECT_EQ(parameters.real("rate", 2), 0.5);
  EXPECT_EQ(parameters.real("other", 2), 2);
  EXPECT_EQ(parameters.text("name", "y"), "x");
  EXPECT_EQ(parameters.text("other", "y"), "y");
  EXPECT_THAT(parameters.texts("list"), ElementsAre("a", "b"));
  EXPECT_THAT(parameters.texts("other"), IsEmpty());
  EXPECT_TRUE(parameters.has("on"));
  EXPECT_FALSE(parameters.has("other"));
  parameters.set("count", std::int64_t{8});
  EXPECT_EQ(parameters.integer("count", 1), 8);
  EXPECT_EQ(parameters.values().size(), 5U);
}

TEST(ParametersTest, ASingleTextIsAListOfOne) {
  Parameters parameters;
  parameters.set("address", std::string("10.0.0.1/24"));
  EXPECT_THAT(parameters.texts("address"), ElementsAre("10.0.0.1/24"));
}

TEST(ParametersTest, AskingForAnotherTypeBreaksTheContract) {
  Parameters parameters;
  parameters.set("count", std::int64_t{7});
  EXPECT_DEATH((void)parameters.text("count", ""), "contract broken");
  EXPECT_DEATH((void)parameters.texts("count"), "contract broken");
}

// --- ioctls --------------------------------------------------------------------------------------------------------

Message request(BufferPool& pool, const IoctlBlock& block, std::string_view argument) {
  Message message = Message::allocate(pool, sizeof block, 0, MessageType::ioctl);
  (void)message.append(sizeof block);
  set_ioctl_block(message, block);
  message.link(text_message(pool, argument));
  return message;
}

// Guide, "M_IOCTL": answered by M_IOCACK with ioc_rval and data, or M_IOCNAK with ioc_error.
TEST(IoctlTest, AnAcknowledgementKeepsIdAndDataAndClearsTheError) {
  BufferPool pool;
  Message answer = ioctl_acknowledged(request(pool, {.command = 5, .id = 77, .error = 3}, "argument"), 42);
  EXPECT_EQ(answer.type(), MessageType::iocack);
  EXPECT_TRUE(is_high_priority(answer.type()));
  const IoctlBlock block = ioctl_block(answer);
  EXPECT_EQ(block.command, 5);
  EXPECT_EQ(block.id, 77U);
  EXPECT_EQ(block.error, 0);
  EXPECT_EQ(block.return_value, 42);
  EXPECT_EQ(text_of(answer.unlink()), "argument");
}

TEST(IoctlTest, ARefusalKeepsTheIdAndDropsTheData) {
  BufferPool pool;
  const Message answer = ioctl_refused(request(pool, {.command = 5, .id = 78}, "argument"), EINVAL);
  EXPECT_EQ(answer.type(), MessageType::iocnak);
  EXPECT_EQ(ioctl_block(answer).id, 78U);
  EXPECT_EQ(ioctl_block(answer).error, EINVAL);
  EXPECT_EQ(answer.block_count(), 1U);
}

TEST(IoctlTest, AMessageWithoutAnIoctlBlockBreaksTheContract) {
  BufferPool pool;
  const Message message = text_message(pool, "short", MessageType::ioctl);
  EXPECT_DEATH((void)ioctl_block(message), "contract broken");
}

// --- types ---------------------------------------------------------------------------------------------------------

// High priority is a property of the type. Guide, "Message Types": ordinary and high-priority messages.
TEST(MessageTypes, HighPriorityIsAPropertyOfTheType) {
  using enum MessageType;
  for (const MessageType type : {data, proto, ioctl, ctl, setopts}) {
    EXPECT_FALSE(is_high_priority(type));
  }
  for (const MessageType type : {pcproto, iocack, iocnak, flush, error, hangup}) {
    EXPECT_TRUE(is_high_priority(type));
  }
  EXPECT_TRUE(is_protocol(proto) && is_protocol(pcproto));
  EXPECT_FALSE(is_protocol(data) || is_protocol(ctl) || is_protocol(flush));
}

}  // namespace
}  // namespace sluice::testing
