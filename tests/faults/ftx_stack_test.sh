#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# ftx over its own stack on either side while system calls fail, one at a time (ftx_test.py).
source "$(dirname "$0")/../e2e/common.sh"

two_namespaces
ip -n $NS_A link set veth0 up
ip -n $NS_B link set veth0 up
stack_file a.toml packet 11
stack_file b.toml packet 12
expect "packet" python3 "$TOP/tests/faults/ftx_test.py" 10.77.0.12 $NS_A "$DIR/a.toml" $NS_B "$DIR/b.toml"
