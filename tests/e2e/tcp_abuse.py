# SPDX-License-Identifier: Apache-2.0
"""What networks and peers do to a connection of ours with the kernel's, whichever has called: loss, reordering and
duplicates; segments that overlap, and of one byte; windows of zero. All of it is counted: it has happened. On a good link
tshark has nothing to say. FAMILY is 4 or 6."""
import random
import subprocess
import sys
import time

import tcp_between
from tcp_between import DROP, FIN, OTHER, PASS, PSH, distance

link = tcp_between.open_link(int(sys.argv[1]))
SEED = 7
CALLERS = ("ours", "kernel")


def a_good_link(caller):
    """tshark has nothing to say of either end's segments that would be a warning or an error, but that a window was full, and
    that the kernel writes a sum of zero as 0xffff, where it sums in software (skb_checksum_help does so of every protocol, as
    UDP asks for it): one in 65,536 segments has such a sum."""
    link.begin()
    link.record = []
    link.connect(caller)
    link.exchanges(f"{caller} has called: a good link", 400_000, 400_000)
    for side in (caller, OTHER[caller]):
        link.ends[side].does("shut")
        link.until("the FIN", lambda: link.find(side, FIN))
    link.passes(0.2)
    link.write_record("good.pcap")
    link.record = None
    network = "ipv6" if ":" in link.address["kernel"] else "ip"
    warnings = "_ws.expert.severity >= 0x600000 and not tcp.analysis.window_full" \
               f" and not (tcp.checksum.ffff and {network}.src == {link.address['kernel']})"
    said = subprocess.run(["tshark", "-r", "good.pcap", "-o", "tcp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE",
                           "-d", "tcp.port==20000-29999,data", "-Y", warnings], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, check=True, text=True).stdout
    link.expect(f"{caller} has called: tshark warns of nothing{said and ': ' + said}", not said)


class BadLink:
    """Loses, says twice, and lets later segments pass by, each with that chance."""

    def __init__(self, chance):
        self.prng = random.Random(SEED)
        self.chance = chance
        self.counts = dict.fromkeys(("lost", "doubled", "passed by"), 0)
        self.late = []

    def __call__(self, segment):
        draw = self.prng.random()
        for waiting in self.late:
            waiting[0] -= 1
        for waiting in [one for one in self.late if one[0] <= 0]:
            self.late.remove(waiting)
            link.replay(waiting[1])
        if draw < self.chance:
            self.counts["lost"] += 1
            return DROP
        if draw < 2 * self.chance:
            self.counts["doubled"] += 1
            link.replay(segment)
        elif draw < 3 * self.chance:
            self.counts["passed by"] += 1
            self.late.append([self.prng.randrange(1, 12), segment])
            return DROP
        return PASS


def bad_links(caller):
    link.begin()
    link.connect(caller)
    link.policy = BadLink(0.02)
    link.exchanges(f"{caller} has called: loss, reordering, duplicates", 1_000_000, 1_000_000)
    counts = link.policy.counts
    link.expect(f"of which there were {counts}", min(counts.values()) >= 10)


class Cutter:
    """Says the data of both ends in other pieces: `size` bytes each, from up to `back` bytes before where they were said, out of
    order. What has been acknowledged has other bytes in it (RFC 9293 section 3.10.7.4: "it is possible to trim off any
    portion that lies outside the window (including SYN and FIN)", so that nobody looks at them). Not faster than a slow build of
    ours can take them: what its ring has no room for would be lost, and each such loss costs a timeout."""

    AT_ONCE, PAUSE_SECONDS = 50, 0.005

    def __init__(self, size, back):
        self.prng = random.Random(SEED)
        self.size, self.back = size, back
        self.first, self.stream, self.acknowledged = {}, {}, {}
        self.pieces = self.forged = 0

    def __call__(self, segment):
        side = segment.side
        self.acknowledged[OTHER[side]] = segment.acknowledgment
        if not segment.data:
            return PASS
        first = self.first.setdefault(side, segment.sequence)
        stream = self.stream.setdefault(side, bytearray())
        begin = distance(first, segment.sequence)
        end = begin + len(segment.data)
        if begin > len(stream):
            return PASS  # behind something that has not been seen
        stream[begin:end] = segment.data
        acknowledged = distance(first, self.acknowledged.get(side, first))
        cuts = range(begin, end, self.size)
        eights = (cuts[some:some + 8] for some in range(0, len(cuts), 8))
        for at in (at for eight in eights for at in self.prng.sample(eight, len(eight))):
            piece_begin = max(0, at - self.prng.randrange(self.back + 1))
            data = bytearray(stream[piece_begin:min(end, at + self.size)])
            for place in range(piece_begin, min(acknowledged, piece_begin + len(data))):
                data[place - piece_begin] ^= 0xff
                self.forged += 1
            link.replay(segment.changed(sequence=first + piece_begin, data=bytes(data), flags=segment.flags & ~(FIN | PSH)))
            self.pieces += 1
            if self.pieces % self.AT_ONCE == 0:
                time.sleep(self.PAUSE_SECONDS)
        return DROP


