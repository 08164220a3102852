// SPDX-License-Identifier: Apache-2.0
// How a TCP connection ends: as scripts (tests/stack/modules/tcp_script.h).

#include <gtest/gtest.h>

#include "tests/stack/modules/tcp_script.h"

namespace sluice::test {
namespace {

constexpr tcp_script::Part closing_parts[] = {
    {"ends-in-time-wait", R"(
       open
       finish
       > FIN,ACK 1
       < FIN,ACK 1 ack 2
       > ACK 2 ack 2
     )"},
    {"ends-in-closing", R"(
       open
       finish
       > FIN,ACK 1
       < FIN,ACK 1 ack 1
       > ACK 2 ack 2
     )"},
    {"fin-behind-data", R"(
       open mss 1000
       send 1000
       > ACK 1:1001
       finish
       > FIN,ACK 1001
     )"},
};

constexpr tcp_script::Case closing_cases[] = {
    {"ByUs", "RFC 9293 3.6, figure 12, TCP Peer A: FIN-WAIT-1, FIN-WAIT-2, TIME-WAIT, CLOSED",
     R"(
       open
       finish
       > FIN,ACK 1 ack 1
       state fin_wait_1
       < ACK 1 ack 2
       state fin_wait_2
       < FIN,ACK 1 ack 2
       > ACK 2 ack 2
       state time_wait
       news acknowledged ended
       +60s
       state closed
       news closed
       deadline none
     )"},
    {"ByPeer", "RFC 9293 3.6, figure 12, TCP Peer B: CLOSE-WAIT, LAST-ACK, CLOSED",
     R"(
       open
       < FIN,ACK 1
       > ACK 1 ack 2
       state close_wait
       news ended
       finish
       > FIN,ACK 1 ack 2
       state last_ack
       < ACK 2 ack 2
       state closed
       news acknowledged closed
       deadline none
     )"},
    {"AtOnce", "RFC 9293 3.6, figure 13: both FINs cross: CLOSING, TIME-WAIT",
     R"(
       open
       finish
       > FIN,ACK 1 ack 1
       < FIN,ACK 1 ack 1
       > ACK 2 ack 2
       state closing
       < ACK 2 ack 2
       state time_wait
       +60s
       state closed
     )"},
    {"FinWithAck", "RFC 9293 3.10.7.4: \"If our FIN has been ACKed (perhaps in this segment), then enter TIME-WAIT\"",
     R"(
       open
       finish
       > FIN,ACK 1 ack 1
       < FIN,ACK 1 ack 2
       > ACK 2 ack 2
       state time_wait
     )"},
    {"FinBehindData",
     "RFC 9293 3.10.4: \"Queue this until all preceding SENDs have been segmentized, then form a FIN segment and send "
     "it\"",
     R"(
       open mss 1000
       send 2500
       > ACK 1:1001
       > ACK 1001:2001
       finish
       > FIN,ACK 2001:2501
       state fin_wait_1
       < ACK 1 ack 2501
       state fin_wait_1
       < ACK 1 ack 2502
       state fin_wait_2
     )"},
    {"FinBehindFullSegment", "RFC 9293 3.10.4: the FIN goes with the last segment",
     R"(
       do fin-behind-data
       < ACK 1 ack 1002
       state fin_wait_2
     )"},
    {"FinishTwice", "RFC 9293 3.10.4: \"as long as a second FIN is not emitted\"",
     R"(
       open
       finish
       > FIN,ACK 1
       finish
       state fin_wait_1
     )"},
    {"FinWaitsForWindow", "RFC 9293 3.8.6: a FIN needs a place in the window as any byte",
     R"(
       open win 1000 mss 1000
       send 1000
       > ACK 1:1001
       finish
       state fin_wait_1
       +100ms
       < ACK 1 ack 1001 win 0
       +250ms > FIN,ACK 1001
       < ACK 1 ack 1001 win 0
       +500ms > FIN,ACK 1001
       < ACK 1 ack 1001 win 10
       > FIN,ACK 1001
       < ACK 1 ack 1002
       state fin_wait_2
     )"},
    {"FinAgain", "RFC 9293 3.10.8: the FIN is sent again when the retransmission timeout expires",
     R"(
       open
       finish
       > FIN,ACK 1
       +300ms > FIN,ACK 1
       +600ms > FIN,ACK 1
       < ACK 1 ack 2
       state fin_wait_2
       deadline none
     )"},
    {"FinAgainInLastAck", "RFC 9293 3.10.8: \"For any state\"",
     R"(
       open
       < FIN,ACK 1
       > ACK 1 ack 2
       finish
       > FIN,ACK 1
       +300ms > FIN,ACK 1
       < ACK 2 ack 2
       state closed
       news acknowledged ended closed
     )"},
    {"FinAgainInClosing", "RFC 9293 3.10.8: \"For any state\"",
     R"(
       do ends-in-closing
       +300ms > FIN,ACK 1 ack 2
       < ACK 2 ack 2
       state time_wait
     )"},
    {"FinToTheEnd", "RFC 9293 3.8.3: \"The value of R2 SHOULD correspond to at least 100 seconds\"",
     R"(
       open
       finish
       > FIN,ACK 1
       x8 +300ms doubled > FIN,ACK 1
       x3 +60s > FIN,ACK 1
       news none
       +60s
       state closed
       news timed-out
     )"},
    {"HalfClosedByUs",
     "RFC 9293 3.6: who has closed \"may continue to RECEIVE until the TCP receiver is told that the remote peer has "
     "CLOSED also\"",
     R"(
       open
       finish
       > FIN,ACK 1
       < ACK 1 ack 2
       < ACK 1:1001 ack 2
       < ACK 1001:2001 ack 2
       > ACK 2 ack 2001
       take 2000
       news acknowledged
       < FIN,ACK 2001:2011
       > ACK 2 ack 2012
       state time_wait
       news none
       take 10
       news ended
     )"},
    {"HalfClosedByUsBeforeAck", "RFC 9293 3.10.7.4: in FIN-WAIT-1 text is processed as in ESTABLISHED",
     R"(
       open
       finish
       > FIN,ACK 1
       < ACK 1:101 ack 1
       +40ms > ACK 2 ack 101
       take 100
     )"},
    {"HalfClosedByPeer", "RFC 9293 3.10.2: in CLOSE-WAIT what the user gives is segmentized and sent",
     R"(
       open mss 1000
       < FIN,ACK 1
       > ACK 1 ack 2
       send 1500
       > ACK 1:1001 ack 2
       < ACK 2 ack 1001
       > ACK 1001:1501 ack 2
       < ACK 2 ack 1501
       state close_wait
       finish
       > FIN,ACK 1501 ack 2
       state last_ack
     )"},
    {"LastAckWithData", "RFC 9293 3.10.7.4: in LAST-ACK only the acknowledgment of our FIN ends it",
     R"(
       open mss 1000
       < FIN,ACK 1
       > ACK 1 ack 2
       send 1000
       > ACK 1:1001
       finish
       > FIN,ACK 1001
       < ACK 2 ack 1001
       state last_ack
       < ACK 2 ack 1002
       state closed
     )"},
    {"FinOutOfOrder",
     "RFC 9293 3.10.7.4: \"Segments with higher beginning sequence numbers SHOULD be held for later processing\": the "
     "FIN, too",
     R"(
       open
       < FIN,ACK 101:201
       > ACK 1 ack 1
       state established
       < ACK 1:101
       > ACK 1 ack 202
       state close_wait
       take 200
       news ended
     )"},
    {"FinAloneOutOfOrder", "RFC 9293 3.10.7.4: a FIN is processed in its place",
     R"(
       open
       < FIN,ACK 101
       > ACK 1 ack 1
       < ACK 1:101
       > ACK 1 ack 102
       state close_wait
     )"},
    {"DataBehindFin",
     "RFC 9293 3.10.7.4: \"This should not occur since a FIN has been received from the remote side. Ignore the "
     "segment text.\"",
     R"(
       open
       < FIN,ACK 1:11
       > ACK 1 ack 12
       < ACK 12:22
       > ACK 1 ack 12
       take 10
       news ended
       state close_wait
     )"},
    {"DataBehindFinBeforeIt", "RFC 9293 3.10.7.4: what came from behind the FIN is nothing",
     R"(
       open sackok
       < ACK 51:101
       > ACK 1 ack 1 sack 51-101
       < FIN,ACK 1:11
       > ACK 1 ack 12
       take 10
       news ended
     )"},
    {"DataAcrossFin", "RFC 9293 3.10.7.4: text behind a FIN that is known is left away",
     R"(
       open
       < FIN,ACK 11
       > ACK 1 ack 1
       < ACK 1:31
       > ACK 1 ack 12
       take 10
       state close_wait
     )"},
    {"FinComesTwice", "RFC 9293 3.10.7.4: a second FIN: \"Remain in the CLOSE-WAIT state\"",
     R"(
       open
       < FIN,ACK 1
       > ACK 1 ack 2
       < FIN,ACK 1
       > ACK 1 ack 2
       state close_wait
     )"},
    {"FinComesTwiceInClosing", "RFC 9293 3.10.7.4: \"Remain in the CLOSING state\"",
     R"(
       do ends-in-closing
       < FIN,ACK 1 ack 1
       > ACK 2 ack 2
       state closing
     )"},
    {"FinComesTwiceInLastAck", "RFC 9293 3.10.7.4: \"Remain in the LAST-ACK state\"",
     R"(
       open
       < FIN,ACK 1
       > ACK 1 ack 2
       finish
       > FIN,ACK 1 ack 2
       < FIN,ACK 1 ack 1
       > ACK 2 ack 2
       state last_ack
     )"},
    {"FinInTimeWait", "RFC 9293 3.10.7.4: \"Acknowledge it, and restart the 2 MSL timeout.\"",
     R"(
       do ends-in-time-wait
       +50s
       < FIN,ACK 1 ack 2
       > ACK 2 ack 2
       state time_wait
       +59999ms
       state time_wait
       +1ms
       state closed
     )"},
    {"OtherInTimeWait", "RFC 9293 3.10.7.4: nothing else restarts the time of TIME-WAIT",
     R"(
       do ends-in-time-wait
       +50s
       < ACK 2:12
       > ACK 2 ack 2
       < SYN 70000
       > ACK 2 ack 2
       < FIN,ACK 1000:1010
       > ACK 2 ack 2
       < FIN,ACK -5:-1
       > ACK 2 ack 2
       +10s
       state closed
     )"},
    {"ClosingIgnoresOthers",
     "RFC 9293 3.10.7.4: \"if the ACK acknowledges our FIN, then enter the TIME-WAIT state; otherwise, ignore the "
     "segment\"",
     R"(
       do fin-behind-data
       < FIN,ACK 1 ack 1
       > ACK 1002 ack 2
       < ACK 2 ack 1001
       state closing
       < ACK 2 ack 1002
       state time_wait
     )"},
    {"AbortWithData",
     "RFC 9293 3.10.5: \"all segments queued for transmission (except for the RST formed above) or retransmission "
     "should be flushed\"",
     R"(
       open mss 1000 win 1000
       send 3000
       > ACK 1:1001
       < ACK 1:11
       abort
       > RST 1001
       state closed
       take 0
       deadline none
     )"},
    {"AbortWithFinUnsent",
     "RFC 9293 3.10.5: \"<SEQ=SND.NXT><CTL=RST>\", also in LAST-ACK, where the peer has not been told everything",
     R"(
       open mss 1000 win 1000
       < FIN,ACK 1
       > ACK 1 ack 2
       send 3000
       > ACK 1:1001 ack 2
       finish
       state last_ack
       abort
       > RST 1001
     )"},
    {"ResetFlushes", "RFC 9293 3.10.7.4: \"All segment queues should be flushed.\"",
     R"(
       open mss 1000
       send 500
       > ACK 1:501
       < ACK 1:11
       < RST 11
       state closed
       news reset
       take 0
       deadline none
     )"},
    {"EndTakesNothingBack",
     "RFC 9293 3.6: \"A TCP implementation will reliably deliver all buffers SENT before the connection was CLOSED\"",
     R"(
       open
       < FIN,ACK 1:11
       > ACK 1 ack 12
       finish
       > FIN,ACK 1 ack 12
       < ACK 12 ack 2
       state closed
       news acknowledged closed
       take 10
       news ended
     )"},
    {"NoWindowBehindFin", "RFC 9293 3.8.6.2.2: room is offered to who sends, and behind a FIN nobody does",
     R"(
       set recvbuf 2000
       open
       < FIN,ACK 1:2000
       > ACK 1 ack 2001 win 0
       take 1999
     )"},
    {"ClosedIsSilent",
     "RFC 9293 3.10.7.1: what comes to CLOSED is answered by who has the port, and not by the connection that was",
     R"(
       open
       < RST 1
       state closed
       < ACK 1:11
       < SYN 0
       < FIN,ACK 1
     )"},
};

TCP_SCRIPTS(TcpClosing, closing_cases, closing_parts);

}  // namespace
}  // namespace sluice::test
