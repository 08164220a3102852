#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""hostile.py host|offload_host|sharing_host|filtered_host|listener|server DEVICE NAMESPACE PROGRAM ARGUMENT...

Starts the program in the namespace and throws all cases at it over the device, which is the peer's end of their link."""
import sys

import cases_ftx
import cases_ipv4
import cases_ipv6
import cases_link_arp
import cases_segments
import trial

TARGETS = {"host": trial.Host, "offload_host": trial.Host, "sharing_host": trial.SharingHost,
           "filtered_host": trial.FilteredHost, "listener": trial.Listener, "server": trial.Server}


def main():
    what, device, namespace, *arguments = sys.argv[1:]
    cases = cases_link_arp.CASES + cases_ipv4.CASES + cases_ipv6.CASES
    if what in ("offload_host", "sharing_host"):
        cases += cases_segments.CASES
    if what == "server":
        cases += cases_ftx.CASES
    target = TARGETS[what](trial.Wire(device), arguments, namespace)
    failed = trial.run(target, cases)
    status = target.program.end()
    print(f"{len(cases)} cases, {failed} failed; the program ended with {status}")
    return failed != 0 or status != target.INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
