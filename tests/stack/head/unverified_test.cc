// SPDX-License-Identifier: Apache-2.0
// Messages whose checks are still owed wait in the stream head: one whose check does not hold is as if it had never
// come, whatever is asked of it.

#include "stack/core/module_handle.h"
#include "tests/stack/head/harness.h"

namespace sluice::test {
namespace {

/// A device whose messages carry a check: it holds, or it does not.
class Checking : public Module {
 public:
  Checking() : Module("checking") {}
  [[nodiscard]] bool handles_deferred() const override { return true; }

  void arrives(const std::vector<Part>& parts, bool good) {
    Message message = message_of(set().pool(), parts);
    message.defer();
    const auto holds = static_cast<std::uint16_t>(~message.data_sum());
    ASSERT_EQ(message.transform(Check{good ? holds : static_cast<std::uint16_t>(holds + 1)}, handle(), refused),
              TransformResult::deferred);
    message.when_verified(handle(), [this] { ++verified; });
    read_queue().put_next(std::move(message));
  }

  Counter refused{*this, "refused", "checks that did not hold"};
  Counter verified{*this, "verified", "checks that held"};
};

class Unverified : public testing::Test {
 protected:
  Unverified() {
    auto made = std::make_unique<Checking>();
    device = made.get();
    stream = std::move(*Stream::open(set, std::move(made)));
    stream->set_mode(ProcessingMode::fused);
    stream->set_nonblocking(true);
  }
  std::string read(std::size_t size = 10) {
    std::string text(size, '\0');
    const auto got = stream->read(std::as_writable_bytes(std::span(text)));
    return got ? text.substr(0, *got) : "error " + std::to_string(got.error().code);
  }

  StreamSet set{{.defer_bytes_min = 0}};
  Checking* device = nullptr;
  std::unique_ptr<Stream> stream;
};

TEST_F(Unverified, AMessageThatReadWouldRefuseMustBeGood) {
  device->arrives({control("c"), data("bad!")}, false);
  device->arrives({data("good")}, true);
  EXPECT_EQ(read(), "good") << "not EBADMSG for what never came";
  EXPECT_EQ(device->refused.value(), 1U);
}

TEST_F(Unverified, AnEmptyMessageThatEndsReadingMustBeGood) {
  device->arrives({data("")}, false);
  device->arrives({data("good")}, true);
  EXPECT_EQ(read(), "good");
  EXPECT_EQ(device->refused.value(), 1U);
}

// Anybody may send any number of them.
TEST_F(Unverified, ReadPassesOverManyBadMessagesInOneCall) {
  for (int count = 0; count < 200'000; ++count) {
    device->arrives({data("bad!")}, false);
  }
  EXPECT_EQ(read(), "error " + std::to_string(EAGAIN));
  EXPECT_EQ(device->refused.value(), 200'000U);
}

TEST_F(Unverified, ABadUrgentMessageDoesNotStandInTheWayOfAGoodOne) {
  device->arrives({urgent("u"), data("bad!")}, false);
  device->arrives({urgent("u"), data("good")}, true);
  std::string text(10, '\0');
  const auto got = stream->getmsg(std::nullopt, std::as_writable_bytes(std::span(text)), true);
  ASSERT_TRUE(got);
  EXPECT_EQ(text.substr(0, got->data.value_or(0)), "good");
}

TEST_F(Unverified, ASecondUrgentMessageIsVerifiedBeforeItIsDiscarded) {
  device->arrives({urgent("u"), data("good")}, true);
  device->arrives({urgent("u"), data("lost")}, true);
  device->arrives({urgent("u"), data("bad!")}, false);
  EXPECT_EQ(device->refused.value(), 1U);
  EXPECT_EQ(device->verified.value(), 2U) << "the first was looked at when the second came";
}

}  // namespace
}  // namespace sluice::test
