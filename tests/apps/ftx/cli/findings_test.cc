// SPDX-License-Identifier: Apache-2.0
#include "apps/ftx/cli/findings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sluice::ftx {
namespace {

using testing::HasSubstr;

const HostFacts facts{.version = "1.2.3",
                      .cipher = "aes-128-gcm",
                      .receive_buffer_bytes_max = 4U << 20,
                      .send_buffer_bytes_max = 4U << 20,
                      .time_s = 1000};

TEST(Findings, FactsAreReadAsTheyWerePrinted) {
  EXPECT_EQ(facts_in(to_json(facts) + "\n"), facts);
  EXPECT_EQ(facts_in("Welcome!\n{\"event\":\"finding\"}\n" + to_json(facts)), facts) << "a login shell prints before";
}

TEST(Findings, WhatIsNoFactIsRefused) {
  EXPECT_FALSE(facts_in(""));
  EXPECT_FALSE(facts_in("\n\n"));
  EXPECT_FALSE(facts_in("[1]\n{\n{}\nnull\n\"host\""));
  EXPECT_FALSE(facts_in(std::string(100'000, '[')));
  const std::string line = to_json(facts);
  for (const std::string member : {"version", "cipher", "receive_buffer_bytes_max", "send_buffer_bytes_max", "time"}) {
    std::string without = line;
    EXPECT_FALSE(facts_in(without.replace(without.find(member), member.size(), "x"))) << member << " is missing";
    const std::size_t value = line.find(member) + member.size() + 2;
    const std::size_t end = line.find_first_of(",}", value);
    std::string wrong = line;
    EXPECT_FALSE(facts_in(wrong.replace(value, end - value, "null"))) << member << " is nothing";
    wrong = line;
    EXPECT_FALSE(facts_in(wrong.replace(value, end - value, "[-1]"))) << member << " is a list";
  }
  EXPECT_FALSE(facts_in(std::string(facts_bytes_max, ' ') + "\n" + line)) << "too far behind";
}

TEST(Findings, ALineIsSafeForATerminal) {
  EXPECT_EQ(to_text({Finding::State::fault, "ftx there", "\033[2J1\n2", "mend it"}),
            "fault   ftx there: ?[2J1?2; mend it");
  EXPECT_EQ(to_text({Finding::State::good, "ssh", "logs in"}), "ok      ssh: logs in");
}

TEST(Findings, SmallBuffersAreNamedWithTheSettingThatMendsThem) {
  EXPECT_EQ(buffers_finding(facts, "here").state, Finding::State::good);
  HostFacts small = facts;
  small.receive_buffer_bytes_max = 212992;
  const Finding finding = buffers_finding(small, "there");
  EXPECT_EQ(finding.state, Finding::State::advice);
  EXPECT_EQ(finding.check, "socket buffers there");
  EXPECT_THAT(finding.fix, HasSubstr("net.core.rmem_max=4194304"));
  EXPECT_THAT(finding.fix, Not(HasSubstr("wmem_max")));
}

TEST(Findings, LossIsNotedWhereItIsMoreThanCongestionControlMakes) {
  const Event few{.bytes = 8 << 20, .seconds = 0.5, .adus = 6000, .repaired = 12};
  EXPECT_EQ(loss_finding(few).state, Finding::State::good);
  EXPECT_EQ(loss_finding(few).text, "12 of 6000 datagrams repaired (0.2%), 8.0 MiB in 0.50 s");
  const Event many{.bytes = 8 << 20, .seconds = 0.5, .adus = 6000, .repaired = 600};
  EXPECT_EQ(loss_finding(many).state, Finding::State::advice);
  EXPECT_THAT(loss_finding(many).fix, HasSubstr("--rate"));
}

TEST(Findings, AClockIsWrongOnlyBeyondTheTimeThatAskingTook) {
  EXPECT_EQ(clock_finding(facts, 999, 1005).text, "as here");
  EXPECT_EQ(clock_finding(facts, 1001, 1005).state, Finding::State::good);
  EXPECT_EQ(clock_finding(facts, 1010, 1012).state, Finding::State::advice);
  EXPECT_THAT(clock_finding(facts, 1010, 1012).text, HasSubstr("-10.0 s"));
  EXPECT_THAT(clock_finding(facts, 900, 990).text, HasSubstr("+10.0 s"));
}

}  // namespace
}  // namespace sluice::ftx
