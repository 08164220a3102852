# SPDX-License-Identifier: Apache-2.0
"""The state diagram of TCP between the kernel's and ours: a reset in every state of either that the other really sends; both
that open, and both that close at once; an end that has forgotten the connection, and one that calls again at once. FAMILY is 4
or 6."""
import sys

import tcp_between
from tcp_between import (ACK, CLOSE_WAIT, CLOSED, CLOSING, DROP, ESTABLISHED, FIN, FIN_WAIT_1, FIN_WAIT_2, HOLD, LAST_ACK, OTHER,
                         PASS, RST, SYN, SYN_RECEIVED, TIME_WAIT)

link = tcp_between.open_link(int(sys.argv[1]))


def holds_back(side, *flags):
    """What is held back: all of that side's that has those flags."""
    link.policy = lambda segment: HOLD if segment.side == side and segment.has(*flags) else PASS


def is_held(side, *flags):
    return any(one.side == side and one.has(*flags) for one in link.held)


def held(side, *flags):
    link.until(f"{side}'s segment to be held back", lambda: is_held(side, *flags))


def is_acknowledged(side, *flags):
    end = link.find(side, *flags)[-1].end
    link.until(f"{side}'s segment to be acknowledged", lambda: link.find(OTHER[side], ACK, acknowledgment=end))


# ---- The ways into a state: `one` gets there, `other` is its peer. Each ends with nothing of `other` held back ----

def synchronous_opening(one, other):
    """RFC 9293 section 3.5, figure 7. Both have sent SYN,ACK, and neither has been acknowledged."""
    ports = {"kernel": link.port(), "ours": link.port()}
    link.policy = lambda segment: HOLD
    for side in (one, other):
        link.ends[side].does("connect", link.address[OTHER[side]], ports[OTHER[side]], ports[side])
    for side in (one, other):
        held(side, SYN)
    link.release()
    for side in (one, other):
        held(side, SYN, ACK)


def opening(one, other):
    synchronous_opening(one, other)
    link.policy = lambda segment: HOLD if segment.side == one else PASS


def established(one, other):
    link.connect(caller=other)


def fin_wait_1(one, other):
    link.connect(caller=one)
    holds_back(one, FIN)
    link.ends[one].does("shut")
    held(one, FIN)


def fin_wait_2(one, other):
    link.connect(caller=other)
    link.ends[one].does("shut")


def close_wait(one, other):
    link.connect(caller=one)
    link.ends[other].does("shut")


def synchronous_closing():
    """RFC 9293 section 3.6, figure 13. Each has the other's FIN, and neither FIN has been acknowledged."""
    link.policy = lambda segment: HOLD
    for end in link.ends.values():
        end.does("shut")
    for side in link.ends:
        held(side, FIN)
        link.reaches(side, FIN_WAIT_1)
    link.release(lambda segment: segment.has(FIN))
    for side in link.ends:
        is_acknowledged(OTHER[side], FIN)
        link.reaches(side, CLOSING)


def closing(one, other):
    link.connect(caller=other)
    link.policy = lambda segment: HOLD
    for side in (one, other):
        link.ends[side].does("shut")
    for side in (one, other):
        held(side, FIN)
    link.policy = lambda segment: HOLD if segment.side == one else PASS
    link.release(lambda segment: segment.side == other)
    is_acknowledged(other, FIN)


def last_ack(one, other):
    link.connect(caller=one)
    link.ends[other].does("shut")
    link.reaches(one, CLOSE_WAIT)
    holds_back(one, FIN)
    link.ends[one].does("shut")
    held(one, FIN)


# ---- Resets ----

# How `one` gets there; what its user hears then, of ours and of the kernel's, which of a half-closed connection says EPIPE.
RESETS = [
    ("SYN-RECEIVED, having called", opening, SYN_RECEIVED, {"ours": "ECONNREFUSED", "kernel": "ECONNRESET"}),
    ("ESTABLISHED", established, ESTABLISHED, {"ours": "ECONNRESET", "kernel": "ECONNRESET"}),
    ("FIN-WAIT-1", fin_wait_1, FIN_WAIT_1, {"ours": "ECONNRESET", "kernel": "ECONNRESET"}),
    ("FIN-WAIT-2", fin_wait_2, FIN_WAIT_2, {"ours": "ECONNRESET", "kernel": "ECONNRESET"}),
    ("CLOSE-WAIT", close_wait, CLOSE_WAIT, {"ours": "ECONNRESET", "kernel": "EPIPE"}),
    ("CLOSING", closing, CLOSING, {"ours": None, "kernel": "ECONNRESET"}),
    ("LAST-ACK", last_ack, LAST_ACK, {"ours": None, "kernel": "ECONNRESET"}),
]


