// SPDX-License-Identifier: Apache-2.0
// What programs tell of addresses that two hosts have.
#include "apps/common/addresses.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>

#include "apps/common/registry.h"
#include "base/contract.h"
#include "stack/head/stack_file.h"

namespace sluice::test {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;

class AddressWatching : public testing::Test {
 protected:
  std::unique_ptr<Stream> open(char end, const std::string& more = "") {
    const std::string text = "[stack.s]\ndriver = { kind = \"wire\", name = \"twins\", end = \"" + std::string(1, end) +
                             "\" }\npush = [\"ip\", \"udp\", \"timod\"]\nip = { address = \"10.79.0.1/24\"" + more +
                             " }\n";
    const auto file = StackFile::parse(text, "test.toml", registry_);
    SLUICE_REQUIRE(file.has_value());
    return open_stack(set_, file->stacks().front()).value();
  }
  void pass(Duration time) {
    for (const TimePoint end = now_ + time; now_ < end;) {
      now_ += 100ms;
      set_.scheduler().poll(now_);
    }
  }

  StreamSet set_{StreamSet::Options{.seed = 1}};
  Registry registry_ = standard_registry();
  TimePoint now_{};
};

/// RFC 5227 section 2.4: "inform an administrator of the problem".
TEST_F(AddressWatching, TellsOnceWhatTwoHostsClaim) {
  const auto a = open('a');
  AddressWatch watch(*a, "test");
  pass(5s);
  EXPECT_THAT(watch.news(), ElementsAre());
  const auto b = open('b');
  pass(60s);
  EXPECT_THAT(watch.news(),
              ElementsAre(testing::AllOf(HasSubstr("address 10.79.0.1 is claimed, too, by the host with MAC address "),
                                         HasSubstr("one of the two hosts must get another"))));
  pass(60s);
  EXPECT_THAT(watch.news(), ElementsAre());
}

/// RFC 5227 section 2.1.1: the host "should indicate to the configuring agent (human operator, DHCP server, etc.) that
/// the proposed address is not acceptable."
TEST_F(AddressWatching, TellsThatNoAddressIsLeft) {
  const auto a = open('a');
  const auto b = open('b', ", duplicate_address_detection = true");
  AddressWatch watch(*b, "test");
  pass(10s);
  EXPECT_THAT(watch.news(), ElementsAre(testing::AllOf(HasSubstr("address 10.79.0.1 is in use by"),
                                                       HasSubstr("it is not used here"))));
  const auto loop = RunLoop::open(set_);
  ASSERT_TRUE(loop);
  EXPECT_FALSE(watch.settle(**loop, [] { return false; }));
  AddressWatch other(*a, "test");
  EXPECT_TRUE(other.settle(**loop, [] { return false; }));
}

}  // namespace
}  // namespace sluice::test
