#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# scripts/peers at tiny sizes: every line is whole, the table's ratios are those of the lines, a tool that fails, hangs, delivers other
# bytes or is not there is reported as that and never as a time, and nothing outlives the script.
source "$(dirname "$0")/common.sh"
peers() { timeout 120 "$TOP/scripts/peers" "$@"; }
real_path=$PATH

# Every line, then the table against the lines: peers_check FILE TABLE MIB PEER...
cat > check.py <<'PYTHON'
import json, sys
path, shown, mib, *wanted = sys.argv[1:]
lines = [json.loads(text) for text in open(path)]
keys = {"suite", "link", "peer", "run", "seconds", "data_seconds", "cpu_seconds", "bytes", "resent", "ok", "error", "tcp", "load", "machine"}
for line in lines:
    assert set(line) == keys, line
    assert set(line["machine"]) == {"cpu", "kind", "kernel", "commit"} and all(line["machine"].values()), line
    assert line["bytes"] == (0 if line["peer"] == "ssh-login" else int(mib) << 20), line
    assert line["ok"] and line["error"] is None, line
    assert line["seconds"] > 0 and line["cpu_seconds"] >= 0 and line["load"] >= 0, line
seconds = {line["peer"]: line["seconds"] for line in lines}
assert sorted(seconds) == sorted([*wanted, "ssh-login"]), seconds
assert all(line["data_seconds"] <= line["seconds"] for line in lines if line["peer"].startswith("ftx")), lines
rows = [[cell.strip() for cell in text.strip(" |\n").split("|")] for text in open(shown) if text.startswith("| ")]
times = {row[0]: row for row in rows if len(row) == 9}
cpu = {row[0]: row for row in rows if len(row) == 4}
for peer in wanted:
    for of, column in (("ftx", 3), ("cp", 4)):
        assert abs(float(times[peer][column]) - seconds[peer] / seconds[of]) <= 0.006, (peer, of, times[peer])
    assert float(cpu[peer][1]) >= 0, cpu[peer]
assert lines[0]["machine"]["cpu"] in open(shown).readline()
PYTHON
wanted=(cp nc scp ftx ftx-insecure ftx-stack ftx-stack-layered ftx-sums ftx-sums-layered)
command -v socat >/dev/null && wanted+=(socat)
command -v rsync >/dev/null && wanted+=(rsync-ssh rsync-daemon)
[ -d "$SLUICE_BIN/../bench" ] && wanted+=(bound) # not where no benchmarks are built (SLUICE_BENCH)
list=$(IFS=,; echo "${wanted[*]}")
expect "lan: it runs" peers --only lan --runs 1 --size 8 --peers "$list" --json lan.jsonl > lan.out
expect "cpu: it runs" peers --only cpu --runs 1 --size 8 --peers "$list" --json cpu.jsonl > cpu.out
grep -v '^| .*-login' lan.out > both.out
expect "times only in lan" test "$(grep -c 'CPU s per GiB' lan.out) $(grep -c 'whole, s' lan.out)" = "0 1"
expect "CPU only in cpu" test "$(grep -c 'CPU s per GiB' cpu.out) $(grep -c 'whole, s' cpu.out)" = "1 0"
cat cpu.out >> both.out
expect "lines are whole and ratios theirs" python3 check.py lan.jsonl both.out 8 "${wanted[@]}"

