// SPDX-License-Identifier: Apache-2.0
// How a TCP connection is opened: as scripts (tests/stack/modules/tcp_script.h).

#include <gtest/gtest.h>

#include "tests/stack/modules/tcp_script.h"

namespace sluice::test {
namespace {

constexpr tcp_script::Case opening_cases[] = {
    {"Active",
     "RFC 9293 3.10.7.3: \"If SND.UNA > ISS (our SYN has been ACKed), change the connection state to ESTABLISHED, form "
     "an ACK segment\"",
     R"(
       connect
       > SYN 0 mss 1460 win 65535
       state syn_sent
       < SYN,ACK 0 ack 1
       > ACK 1 ack 1
       state established
       news opened
       deadline none
     )"},
    {"Passive", "RFC 9293 3.10.7.4: \"If SND.UNA < SEG.ACK =< SND.NXT, then enter ESTABLISHED state\"",
     R"(
       < SYN 0 mss 1000
       > SYN,ACK 0 ack 1 mss 1460
       state syn_received
       news none
       < ACK 1 ack 1
       state established
       news opened
       deadline none
     )"},
    {"Simultaneous", "RFC 9293 3.5, figure 7: both ends send a SYN, and each is established by the other's SYN,ACK",
     R"(
       connect
       > SYN 0
       < SYN 0 win 3000 mss 1000
       > SYN,ACK 0 ack 1
       state syn_received
       < SYN,ACK 0 ack 1 win 3000
       > ACK 1 ack 1
       state established
       news opened
       send 4000
       > ACK 1:1001
       > ACK 1001:2001
       > ACK 2001:3001
       < ACK 1 ack 3001
       > ACK 3001:4001
       < ACK 1 ack 4001
     )"},
    {"SimultaneousByAck", "RFC 9293 3.10.7.4: in SYN-RECEIVED any acknowledgment of the SYN establishes",
     R"(
       connect
       > SYN 0
       < SYN 0
       > SYN,ACK 0 ack 1
       < ACK 1 ack 1
       state established
     )"},
    {"SimultaneousWithoutAnswer", "RFC 9293 3.10.7.3: the SYN,ACK of a simultaneous opening is sent again as any other",
     R"(
       connect
       > SYN 0
       < SYN 0
       > SYN,ACK 0 ack 1
       +1s > SYN,ACK 0 ack 1
       < SYN,ACK 0 ack 1
       > ACK 1 ack 1
       state established
     )"},
    {"SynAgain", "RFC 6298 2.1, 5.5: after a second, and then after twice the time",
     R"(
       connect
       > SYN 0
       x4 +1s doubled > SYN 0
       < SYN,ACK 0 ack 1
       > ACK 1 ack 1
       state established
     )"},
    {"SynToTheEnd",
     "RFC 9293 3.8.3: \"R2 for a SYN segment MUST be set large enough to provide retransmission of the segment for at "
     "least 3 minutes\"",
     R"(
       connect
       > SYN 0
       x6 +1s doubled > SYN 0
       +60s > SYN 0
       news none
       +60s
       state closed
       news timed-out
       deadline none
     )"},
    {"SynAckAgain", "RFC 6298 5.4: the SYN,ACK is sent again, until it is acknowledged",
     R"(
       < SYN 0
       > SYN,ACK 0 ack 1
       +1s > SYN,ACK 0 ack 1
       +2s > SYN,ACK 0 ack 1
       < ACK 1 ack 1
       state established
       deadline none
     )"},
    {"SynAckToTheEnd", "RFC 9293 3.8.3: nor is a peer waited for without end that never acknowledges",
     R"(
       < SYN 0
       > SYN,ACK 0 ack 1
       x6 +1s doubled > SYN,ACK 0 ack 1
       +60s > SYN,ACK 0 ack 1
       +60s
       state closed
       news timed-out
     )"},
    {"SynComesTwice", "RFC 9293 3.10.7.4: the peer's SYN again says that our answer was lost",
     R"(
       < SYN 0
       > SYN,ACK 0 ack 1
       < SYN 0
       > SYN,ACK 0 ack 1
       state syn_received
       < ACK 1 ack 1
       state established
     )"},
    {"OtherSynAck", "RFC 9293 3.10.7.4: nor does a SYN,ACK establish that acknowledges something else",
     R"(
       connect
       > SYN 0
       < SYN 0
       > SYN,ACK 0 ack 1
       < SYN,ACK 0 ack 2
       > ACK 1 ack 1
       state syn_received
     )"},
    {"OtherSyn", "RFC 5961 4.2: a SYN elsewhere is questioned, and the opening goes on",
     R"(
       < SYN 0
       > SYN,ACK 0 ack 1
       < SYN 300
       > ACK 1 ack 1
       < SYN -5000
       > ACK 1 ack 1
       < ACK 1 ack 1
       state established
     )"},
    {"OldDuplicateSyn",
     "RFC 9293 3.5, figure 8: an answer that acknowledges what was never sent is reset, and the opening goes on",
     R"(
       connect
       > SYN 0
       < SYN,ACK -400 ack -100
       > RST -100
       state syn_sent
       < SYN,ACK 0 ack 1
       > ACK 1 ack 1
       state established
     )"},
    {"AckAlone", "RFC 9293 3.10.7.3: \"If SEG.ACK =< ISS or SEG.ACK > SND.NXT, send a reset\"",
     R"(
       connect
       > SYN 0
       < ACK 300 ack 0
       > RST 0
       < ACK 300 ack 2
       > RST 2
       state syn_sent
     )"},
    {"AckWithoutSyn",
     "RFC 9293 3.10.7.3: \"if neither of the SYN or RST bits is set, then drop the segment and return\"",
     R"(
       connect
       > SYN 0
       < ACK 300 ack 1
       < NONE 300
       < FIN 300
       state syn_sent
     )"},
    {"Refused",
     "RFC 9293 3.10.7.3: \"If the ACK was acceptable, then signal to the user\" the reset, \"enter CLOSED state\"",
     R"(
       connect
       > SYN 0
       < RST,ACK 0 ack 1
       state closed
       news refused
       deadline none
     )"},
    {"ResetOfAnother", "RFC 9293 3.10.7.3: \"unless the RST bit is set, if so drop the segment and return\"",
     R"(
       connect
       > SYN 0
       < RST,ACK 0 ack 0
       < RST,ACK 0 ack 2
       state syn_sent
     )"},
    {"ResetWithoutAck", "RFC 9293 3.10.7.3: \"Otherwise (no ACK), drop the segment and return\"",
     R"(
       connect
       > SYN 0
       < RST 0
       < RST 1
       state syn_sent
     )"},
    {"ResetOfPassive", "RFC 9293 3.10.7.4: a reset in SYN-RECEIVED ends the attempt",
     R"(
       < SYN 0
       > SYN,ACK 0 ack 1
       < RST 1
       state closed
       news refused
     )"},
    {"ResetElsewhereOfPassive", "RFC 5961 3.2: a reset that is not exactly in its place is questioned",
     R"(
       < SYN 0
       > SYN,ACK 0 ack 1
       < RST 2
       > ACK 1 ack 1
       < RST 70000
       < RST 0
       state syn_received
     )"},
    {"BadAckOfPassive",
     "RFC 9293 3.10.7.4: \"If the segment acknowledgment is not acceptable, form a reset segment "
     "<SEQ=SEG.ACK><CTL=RST>\"",
     R"(
       < SYN 0
       > SYN,ACK 0 ack 1
       < ACK 1 ack 0
       > RST 0
       < ACK 1 ack 2
       > RST 2
       state syn_received
     )"},
    {"NoAckOfPassive", "RFC 9293 3.10.7.4: \"if the ACK bit is off, drop the segment and return\"",
     R"(
       < SYN 0
       > SYN,ACK 0 ack 1
       < NONE 1:100
       state syn_received
     )"},
    {"DataWithLastAck", "RFC 9293 3.10.7.4: \"enter ESTABLISHED state and continue processing\": data and FIN count",
     R"(
       < SYN 0
       > SYN,ACK 0 ack 1
       < FIN,ACK 1:101 ack 1
       > ACK 1 ack 102
       state close_wait
       news opened
       take 100
       news ended
     )"},
    {"DataOvertakesLastAck", "RFC 9293 3.10.7.4: any segment with an acknowledgment establishes",
     R"(
       < SYN 0
       > SYN,ACK 0 ack 1
       < ACK 101:201 ack 1
       > ACK 1 ack 1
       state established
       < ACK 1:101 ack 1
       > ACK 1 ack 201
       take 200
     )"},
    {"DataOnSynAck",
     "RFC 9293 3.10.7.3: \"If there are other controls or text in the segment, then continue processing\"",
     R"(
       connect
       > SYN 0
       < SYN,ACK 0:101 ack 1
       > ACK 1 ack 101
       state established
       take 100
     )"},
    {"FinOnSynAck", "RFC 9293 3.10.7.3: other controls in the segment are processed",
     R"(
       connect
       > SYN 0
       < SYN,FIN,ACK 0:101 ack 1
       > ACK 1 ack 102
       state close_wait
       take 100
       news opened ended
     )"},
    {"DataOnSynWaits", "RFC 9293 3.10.7.2: text of a SYN may wait; it is not acknowledged, so that it comes again",
     R"(
       < SYN 0:101
       > SYN,ACK 0 ack 1
       < ACK 1:101 ack 1
       state established
       +40ms > ACK 1 ack 101
       take 100
     )"},
    {"SendBeforeOpen", "RFC 9293 3.10.2: \"Queue the data for transmission after entering ESTABLISHED state\"",
     R"(
       connect
       > SYN 0
       send 300
       < SYN,ACK 0 ack 1 mss 1000
       > ACK 1:301 ack 1
       < ACK 1 ack 301
       done yes
     )"},
    {"FinishBeforeOpen", "RFC 9293 3.10.4: what a user ends before it is open waits until it is",
     R"(
       connect
       > SYN 0
       send 300
       finish
       < SYN,ACK 0 ack 1 mss 1000
       > FIN,ACK 1:301 ack 1
       state fin_wait_1
       < ACK 1 ack 302
       state fin_wait_2
     )"},
    {"FinishInSynReceived",
     "RFC 9293 3.10.4: in SYN-RECEIVED: \"queue for processing after entering ESTABLISHED state\"",
     R"(
       < SYN 0 mss 1000
       > SYN,ACK 0 ack 1
       send 1500
       finish
       < ACK 1 ack 1
       > ACK 1:1001 ack 1
       > FIN,ACK 1001:1501 ack 1
       state fin_wait_1
     )"},
    {"AbortBeforeAnswer", "RFC 9293 3.10.5: in SYN-SENT: \"Delete the TCB, enter CLOSED state, and return\"",
     R"(
       connect
       > SYN 0
       abort
       state closed
       deadline none
     )"},
    {"Unreachable", "RFC 5461 4: while a connection is being opened, what the network reports ends it",
     R"(
       connect
       > SYN 0
       error 113
       state closed
       news unreachable
     )"},
    {"UnreachableLater", "RFC 9293 3.9.2.2: \"a TCP implementation MUST NOT abort the connection\" for a soft error",
     R"(
       open
       error 113
       state established
       news none
     )"},
    {"FirstTimeoutAfterLostSyn",
     "RFC 6298 5.7: after a SYN that timed out, \"the RTO MUST be re-initialized to 3 seconds when data transmission "
     "begins\"",
     R"(
       connect
       > SYN 0
       +1s > SYN 0
       +500ms
       < SYN,ACK 0 ack 1 mss 1000
       > ACK 1 ack 1
       send 100
       > ACK 1:101
       +3s > ACK 1:101
       +6s > ACK 1:101
     )"},
    {"WindowAfterOneLostSyn", "RFC 6928 2: one lost SYN leaves the initial window as it is",
     R"(
       connect
       > SYN 0
       +1s > SYN 0
       < SYN,ACK 0 ack 1 mss 1000
       > ACK 1 ack 1
       send 20000
       > 10 segments
     )"},
    {"WindowAfterTwoLostSyns", "RFC 6928 2, RFC 5681 3.1: when more than one SYN was lost, it begins with one segment",
     R"(
       connect
       > SYN 0
       +1s > SYN 0
       +2s > SYN 0
       < SYN,ACK 0 ack 1 mss 1000
       > ACK 1 ack 1
       send 20000
       > ACK 1:1001
     )"},
    {"RoundTripOfSyn", "RFC 6298 2.2: the SYN's round trip is the first: 100 ms, and four times the half of it",
     R"(
       connect
       > SYN 0
       +100ms
       < SYN,ACK 0 ack 1
       > ACK 1 ack 1
       send 100
       > ACK 1:101
       +300ms > ACK 1:101
     )"},
    {"WindowOfSynIsNotScaled", "RFC 7323 2.2: the window of a segment with SYN is never scaled",
     R"(
       connect
       > SYN 0
       < SYN,ACK 0 ack 1 win 2000 scale 4 mss 1000
       > ACK 1 ack 1
       send 5000
       > ACK 1:1001
       > ACK 1001:2001
       < ACK 1 ack 2001 win 2000
       > ACK 2001:3001
       > ACK 3001:4001
       > ACK 4001:5001
     )"},
    {"WindowOfHandshakeIsScaled",
     "RFC 9293 3.10.7.4: on entering ESTABLISHED SND.WND <- SEG.WND, which is scaled by then",
     R"(
       < SYN 0 win 1000 scale 2 mss 1000
       > SYN,ACK 0 ack 1
       < ACK 1 ack 1 win 1000
       send 5000
       > 4 segments
     )"},
    {"OldSegmentAfterHandshake",
     "RFC 9293 3.10.7.4: on entering ESTABLISHED SND.WL1 <- SEG.SEQ: an older segment says nothing of the window",
     R"(
       < SYN 0 win 1000 mss 1000
       > SYN,ACK 0 ack 1
       < ACK 1001:2001 ack 1 win 4000
       > ACK 1 ack 1
       < ACK 1 ack 1 win 1000
       send 5000
       > 4 segments
     )"},
    {"DefaultSegmentV4", "RFC 9293 3.7.1: \"MUST assume a default send MSS of 536\"",
     R"(
       open
       send 1000
       > ACK 1:537
       < ACK 1 ack 537
       > ACK 537:1001
     )"},
    {"DefaultSegmentV6", "RFC 9293 3.7.1: \"or 1220 (1280 - 60) for IPv6\"",
     R"(
       set v6
       open
       send 2000
       > ACK 1:1221
       < ACK 1 ack 1221
       > ACK 1221:2001
     )"},
    {"SmallerSegment",
     "RFC 9293 3.7.1: the effective send MSS \"MUST be the smaller\" of what the peer and the path take",
     R"(
       set mss 500
       open mss 1000
       send 1000
       > ACK 1:501
       > ACK 501:1001
     )"},
    {"TinySegment", "RFC 9293 3.7.1: the MSS bounds a segment; one of a byte would be all header, and is not believed",
     R"(
       open mss 1
       send 100
       > ACK 1:65
     )"},
};

TCP_SCRIPTS(TcpOpening, opening_cases);

}  // namespace
}  // namespace sluice::test