def overlapping_data(caller):
    link.begin()
    link.connect(caller)
    link.policy = Cutter(size=400, back=1000)
    link.exchanges(f"{caller} has called: overlapping data", 300_000, 300_000)
    link.expect(f"in {link.policy.pieces} pieces, and {link.policy.forged} bytes were other ones",
                link.policy.pieces > 1000 and link.policy.forged > 1000)


def segments_of_a_byte(caller):
    """As the ends send them, and as the network cuts them."""
    link.begin()
    link.connect(caller)
    for side in link.ends:
        since = len(link.seen)
        link.ends[side].begin("singly", "singly", 1000)
        taken = link.ends[OTHER[side]].does("take", 1000)
        link.ends[side].answer("to have sent bytes singly")
        count = sum(len(one.data) == 1 for one in link.find(side, since=since))
        link.expect(f"{caller} has called: {count} segments of a byte of {side}", count > 500)
        link.expect("come whole", taken == tcp_between.digest_of("singly", 1000))
    link.policy = Cutter(size=1, back=0)
    link.exchanges(f"{caller} has called: cut to single bytes", 10_000, 10_000)
    link.expect(f"in {link.policy.pieces} segments", link.policy.pieces >= 20_000)


def a_window_of_zero(caller, one):
    """`one` does not read until the other end has asked for room, and what tells of that room is lost, so that the other end
    has to ask once more (RFC 9293 section 3.8.6.1)."""
    other = OTHER[one]
    what = f"{caller} has called, {one} does not read"
    size = 6_000_000 if one == "ours" else 2_000_000  # of ours more waits on the way to its program
    for end in link.ends.values():
        end.does("set_buffers", 1_000_000, 40_000)
    link.begin()
    link.connect(caller)
    link.ends[other].begin("exchange", "much", size, 0)

    def probes(since):
        """Of what lies before the window's end, or of the byte behind it."""
        return [segment for segment in link.find(other, since=since) if len(segment.data) <= 1]

    def is_shut():
        """Its last word was a window of zero, which was the answer to a probe."""
        last = next((at for at in range(len(link.seen) - 1, 0, -1) if link.seen[at].side == one), 0)
        return last > 0 and link.seen[last].window == 0 and link.seen[last - 1] in probes(last - 1)

    link.until(f"{what}: its window closes, and it is asked for room", is_shut)
    since = len(link.seen)
    lost = []

    def loses_updates(segment):
        if segment.side == one and segment.window > 0 and not probes(since):
            lost.append(segment)
            return DROP
        return PASS

    link.policy = loses_updates
    link.ends[one].begin("take", size)
    taken = link.ends[one].answer("what was sent")
    link.ends[other].answer("to have sent it")
    link.expect(f"{what}: what tells of room was lost", lost)
    link.expect(f"{what}: then all came", taken == tcp_between.digest_of("much", size))
    for end in link.ends.values():
        end.does("set_buffers", 400_000, 400_000)


for each in CALLERS:
    a_good_link(each)
    bad_links(each)
    overlapping_data(each)
    segments_of_a_byte(each)
    for reader in link.ends:
        a_window_of_zero(each, reader)
link.end_all()