expect "two rounds" peers --only lan --runs 2 --size 1 --peers cp,nc --json turns.jsonl > turns.out
expect "their order rotates" test "$(sed 's/.*"peer": "\([^"]*\)".*/\1/' turns.jsonl | tr '\n' ' ')" = "cp nc nc cp "

# Tools that fail, each in its own way.
# scripts/peers has a /run of its own; what it is to find lies elsewhere.
mount -t tmpfs fakes /mnt
fakes=/mnt/fakes few=/mnt/few
mkdir $fakes $few
cat > $fakes/syq <<'FAKE'
#!/bin/sh
echo "this tool is broken" >&2
exit 7
FAKE
cat > $fakes/qcp <<'FAKE'
#!/bin/sh
head -c 1048576 /dev/zero > "$HOME/../home-b/in/file"
FAKE
cat > $fakes/socat <<'FAKE'
#!/bin/sh
exit 3
FAKE
printf '#!/bin/sh\necho ready\nexec sleep 86399\n' > $fakes/sendfile
printf '#!/bin/sh\nexit 0\n' > $fakes/recvfile
chmod +x $fakes/*
cat > failed.py <<'PYTHON'
import json, sys
path, *wanted = sys.argv[1:]
lines = {line["peer"]: line for line in map(json.loads, open(path))}
for peer, text in (argument.split(":", 1) for argument in wanted):
    line = lines[peer]
    assert not line["ok"] and text in line["error"], line
    assert line["seconds"] is line["data_seconds"] is line["cpu_seconds"] is line["resent"] is None, line
PYTHON
export PATH=$fakes:$real_path
expect "failures are no error of the script" peers --only lan --runs 1 --size 1 --peers cp,syq,qcp,socat,udt --json fakes.jsonl > fakes.out
expect "failures are recorded" python3 failed.py fakes.jsonl "syq:code 7: this tool is broken" "qcp:the file differs" \
  "socat:socat-there ended with code 3" "udt:there is no file"
expect "a failed tool has no time" grep -q '^| syq  *| 0/1 *| - *| - ' fakes.out
expect "its failure is shown" grep -q 'failed: qcp, run 1, veth: the file differs' fakes.out
expect "the others have theirs" grep -q '^| cp  *| 1/1 *| [0-9]' fakes.out
printf '#!/bin/sh\necho "$*" >> %s/ports\nexit 3\n' $fakes > $fakes/socat
expect "two rounds of one tool" peers --only lan --runs 2 --size 1 --peers socat --json ports.jsonl > ports.out
expect "a round has a port of its own" test "$(grep -o 'TCP-LISTEN:[0-9]*' $fakes/ports | sort -u | wc -l)" = 2
gone() {  # PATTERN
  local i
  for i in $(seq 200); do pgrep -f "$1" >/dev/null || return 0; sleep 0.05; done
  pgrep -af "$1" >&2
  return 1
}
expect "its server is gone" gone '^sleep 86399'

printf '#!/bin/sh\nsleep 86398\n' > $fakes/recvfile
expect "a tool that hangs" peers --only lan --runs 1 --size 1 --peers udt --timeout 1 --json hangs.jsonl > hangs.out
expect "it is recorded" python3 failed.py hangs.jsonl "udt:had not ended after 1 s"
expect "it is gone" gone '^sleep 8639[89]'
background killed "$TOP/scripts/peers" --only lan --runs 1 --size 1 --peers udt --json killed.jsonl
for i in $(seq 200); do pgrep -f '^sleep 86398' >/dev/null && break; sleep 0.05; done
expect "it hangs" pgrep -f '^sleep 86398' > pids
kill -KILL "${PID[killed]}"
expect "with the script killed, all of it ends" gone '^sleep 8639[89]|peers --inside'
export PATH=$real_path

# What is not there is named.
for program in unshare mount ip sh cat cp; do ln -s "$(command -v $program)" $few/; done
python=$(python3 -c 'import sys; print(sys.executable)')
PATH=$few "$python" "$TOP/scripts/peers" --only lan --runs 1 --size 1 --peers cp,syq --json few.jsonl > few.out 2> few.err
expect "it is said" grep -q 'not found.*syq (syq' few.err
expect "it is in the table" grep -q 'not found: syq (syq' few.out
expect "the rest is measured" grep -q '"peer": "cp".*"ok": true' few.jsonl
expect_exit 2 "an unknown tool" peers --peers nothing
expect_exit 2 "no round" peers --runs 0

# The links of scripts/lab.
expect "wan: it runs" peers --only wan --runs 1 --size 1 --peers cp,ftx-insecure --json wan.jsonl > wan.out
expect "each link once, without cp" test "$(grep -c '"suite": "wan".*"peer": "ftx-insecure".*"ok": true' wan.jsonl) $(wc -l < wan.jsonl)" = "4 4"
expect "compared with the link" test "$(grep -c 'x link' wan.out)" = 4

# Small files: trees arrive whole, and one that does not is a failure.
expect "small: it runs" peers --only small --runs 1 --size 1 --peers cp,nc,tar-nc,tar-ssh,ftx,ftx-insecure,ftx-again --json small.jsonl > small.out
expect "what moves trees, cp without a link" test \
  "$(grep -v ssh-login small.jsonl | sed 's/.*"peer": "\([^"]*\)".*"ok": true.*/\1/' | tr '\n' ' ')" = "cp tar-nc tar-ssh ftx ftx-insecure ftx-again tar-nc tar-ssh ftx ftx-insecure ftx-again "
printf '#!/bin/sh\n/bin/tar "$@" || exit\n! [ "$3" = -xf ] || rm "$2/tree/0001/07"\n' > $fakes/tar
chmod +x $fakes/tar
PATH=$fakes:$PATH expect "a tree without one file" peers --only small --runs 1 --size 1 --peers tar-nc --json lost.jsonl > lost.out
expect "is a failure" python3 failed.py lost.jsonl "tar-nc:1 names are missing at the destination, 0 are too many"
# A tree of mixed sizes: its second run finds it unchanged.
expect "source: it runs" peers --only source --runs 1 --size 1 --peers tar-nc,ftx,ftx-again --json source.jsonl > source.out
expect "what moves trees, again" test \
  "$(grep -v ssh-login source.jsonl | sed 's/.*"peer": "\([^"]*\)".*"ok": true.*/\1/' | tr '\n' ' ')" = "tar-nc ftx ftx-again tar-nc ftx ftx-again "
expect_exit 1 "nothing that moves trees" peers --only small --peers nc --json none.jsonl
expect "it is said" grep -q 'small, veth: none of --peers can do it' last.err

# Two flows at once: the form of what is said, not who gets what.
cat > fair.py <<'PYTHON'
import json, socket, sys
path, shown, seconds, runs = sys.argv[1:]
lines = [json.loads(text) for text in open(path)]
keys = {"suite", "link", "case", "peer", "run", "seconds", "bytes", "share", "of_equal", "late_of_equal", "ok", "error", "load", "machine"}
cases = {"ftx-cubic": ["ftx", "tcp-cubic"], "ftx-bbr": ["ftx", "tcp-bbr"], "ftx-ftx": ["ftx", "ftx-2"],
         "background-cubic": ["ftx-background", "tcp-cubic"], "cubic-cubic": ["tcp-cubic", "tcp-cubic-2"]}
def kernel_has(name):
    try:
        with socket.socket() as probe:
            return probe.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name.encode()) is None
    except OSError:
        return False
for line in lines:
    assert set(line) == keys and line["suite"] == "fairness" and line["link"] == "rate=100 rtt=40" and line["load"] >= 0, line
for case, flows in cases.items():
    for run in range(int(runs)):
        both = [line for line in lines if (line["case"], line["run"]) == (case, run)]
        assert [line["peer"] for line in both] == flows, both
        if "bbr" in case and not kernel_has("bbr") or "cubic" in case and not kernel_has("cubic"):
            assert all(not line["ok"] and line["error"].startswith("left out: this kernel has no TCP") for line in both), both
            continue
        assert all(line["ok"] and line["error"] is None and line["seconds"] == float(seconds) for line in both), both
        assert abs(sum(line["share"] for line in both) - 1) < 1e-3, both
        total = sum(line["bytes"] for line in both)
        assert total > 0, both
        assert not flows[1].endswith("-2") or both[0]["bytes"] >= both[1]["bytes"], both
        for line in both:
            assert abs(line["share"] - line["bytes"] / total) < 1e-3 and abs(line["of_equal"] - 2 * line["share"]) < 1e-3, line
            assert 0 <= line["late_of_equal"] <= 2, line
        rows = [row for row in open(shown) if row.startswith(f"| {case} ")]
        assert [row.split("|")[2].strip() for row in rows] == flows, rows
assert len(lines) == 2 * len(cases) * int(runs), len(lines)
PYTHON
expect "fairness: it runs" peers --only fairness --runs 1 --seconds 2 --json fair.jsonl > fair.out
expect "shares are whole and those of the bytes" python3 fair.py fair.jsonl fair.out 2 1
expect_exit 1 "a congestion control that no kernel has" peers --bulk can nonsuch
expect "it is said" grep -q 'this kernel has no TCP NONSUCH' last.err
expect_exit 1 "fairness without ftx" peers --only fairness --peers nc --json none.jsonl
expect "it is said" grep -q 'fairness needs an ftx' last.err

# What was written here is what tools/report reads, failures included.
expect "the report reads all of it" "$TOP/tools/report" --out page.html lan.jsonl fakes.jsonl wan.jsonl small.jsonl source.jsonl fair.jsonl
for suite in lan wan small source fairness; do expect "it has $suite" grep -q "<section id=\"peers.$suite\">" page.html; done
expect "it says what failed" grep -q 'failed: syq, run 1: syq ended with code 7: this tool is broken' page.html
