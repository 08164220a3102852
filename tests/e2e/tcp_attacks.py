# SPDX-License-Identifier: Apache-2.0
"""What strangers do to ours while it speaks with the kernel's: resets, SYNs, acknowledgements and data of somebody who does
not see the connection (RFC 5961), whichever has called; SYNs of many who never come back (RFC 4987); and a kernel that
answers with cookies itself. FAMILY is 4 or 6."""
import subprocess
import sys

import tcp_between
from tcp_between import ACK, DROP, HOLD, PASS, RST, SEQUENCE_NUMBERS, SYN, digest_of, distance

link = tcp_between.open_link(int(sys.argv[1]))


def says_nothing(what, segment):
    since = len(link.seen)
    link.replay(segment)
    link.passes(0.1)
    link.expect(f"{what}: nothing is said", not link.find("ours", since=since))


def questions(what, segment):
    """RFC 5961: an acknowledgement of what came in order, and nothing else."""
    since = len(link.seen)
    link.replay(segment)
    link.until(f"{what}: an answer", lambda: link.find("ours", since=since))
    link.passes(0.05)
    answers = link.find("ours", since=since)
    link.expect(f"{what}: it is questioned", len(answers) == 1 and answers[0].flags == ACK and not answers[0].data
                and answers[0].acknowledgment == at_of_kernel())


def at_of_kernel():
    """Behind the last that it has sent."""
    first = link.find("kernel", SYN)[0].sequence
    return max((one.end for one in link.find("kernel") if not one.has(RST)), key=lambda end: distance(first, end))


def blind_segments(caller):
    link.begin()
    link.connect(caller)
    link.exchanges(f"{caller} has called", 5_000, 5_000)
    link.passes(0.2)
    last = [one for one in link.find("kernel", ACK) if not one.has(SYN)][-1]
    at = at_of_kernel()
    blind = last.changed(sequence=at, data=b"", flags=ACK)
    reset = blind.changed(flags=RST, options=b"")
    syn = blind.changed(flags=SYN)
    here = f"{caller} has called"
    questions(f"{here}: a reset in the window (RFC 5961 section 3.2)", reset.changed(sequence=at + 1))
    questions(f"{here}: a reset far in the window (RFC 5961 section 3.2)", reset.changed(sequence=at + 50_000))
    says_nothing(f"{here}: a reset behind the window (RFC 5961 section 3.2)", reset.changed(sequence=at + (1 << 30)))
    says_nothing(f"{here}: a reset before the window (RFC 5961 section 3.2)", reset.changed(sequence=at - 1))
    questions(f"{here}: a SYN in its place (RFC 5961 section 4.2)", syn)
    questions(f"{here}: a SYN elsewhere (RFC 5961 section 4.2)", syn.changed(sequence=at + (1 << 30)))
    questions(f"{here}: data that acknowledges too old (RFC 5961 section 5.2)",
              blind.changed(acknowledgment=blind.acknowledgment - (1 << 30), data=b"forged"))
    questions(f"{here}: data that acknowledges what was not sent (RFC 5961 section 5.2)",
              blind.changed(acknowledgment=blind.acknowledgment + 1, data=b"forged"))
    since = len(link.seen)
    for _ in range(200):
        link.replay(syn)
    link.passes(0.2)
    count = len(link.find("ours", since=since))
    link.expect(f"{here}: of 200 SYNs {count} are questioned (RFC 5961 section 7)", 0 < count <= 20)
    link.exchanges(f"{here}, and it goes on", 100_000, 100_000)


def blind_answers_to_a_caller():
    """RFC 9293 section 3.10.7.3: "If SEG.ACK =< ISS or SEG.ACK > SND.NXT, send a reset"."""
    link.begin()
    port, local_port = link.port(), link.port()
    link.ends["kernel"].does("listen", link.address["kernel"], port, 5)
    link.policy = lambda segment: HOLD if segment.side == "kernel" else PASS
    link.ends["ours"].does("connect", link.address["kernel"], port, local_port)
    link.until("the kernel's answer", lambda: link.held)
    answer = link.held[0]
    other = (answer.acknowledgment + 1) % SEQUENCE_NUMBERS
    says_nothing("we call: a reset that acknowledges something else",
                 answer.changed(flags=RST | ACK, acknowledgment=other, options=b""))
    says_nothing("we call: a reset that acknowledges nothing", answer.changed(flags=RST, options=b""))
    since = len(link.seen)
    link.policy = lambda segment: HOLD if segment.side == "kernel" else DROP  # the kernel need not hear of it
    link.replay(answer.changed(acknowledgment=other, sequence=answer.sequence + 5))
    link.until("we call: an answer to something else is reset", lambda: link.find("ours", RST, since=since, sequence=other))
    link.policy = None
    link.release()
    link.ends["ours"].does("connected")
    link.ends["kernel"].does("accept")
    link.exchanges("we call, and are connected with whom we called", 100_000, 100_000)


