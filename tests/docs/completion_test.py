#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What bash, zsh and fish complete, as they do it: the flags of each command are those of its --help, values of flags,
commands, local paths and hosts of the ssh configuration. fish and bash complete themselves; for zsh its completion
functions are replaced by ones that print."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAMS = os.environ["SLUICE_BIN"]
BASH_COMPLETION = pathlib.Path("/usr/share/bash-completion/bash_completion")
problems = []

BASH = """
source {library}; source {completions}/ftx.bash
COMP_LINE=$1; COMP_POINT=${{#COMP_LINE}}
read -ra COMP_WORDS <<< "$COMP_LINE"
[[ $COMP_LINE != *' ' ]] || COMP_WORDS+=('')
COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
_ftx ftx "${{COMP_WORDS[COMP_CWORD]}}" "${{COMP_WORDS[COMP_CWORD-1]}}" 2>/dev/null
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
# Prints what matches, as compadd would show it.
ZSH = """
compadd() {{ [[ $1 == -- ]] && shift; print -rl -- ${{(M)@:#${{words[CURRENT]}}*}}; }}
_files() {{ [[ $1 == -/ ]] && print -rl -- *(N/) || print -rl -- ${{words[CURRENT]}}*(N); }}
_ssh_hosts() {{ compadd ${{(f)"$(sed -n 's/^Host //p' $HOME/.ssh/config)"}}$2; }}
_command_names() {{ print -rl -- ${{words[CURRENT]}}; }}
_message() {{ }}
words=(${{=1}}); [[ $1 != *' ' ]] || words+=('')
CURRENT=$#words
source {completions}/_ftx
"""
FISH = "source {completions}/ftx.fish; complete -C $argv[1]"


def shells():
    texts = {"completions": ROOT / "completions", "library": BASH_COMPLETION}
    yield "bash", ["bash", "--norc", "-c", BASH.format(**texts), "bash"]
    yield "zsh", ["zsh", "-f", "-c", ZSH.format(**texts), "zsh"]
    yield "fish", ["fish", "--no-config", "-c", FISH.format(**texts)]


def completed(shell, home, line):
    found = subprocess.run([*shell, line], cwd=home, capture_output=True, text=True, timeout=60,
                           env={**os.environ, "PATH": f"{PROGRAMS}:{os.environ['PATH']}", "HOME": str(home), "LC_ALL": "C.UTF-8"})
    return {each.split("\t")[0].rstrip("/") for each in found.stdout.splitlines() if each}


def flags_of(*job):
    text = subprocess.run([f"{PROGRAMS}/ftx", *job, "--help"], capture_output=True, text=True, check=True).stdout
    return {flag for each in re.findall(r"^  (-\S+)", text, re.M) for flag in each.split(",")}


def check(what, found, expected):
    good = found == expected
    print(f"{'ok' if good else 'FAILED'}: {what}")
    if not good:
        problems.append(what)
        print(f"  missing {sorted(expected - found)}, too many {sorted(found - expected)}")


def main():
    for program in ("bash", "zsh", "fish"):
        assert shutil.which(program), f"{program} is missing; scripts/packages test installs it"
    assert BASH_COMPLETION.exists(), "bash-completion is missing; scripts/packages test installs it"
    with tempfile.TemporaryDirectory() as folder:
        home = pathlib.Path(folder)
        (home / ".ssh").mkdir()
        (home / ".ssh/config").write_text("Host backup-host\n  HostName 192.0.2.1\n")
        (home / "big.bin").touch()
        (home / "bigger").mkdir()
        for name, shell in shells():
            for job in ([], ["serve"], ["key"], ["doctor"]):
                flags = flags_of(*job)
                line = " ".join(["ftx", *job])
                check(f"{name}: the flags of {line}", completed(shell, home, line + " --"), {flag for flag in flags if flag.startswith("--")})
                check(f"{name}: all of its flags", completed(shell, home, line + " -") - {"-"}, flags)
            check(f"{name}: a value of a flag", completed(shell, home, "ftx --congestion "), {"bbr", "cubic"})
            check(f"{name}: a file of a flag", completed(shell, home, "ftx --stack big."), {"big.bin"})
            check(f"{name}: nothing to choose from", completed(shell, home, "ftx --rate big"), set())
            check(f"{name}: local paths", completed(shell, home, "ftx big.bin big"), {"big.bin", "bigger"})
            check(f"{name}: a directory to serve", completed(shell, home, "ftx serve ") - {".ssh"}, {"bigger"})
            check(f"{name}: commands and files", completed(shell, home, "ftx se"), {"serve"})
            check(f"{name}: hosts", completed(shell, home, "ftx big.bin back"), {"backup-host:"})
            check(f"{name}: hosts to look at", completed(shell, home, "ftx doctor back"), {"backup-host"})
            check(f"{name}: nothing of another host", completed(shell, home, "ftx big.bin backup-host:b"), set())
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