def is_over(one, segment, what):
    """What comes then is of no connection: RFC 9293 section 3.5.2, "If the connection does not exist (CLOSED), then a reset
    is sent in response to any incoming segment except another reset"."""
    since = len(link.seen)
    link.policy = lambda answer: DROP
    link.replay(segment)
    link.until(f"{what}: a reset of what is of no connection", lambda: len(link.seen) > since)
    link.expect(f"{what}: nothing is left of it", link.find(one, RST, since=since))
    link.policy = None


def a_reset_in(one, name, reach, state, failures):
    other = OTHER[one]
    what = f"{other} resets {one} in {name}"
    link.begin()
    reach(one, other)
    link.reaches(one, state)
    its = link.find(other, ACK)[0].changed(flags=ACK, data=b"", options=b"")
    since = len(link.seen)
    link.ends[other].does("reset")
    link.until(f"{what}: the reset", lambda: link.find(other, RST, since=since))
    link.reaches(one, CLOSED)
    failure = link.ends[one].ask("failure_now")
    link.expect(f"{what}: its user hears {failure}", failure == failures[one])
    link.held.clear()
    is_over(one, its, what)


def a_refusal(one):
    """In SYN-SENT. RFC 9293 section 3.10.7.3: "If the RST bit is set [...] If the ACK was acceptable, then signal to the
    user "error: connection reset""."""
    link.begin()
    link.ends[one].does("connect", link.address[OTHER[one]], link.port(), link.port())
    failure = link.ends[one].ask("connected")
    link.expect(f"{OTHER[one]} resets {one} in SYN-SENT", failure == {"error": "ECONNREFUSED"})
    link.expect("which has said RST and ACK", link.find(OTHER[one], RST, ACK))


def a_caller_who_has_gone(one):
    """In SYN-RECEIVED, having been called. RFC 9293 section 3.10.7.4: "If this connection was initiated with a passive OPEN
    [...], then return this connection to the LISTEN state and return"."""
    other = OTHER[one]
    what = f"{other} resets {one} in SYN-RECEIVED"
    link.begin()
    port = link.port()
    link.ends[one].does("listen", link.address[one], port, 5)
    link.policy = lambda segment: HOLD if segment.side == one else PASS
    link.ends[other].does("connect", link.address[one], port, link.port())
    held(one, SYN, ACK)
    if one == "kernel":
        link.expect(f"{what}: the kernel says so", link.sockets_of_kernel("syn-recv", port))
    link.ends[other].does("reset")
    link.passes(0.5)  # what a program closes, its stack hears of a little later
    link.release()
    link.until(f"{what}: the reset", lambda: link.find(other, RST))
    link.policy = None
    since = len(link.seen)
    link.passes(1.5)  # a SYN,ACK goes again after a second
    link.expect(f"{what}: nobody answers any longer", not link.find(one, SYN, since=since))
    if one == "kernel":
        link.expect(f"{what}: the kernel says so", not link.sockets_of_kernel("syn-recv", port))
    local_port = link.port()
    link.ends[other].does("connect", link.address[one], port, local_port)
    link.ends[other].does("connected")
    link.expect(f"{what}: the next caller is the first one", link.ends[one].does("accept") == local_port)


def a_reset_in_time_wait():
    """Of the kernel's: ours is kept for as long as its stream, which `sluice serve` closes when both ends are. An old FIN is
    acknowledged, which the other end, where nothing is left, answers with a reset; that ends TIME-WAIT (RFC 1337 section 1,
    the first of its hazards; RFC 9293 section 3.10.7.4: "enter the CLOSED state, delete the TCB")."""
    one, other = "kernel", "ours"
    what = f"{other} resets {one} in TIME-WAIT"
    link.begin()
    link.connect(caller=one)
    link.ends[one].does("shut")
    link.reaches(other, CLOSE_WAIT)
    link.ends[other].does("close")
    link.until(f"{what}: the FIN", lambda: link.find(other, FIN))
    fin = link.find(other, FIN)[0]
    link.until(f"{what}: it is acknowledged", lambda: link.find(one, ACK, acknowledgment=fin.end))
    link.expect(f"{what}: the kernel says so", link.sockets_of_kernel("time-wait", fin.destination_port))
    since = len(link.seen)
    link.replay(fin)
    link.until(f"{what}: the FIN is acknowledged once more", lambda: link.find(one, ACK, since=since, acknowledgment=fin.end))
    link.until(f"{what}: the reset", lambda: link.find(other, RST, since=since))
    link.passes(0.1)
    is_over(one, fin, what)


