// SPDX-License-Identifier: Apache-2.0
// A TCP connection's windows, both ways, and when it acknowledges: as scripts (tests/stack/modules/tcp_script.h).

#include <gtest/gtest.h>

#include "tests/stack/modules/tcp_script.h"

namespace sluice::test {
namespace {

constexpr tcp_script::Part sending_parts[] = {
    {"window-closes", R"(
       > ACK 1:1001
       +100ms
       < ACK 1 ack 1001 win 0
     )"},
    {"window-gets-small", R"(
       open win 4000 mss 1000
       send 9000
       > 4 segments
       +100ms
       < ACK 1 ack 4001 win 500
     )"},
};

constexpr tcp_script::Case sending_cases[] = {
    {"FillsTheWindow",
     "RFC 9293 3.8.6: the window is \"the range of sequence numbers the sender of the window [...] is currently "
     "prepared to accept\"",
     R"(
       open win 3000 mss 1000
       send 5000
       > ACK 1:1001
       > ACK 1001:2001
       > ACK 2001:3001
       < ACK 1 ack 1001 win 3000
       > ACK 3001:4001
       < ACK 1 ack 3001 win 1000
       < ACK 1 ack 4001 win 1000
       > ACK 4001:5001
     )"},
    {"WindowUpdate", "RFC 9293 3.10.7.4: \"If SND.UNA =< SEG.ACK =< SND.NXT, the send window should be updated\"",
     R"(
       open win 1000 mss 1000
       send 3000
       > ACK 1:1001
       < ACK 1 ack 1 win 3000
       > ACK 1001:2001
       > ACK 2001:3001
     )"},
    {"OldSegmentSaysNothingOfTheWindow",
     "RFC 9293 3.10.7.4: \"The check here prevents using old segments to update the window.\"",
     R"(
       open win 1000 mss 1000
       send 4000
       > ACK 1:1001
       < ACK 1 ack 1001 win 1000
       > ACK 1001:2001
       < ACK 1 ack 1 win 9000
       < ACK 1 ack 2001 win 1000
       > ACK 2001:3001
     )"},
    {"AcknowledgmentsOfAnOlderPlaceSayNothing",
     "RFC 9293 3.10.7.4: \"If SND.UNA =< SEG.ACK =< SND.NXT, the send window should be updated\", and not otherwise",
     R"(
       open win 2000 mss 1000
       send 1000
       > ACK 1:1001
       < ACK 1 ack 1001
       < ACK 11:21 ack 1 win 10
       > ACK 1001 ack 1
       send 2000
       > 2 segments
     )"},
    {"SegmentsOfAnOlderPlaceSayNothing", "RFC 9293 3.10.7.4: SND.WL1 < SEG.SEQ, or the same and SND.WL2 =< SEG.ACK",
     R"(
       open win 1000 mss 1000
       send 4000
       > ACK 1:1001
       < ACK 11:21 ack 1 win 1000
       > ACK 1001 ack 1
       < ACK 1:11 ack 1 win 9000
       > ACK 1001 ack 21
     )"},
    {"ShrinksBehindWhatWasSent", "RFC 9293 3.8.6: \"a sending TCP peer MUST be robust against window shrinking\"",
     R"(
       open win 3000 mss 1000
       send 6000
       > 3 segments
       < ACK 1 ack 1001 win 500
       < ACK 1 ack 2001 win 500
       < ACK 1 ack 3001 win 3000
       > ACK 3001:4001
       > ACK 4001:5001
       > ACK 5001:6001
     )"},
    {"ShrinksToZero",
     "RFC 9293 3.8.6: \"If the window shrinks to zero, the TCP implementation MUST probe it in the standard way\"",
     R"(
       open win 3000 mss 1000
       send 3000
       > 3 segments
       +100ms
       < ACK 1 ack 1001 win 0
       +250ms > ACK 1001:1002
       < ACK 1 ack 1002 win 1000
       > ACK 1002:2001
       < ACK 1 ack 3001 win 1000
       done yes
     )"},
    {"ZeroWindowIsProbed",
     "RFC 9293 3.8.6.1: \"at least one octet of new data\", the first \"when a zero window has existed for the "
     "retransmission timeout period\", and \"SHOULD increase exponentially the interval between successive probes\"",
     R"(
       open win 1000 mss 1000
       send 3000
       do window-closes
       x2 +250ms doubled > ACK 1001:1002 then < ACK 1 ack 1001 win 0
       x2 +1s doubled > ACK 1001:1002
       < ACK 1 ack 1001 win 2000
       > ACK 1001:1002
       > ACK 1002:2002
       < ACK 1 ack 2002 win 2000
       > ACK 2002:3001
     )"},
    {"ProbeIsTaken", "RFC 9293 3.8.6.1: a peer may take the octet of the probe",
     R"(
       open win 1000 mss 1000
       send 3000
       do window-closes
       +250ms > ACK 1001:1002
       < ACK 1 ack 1002 win 1000
       > ACK 1002:2002
       < ACK 1 ack 2002
       > ACK 2002:3001
     )"},
    {"ProbesNeverEnd",
     "RFC 9293 3.8.6.1: \"As long as the receiving TCP peer continues to send acknowledgments in response to the probe "
     "segments, the sending TCP peer MUST allow the connection to stay open\"",
     R"(
       open win 1000 mss 1000
       send 3000
       do window-closes
       x8 +250ms doubled > ACK 1001:1002 then < ACK 1 ack 1001
       x2 +60s > ACK 1001:1002 then < ACK 1 ack 1001
       x4 +60s > ACK 1001:1002
       < ACK 1 ack 1001
       x4 +60s > ACK 1001:1002
       state established
     )"},
    {"ProbesAreNoDuplicates",
     "RFC 5681 2: what answers probes is no sign of a loss: the congestion window stays what it was",
     R"(
       open win 1000 mss 1000
       send 30000
       do window-closes
       x3 +250ms doubled > ACK 1001:1002 then < ACK 1 ack 1001
       +2s > ACK 1001:1002
       < ACK 1 ack 1002 win 65535
       > 10 segments
     )"},
    {"ProbesBeginAnew", "RFC 9293 3.8.6.1: the interval of probes grows while the window stays zero",
     R"(
       open win 1000 mss 1000
       send 3000
       do window-closes
       x2 +250ms doubled > ACK 1001:1002
       < ACK 1 ack 1002 win 1000
       > ACK 1002:2002
       < ACK 1 ack 2002 win 0
       +300ms > ACK 2002:2003
     )"},
    {"ProbesOfADeadPeerEnd", "RFC 9293 3.8.3: who does not answer probes either is given up",
     R"(
       open win 1000 mss 1000
       send 3000
       do window-closes
       x8 +250ms doubled > ACK 1001:1002
       x3 +60s > ACK 1001:1002
       +60s
       state closed
       news acknowledged timed-out
     )"},
    {"NothingToSendNothingToProbe",
     "RFC 9293 3.8.6.1: \"at least one octet of new data (if available)\": with nothing to send a zero window is not "
     "probed",
     R"(
       open win 0 mss 1000
       deadline none
       send 10
       +300ms > ACK 1:2
     )"},
    {"SillyWindow", "RFC 9293 3.8.6.2.1: (1) a maximum-sized segment, or (3) a half of the largest window",
     R"(
       do window-gets-small
       < ACK 1 ack 4001 win 999
       < ACK 1 ack 4001 win 1000
       > ACK 4001:5001
     )"},
    {"SillyWindowHalf", "RFC 9293 3.8.6.2.1: \"(3) or if at least a fraction Fs of the maximum window can be sent\"",
     R"(
       open win 800 mss 1000
       send 2000
       > ACK 1:801
       < ACK 1 ack 801 win 399
       < ACK 1 ack 801 win 400
       > ACK 801:1201
     )"},
    {"NagleInASmallWindow", "RFC 9293 3.8.6.2.1: the half of the window counts for what the window holds back",
     R"(
       open win 800 mss 1000
       send 400
       > ACK 1:401
       send 400
       < ACK 1 ack 401
       > ACK 401:801
     )"},
    {"SillyWindowEnds", "RFC 9293 3.8.6.2.1: \"(4) or if the override timeout occurs\": what fits is sent",
     R"(
       do window-gets-small
       +250ms > ACK 4001:4501
       < ACK 1 ack 4501 win 500
       state established
     )"},
    {"Nagle",
     "RFC 9293 3.7.4: \"If there is unacknowledged data [...] then the sending TCP endpoint buffers all user data "
     "[...] until the outstanding data has been acknowledged or until the TCP endpoint can send a full-sized segment\"",
     R"(
       open mss 1000
       send 100
       > ACK 1:101
       send 100
       send 100
       < ACK 1 ack 101
       > ACK 101:301
       send 400
       send 700
       > ACK 301:1301
       < ACK 1 ack 1301
       > ACK 1301:1401
     )"},
    {"NagleOff",
     "RFC 9293 3.7.4: \"there MUST be a way for an application to disable the Nagle algorithm on an individual "
     "connection\"",
     R"(
       set nodelay
       open mss 1000
       send 100
       > ACK 1:101
       send 100
       > ACK 101:201
     )"},
    {"NagleOffLater", "RFC 9293 3.7.4: on an individual connection, at any time",
     R"(
       open mss 1000
       send 100
       > ACK 1:101
       nodelay
       send 100
       > ACK 101:201
     )"},
    {"FinEndsNagle", "RFC 9293 3.7.4: small data does not wait where the user has ended",
     R"(
       open mss 1000
       send 100
       > ACK 1:101
       send 100
       finish
       > FIN,ACK 101:201
     )"},
    {"Push", "RFC 9293 3.9.1.2: \"MUST set the PSH bit in the last buffered segment\"",
     R"(
       open mss 1000
       send 2000
       > ACK 1:1001 no-psh
       > ACK 1001:2001 psh
     )"},
    {"Scale", "RFC 7323 2.3: SND.WND = SEG.WND << Snd.Wind.Shift",
     R"(
       open win 65535 scale 3 mss 1000
       send 3000
       > 3 segments
       < ACK 1 ack 3001 win 250
       send 3000
       > ACK 3001:4001
       > ACK 4001:5001
     )"},
    {"ScaleAtMost14", "RFC 7323 2.3: \"MUST use 14 instead of the specified value\"",
     R"(
       open win 65535 scale 15 mss 1000
       < ACK 1 ack 1 win 0
       < ACK 1 ack 1 win 1
       send 100000
       > 10 segments
       +100ms
       < ACK 1 ack 10001 win 1
       > 16 segments
       +100ms
       < ACK 1 ack 26001
       > 16 segments
     )"},
    {"SendRoom",
     "RFC 9293 3.10.7.4: \"segments on the retransmission queue that are thereby entirely acknowledged are removed\"",
     R"(
       set sendbuf 5000
       open mss 1000 win 2000
       room 5000
       send 4000
       > 2 segments
       room 1000
       send 3000
       room 0
       < ACK 1 ack 2001
       > 2 segments
       room 0
       news acknowledged
       < ACK 1 ack 4001
       > 2 segments
       room 2000
       < ACK 1 ack 6001
       > ACK 6001:7001
       < ACK 1 ack 7001
       room 5000
       done yes
     )"},
};

TCP_SCRIPTS(TcpSending, sending_cases, sending_parts);

constexpr tcp_script::Case receiving_cases[] = {
    {"DelayedAcknowledgment", "RFC 9293 3.8.6.3: \"the delay MUST be less than 0.5 seconds\"",
     R"(
       open
       < ACK 1:101
       +40ms > ACK 1 ack 101
       deadline none
       take 100
     )"},
    {"EverySecondSegment",
     "RFC 9293 3.8.6.3: \"An ACK SHOULD be generated for at least every second full-sized segment\"",
     R"(
       open
       < ACK 1:1001
       < ACK 1001:2001
       > ACK 1 ack 2001
       < ACK 2001:3001
       +39ms
       < ACK 3001:4001
       > ACK 1 ack 4001
       deadline none
     )"},
    {"SegmentsThatComeTogether",
     "RFC 9293 3.8.6.3: \"there are several current practices that further lead to a reduced number of ACKs, including "
     "generic receive offload (GRO)\"",
     R"(
       open
       << ACK 1:1001
       << ACK 1001:2001
       < ACK 2001:3001
       > ACK 1 ack 3001
       deadline none
       << ACK 3001:4001
       send 10
       > ACK 1:11 ack 4001
       < ACK 4001:5001 ack 11
       +40ms > ACK 11 ack 5001
     )"},
    {"EveryEighth", "as above: a sender's window may grow by eight segments for one acknowledgment (RFC 9406 4.3)",
     R"(
       open
       << ACK 1:101
       << ACK 101:201
       << ACK 201:301
       << ACK 301:401
       << ACK 401:501
       << ACK 501:601
       << ACK 601:701
       << ACK 701:801
       > ACK 1 ack 801
       << ACK 801:901
       < ACK 901:1001
       > ACK 1 ack 1001
       < ACK 1001:1101
       +40ms > ACK 1 ack 1101
     )"},
    {"TogetherOutOfOrder",
     "RFC 5681 4.2: \"Out-of-order data segments SHOULD be acknowledged immediately\": each, whatever comes with it",
     R"(
       open
       << ACK 1001:2001
       > ACK 1 ack 1
       << ACK 2001:3001
       > ACK 1 ack 1
       << ACK 3001:4001
       > ACK 1 ack 1
       < ACK 1:1001
       > ACK 1 ack 4001
     )"},
    {"AcknowledgmentWithData",
     "RFC 9293 3.10.7.4: \"This acknowledgment should be piggybacked on a segment being transmitted if possible\"",
     R"(
       open mss 1000
       < ACK 1:101
       send 50
       > ACK 1:51 ack 101
       < ACK 101 ack 51
       deadline none
       < ACK 101:201
       < ACK 201:301
       > ACK 51 ack 301
     )"},
    {"OutOfOrder", "RFC 5681 4.2: \"Out-of-order data segments SHOULD be acknowledged immediately\"",
     R"(
       open
       < ACK 1001:2001
       > ACK 1 ack 1
       < ACK 2001:3001
       > ACK 1 ack 1
     )"},
    {"FilledGap",
     "RFC 5681 3.2: \"SHOULD send an immediate ACK when the incoming segment fills in all or part of a gap in the "
     "sequence space\"",
     R"(
       open
       < ACK 1001:2001
       > ACK 1 ack 1
       < ACK 1:501
       > ACK 1 ack 501
       < ACK 501:1001
       > ACK 1 ack 2001
       take 2000
       < ACK 2001:2101
       +40ms > ACK 1 ack 2101
     )"},
    {"OldData",
     "RFC 9293 3.10.7.4: \"If an incoming segment is not acceptable, an acknowledgment should be sent in reply\"",
     R"(
       open
       < ACK 1:101
       +40ms > ACK 1 ack 101
       < ACK 1:101
       > ACK 1 ack 101
       < ACK 51:101
       > ACK 1 ack 101
       take 100
     )"},
    {"HalfOldData",
     "RFC 9293 3.10.7.4: \"If a segment's contents straddle the boundary between old and new, only the new parts are "
     "processed.\"",
     R"(
       open
       < ACK 1:101
       +40ms > ACK 1 ack 101
       < ACK 51:151
       +40ms > ACK 1 ack 151
       take 150
     )"},
    {"WhatCameFirstStays",
     "RFC 9293 3.10: \"When a segment overlaps other already received segments, we reconstruct the segment to contain "
     "just the new data\"",
     R"(
       open
       < ACK 101:201
       > ACK 1 ack 1
       < ACK 151:251 other
       > ACK 1 ack 1
       < ACK 201:251
       > ACK 1 ack 1
       < ACK 1:151
       > ACK 1 ack 251
       < ACK 201:211 other
       > ACK 1 ack 251
     )"},
    {"WhatCameFirstStaysInOrder", "RFC 9293 3.10: bytes that came are never changed",
     R"(
       open
       < ACK 101:201
       > ACK 1 ack 1
       < ACK 101:201 other
       > ACK 1 ack 1
       < ACK 1:101
       > ACK 1 ack 201
       < ACK 1:201 other
       > ACK 1 ack 201
       take 200
     )"},
    {"BeyondTheWindow", "RFC 9293 3.10.7.4: \"trimming off any portions that lie outside the window\"",
     R"(
       set recvbuf 1000
       open
       < ACK 1:1201
       +40ms > ACK 1 ack 1001 win 0
       take 1000
       > ACK 1 ack 1001 win 1000
     )"},
    {"FinBeyondTheWindow", "RFC 9293 3.10.7.4: \"(including SYN and FIN)\"",
     R"(
       set recvbuf 1000
       open
       < FIN,ACK 1:1201
       > ACK 1 ack 1001 win 0
       state established
       take 1000
       > ACK 1 ack 1001 win 1000
       < ACK 1001:1201
       +40ms > ACK 1 ack 1201
       state established
       < FIN,ACK 1201
       > ACK 1 ack 1202
       state close_wait
       take 200
     )"},
    {"ZeroWindow",
     "RFC 9293 3.8.6.1: \"it must still send an acknowledgment showing its next expected sequence number and current "
     "window (zero)\"",
     R"(
       set recvbuf 2000
       open
       < ACK 1:1001
       < ACK 1001:2001
       > ACK 1 ack 2001 win 0
       < ACK 2001:2002
       > ACK 1 ack 2001 win 0
       < ACK 2001 ack 1
       < FIN,ACK 2001
       > ACK 1 ack 2001 win 0
       state established
       take 2000
       > ACK 1 ack 2001 win 2000
     )"},
    {"AcknowledgmentsThroughAZeroWindow",
     "RFC 9293 3.10.7.4: \"special allowance should be made to accept valid ACKs\"",
     R"(
       set recvbuf 1000
       open mss 1000
       < ACK 1:1001
       +40ms > ACK 1 ack 1001 win 0
       send 1000
       > ACK 1:1001
       < ACK 1001:1002 ack 1001
       > ACK 1001 ack 1001 win 0
       done yes
       send 100
       > ACK 1001:1101
       < ACK 1001 ack 1101
       done yes
     )"},
    {"ResetThroughAZeroWindow", "RFC 9293 3.10.7.4: \"to accept valid ACKs, URGs, and RSTs\"",
     R"(
       set recvbuf 1000
       open
       < ACK 1:1001
       +40ms > ACK 1 ack 1001 win 0
       < RST 1002
       < RST 1001
       state closed
       news reset
     )"},
    {"SillyWindow",
     "RFC 9293 3.8.6.2.2: \"to keep RCV.NXT+RCV.WND fixed until the reduction satisfies\" the half of the buffer, or "
     "two segments here",
     R"(
       set recvbuf 10000
       open
       < ACK 1:1001
       take 1000
       +40ms > ACK 1 ack 1001 win 9000
       < ACK 1001:2001
       take 1000
       +40ms > ACK 1 ack 2001 win 8000
       < ACK 2001:2921
       take 920
       > ACK 1 ack 2921 win 10000
     )"},
    {"SillyWindowOfASmallBuffer", "RFC 9293 3.8.6.2.2: min( Fr * RCV.BUFF, Eff.snd.MSS )",
     R"(
       set recvbuf 1000
       open
       < ACK 1:500
       take 499
       +40ms > ACK 1 ack 500 win 501
       < ACK 500:501
       take 1
       > ACK 1 ack 501 win 1000
     )"},
    {"NoUpdateWhereNothingChanges",
     "RFC 7323 2.2: without scaling the window is 64 KiB at most, and room beyond it is nothing new",
     R"(
       open
       < ACK 1:101
       take 100
       +40ms > ACK 1 ack 101
     )"},
    {"Scale", "RFC 7323 2.3: SEG.WND = RCV.WND >> Rcv.Wind.Shift",
     R"(
       set recvbuf 1000000
       connect
       > SYN 0 win 65535 scale 4
       < SYN,ACK 0 ack 1 scale 2
       > ACK 1 ack 1 win 62500
       < ACK 1:1001
       < ACK 1001:2001
       > ACK 1 ack 2001 win 62375
     )"},
    {"ScaleOfAnAnswer", "RFC 7323 2.2: the window of a segment with SYN \"MUST NOT be scaled\"",
     R"(
       set recvbuf 1000000
       < SYN 0 scale 2
       > SYN,ACK 0 ack 1 win 65535 scale 4
       < ACK 1 ack 1
       < ACK 1:1001
       < ACK 1001:2001
       > ACK 1 ack 2001 win 62375
     )"},
    {"NoScaleWithoutThePeers", "RFC 7323 2.2: both sides must send the option to enable window scaling",
     R"(
       set recvbuf 1000000
       < SYN 0
       > SYN,ACK 0 ack 1 win 65535 no-scale
       < ACK 1 ack 1
       < ACK 1:1001
       < ACK 1001:2001
       > ACK 1 ack 2001 win 63535
     )"},
    {"ScaledWindowNeverShrinks", "RFC 7323 2.4: what was offered is taken, though the field is rounded",
     R"(
       set recvbuf 262140
       open scale 0
       < ACK 1:4
       < ACK 4:7
       > ACK 1 ack 7 win 65533
       < ACK 262140:262141
       > ACK 1 ack 7
       count unacceptable 0
       < ACK 262141:262142
       > ACK 1 ack 7
       count unacceptable 1
     )"},
};

TCP_SCRIPTS(TcpReceiving, receiving_cases);

}  // namespace
}  // namespace sluice::test
