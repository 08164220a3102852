# SPDX-License-Identifier: Apache-2.0
"""router.py DEVICE: a router in Python, beside the kernel that forwards. Sends a router advertisement for each line on
standard input, and one (the last line) for each router solicitation, of which it prints "solicited".

A line: LIFETIME [PREFIX LENGTH VALID PREFERRED FLAGS]...  [hops=N] [source=ADDRESS]"""
import select
import socket
import struct
import sys

ALL_NODES, SOLICITATION = "ff02::1", 133


def advertisement(line):
    hops, source = 255, None
    words = []
    for word in line.split():
        if word.startswith("hops="):
            hops = int(word[5:])
        elif word.startswith("source="):
            source = word[7:]
        else:
            words.append(word)
    message = struct.pack("!BBHBBHII", 134, 0, 0, 0, 0, int(words[0]), 0, 0)
    for at in range(1, len(words), 5):
        prefix, length, valid, preferred, flags = words[at:at + 5]
        message += struct.pack("!BBBBIII", 3, 4, int(length), int(flags, 16), int(valid), int(preferred), 0)
        message += socket.inet_pton(socket.AF_INET6, prefix)
    return message, hops, source


def main():
    device = sys.argv[1]
    index = socket.if_nametoindex(device)
    wire = socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6)
    wire.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, device.encode())
    group = socket.inet_pton(socket.AF_INET6, "ff02::2") + struct.pack("@I", index)
    wire.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, group)
    wire.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, index)

    def send(line):
        message, hops, source = advertisement(line)
        with socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6) as out:
            out.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, index)
            out.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS, hops)
            if source:
                out.bind((source, 0))
            out.sendto(message, (ALL_NODES, 0, 0, index))

    last = sys.stdin.readline()
    print("ready", flush=True)
    while True:
        readable, _, _ = select.select([wire, sys.stdin], [], [])
        if sys.stdin in readable:
            line = sys.stdin.readline()
            if not line:
                return
            if line.split()[0] != "once":
                last = line
            send(line.removeprefix("once"))
            print("sent", flush=True)
        if wire in readable and wire.recv(2048)[0] == SOLICITATION:
            print("solicited", flush=True)
            send(last)


if __name__ == "__main__":
    main()