# ---- SYNs of many ----

def kernel_setting(name, value):
    subprocess.run(["ip", "netns", "exec", "host-a", "sysctl", "-qw", f"net.ipv4.{name}={value}"], check=True)


def kernel_counter(name):
    text = subprocess.run(["ip", "netns", "exec", "host-a", "cat", "/proc/net/netstat"], stdout=subprocess.PIPE, check=True,
                          text=True).stdout
    names, values = [line.split()[1:] for line in text.splitlines() if line.startswith("TcpExt:")]
    return int(values[names.index(name)])


def a_flood_of_syns():
    """Where there is no place for who calls, he is answered with a cookie (RFC 4987 section 3.6): such an answer is never
    sent again, and a caller without timestamps gets one without selective acknowledgement and window scale."""
    flood = range(40000, 40400)
    link.begin()
    port, _ = link.connect("kernel")
    syn = link.find("kernel", SYN)[0]
    link.ends["kernel"].does("reset")
    link.ends["ours"].does("listen", link.address["ours"], port + 1000, 1)
    link.policy = lambda segment: DROP if segment.destination_port in flood else PASS
    link.passes(0.05)
    link.seen.clear()
    for place, caller_port in enumerate(flood):
        link.replay(syn.changed(source_port=caller_port, destination_port=port + 1000, sequence=place << 20))
        link.turn()
    link.until("every SYN is answered", lambda: len({one.destination_port for one in link.find("ours", SYN, ACK)}) == len(flood))

    def gets_through(what, caller_port):
        link.ends["kernel"].does("connect", link.address["ours"], port + 1000, caller_port)
        link.ends["kernel"].does("connected")
        link.ends["kernel"].begin("exchange", "flooded", 100_000, 0)
        link.expect(f"{what}: is accepted", link.ends["ours"].does("accept") == caller_port)
        taken = link.ends["ours"].does("take", 100_000)
        link.expect(f"{what}: what he sends comes whole", taken == digest_of("flooded", 100_000))
        link.ends["kernel"].answer("to have sent it")
        link.exchanges(f"{what}: so does more", 50_000, 400_000)
        link.ends["kernel"].does("reset")
        return link.find("ours", SYN, ACK, destination_port=caller_port)[0]

    answer = gets_through("who calls in the flood with timestamps", 50001)
    link.expect("his answer has timestamps", answer.option(8))
    kernel_setting("tcp_timestamps", 0)
    answer = gets_through("who calls in the flood without timestamps", 50002)
    link.expect("his answer was a cookie", answer.option(2) and answer.option(3) is None and answer.option(4) is None)
    link.passes(2.5)  # an answer that is none goes again after a second
    again = {one.destination_port for one in link.find("ours", SYN, ACK)
             if len(link.find("ours", SYN, ACK, destination_port=one.destination_port)) > 1}
    link.expect(f"of {len(flood)} callers {len(again)} are kept", 1 <= len(again) <= 16 and again <= set(flood))
    for caller_port in flood:
        link.replay(syn.changed(source_port=caller_port, destination_port=port + 1000, sequence=((caller_port - 40000) << 20) + 1,
                                flags=RST, options=b""))
    link.passes(0.2)
    link.policy = None
    link.ends["kernel"].does("connect", link.address["ours"], port + 1000, 50003)
    link.ends["kernel"].does("connected")
    answer = link.find("ours", SYN, ACK, destination_port=50003)[0]
    link.expect("with the flood over nobody gets a cookie", answer.option(3) is not None and answer.option(4) is not None)
    kernel_setting("tcp_timestamps", 1)


def a_kernel_of_cookies():
    """The kernel answers every SYN of ours with a cookie."""
    kernel_setting("tcp_syncookies", 2)
    for stamps in (1, 0):
        kernel_setting("tcp_timestamps", stamps)
        sent, taken = kernel_counter("SyncookiesSent"), kernel_counter("SyncookiesRecv")
        link.begin()
        link.connect("ours")
        link.exchanges(f"the kernel answers with cookies, timestamps {stamps}", 500_000, 500_000)
        link.expect("a cookie was sent", kernel_counter("SyncookiesSent") == sent + 1)
        link.expect("and came back", kernel_counter("SyncookiesRecv") == taken + 1)
    kernel_setting("tcp_timestamps", 1)
    kernel_setting("tcp_syncookies", 1)


for each in ("ours", "kernel"):
    blind_segments(each)
blind_answers_to_a_caller()
a_flood_of_syns()
a_kernel_of_cookies()
link.end_all()
