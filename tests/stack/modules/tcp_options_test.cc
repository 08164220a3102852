// SPDX-License-Identifier: Apache-2.0
// Timestamps and selective acknowledgments of a TCP connection: as scripts (tests/stack/modules/tcp_script.h).

#include <gtest/gtest.h>

#include "tests/stack/modules/tcp_script.h"

namespace sluice::test {
namespace {

constexpr tcp_script::Part timestamp_parts[] = {
    {"sent-twice", R"(
       open mss 1000 ts 10
       send 100
       > ACK 1:101 ts 100
       +300ms > ACK 1:101 ts 400
       +50ms
     )"},
};

constexpr tcp_script::Case timestamp_cases[] = {
    {"Offered", "RFC 7323 3.2: TSecr is only valid where ACK is set, and otherwise zero",
     R"(
       connect
       > SYN 0 ts 0 ecr-zero
       +100ms
       < SYN,ACK 0 ack 1 ts 10
       > ACK 1 ack 1 ts 100 ecr 10
     )"},
    {"NotThePeers", "RFC 7323 3.2: stamps are sent where both ends have sent them in their SYNs",
     R"(
       open mss 1000
       send 1000
       > ACK 1:1001 no-ts
       < ACK 1 ack 1001 ts 50
       < ACK 1:11
       +40ms > ACK 1001 no-ts
     )"},
    {"NotInAnAnswer", "RFC 7323 3.2: a SYN without stamps is answered without",
     R"(
       < SYN 0
       > SYN,ACK 0 ack 1 no-ts
       < ACK 1 ack 1
       state established
     )"},
    {"Answered", "RFC 7323 3.2: a SYN,ACK echoes the SYN's stamp",
     R"(
       < SYN 0 ts 33
       > SYN,ACK 0 ack 1 ts 0 ecr 33
       < ACK 1 ack 1 ts 34
       +10ms
       < ACK 1:11
       +40ms > ACK 1 ack 11 ts 50 ecr 34
     )"},
    {"TakesRoom", "RFC 9293 3.7.1: \"the sender should adjust the data length accordingly\"",
     R"(
       open mss 1000 ts 10
       send 1976
       > ACK 1:989 ts 100 ecr 10
       > ACK 989:1977 ts 100 ecr 10
     )"},
    {"EchoOfDelayedAcknowledgment", "RFC 7323 4.3: of segments that are acknowledged together the first is echoed",
     R"(
       open ts 10
       < ACK 1:101 ts 20
       < ACK 101:201 ts 30
       > ACK 1 ack 201 ecr 20
       < ACK 201:301 ts 40
       +40ms > ACK 1 ack 301 ecr 40
     )"},
    {"EchoBehindAGap", "RFC 7323 4.3: a segment behind a gap is not echoed; the one that fills it is",
     R"(
       open ts 10
       < ACK 1:101 ts 20
       +40ms > ACK 1 ack 101 ecr 20
       < ACK 201:301 ts 30
       > ACK 1 ack 101 ecr 20
       < ACK 101:201 ts 40
       > ACK 1 ack 301 ecr 40
     )"},
    {"TooOld",
     "RFC 7323 5.3 R1: SEG.TSval < TS.Recent: \"treat the arriving segment as not acceptable\", send an acknowledgment "
     "and drop it",
     R"(
       open ts 10
       < ACK 1:101 ts 9
       > ACK 1 ack 1 ecr 10
       take 0
       count unacceptable 1
       < ACK 1:101 ts 10
       +40ms > ACK 1 ack 101 ecr 10
       take 100
     )"},
    {"TooOldAcknowledgment", "RFC 7323 5.3 R1: nor does its acknowledgment count",
     R"(
       open mss 1000 ts 10
       send 100
       > ACK 1:101
       < ACK 1 ack 101 ts 9
       > ACK 101 ack 1
       done no
       < ACK 1:11 ack 101 ts 9
       > ACK 101 ack 1
       done no
       < ACK 1 ack 101 ts 10
       done yes
     )"},
    {"OldAfterALongTime",
     "RFC 7323 5.5: after 24 days of silence \"the segment is accepted, regardless of the failure of the timestamp "
     "check\"",
     R"(
       open ts 10
       +23d
       < ACK 1:101 ts 9
       > ACK 1 ack 1
       +1d
       < ACK 1:101 ts 5
       +40ms > ACK 1 ack 101 ecr 5
       take 100
     )"},
    {"IsNotedAnew", "RFC 7323 5.5: the time runs since a stamp was noted last",
     R"(
       open ts 10
       +23d
       < ACK 1:11 ts 20
       +40ms > ACK 1 ack 11
       +23d
       < ACK 11:21 ts 15
       > ACK 1 ack 11
       take 10
     )"},
    {"Missing",
     "RFC 7323 3.2: \"If a non-<RST> segment is received without a TSopt, a TCP SHOULD silently drop the segment.\"",
     R"(
       open ts 10
       < ACK 1:101 no-ts
       < SYN 1 no-ts
       < FIN,ACK 1 no-ts
       take 0
       state established
       count unacceptable 3
     )"},
    {"ResetWithout", "RFC 7323 5.2: a reset is not subject to the check",
     R"(
       open ts 10
       < RST 1
       state closed
       news reset
     )"},
    {"OldReset", "RFC 7323 5.3: R1 is for a segment whose RST bit is off",
     R"(
       open ts 10
       < RST 1 ts 5
       state closed
       news reset
     )"},
    {"OurReset", "RFC 7323 3.2: a <RST> is good without a timestamp, so that ours has none",
     R"(
       open ts 10
       abort
       > RST 1 no-ts
     )"},
    {"KarnIsResolved",
     "RFC 6298 3: \"the timestamp option removes the ambiguity\": the stamp says which of both was acknowledged",
     R"(
       do sent-twice
       < ACK 1 ack 101 ecr 400
       send 100
       > ACK 101:201
       +293750us > ACK 101:201
     )"},
    {"EchoOfNothingNew", "RFC 6298 2.3: what acknowledges nothing measures nothing",
     R"(
       open mss 1000 ts 10
       send 1976
       > ACK 1:989 ts 100
       > ACK 989:1977 ts 100
       +50ms
       < ACK 1 ack 1 ecr 100
       +50ms
       < ACK 1 ack 989 ecr 100
       +250ms > ACK 989:1977
     )"},
    {"KarnIsNotResolved", "RFC 6298 3: an acknowledgment of the first of both measures nothing",
     R"(
       do sent-twice
       < ACK 1 ack 101 ecr 100
       send 100
       > ACK 101:201
       +600ms > ACK 101:201
     )"},
};

TCP_SCRIPTS(TcpTimestamps, timestamp_cases, timestamp_parts);

constexpr tcp_script::Case sack_cases[] = {
    {"Offered", "RFC 2018 2: SACK-permitted is sent in a SYN",
     R"(
       connect
       > SYN 0 sackok
     )"},
    {"Answered", "RFC 2018 2: and in the answer where the SYN has it",
     R"(
       < SYN 0 sackok
       > SYN,ACK 0 sackok
     )"},
    {"NotAnswered", "RFC 2018 2: \"It MUST NOT be sent on non-SYN segments\", nor is it in an answer to a SYN without",
     R"(
       < SYN 0
       > SYN,ACK 0 no-sackok
       < ACK 1 ack 1
       < ACK 101:201
       > ACK 1 ack 1
     )"},
    {"Order",
     "RFC 2018 4: \"The first SACK block [...] MUST specify the contiguous block of data containing the segment which "
     "triggered this ACK\", behind it the most recently reported ones",
     R"(
       open sackok
       < ACK 1001:2001
       > ACK 1 ack 1 sack 1001-2001
       < ACK 3001:4001
       > ACK 1 ack 1 sack 3001-4001,1001-2001
       < ACK 5001:6001
       > ACK 1 ack 1 sack 5001-6001,3001-4001,1001-2001
       < ACK 7001:8001
       > ACK 1 ack 1 sack 7001-8001,5001-6001,3001-4001,1001-2001
       < ACK 9001:10001
       > ACK 1 ack 1 sack 9001-10001,7001-8001,5001-6001,3001-4001
       < ACK 6001:7001
       > ACK 1 ack 1 sack 5001-8001,9001-10001,3001-4001
       < ACK 9001:10001
       > ACK 1 ack 1 sack 9001-10001,5001-8001,3001-4001
       < ACK 1:1001
       > ACK 1 ack 2001 sack 9001-10001,5001-8001,3001-4001
       < ACK 2001:9001
       > ACK 1 ack 10001
     )"},
    {"ThreeBesideStamps", "RFC 2018 3: beside timestamps three blocks have room",
     R"(
       open sackok ts 10
       < ACK 1001:2001
       > ACK 1 sack 1001-2001
       < ACK 3001:4001
       > ACK 1 sack 3001-4001,1001-2001
       < ACK 5001:6001
       > ACK 1 sack 5001-6001,3001-4001,1001-2001
       < ACK 7001:8001
       > ACK 1 sack 7001-8001,5001-6001,3001-4001
     )"},
    {"BlocksGrow", "RFC 2018 4: blocks are of contiguous data",
     R"(
       open sackok
       < ACK 1001:1501
       > ACK 1 sack 1001-1501
       < ACK 1501:2001
       > ACK 1 sack 1001-2001
       < ACK 501:1001
       > ACK 1 sack 501-2001
       < ACK 1:301
       > ACK 1 ack 301 sack 501-2001
     )"},
    {"DataSaysNothingOfGaps", "RFC 2018 4: where there is a gap, the acknowledgment goes beside the data",
     R"(
       open sackok mss 1000
       < ACK 101:201
       > ACK 1 ack 1 sack 101-201
       send 100
       > ACK 1:101 ack 1
       < ACK 201:301 ack 101 win 1000
       > ACK 101 ack 1 sack 101-301
       send 2000
       > ACK 101:1101 ack 1
       < ACK 401:501 ack 1101
       > ACK 1101:2101 ack 1
       > ACK 2101 ack 1 sack 401-501,101-301
     )"},
};

TCP_SCRIPTS(TcpSelective, sack_cases);

}  // namespace
}  // namespace sluice::test
