#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ftx and rsync make the same of a tree: random trees, destinations that exist, and options (-a, -r, -H, -X, -o, -g, filter rules,
--delete, --files-from, --delta, -I, -c, -u and their like), of which rsync has -S where there are sparse files, pushed and pulled by UDP on loopback through a program that stands for ssh. What lies there
afterwards must agree: content, type, mode, modification time, extended attributes, owners (other ones as root alone), which names are one file, and of
files with holes the room that they take: what ftx makes takes no more than what rsync -S makes, or than the source. Before that a dry run of
each says what it would do (-n -i), in which they agree as well, and leaves everything as it was; and then ftx -i says so again.

ftx_rsync_oracle_test.py [CASES [SEED]]: so many, from this seed on; many: 2000, one alone: 1 and the seed that was
printed. Left out is where ftx differs on purpose: names with control characters, a directory and a file in each other's
place, bits beyond 0777, and the attributes of a destination that is there already; and what rsync does by mistake."""
import errno
import os
import pathlib
import random
import re
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile
import time

FTX = os.path.join(os.environ["SLUICE_BIN"], "ftx")
CASES = int(sys.argv[1] if len(sys.argv) > 1 else os.environ.get("SLUICE_ORACLE_CASES", "150"))
FIRST = int(sys.argv[2] if len(sys.argv) > 2 else 1)
SECONDS_MAX = 60
HOLE = 1 << 17  # a multiple of all blocks and pages of file systems
NAMES = ["a", "b", "ab", "a b", ".h", "x.o", "y.o", "*", "[a]", "back\\slash", "é", "日本", "-n", "#c", "quote'", "~", "c.d"]
PIECES = ["a", "b", "*", "?", "**", "/", "*.o", "[ab]", "[!a]", ".h", "é", "c", "***", "\\*", " "]
RULES = ["- ", "- ", "- ", "+ ", "+ ", "-! ", "H ", "S ", "P ", "R ", "-s ", "-r ", "exclude,! "]

UPDATES = [["-I"], ["-c"], ["-c"], ["-c", "-u"], ["-c", "--existing"], ["-c", "--ignore-existing"], ["--size-only"], ["-u"], ["--existing"], ["--ignore-existing"], ["-u", "--size-only"],
           ["-u", "--existing"], ["-I", "-u"], ["-I", "--existing"], ["--size-only", "--ignore-existing"]]


def change_metadata(rng, path):
    """Another owner, where that may be, and extended attributes, where there are any."""
    if os.geteuid() == 0 and rng.random() < 0.3:
        os.lchown(path, rng.choice([0, 1, 1234]), rng.choice([0, 5, 4321]))
    if rng.random() < 0.3 and not path.is_symlink():
        name, value = rng.choice(["user.a", "user.b", "user.\u00e9"]), rng.randbytes(rng.choice([0, 3, 100]))
        try:
            os.removexattr(path, name) if name in os.listxattr(path) and rng.random() < 0.5 else os.setxattr(path, name, value)
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.EACCES):  # no root, and a file that may not be written to
                raise


def write_content(rng, path):
    """One file in eight is sparse: data at its beginning, behind a hole, before one, or in the middle of two; or nothing but a hole."""
    if rng.random() >= 1 / 8:
        path.write_bytes(rng.randbytes(rng.choice([0, 1, 100, 5000, 70_000])))
        return
    size = rng.choice([2 * HOLE, 3 * HOLE, 5 * HOLE + 1])
    with open(path, "wb") as file:
        for at in rng.sample(range(0, size, HOLE), k=rng.randint(0, 2)):
            file.seek(at)
            file.write(b"x" + rng.randbytes(rng.choice([0, 5000, HOLE - 1])))  # zeros alone are a hole to rsync
        file.truncate(max(size, file.tell()))


def make_tree(rng, top, entries):
    """Files, directories, links, hard links; each with a time of its own. Times of directories come last."""
    directories, files = [top], []
    top.mkdir()
    for _ in range(entries):
        path = rng.choice(directories) / rng.choice(NAMES)
        if os.path.lexists(path):
            continue
        kind = rng.choices(["file", "directory", "link", "hard link"], [6, 4, 2, 1])[0]
        if kind == "directory":
            path.mkdir()
            directories.append(path)
        elif kind == "link":
            path.symlink_to(rng.choice(["a", "nowhere", "../x", "/etc/hostname"]))
        elif kind == "hard link" and files:
            path.hardlink_to(rng.choice(files))
        else:
            write_content(rng, path)
            path.chmod(rng.choice([0o644, 0o600, 0o755, 0o444]))
            files.append(path)
    for path in [*top.rglob("*")] + directories[:1]:
        change_metadata(rng, path)
    for path in [*top.rglob("*")] + directories:
        when = rng.randrange(10**18, 15 * 10**17)
        os.utime(path, ns=(when, when), follow_symlinks=False)
    for path in reversed(directories[1:]):
        path.chmod(rng.choice([0o755, 0o700, 0o775, 0o555]))
        when = rng.randrange(10**18, 15 * 10**17)
        os.utime(path, ns=(when, when))


def make_older_copy(rng, source, destination, off_by_ns):
    """What an earlier transfer may have left, with some of it changed since: content, size, time, mode, links."""
    run(["cp", "-a", source, destination]).check_returncode()
    paths = [(path, path.lstat()) for path in sorted(destination.rglob("*"))]
    directories = [(path, status) for path, status in paths if stat.S_ISDIR(status.st_mode)]
    for path, _ in directories:
        path.chmod(0o755)
    for path, status in paths:
        way = rng.random()
        if stat.S_ISDIR(status.st_mode):
            continue
        if way < 0.3:
            path.unlink()
        if 0.15 <= way < 0.3:
            path.symlink_to(rng.choice(["a", "elsewhere"]))
        elif stat.S_ISREG(status.st_mode) and 0.3 <= way < 0.7:
            path.chmod(0o644)
            if way < 0.45:
                path.unlink()  # its other names keep what they have
            if status.st_size > 200 and rng.random() < 0.5:
                at, content = rng.randrange(status.st_size), (path.read_bytes() if path.exists() else bytes(status.st_size))
                path.write_bytes(content[:at] + rng.randbytes(rng.choice([0, 1, 100])) + content[at:])
            else:
                path.write_bytes(rng.randbytes(rng.choice([status.st_size, status.st_size, 1, 200])))
            path.chmod(rng.choice([0o644, 0o600]))
        if os.path.lexists(path):
            change_metadata(rng, path)
            when = status.st_mtime_ns + rng.choice([0, 0, *off_by_ns])
            when -= 3 if when != status.st_mtime_ns and when % 100 == 0 else 0  # no time that a file system has cut
            os.utime(path, ns=(when, when), follow_symlinks=False)
    for path, status in reversed(directories):
        path.chmod(rng.choice([stat.S_IMODE(status.st_mode), 0o755]))
        os.utime(path, ns=(status.st_mtime_ns, rng.choice([status.st_mtime_ns, 10**18])))


def agree_on_types(source, destination, links_too):
    """What is a directory at one side and another thing at the other goes from the destination, and with `links_too` what
    is a link or a file."""
    for path in sorted(destination.rglob("*"), key=lambda one: len(one.parts)):
        other = source / path.relative_to(destination)
        if not os.path.lexists(path) or not os.path.lexists(other):
            continue
        one, other = (stat.S_IFMT(node.lstat().st_mode) for node in (path, other))
        if one != other and (links_too or stat.S_IFDIR in (one, other)):
            run(["chmod", "-R", "u+rwx", path.parent]).check_returncode()
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def data_bytes(path):
    """Of a file: without its holes."""
    with open(path, "rb") as file:
        size, at, found = os.fstat(file.fileno()).st_size, 0, 0
        while at < size:
            try:
                begin = os.lseek(file.fileno(), at, os.SEEK_DATA)
            except OSError as error:
                if error.errno == errno.ENXIO:  # nothing but a hole follows
                    break
                raise
            at = os.lseek(file.fileno(), begin, os.SEEK_HOLE)
            found += at - begin
        return found


def larger(ours, theirs, into, source):
    """A file of ours that takes more room than theirs, and more than its source: rsync -S makes holes of zeros that are data
    there, which ftx leaves as they are."""
    for path in sorted(ours.rglob("*")):
        if path.is_file() and not path.is_symlink():
            one, other = data_bytes(path), data_bytes(theirs / path.relative_to(ours))
            origin = source / path.relative_to(into) if path.is_relative_to(into) else None
            if one > other and not (origin and origin.is_file() and data_bytes(origin) >= one):
                return f"{path.name!r}: {one} bytes of data by ftx, {other} by rsync -S"
    return None


def picture(top, since_ns):
    """What lies below a directory. A directory that something was removed from has the time of that."""
    found, groups = {}, {}
    for path in top.rglob("*"):
        status = path.lstat()
        name = str(path.relative_to(top))
        link = stat.S_ISLNK(status.st_mode)
        content = os.readlink(path) if link else path.read_bytes() if stat.S_ISREG(status.st_mode) else None
        when = "now" if status.st_mtime_ns >= since_ns else status.st_mtime_ns
        attributes = {} if link else {key: os.getxattr(path, key) for key in os.listxattr(path)}
        found[name] = (stat.S_IFMT(status.st_mode), None if link else stat.S_IMODE(status.st_mode), when, content,
                       status.st_uid, status.st_gid, attributes)
        if stat.S_ISREG(status.st_mode):
            groups.setdefault(status.st_ino, []).append(name)
    return found, sorted(sorted(group) for group in groups.values() if len(group) > 1)


def difference(ours, theirs):
    for name in sorted(set(ours[0]) | set(theirs[0])):
        one, other = ours[0].get(name), theirs[0].get(name)
        if one != other:
            short = lambda node: node and (oct(node[0]), node[1] and oct(node[1]), node[2], str(node[3])[:30], *node[4:])
            return f"{name!r}: ftx {short(one)}, rsync {short(other)}"
    return None if ours[1] == theirs[1] else f"one file: ftx {ours[1]}, rsync {theirs[1]}"


def everything(top):
    """All that a dry run could change, but the time of the last look."""
    found = {}
    for path in [top, *top.rglob("*")]:
        status = path.lstat()
        found[str(path)] = (status.st_mode, status.st_ino, status.st_nlink, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    return found


def items(output, one_file):
    """What -i says, by name. Left out is where ftx differs on purpose: `<` for what goes to the other host, which to rsync is none
    here; the directory that the transfer goes to, whose mode and time ftx leaves; and of the names of one file which has
    the content and which are links to that, since each program begins with the one that it lists first. A directory of which rsync
    says that it cannot be deleted, since something in it is kept, it names in a dry run as deleted all the same."""
    kept = {name + "/" for name in re.findall("^cannot delete non-empty directory: (.*)$", output, re.M)}
    said = {}
    for line in output.splitlines():
        item, name = line[:11].replace("<", ">"), line[12:]
        if not re.fullmatch(r"[>ch.][fdL][.+ cstpogx]{9}|\*deleting  ", item) or name == "./" or name in kept:
            continue
        name = re.sub(" => .*", "", name) if item[1] == "f" else name
        said[name] = "one of several" if name in one_file else item
    return said


def random_pattern(rng):
    pattern = rng.choice(["", "", "/", "/src/"]) + "".join(rng.choice(PIECES) for _ in range(rng.randint(1, 4)))
    return pattern + rng.choice(["", "", "", "/", "/***"])


def random_options(rng, case, source):
    """Those of both programs alike, and then those that have other names."""
    options, ours, theirs = [], [], []
    archive = rng.random() < 0.7
    ours.append("-a" if archive else "-r")
    theirs += ["-rlptog" if archive else "-rpt", "-S"]
    if rng.random() < 0.4:
        options.append("-H")
    options += [option for option in ["-X", "-o", "-g", "--numeric-ids"] if rng.random() < 0.3]
    for _ in range(rng.choice([0, 0, 1, 2, 4])):
        way = rng.random()
        if way < 0.6:
            options += ["--filter", rng.choice(RULES) + random_pattern(rng)]
        elif way < 0.9:
            options += [rng.choice(["--exclude", "--include"]), random_pattern(rng)]
        else:
            rules = case / f"rules{len(options)}"
            rules.write_text("".join(rng.choice(["", "+ ", "- "]) + random_pattern(rng) + "\n" for _ in range(3)) + "# end\n")
            options += [rng.choice(["--exclude-from", "--include-from"]), str(rules)]
    if rng.random() < 0.5:
        # With -u -H rsync replaces newer files by links to older ones.
        options += rng.choice([update for update in UPDATES if "-H" not in options or "-u" not in update])
    if rng.random() < 0.3:
        ours.append("--delta")
    choice = rng.random()
    if choice < 0.5:
        options += rng.choice([["--delete"], ["--delete"], ["--delete", "--delete-excluded"]])
        ours.append("--force-delete")
    elif choice < 0.7:
        paths = [str(path.relative_to(source)) + ("/" if path.is_dir() and not path.is_symlink() and rng.random() < 0.4 else "")
                 for path in source.rglob("*") if rng.random() < 0.3 and not str(path.relative_to(source)).startswith("#")]
        names = case / "names"
        names.write_text("".join(path + "\n" for path in paths))
        options += ["--files-from", str(names)]
        ours[0], theirs[0] = "-a", "-lptog"
        if rng.random() < 0.5:
            ours.append("-r")
            theirs.append("-r")
    return [*ours, *options], [*theirs, *options]


def run(command, **more):
    return subprocess.run(command, capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL,
                          timeout=SECONDS_MAX, check=False, **more)


def try_one(seed, case):
    rng = random.Random(seed)
    source, by_ftx, by_rsync = case / "src", case / "by_ftx", case / "by_rsync"
    make_tree(rng, source, rng.choice([0, 3, 15, 40]))
    operand = str(source) + rng.choice(["", "/"])
    ours, theirs = random_options(rng, case, source)
    into = by_ftx if operand.endswith("/") or "--files-from" in ours else by_ftx / "src"
    way = rng.random()
    if way < 0.45:
        by_ftx.mkdir()
        # With -u rsync counts seconds, even where it is told to compare nanoseconds.
        off_by_ns = [10**9, -(10**9)] if "-u" in ours else [1, -1, 400, 10**9, -(10**9)]
        make_older_copy(rng, f"{source}/." if into == by_ftx else source, by_ftx, off_by_ns)
    elif way < 0.8:
        make_tree(rng, by_ftx, 30)
        if not os.path.lexists(into) and (by_ftx / "a").is_dir() and not (by_ftx / "a").is_symlink():
            (by_ftx / "a").rename(into)
    else:
        by_ftx.mkdir()
    # With --existing -H rsync removes a link in the place of such a file, and then makes nothing.
    agree_on_types(source if into == by_ftx else case, by_ftx, "-H" in ours and "--existing" in ours)
    run(["cp", "-a", by_ftx, by_rsync]).check_returncode()
    ssh = case / "ssh"
    ssh.write_text(f"""#!/bin/sh
