// SPDX-License-Identifier: Apache-2.0
// What a segment does to a TCP connection that it does not fit to, and what a user's abort does: in every state, as RFC
// 9293 section 3.10.7.4 and RFC 5961 sections 3 to 5 have it. Scripts (tests/stack/modules/tcp_script.h).

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/stack/modules/tcp_script.h"

namespace sluice::test {
namespace {

struct StateRow {
  const char* state;
  const char* reached;  // by these steps
  const char* reset;    // what its user hears of a reset that is in its place
  bool says_reset;      // when its user aborts
};

// `snd`, `rcv` and `una` say in each what RFC 9293 calls SND.NXT, RCV.NXT and SND.UNA.
constexpr StateRow state_rows[] = {
    {"syn_received", "< SYN 0\n > SYN,ACK 0 ack 1\n", "refused", true},
    {"established", "open\n", "reset", true},
    {"fin_wait_1", "open\n finish\n > FIN,ACK 1 ack 1\n", "reset", true},
    {"fin_wait_2", "open\n finish\n > FIN,ACK 1 ack 1\n < ACK 1 ack 2\n news acknowledged\n", "reset", true},
    {"close_wait", "open\n < FIN,ACK 1\n > ACK 1 ack 2\n news ended\n", "reset", true},
    {"closing", "open\n finish\n > FIN,ACK 1 ack 1\n < FIN,ACK 1 ack 1\n > ACK 2 ack 2\n news ended\n", "closed",
     false},
    {"last_ack", "open\n < FIN,ACK 1\n > ACK 1 ack 2\n finish\n > FIN,ACK 1 ack 2\n news ended\n", "closed", false},
    {"time_wait",
     "open\n finish\n > FIN,ACK 1\n < ACK 1 ack 2\n < FIN,ACK 1 ack 2\n > ACK 2 ack 2\n news acknowledged ended\n",
     "closed", false},
};

struct Event {
  const char* name;
  const char* shows;
  const char* steps;
  const char* steps_in_syn_received = nullptr;  // where they differ
};

// After each the state is what it was.
constexpr Event events[] = {
    {"ResetInWindow", "RFC 5961 3.2: within the window, but not in its place, it is questioned",
     "< RST rcv+1\n > ACK snd ack rcv\n < RST rcv+60000\n > ACK snd ack rcv\n"},
    {"ResetOutside", "RFC 5961 3.2: outside the window: \"silently drop the segment\"",
     "< RST rcv+65535\n < RST rcv-1\n < RST rcv-100000\n < RST rcv+1000000\n"},
    {"SynInPlace", "RFC 5961 4.2: \"irrespective of the sequence number, TCP MUST send an ACK\"",
     "< SYN rcv\n > ACK snd ack rcv\n"},
    {"SynInWindow", "RFC 5961 4.2: \"irrespective of the sequence number, TCP MUST send an ACK\"",
     "< SYN rcv+300\n > ACK snd ack rcv\n < SYN,ACK rcv+1\n > ACK snd ack rcv\n"},
    {"SynOutside", "RFC 5961 4.2: \"irrespective of the sequence number, TCP MUST send an ACK\"",
     "< SYN rcv+100000\n > ACK snd ack rcv\n < SYN rcv-100000\n > ACK snd ack rcv\n"},
    {"OldSyn", "RFC 9293 3.10.7.4: an old SYN is not acceptable, and acknowledged", "< SYN 0\n > ACK snd ack rcv\n",
     "< SYN 0\n > SYN,ACK 0 ack 1\n"},
    {"AckOfTheFuture", "RFC 9293 3.10.7.4: SEG.ACK > SND.NXT: \"then send an ACK, drop the segment, and return\"",
     "< ACK rcv ack snd+1\n > ACK snd ack rcv\n < ACK rcv:rcv+10 ack snd+1\n > ACK snd ack rcv\n take 0\n",
     "< ACK rcv ack snd+1\n > RST snd+1\n < ACK rcv:rcv+10 ack snd+1\n > RST snd+1\n take 0\n"},
    {"AckOfThePast", "RFC 5961 5.2: what is older than the largest window MUST be discarded and an ACK sent back",
     "< ACK rcv:rcv+10 ack snd-70000\n > ACK snd ack rcv\n take 0\n",
     "< ACK rcv:rcv+10 ack snd-70000\n > RST snd-70000\n take 0\n"},
    {"NoAck", "RFC 9293 3.10.7.4: \"if the ACK bit is off, drop the segment and return\"",
     "< NONE rcv:rcv+10\n < FIN rcv\n take 0\n"},
    {"DataBehindTheWindow", "RFC 9293 3.10.7.4: what is not acceptable is acknowledged, and dropped",
     "< ACK rcv+65536:rcv+65546 ack una\n > ACK snd ack rcv\n take 0\n count unacceptable 1\n"},
    {"DataBeforeTheWindow", "RFC 9293 3.10.7.4: what is not acceptable is acknowledged, and dropped",
     "< ACK rcv-100:rcv-50 ack una\n > ACK snd ack rcv\n take 0\n count unacceptable 1\n"},
    {"KeepAlive", "RFC 9293 3.8.4: a keep-alive, with SEG.SEQ = SND.NXT-1, is answered",
     "< ACK rcv-1 ack una\n > ACK snd ack rcv\n"},
};

struct OwnedCase {
  std::string name;
  std::string shows;
  std::string script;

  friend void PrintTo(const OwnedCase& one, std::ostream* out) { *out << one.shows; }
};

std::vector<OwnedCase> state_cases() {
  std::vector<OwnedCase> cases;
  for (const StateRow& row : state_rows) {
    const std::string begin = row.reached + std::string("state ") + row.state + "\n";
    const auto add = [&](const std::string& name, const char* shows, const std::string& steps) {
      cases.push_back({name + "_in_" + row.state, shows, begin + steps});
    };
    const bool opening = std::string_view(row.state) == "syn_received";
    for (const Event& event : events) {
      const char* const steps = opening && event.steps_in_syn_received ? event.steps_in_syn_received : event.steps;
      add(event.name, event.shows, steps + std::string("state ") + row.state + "\n news none\n");
    }
    add("ResetInPlace", "RFC 5961 3.2: exactly in its place: \"TCP MUST reset the connection\"",
        "< RST rcv\n state closed\n deadline none\n news " + std::string(row.reset) + "\n");
    add("ResetWithAck", "RFC 9293 3.10.7.4: the RST bit is looked at before the ACK",
        "< RST,ACK rcv ack una-5\n state closed\n news " + std::string(row.reset) + "\n");
    add("Abort", "RFC 9293 3.10.5: <SEQ=SND.NXT><CTL=RST>, but where both ends have said everything",
        "abort\n" + std::string(row.says_reset ? "> RST snd\n" : "") +
            "state closed\n deadline none\n news none\n < ACK rcv ack una\n");
  }
  return cases;
}

class TcpStates : public testing::TestWithParam<OwnedCase> {};
TEST_P(TcpStates, Script) {
  tcp_script::expect_sentence(GetParam().shows);
  tcp_script::run(GetParam().script);
}
INSTANTIATE_TEST_SUITE_P(Cases, TcpStates, testing::ValuesIn(state_cases()),
                         [](const auto& one) { return one.param.name; });

}  // namespace
}  // namespace sluice::test
