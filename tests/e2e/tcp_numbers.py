# SPDX-License-Identifier: Apache-2.0
"""Sequence numbers that wrap in the midst of the data, of the kernel's end and of ours, whichever has called; IPv4 or IPv6.

The kernel's number as a caller can be chosen (TCP_REPAIR). As one that is called it follows a clock of 64 ns from a place
that each pair of ports has for itself (RFC 6528 section 3: "ISN = M + F(localip, localport, remoteip, remoteport,
secretkey)"), so that a few pairs say when one is about to wrap. Ours follows a clock of 4 us: of the pairs of a listener one
is looked for, and as a caller it calls until it has a number that wraps. FAMILY is 4 or 6."""
import sys
import time

import tcp_between
from tcp_between import ACK, DROP, PASS, RST, SEQUENCE_NUMBERS, SYN

link = tcp_between.open_link(int(sys.argv[1]))
MEGABYTE = 1 << 20
ATTEMPTS_MAX = 5


def wraps(side, within):
    """Whether what `side` says in this connection begins before the wrap and ends behind it."""
    first = link.find(side, SYN)[-1].sequence
    return first >= SEQUENCE_NUMBERS - within and any(one.data and one.sequence < within for one in link.find(side))


def answer_to(called, port, caller_port, like):
    """The SYN,ACK that a SYN of the other end's in that port's name gets, which is then taken back."""
    since = len(link.seen)
    link.replay(like.changed(source_port=caller_port, destination_port=port, sequence=1000, acknowledgment=0))
    link.until("an answer to a SYN", lambda: link.find(called, SYN, ACK, since=since, destination_port=caller_port))
    answer = link.find(called, SYN, ACK, since=since, destination_port=caller_port)[0]
    link.replay(like.changed(source_port=caller_port, destination_port=port, sequence=1001, acknowledgment=0, flags=RST,
                             options=b""))
    return answer


def a_syn_of(caller):
    """A listener at the other end, and a SYN to it that has been seen."""
    link.begin()
    port, _ = link.connect(caller)
    syn = link.find(caller, SYN)[0]
    link.ends[caller].does("reset")
    link.policy = lambda segment: DROP if segment.destination_port >= 30000 else PASS  # of the ports that we try
    return port, syn


def we_are_called():
    """Both numbers wrap."""
    port, syn = a_syn_of("kernel")
    within = 4 * MEGABYTE
    for local_port in range(30000, 60000):
        if 0 <= answer_to("ours", port, local_port, syn).sequence - (SEQUENCE_NUMBERS - within) < within // 2:
            break
    else:
        link.fail("no number of ours is near the wrap")
    link.policy = None
    link.seen.clear()
    link.ends["kernel"].does("connect", link.address["ours"], port, local_port, SEQUENCE_NUMBERS - MEGABYTE)
    link.ends["kernel"].does("connected")
    link.ends["ours"].does("accept")
    link.exchanges("the kernel has called", 2 * MEGABYTE, within + MEGABYTE)
    for side in link.ends:
        link.expect(f"the kernel has called: the numbers of {side} wrap", wraps(side, within))


def we_call_and_the_kernels_wrap():
    within = 4 * MEGABYTE
    tick_s = 64e-9
    for _ in range(ATTEMPTS_MAX):
        port, syn = a_syn_of("ours")
        due = []
        for local_port in range(30000, 30300):
            number = answer_to("kernel", port, local_port, syn).sequence
            due.append((time.monotonic() + (SEQUENCE_NUMBERS - within // 2 - number) % SEQUENCE_NUMBERS * tick_s, local_port))
        at, local_port = min(one for one in due if one[0] > time.monotonic() + 0.2)
        link.policy = None
        link.seen.clear()
        link.passes(at - time.monotonic())
        link.ends["ours"].does("connect", link.address["kernel"], port, local_port)
        link.ends["ours"].does("connected")
        link.ends["kernel"].does("accept")
        if link.find("kernel", SYN)[0].sequence >= SEQUENCE_NUMBERS - within:
            break
    link.exchanges("we have called", within + MEGABYTE, MEGABYTE)
    link.expect("we have called: the numbers of the kernel wrap", wraps("kernel", within))


def we_call_and_ours_wrap():
    within = 16 * MEGABYTE
    link.begin()
    port = link.port()
    link.ends["kernel"].does("listen", link.address["kernel"], port, 5)

    def refuses(segment):
        """As if nobody listened, unless the number is near the wrap."""
        if segment.side != "ours" or segment.flags != SYN or segment.sequence >= SEQUENCE_NUMBERS - within:
            return PASS
        answer = segment.changed(side="kernel", ethernet=segment.ethernet[6:12] + segment.ethernet[:6],
                                 source=segment.destination, destination=segment.source, source_port=segment.destination_port,
                                 destination_port=segment.source_port, sequence=0, acknowledgment=segment.sequence + 1,
                                 flags=RST | ACK, options=b"")
        link.replay(answer)
        return DROP

    link.policy = refuses
    link.ends["ours"].begin("insist", link.address["kernel"], port, 10000)
    times = link.ends["ours"].answer("a number that wraps", seconds=60)
    link.expect(f"we have called, {times} times", isinstance(times, int))
    link.policy = None
    link.ends["kernel"].does("accept")
    del link.seen[:link.seen.index(link.find("ours", SYN)[-1])]
    link.exchanges("we have called", MEGABYTE, within + MEGABYTE)
    link.expect("we have called: our numbers wrap", wraps("ours", within))


we_are_called()
we_call_and_the_kernels_wrap()
we_call_and_ours_wrap()
link.end_all()
