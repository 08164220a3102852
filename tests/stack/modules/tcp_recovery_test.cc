// SPDX-License-Identifier: Apache-2.0
// What a TCP connection does about losses, and how much it sends: as scripts (tests/stack/modules/tcp_script.h). The
// round trip of the SYN is 100 ms, so that the first timeout is 300 ms (RFC 6298 2.2).

#include <gtest/gtest.h>

#include "tests/stack/modules/tcp_script.h"

namespace sluice::test {
namespace {

constexpr tcp_script::Part recovery_parts[] = {
    {"second-of-three-arrives", R"(
       open mss 1000 sackok
       send 3000
       > 3 segments
       +100ms
       < ACK 1 ack 1 sack 1001-2001
     )"},
    {"second-of-ten-arrives", R"(
       open mss 1000 sackok
       send 10000
       > 10 segments
       +100ms
       < ACK 1 ack 1 sack 1001-2001
     )"},
    {"first-of-ten-is-lost", R"(
       > 10 segments
       +100ms
       < ACK 1 ack 1 sack 1001-4001
       > ACK 1:1001
     )"},
    {"window-grows", R"(
       open mss 1000
       send 30000
       > 10 segments
       < ACK 1 ack 10001
       > 18 segments
       < ACK 1 ack 22001
       > 2 segments
       < ACK 1 ack 30001
     )"},
    {"first-of-two-times-out", R"(
       send 2920
       > ACK 1:1461
       > ACK 1461:2921
       x3 +300ms doubled > ACK 1:1461
     )"},
    {"shrinks", R"(
       send 1460
       > ACK 1:1461
       x3 +300ms doubled > ACK 1:1461
       +2400ms > ACK 1:985
     )"},
    {"larger-one-arrives", R"(
       < ACK 1 ack 985
       > ACK 985:1461
       < ACK 1 ack 1461
     )"},
};

constexpr tcp_script::Case timeout_cases[] = {
    {"Doubles", "RFC 6298 5.5: \"The host MUST set RTO <- RTO * 2\"",
     R"(
       open mss 500
       send 500
       > ACK 1:501
       x3 +300ms doubled > ACK 1:501
       < ACK 1 ack 501
       done yes
       deadline none
       count timeouts 3
       count again 3
     )"},
    {"StaysDoubled",
     "RFC 9293 3.8.2: \"keeping the backed-off value until a subsequent segment with new data has been sent and "
     "acknowledged without retransmission\"",
     R"(
       open mss 1000
       send 100
       > ACK 1:101
       +300ms > ACK 1:101
       < ACK 1 ack 101
       send 100
       > ACK 101:201
       +100ms
       < ACK 1 ack 201
       send 100
       > ACK 201:301
       +250ms > ACK 201:301
     )"},
    {"StaysDoubledUntilMeasured",
     "RFC 6298 3: Karn's algorithm: \"RTT samples MUST NOT be made using segments that were retransmitted\"",
     R"(
       open mss 1000
       send 100
       > ACK 1:101
       +300ms > ACK 1:101
       +100ms
       < ACK 1 ack 101
       send 100
       > ACK 101:201
       +600ms > ACK 101:201
     )"},
    {"BeginsAnew", "RFC 6298 5.3: on an acknowledgment of new data, \"restart the retransmission timer\"",
     R"(
       open mss 1000
       send 2000
       > ACK 1:1001
       > ACK 1001:2001
       +100ms
       < ACK 1 ack 1001
       +250ms > ACK 1001:2001
     )"},
    {"NotByOthers", "RFC 6298 5.3: only new data begins it anew",
     R"(
       open mss 1000
       send 1000
       > ACK 1:1001
       +200ms
       < ACK 1 ack 1
       < ACK 1:11 ack 1
       +40ms > ACK 1001 ack 11
       +60ms > ACK 1:1001
     )"},
    {"OneSegment",
     "RFC 5681 3.1: \"upon a timeout [...] cwnd MUST be set to no more than the loss window, LW, which equals 1 "
     "full-sized segment\"",
     R"(
       open mss 1000
       send 10000
       > 10 segments
       +300ms > ACK 1:1001
       < ACK 1 ack 1001
       > ACK 1001:2001
       > ACK 2001:3001
       < ACK 1 ack 3001
       > 4 segments
       < ACK 1 ack 10001
       done yes
       count timeouts 1
     )"},
    {"HalfTheFlightIsTheThreshold", "RFC 5681 3.1 (4): ssthresh = max (FlightSize / 2, 2*SMSS)",
     R"(
       open mss 1000
       send 50000
       > 10 segments
       +300ms > ACK 1:1001
       < ACK 1 ack 1001
       > 2 segments
       < ACK 1 ack 10001
       > 4 segments
       < ACK 1 ack 12001
       > 4 segments
       < ACK 1 ack 14001
       > 2 segments
       < ACK 1 ack 17001
       > 3 segments
       < ACK 1 ack 18001
       > 2 segments
     )"},
    {"ProgressIsNoSilence",
     "RFC 9293 3.8.3: R2 measures \"the amount of retransmission that has occurred for the same segment\"",
     R"(
       open win 500 mss 500
       send 1500
       > ACK 1:501
       x8 +300ms doubled > ACK 1:501
       x3 +60s > ACK 1:501
       < ACK 1 ack 501
       > ACK 501:1001
       x4 +60s > ACK 501:1001
       state established
     )"},
    {"IdleIsNoSilence", "RFC 9293 3.8.3: where nothing was sent nothing is waited for",
     R"(
       open mss 1000
       +10min
       send 100
       > ACK 1:101
       +300ms > ACK 1:101
       < ACK 1 ack 101
       +10min
       send 100
       > ACK 101:201
       +600ms > ACK 101:201
       state established
     )"},
    {"IsOver", "RFC 7661 4.3: behind a timeout, too, a window that is not used does not grow",
     R"(
       open mss 1000
       send 1000
       > ACK 1:1001
       +300ms > ACK 1:1001
       < ACK 1 ack 1001
       send 1000
       > ACK 1001:2001
       < ACK 1 ack 2001
       send 9000
       > 2 segments
     )"},
    {"TailLoss",
     "RFC 6298 5.4: \"Retransmit the earliest segment that has not been acknowledged\": what is lost at the end is "
     "found so",
     R"(
       open mss 1000 sackok
       send 3000
       > 3 segments
       +100ms
       < ACK 1 ack 2001
       +250ms > ACK 2001:3001
       < ACK 1 ack 3001
       done yes
     )"},
    {"KnownToHaveArrived", "RFC 2018 5: what was SACKed is not sent again after a timeout",
     R"(
       do second-of-three-arrives
       +25ms > ACK 1:1001
       +175ms > ACK 1:1001
       < ACK 1 ack 2001
       > ACK 2001:3001
     )"},
    {"Reneged",
     "RFC 2018 8: \"MUST retransmit the segment at the left edge of the window after a retransmit timeout, whether or "
     "not the SACKed bit is on for that segment\"",
     R"(
       open mss 1000 sackok
       send 3000
       > 3 segments
       +100ms
       < ACK 1 ack 1 sack 1001-3001
       +25ms > ACK 1:1001
       +100ms
       < ACK 1 ack 1001
       +250ms > ACK 1001:2001
       < ACK 1 ack 2001
       > ACK 2001:3001
       < ACK 1 ack 3001
       done yes
     )"},
};

TCP_SCRIPTS(TcpTimeout, timeout_cases, recovery_parts);

constexpr tcp_script::Case black_hole_cases[] = {
    {"Shrinks",
     "RFC 4821 7.7: \"a full-stop timeout\": \"set eff_pmtu to search_low\", and upon further ones they \"SHOULD be "
     "halved\"",
     R"(
       open mss 1460
       do first-of-two-times-out
       +2400ms > ACK 1:985
       +4800ms > ACK 1:537
       +9600ms > ACK 1:537
       < ACK 1 ack 537
       > ACK 537:985
       > ACK 985:1461
       < ACK 1 ack 1461
       > ACK 1461:1997
       > ACK 1997:2533
       > ACK 2533:2921
       < ACK 1 ack 2921
       send 1000
       > ACK 2921:3457
     )"},
    {"ShrinksToWhatEveryHostOfIpv6Takes",
     "RFC 4821 7.7: \"with a lower bound of 68 bytes for IPv4 and 1280 bytes for IPv6\", packets with their headers",
     R"(
       set v6
       open mss 1440
       send 1440
       > ACK 1:1441
       x3 +300ms doubled > ACK 1:1441
       +2400ms > ACK 1:1221
       +4800ms > ACK 1:1221
       < ACK 1 ack 1221
       > ACK 1221:1441
     )"},
    {"AnAnswerBeginsAnew", "RFC 9293 3.8.3: R1 counts retransmissions \"of the same segment\"",
     R"(
       open mss 1460
       do first-of-two-times-out
       < ACK 1 ack 1461
       > ACK 1461:2921
       x3 +2400ms doubled > ACK 1461:2921
       < ACK 1 ack 2921
     )"},
    {"ADuplicateAcknowledgementTellsOfAnArrival",
     "RFC 5681 3.2: a duplicate acknowledgment tells \"that a segment was received out-of-order\": it was received",
     R"(
       open mss 1460
       send 1460
       > ACK 1:1461
       x3 +300ms doubled > ACK 1:1461
       < ACK 1 ack 1
       x3 +2400ms doubled > ACK 1:1461
       +19200ms > ACK 1:985
     )"},
    {"ASelectiveOneDoesToo",
     "RFC 2018 3: it informs of \"non-contiguous blocks of data that have been received\": a path that loses much is "
     "none that takes less",
     R"(
       open mss 1460 sackok
       do first-of-two-times-out
       < ACK 1 ack 1 sack 1461-2921
       +2400ms > ACK 1:1461
       +5s > ACK 1:1461
       +10s > ACK 1:1461
       +20s > ACK 1:985
     )"},
    {"AReasonIsNoSilence", "RFC 4821 7.7: \"and there was not an ICMP message indicating a reason\"", R"(
       open mss 1460
       send 1460
       > ACK 1:1461
       x3 +300ms doubled > ACK 1:1461
       error 113
       x3 +2400ms doubled > ACK 1:1461
       +19200ms > ACK 1:985
     )"},
    {"WhatDidNotLeaveIsNotTooLarge",
     "RFC 9293 3.8.3: R1 counts retransmissions, which there are none of without memory",
     R"(
       open mss 1460
       send 1460
       > ACK 1:1461
       memory off
       +300ms
       +600ms
       +1200ms
       +2400ms
       memory on
       x3 +4800ms doubled > ACK 1:1461
       +38400ms > ACK 1:985
     )"},
    {"SmallIsNotTooLarge",
     "RFC 4821 7.7: a full-stop timeout of what a smaller packet carries whole tells nothing of the MTU",
     R"(
       open mss 1460
       send 984
       > ACK 1:985
       x4 +300ms doubled > ACK 1:985
       < ACK 1 ack 985
       send 1460
       > ACK 985:2445
     )"},
    {"ALargerOneIsTriedAtOnce",
     "RFC 4821 7.6.1: \"If the probe size is larger than the eff_pmtu, raise eff_pmtu to the probe size\": the path "
     "was "
     "away altogether",
     R"(
       open mss 1460
       do shrinks
       do larger-one-arrives
       send 30000
       > ACK 1461:2445
       > ACK 2445:3429
       < ACK 1 ack 3429
       > 4 segments
       < ACK 1 ack 7365
       > ACK 7365:8825
       > ACK 8825:9809
       > ACK 9809:10793
       > ACK 10793:11777
       < ACK 1 ack 8825
       > ACK 11777:13237
     )"},
    {"OneThatIsLostIsNoCongestion",
     "RFC 4821 7.6.2: \"In this case alone, the loss SHOULD NOT be interpreted as congestion signal\"",
     R"(
       open mss 1460 sackok
       do shrinks
       do larger-one-arrives
       send 30000
       > ACK 1461:2445
       > ACK 2445:3429
       +10ms
       < ACK 1 ack 3429
       > 4 segments
       +10ms
       < ACK 1 ack 7365
       > ACK 7365:8825
       > ACK 8825:9809
       > ACK 9809:10793
       > ACK 10793:11777
       +10ms
       < ACK 1 ack 7365 sack 8825-9809
       > ACK 11777:12761
       < ACK 1 ack 7365 sack 8825-10793
       > ACK 12761:13745
       < ACK 1 ack 7365 sack 8825-11777
       > ACK 7365:8349
       > ACK 8349:8825
       > ACK 13745:14729
     )"},
    {"ThreeThatAreLostAreEnough",
     "RFC 8899 5.1.1: PROBE_TIMER \"SHOULD be larger than 15 seconds\", PMTU_RAISE_TIMER is \"600 seconds\"; 5.1.2: "
     "\"The default value of MAX_PROBES is 3\"",
     R"(
       open mss 1460
       do shrinks
       do larger-one-arrives
       send 9840
       > 2 segments
       < ACK 1 ack snd
       > 4 segments
       < ACK 1 ack snd
       > 4 segments
       < ACK 1 ack snd
       send 4412
       > ACK 11301:12761
       > 3 segments
       x3 < ACK 1 ack una
       > ACK 11301:12285
       > ACK 12285:12761
       < ACK 1 ack snd
       +15s
       send 3936
       > ACK 15713:16697
       > 3 segments
       < ACK 1 ack snd
       +1s
       send 4412
       > ACK 19649:21109
       > 3 segments
       x3 < ACK 1 ack una
       > 2 segments
       < ACK 1 ack snd
       +16s
       send 4412
       > ACK 24061:25521
       > 3 segments
       x3 < ACK 1 ack una
       > 2 segments
       < ACK 1 ack snd
       +599s
       send 4920
       > ACK 28473:29457
       > 4 segments
       < ACK 1 ack snd
       +1s
       send 4412
       > ACK 33393:34853
       > 3 segments
       < ACK 1 ack snd
     )"},
    {"AnotherSizeIsTried",
     "RFC 8899 5.3.1: \"a new probe of the same size or any other size (determined by the search algorithm) can be "
     "sent\": that of Ethernet",
     R"(
       set mss 8960
       open mss 8960 win 65535
       send 8960
       > ACK 1:8961
       x3 +300ms doubled > ACK 1:8961
       +2400ms > ACK 1:985
       < ACK 1 ack 985
       > ACK 985:1969
       < ACK 1 ack 8961
       send 40000
       > 2 segments
       < ACK 1 ack snd
       > 4 segments
       < ACK 1 ack snd
       > 8 segments
       < ACK 1 ack snd
       > ACK 22737:31697
       > 6 segments
       x3 < ACK 1 ack 22737
       > 10 segments
       < ACK 1 ack snd
       > 11 segments
       < ACK 1 ack snd
       > ACK 48425:48961
       < ACK 1 ack snd
       +16s
       send 30000
       > ACK 48961:50421
       > 8 segments
       < ACK 1 ack snd
       > ACK 58293:59753
       > 12 segments
       < ACK 1 ack snd
       > 1 segments
       < ACK 1 ack snd
       > ACK 78733:78961
       < ACK 1 ack snd
       +600s
       send 30000
       > ACK 78961:87921
       > 3 segments
       < ACK 1 ack snd
       > ACK 92301:101261
     )"},
    {"WhatThePathIsSaidToTakeStays",
     "RFC 9293 3.7.2: segments follow the path's MTU, told of while they are smaller, too",
     R"(
       open mss 1460
       do shrinks
       path 1200
       < ACK 1 ack 985
       > ACK 985:1461
       < ACK 1 ack 1461
       send 30000
       > 2 segments
       < ACK 1 ack snd
       > 4 segments
       < ACK 1 ack snd
       > ACK 7365:8565
       > 3 segments
       < ACK 1 ack 8565
       > ACK 11517:12717
       < ACK 1 ack snd
       > ACK 12717:13917
       > 4 segments
     )"},
};

TCP_SCRIPTS(TcpBlackHole, black_hole_cases, recovery_parts);

constexpr tcp_script::Case fast_cases[] = {
    {"ThreeDuplicates",
     "RFC 5681 3.2: \"The TCP sender SHOULD use the \"fast retransmit\" algorithm\": the third duplicate is the sign "
     "of a loss",
     R"(
       open mss 1000
       send 5000
       > 5 segments
       +100ms
       < ACK 1 ack 1
       < ACK 1 ack 1
       < ACK 1 ack 1
       > ACK 1:1001
       < ACK 1 ack 1
       +100ms
       < ACK 1 ack 5001
       done yes
       count timeouts 0
     )"},
    {"NoDuplicates", "RFC 5681 2: a duplicate carries no data, has the same window, and something is outstanding",
     R"(
       open mss 1000
       < ACK 1 ack 1
       send 3000
       > 3 segments
       < ACK 1:11 ack 1
       < ACK 11:21 ack 1
       > ACK 3001 ack 21
       < ACK 21 ack 1 win 60000
       < ACK 21 ack 1 win 59000
       < ACK 21 ack 1 win 58000
       < ACK 21 ack 1
       < ACK 21 ack 1
     )"},
    {"DuplicatesBeginAnew", "RFC 5681 2: the acknowledgment number is equal to the greatest received",
     R"(
       open mss 1000
       send 5000
       > 5 segments
       < ACK 1 ack 1
       < ACK 1 ack 1
       < ACK 1 ack 1001
       < ACK 1 ack 1001
       < ACK 1 ack 1
       < ACK 1 ack 1001
       < ACK 1 ack 1001
       > ACK 1001:2001
     )"},
    {"PartialAcknowledgment",
     "RFC 6582 3.2 (3): a partial acknowledgment: \"retransmit the first unacknowledged segment\"",
     R"(
       open mss 1000
       send 6000
       > 6 segments
       +100ms
       x2 < ACK 1 ack 1
       < ACK 1 ack 1
       > ACK 1:1001
       +100ms
       < ACK 1 ack 2001
       > ACK 2001:3001
       +100ms
       < ACK 1 ack 6001
       done yes
       count timeouts 0
     )"},
    {"NotTwiceForTheSame",
     "RFC 6582 3.2 (2): fast retransmit begins where \"the Cumulative Acknowledgment field covers more than recover\"",
     R"(
       open mss 1000
       send 20000
       > 10 segments
       +300ms > ACK 1:1001
       < ACK 1 ack 10001
       > 3 segments
       x5 < ACK 1 ack 10001
       +100ms
       < ACK 1 ack 11001
       > 2 segments
       x2 < ACK 1 ack 11001
       < ACK 1 ack 11001
       > ACK 11001:12001
     )"},
    {"ThreeSacked", "RFC 8985 6.2: when three segments behind a gap have arrived there is no time to wait",
     R"(
       open mss 1000 sackok
       send 5000
       > 5 segments
       +100ms
       < ACK 1 ack 1 sack 1001-2001
       < ACK 1 ack 1 sack 1001-3001
       < ACK 1 ack 1 sack 1001-4001
       > ACK 1:1001
       < ACK 1 ack 1 sack 1001-5001
       +100ms
       < ACK 1 ack 5001
       done yes
       count timeouts 0
       count again 1
     )"},
    {"LessThanThree", "RFC 8985 6.2: before, the reordering window is a quarter of the least round trip",
     R"(
       do second-of-three-arrives
       +25ms > ACK 1:1001
     )"},
    {"OnlyReordered", "RFC 8985 6.2: what arrives within the reordering window is not lost",
     R"(
       do second-of-three-arrives
       +24ms
       < ACK 1 ack 3001
       done yes
       deadline none
     )"},
    {"ReorderingIsRemembered", "RFC 8985 6.2: once reordering was seen, three segments are no sign",
     R"(
       do second-of-ten-arrives
       < ACK 1 ack 2001
       < ACK 1 ack 2001 sack 3001-6001
       +25ms > ACK 2001:3001
     )"},
    {"TwoHoles",
     "RFC 6675 5: the first that is lost leaves at once, the next when so much has arrived that there is room",
     R"(
       do second-of-ten-arrives
       < ACK 1 ack 1 sack 3001-4001,1001-2001
       < ACK 1 ack 1 sack 3001-5001,1001-2001
       > ACK 1:1001
       < ACK 1 ack 1 sack 3001-6001,1001-2001
       < ACK 1 ack 1 sack 3001-7001,1001-2001
       > ACK 2001:3001
       < ACK 1 ack 1 sack 3001-10001,1001-2001
       +100ms
       < ACK 1 ack 2001 sack 3001-10001
       < ACK 1 ack 10001
       done yes
       count again 2
       count timeouts 0
     )"},
    {"LostAgain", "RFC 8985 3.1: by its time a retransmission that is lost is found, too",
     R"(
       open mss 1000 sackok
       send 20000
       do first-of-ten-is-lost
       < ACK 1 ack 1 sack 1001-10001
       > 4 segments
       +100ms
       < ACK 1 ack 1 sack 1001-11001
       > ACK 1:1001
       > ACK 14001:15001
       count timeouts 0
     )"},
    {"SackOfNothing",
     "RFC 2018 3: a block is of data that was received and lies behind the acknowledgment; of other data it tells "
     "nothing",
     R"(
       open mss 1000 sackok
       send 4000
       > 4 segments
       < ACK 1 ack 1 sack 4001-9001
       < ACK 1 ack 1 sack 2001-9001
       < ACK 1 ack 1 sack 3001-2001
       < ACK 1 ack 1001 sack 1-1001
       < ACK 1 ack 1001 sack 501-3001
       +150ms
     )"},
    {"SackNotAgreed", "RFC 2018 2: blocks of a peer that has not offered them count for nothing",
     R"(
       open mss 1000
       send 5000
       > 5 segments
       +100ms
       < ACK 1 ack 1 sack 1001-4001
       +199ms
       +1ms > ACK 1:1001
       < ACK 1 ack 1001
       > ACK 1001:2001
       > ACK 2001:3001
     )"},
    {"PathShrinks", "RFC 1191 6.4, RFC 8201: what was too large is sent again in smaller segments, at once",
     R"(
       open mss 1000
       send 2500
       > ACK 1:1001
       > ACK 1001:2001
       path 600
       > ACK 1:601
       > ACK 601:1001
       > ACK 1001:1601
       > ACK 1601:2001
       < ACK 1 ack 2001
       > ACK 2001:2501
     )"},
    {"PathGrows",
     "RFC 9293 3.7.1: Eff.snd.MSS is \"min(SendMSS+20, MMS_S) - TCPhdrsize - IPoptionsize\", and a path takes nothing "
     "above it",
     R"(
       open mss 2000
       path 9000
       send 2000
       > ACK 1:1461
       < ACK 1 ack 1461
       > ACK 1461:2001
     )"},
    {"PathOfNothing",
     "RFC 9293 3.7.2: segments follow the path's MTU; one that takes next to nothing is not believed (RFC 5927 7)",
     R"(
       open mss 1000
       path 1
       send 128
       > ACK 1:65
       > ACK 65:129
     )"},
    {"PathBeforeOpen", "RFC 9293 3.7.2: segments follow the path's MTU, told before the connection is open, too",
     R"(
       connect
       > SYN 0
       path 600
       < SYN,ACK 0 ack 1 mss 1000
       > ACK 1 ack 1
       send 700
       > ACK 1:601
     )"},
};

TCP_SCRIPTS(TcpFast, fast_cases, recovery_parts);

constexpr tcp_script::Case congestion_cases[] = {
    {"InitialWindow", "RFC 6928 2: min (10*MSS, max (2*MSS, 14600))",
     R"(
       open mss 1000
       send 50000
       > 10 segments
     )"},
    {"InitialWindowOfLargeSegments", "RFC 6928 2: min (10*MSS, max (2*MSS, 14600))",
     R"(
       set mss 4000
       open mss 4000
       send 50000
       > 3 segments
     )"},
    {"SlowStart",
     "RFC 5681 3.1: during slow start as much more as was acknowledged, at most eight segments each time (RFC 3465, "
     "RFC 9406)",
     R"(
       open mss 1000
       send 50000
       > 10 segments
       < ACK 1 ack 1001
       > 2 segments
       < ACK 1 ack 3001
       > 4 segments
       < ACK 1 ack 15001
       > 20 segments
     )"},
    {"AcknowledgmentsThatComeTogether",
     "RFC 5681 3.1: each of them lets the window grow, where the window was what kept more from leaving",
     R"(
       open mss 1000
       send 50000
       > 10 segments
       << ACK 1 ack 2001
       << ACK 1 ack 4001
       < ACK 1 ack 6001
       > 12 segments
     )"},
    {"NotUsedNotGrown", "RFC 7661 4.3: a window that is not used does not grow",
     R"(
       open mss 1000
       send 3000
       > 3 segments
       < ACK 1 ack 2001
       < ACK 1 ack 3001
       send 50000
       > 10 segments
     )"},
    {"Avoidance",
     "RFC 5681 3.1: \"During congestion avoidance, cwnd is incremented by roughly 1 full-sized segment per round-trip "
     "time (RTT)\"",
     R"(
       open mss 1000 sackok
       send 50000
       do first-of-ten-is-lost
       +100ms
       < ACK 1 ack 10001
       > 5 segments
       x4 < ACK 1 ack una+1000
       > 4 segments
       < ACK 1 ack una+1000
       > 2 segments
     )"},
    {"HalfAfterLoss", "RFC 5681 3.1 (4): a loss halves what is under way",
     R"(
       open mss 1000 sackok
       send 50000
       do first-of-ten-is-lost
       < ACK 1 ack 1 sack 1001-7001
       > 1 segments
       < ACK 1 ack 1 sack 1001-10001
       > 3 segments
     )"},
    {"RestartAfterIdle",
     "RFC 5681 4.1: \"RW = min(IW,cwnd)\" where nothing was sent for longer than the retransmission timeout",
     R"(
       do window-grows
       +10s
       send 50000
       > 10 segments
     )"},
    {"NoRestartBefore", "RFC 5681 4.1: before that it is what it was",
     R"(
       do window-grows
       +100ms
       send 50000
       > 26 segments
     )"},
};

TCP_SCRIPTS(TcpCongestion, congestion_cases, recovery_parts);

// Nothing is lost for want of memory but time.
constexpr tcp_script::Case memory_cases[] = {
    {"Syn",
     "RFC 9293 3.8.3: \"SYN retransmissions MUST be handled in the general way\": one without memory is as one lost",
     R"(
       memory off
       connect
       memory on
       count no_memory 1
       +1s > SYN 0
     )"},
    {"Data",
     "RFC 9293 3.8.6.2.1: \"(4) or if the override timeout occurs\": data for which there was no memory is sent then",
     R"(
       open mss 1000
       memory off
       send 2000
       memory on
       +300ms > ACK 1:1001
       > ACK 1001:2001
       < ACK 1 ack 2001
       done yes
     )"},
    {"Acknowledgment",
     "RFC 9293 3.8.6.3: an acknowledgment \"MUST be less than 0.5 seconds\" late; one without memory is tried again "
     "soon",
     R"(
       open
       < ACK 1:101
       memory off
       +40ms
       memory on
       +40ms > ACK 1 ack 101
       take 100
     )"},
    {"Retransmission",
     "RFC 6298 5.5: \"The host MUST set RTO <- RTO * 2\": a retransmission without memory waits for the next timeout",
     R"(
       open mss 1000
       send 1000
       > ACK 1:1001
       memory off
       +300ms
       memory on
       +600ms > ACK 1:1001
       < ACK 1 ack 1001
       done yes
     )"},
    {"Reset", "RFC 9293 3.10.5: \"delete the TCB\" does not wait for the reset, which without memory is never sent",
     R"(
       open
       memory off
       abort
       memory on
       state closed
     )"},
    {"DataBehindAGap",
     "RFC 2018 8: \"The data receiver is permitted to discard data in its queue\": what cannot be kept has not come",
     R"(
       open sackok
       < ACK 151:161
       > ACK 1 ack 1 sack 151-161
       memory off
       < ACK 101:201
       memory on
       count no_memory 2
       +40ms > ACK 1 ack 1 sack 151-161
       < ACK 1:101
       > ACK 1 ack 101 sack 151-161
       < ACK 101:201
       > ACK 1 ack 201
       take 200
     )"},
};

TCP_SCRIPTS(TcpMemory, memory_cases);

constexpr tcp_script::Case challenge_cases[] = {
    {"Throttled", "RFC 5961 7: no more than ten of them in a second",
     R"(
       open
       x10 < RST 2
       > 10 segments
       < RST 2
       < SYN 1
       +1s
       < RST 2
       > ACK 1 ack 1
       count challenges 11
     )"},
    {"DataIsNotThrottled",
     "RFC 9293 3.10.7.4: data that is not acceptable is always acknowledged, since its sender may wait for that",
     R"(
       open
       x10 < RST 2
       > 10 segments
       x3 < ACK -100:-50
       > 3 segments
     )"},
    {"AckInTheWindowOfThePast",
     "RFC 5961 5.2: (SND.UNA - MAX.SND.WND) =< SEG.ACK: data with an older acknowledgment is taken",
     R"(
       open win 1000 mss 1000
       send 1000
       > ACK 1:1001
       < ACK 1 ack 1001
       < ACK 1:11 ack 1
       +40ms > ACK 1001 ack 11
       < ACK 11:21 ack 0
       > ACK 1001 ack 11
       take 10
     )"},
};

TCP_SCRIPTS(TcpChallenge, challenge_cases);

}  // namespace
}  // namespace sluice::test
