#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# All cases against `sluice run` over libpcap.
source "$(dirname "$0")/link.sh"

stack_file host.toml pcap 12 '"ip", "udp"'
expect "pcap" hostile host "$SLUICE" run --json host.toml