# ---- Both at once ----

def both_at_once():
    link.begin()
    synchronous_opening("kernel", "ours")
    for side in link.ends:
        link.reaches(side, SYN_RECEIVED)
    link.policy = None
    link.release()
    for side in link.ends:
        link.reaches(side, ESTABLISHED)
        link.ends[side].does("connected")
    link.expect("who has opened with both SYNs crossing: each sent SYN, SYN,ACK and no reset", all(
        link.find(side, SYN, flags=SYN) and link.find(side, SYN, ACK) and not link.find(side, RST) for side in link.ends))
    link.exchanges("opened at once", 300_000, 300_000)
    synchronous_closing()
    link.policy = None
    link.release()
    link.reaches("ours", TIME_WAIT)
    link.reaches("kernel", CLOSED)  # its socket: what waits is in the table of those that do
    link.expect("closed at once: the kernel waits, too", link.sockets_of_kernel("time-wait", link.find("kernel")[0].source_port))
    link.expect("closed at once: nobody resets", not link.find("kernel", RST) and not link.find("ours", RST))


def one_has_forgotten(one):
    """RFC 9293 section 3.5.1, figure 9, with RFC 5961 section 4: the SYN of an end that has lost its memory is questioned
    ("TCP MUST send an ACK"), it answers with a reset, and its next SYN is welcome."""
    other = OTHER[one]
    what = f"{other} forgets its connection with {one}"
    link.begin()
    port, local_port = link.connect(caller=other)
    link.exchanges(what, 10_000, 10_000)
    link.policy = lambda segment: DROP if segment.side == other and segment.has(RST) else PASS
    link.ends[other].does("reset")
    link.until(f"{what}: which nobody hears of", lambda: link.find(other, RST))
    link.policy = None
    link.reaches(one, ESTABLISHED)
    since = len(link.seen)
    link.ends[other].does("connect", link.address[one], port, local_port)
    link.ends[other].does("connected")
    first = [segment for segment in link.seen[since:] if segment.side == one][0]
    link.expect(f"{what}: its SYN is questioned", first.flags & ~tcp_between.PSH == ACK and not first.data)
    link.expect(f"{what}: which it resets", link.find(other, RST, since=since))
    link.expect(f"{what}: and {one} hears of it", link.ends[one].ask("failure_now") == "ECONNRESET")
    link.ends[one].does("accept")
    link.exchanges(f"{what}, and makes another", 100_000, 100_000)


def calls_again(caller):
    """From the same port, when who was called has ended first. The kernel's end is in TIME-WAIT then. RFC 6191 section 2: where
    "the timestamp contained in the incoming SYN segment is greater than the last timestamp seen on the previous incarnation of
    the connection [...], honor the connection request"; so ours must go on where the last connection's were, and its first
    sequence number, too. Ours has no TIME-WAIT any more: see a_reset_in_time_wait()."""
    called = OTHER[caller]
    what = f"{caller} calls {called} again from the same port"
    link.begin()
    port, local_port = link.connect(caller)
    for _ in range(3):
        link.exchanges(what, 10_000, 10_000)
        link.ends[called].does("shut")
        link.reaches(caller, CLOSE_WAIT)
        since = len(link.seen)
        link.ends[caller].does("close")
        link.until(f"{what}: the FIN", lambda: link.find(caller, FIN, since=since))
        is_acknowledged(caller, FIN)
        link.ends[called].does("close")
        if called == "kernel":
            link.expect(f"{what}: which is in TIME-WAIT", link.sockets_of_kernel("time-wait", port))
        link.passes(0.1)  # what a program closes, its stack hears of a little later
        since = len(link.seen)
        link.ends[caller].does("connect", link.address[called], port, local_port)
        link.ends[caller].does("connected")
        answers = link.find(called, since=since)
        link.expect(f"{what}: and is answered at once", answers[0].has(SYN, ACK) and not answers[0].has(RST))
        link.expect(f"{what}: and accepted", link.ends[called].does("accept") == local_port)


for side in ("ours", "kernel"):
    a_refusal(side)
    a_caller_who_has_gone(side)
    for row in RESETS:
        a_reset_in(side, *row)
    one_has_forgotten(side)
    calls_again(side)
a_reset_in_time_wait()
both_at_once()
link.end_all()
