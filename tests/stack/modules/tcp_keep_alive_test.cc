// SPDX-License-Identifier: Apache-2.0
// Keep-alive of a TCP connection, and what its user changes of its buffers while it is open: as scripts
// (tests/stack/modules/tcp_script.h).

#include <gtest/gtest.h>

#include "tests/stack/modules/tcp_script.h"

namespace sluice::test {
namespace {

constexpr tcp_script::Case keep_alive_cases[] = {
    {"OffByDefault", "RFC 9293 3.8.4: \"they MUST default to off (MUST-25)\"",
     R"(
       open
       deadline none
     )"},
    {"Asks", "RFC 9293 3.8.4: \"Such a segment generally contains SEG.SEQ = SND.NXT-1\", \"with no data (SHLD-12)\"",
     R"(
       open
       keepalive 120min
       +120min > ACK 0 ack 1
       < ACK 1 ack 1
       +120min > ACK 0 ack 1
       < ACK 1 ack 1
       state established
     )"},
    {"AsksBehindWhatWasSent", "as above, and the stamp is in it (RFC 7323 3.2)",
     R"(
       open mss 1000 ts 10
       send 100
       > ACK 1:101
       < ACK 1 ack 101
       keepalive 2min
       +2min > ACK snd-1 ack 1 ecr 10
       < ACK 1 ack 101 ts 20
       +2min > ACK snd-1 ack 1 ecr 20
     )"},
    {"GivesUp",
     "RFC 9293 3.8.4: \"it MUST NOT interpret failure to respond to any specific probe as a dead connection "
     "(MUST-29)\": "
     "but all of nine",
     R"(
       open
       news none
       keepalive 2min
       +2min > ACK 0 ack 1
       x8 +75s > ACK 0 ack 1
       state established
       +75s
       state closed
       news timed-out
       deadline none
     )"},
    {"AsksAsOftenAsTheUserSays", "RFC 9293 3.8.4: \"This interval MUST be configurable (MUST-27)\"",
     R"(
       open
       news none
       keepalive-of 10s 2s 3
       +10s > ACK 0 ack 1
       x2 +2s > ACK 0 ack 1
       state established
       +2s
       state closed
       news timed-out
     )"},
    {"AnyAnswerBeginsAnew",
     "RFC 9293 3.8.4: no \"failure to respond to any specific probe\" ends it (MUST-29); an answer begins anew",
     R"(
       open
       keepalive 2min
       +2min > ACK 0 ack 1
       x8 +75s > ACK 0 ack 1
       +74s
       < ACK 1:11
       +40ms > ACK 1 ack 11
       +119.96s > ACK 0 ack 11
       x8 +75s > ACK 0 ack 11
       state established
     )"},
    {"NotWhileItHears",
     "RFC 9293 3.8.4: \"Keep-alive packets MUST only be sent when [...] no data or acknowledgment packets have been "
     "received for the connection within an interval (MUST-26)\"",
     R"(
       open
       keepalive 2min
       +119s
       < ACK 1:11
       +40ms > ACK 1 ack 11
       +119.96s > ACK 0 ack 11
     )"},
    {"NotWhileDataIsOutstanding",
     "RFC 9293 3.8.4: \"Keep-alive packets MUST only be sent when no sent data is outstanding\"",
     R"(
       open mss 1000
       keepalive 1min
       +59s
       send 100
       > ACK 1:101
       +300ms > ACK 1:101
       +600ms > ACK 1:101
       +1.2s > ACK 1:101
       < ACK 1 ack 101
       +1min > ACK 100 ack 1
     )"},
    {"OutOfItsPlaceIsNotHeard",
     "RFC 5961 5.2: what is out of its place \"MUST be discarded\", and so is no sign of life",
     R"(
       open
       keepalive 1min
       +59s
       < ACK 100000:100010
       > ACK 1 ack 1
       +1s > ACK 0 ack 1
     )"},
    {"OffAgain",
     "RFC 9293 3.8.4: \"the application MUST be able to turn them on or off for each TCP connection "
     "(MUST-24)\"",
     R"(
       open
       keepalive 1min
       +1min > ACK 0 ack 1
       keepalive 0s
       deadline none
     )"},
    {"HalfClosed", "RFC 9293 3.8.4: \"To confirm that an idle connection is still active\", half closed or not",
     R"(
       open
       keepalive 1min
       finish
       > FIN,ACK 1 ack 1
       < ACK 1 ack 2
       state fin_wait_2
       +1min > ACK 1 ack 1
       < FIN,ACK 1 ack 2
       > ACK 2 ack 2
       state time_wait
       +60s
       state closed
       deadline none
     )"},
    {"OfThePeer", "RFC 9293 3.10.7.4: a segment that is not acceptable is answered, and so the peer's probe is",
     R"(
       open
       < ACK 0 ack 1
       > ACK 1 ack 1
     )"},
    {"UserTimeoutIsSilent",
     "RFC 9293 3.10.8: \"flush all queues, signal the user 'error: connection aborted due to user timeout'\", and no "
     "segment",
     R"(
       open mss 1000
       keepalive 1min
       +1min > ACK 0 ack 1
       x8 +75s > ACK 0 ack 1
       +75s
       state closed
       < ACK 1:11
     )"},
};

TCP_SCRIPTS(TcpKeepAlive, keep_alive_cases);

constexpr tcp_script::Case buffer_cases[] = {
    {"LargerTakesMore",
     "RFC 9293 3.10.2: \"If there is insufficient space to remember this buffer\": how much there is, the user sets",
     R"(
       set sendbuf 5000
       open
       room 5000
       buffers 9000 65535
       room 9000
       buffers 4096 65535
       room 4096
     )"},
    {"LargerIsOffered", "RFC 9293 3.8.6.2.2: the window's edge advances by two segments at least",
     R"(
       set recvbuf 5000
       open
       < ACK 1:11
       +40ms > ACK 1 ack 11 win 4990
       buffers 5000 6000
       buffers 5000 60000
       > ACK 1 ack 11 win 59990
     )"},
    {"SmallerIsNotTakenBack", "RFC 9293 3.8.6: \"A TCP receiver SHOULD NOT shrink the window\"",
     R"(
       set recvbuf 60000
       open sackok
       buffers 5000 5000
       < ACK 1:11
       +40ms > ACK 1 ack 11 win 59990
       < ACK 59991:60001
       > ACK 1 ack 11 sack 59991-60001
     )"},
};

TCP_SCRIPTS(TcpBuffersOfAnOpenConnection, buffer_cases);

}  // namespace
}  // namespace sluice::test