for argument; do [ "$argument" = -G ] && {{ echo hostname 127.0.0.1; exit 0; }}; done
export HOME={shlex.quote(str(case))} SSH_CONNECTION="127.0.0.1 1 127.0.0.1 22"
exec {shlex.quote(FTX)} remote
""")
    ssh.chmod(0o700)
    pulls = rng.random() < 0.5
    operands = [f"there:{operand}", f"{by_ftx}/"] if pulls else [operand, f"there:{by_ftx}/"]
    ftx = [FTX, "--ssh", str(ssh), "--via", "udp", *ours, *operands]
    rsync = ["rsync", "-8", f"--modify-window={0 if '-u' in theirs else -1}", *theirs, operand, f"{by_rsync}/"]
    told = f"seed {seed}\n  {shlex.join(ftx)}\n  {shlex.join(rsync)}"
    time.sleep(0.01)  # the clock of the file system is that of the scheduler's tick
    before = time.time_ns() - 5_000_000
    was = everything(by_ftx)
    one_there = {name for group in picture(by_ftx, before)[1] for name in group}
    dry, dry_rsync = run([*ftx, "-n", "-i"]), run([*rsync, "-n", "-i"])
    assert everything(by_ftx) == was, f"{told}\nthe dry run has changed something"
    one, other = run([*ftx, "-i"]), run(rsync)
    nothing = one.returncode in (5, 21) and "exclude all sources" in one.stdout + one.stderr
    assert one.returncode == 0 or nothing, f"{told}\nftx: {one.returncode}: {one.stdout}{one.stderr}"
    assert other.returncode == 0, f"{told}\nrsync: {other.returncode}: {other.stderr}"
    if not nothing:
        below = "" if into == by_ftx else "src/"
        several = {below + name for group in picture(source, before)[1] for name in group} if "-H" in ours else set()
        said, rsync_said = items(dry.stdout, several), items(dry_rsync.stdout, several)
        # Of names that are one file there already a dry run of rsync says nothing, even where the run links them anew.
        differ = sorted(item for item in set(said.items()) ^ set(rsync_said.items()) if item[0] not in several & one_there)
        assert dry.returncode == 0 and not differ, f"{told}\n{differ}\n{dry.stdout}{dry.stderr}\n{dry_rsync.stdout}"
        assert one.stdout.splitlines()[:-1] == dry.stdout.splitlines()[:-1], f"{told}\n-n: {dry.stdout}\n-i: {one.stdout}"
    differs = difference(picture(by_ftx, before), picture(by_rsync, before))
    assert differs is None, f"{told}\n{differs}"
    takes = larger(by_ftx, by_rsync, into, source)
    assert takes is None, f"{told}\n{takes}"


def main():
    if shutil.which("rsync") is None:
        sys.exit("rsync is missing; scripts/test installs what is needed")
    failed = 0
    for seed in range(FIRST, FIRST + CASES):
        with tempfile.TemporaryDirectory(prefix="ftx_oracle.") as folder:
            try:
                try_one(seed, pathlib.Path(folder))
            except (AssertionError, subprocess.TimeoutExpired) as error:
                print(error, file=sys.stderr)
                failed += 1
            finally:
                run(["chmod", "-R", "u+rwx", folder])
        if failed >= 5:
            break
    print(f"{CASES} trees from seed {FIRST}, {failed} differ")
    sys.exit(1 if failed else 0)


main()
