# SPDX-License-Identifier: Apache-2.0
"""The part of tools/report for the lines of scripts/peers: what a line is, tables, and how far targets hold.

A line is a transfer (suites lan, wan and small) or, with `case`, one of two flows that shared a link (fairness); bench/README.md
says what is in them. Every line is checked here once; all text reaches the page through html.escape.
"""
import html
import statistics

NUMBER_MAX = 1e15
MIB, GIB = 1 << 20, 1 << 30
ROUNDS_OF_A_REAL_RUN = 3
MACHINE_KEYS = ("cpu", "kind", "kernel", "commit")
COMMON_KEYS = {"suite", "link", "peer", "run", "seconds", "bytes", "ok", "error", "load", "machine"}
TRANSFER_KEYS = COMMON_KEYS | {"data_seconds", "cpu_seconds", "resent", "tcp"}
FLOW_KEYS = COMMON_KEYS | {"case", "share", "of_equal", "late_of_equal"}
MOSTS = {"share": 1, "of_equal": 2, "late_of_equal": 2}
# What a target may be about, and how it is called.
TRANSFER_VALUES = {"seconds": "whole, s", "data_seconds": "data, s", "cpu_per_gib": "CPU s per GiB"}
FLOW_VALUES = {"mbit": "Mbit/s", "share": "share", "of_equal": "of equal", "late_of_equal": "of equal, 2nd half"}
VALUES = {**TRANSFER_VALUES, **FLOW_VALUES}
CLAIM_KEYS = {"title", "claim", "source", "targets"}
TARGET_KEYS = {"peer", "value", "of", "link", "case", "mib", "at_least", "at_most"}
# No tools to be compared with: a copy without a network, a log-in without a file, the least that a sealed transfer does.
FLOORS = ("cp", "ssh-login", "bound")


# ---- Lines ----


class Line:
    """A checked line; what a transfer that failed has not is None."""

    def __init__(self, values):
        self.__dict__.update(values)
        self.machine = tuple(values["machine"][key] for key in MACHINE_KEYS)
        self.case = values.get("case")
        self.mib = None if self.case or self.bytes == 0 else self.bytes / MIB
        if self.ok and self.case:
            self.mbit = self.bytes * 8 / 1e6 / self.seconds
        elif self.ok:
            self.cpu_per_gib = self.cpu_seconds * GIB / self.bytes if self.bytes else None

    def key(self):
        """What no two lines have in common, except for log-ins, which come again with each size."""
        return self.machine, self.suite, self.link, self.case, self.peer, self.run, self.mib

    def value(self, name):
        return getattr(self, name, None) if self.ok else None


def is_one(values):
    return isinstance(values, dict) and "peer" in values and "figure" not in values


def text(values, key, where=""):
    if not isinstance(values[key], str) or not values[key] or not values[key].isprintable():
        raise ValueError(f"{where}{key} is not printable text")


def number(values, key, kinds, least=0):
    value, most = values[key], MOSTS.get(key, NUMBER_MAX)
    if not isinstance(value, kinds) or isinstance(value, bool) or not least <= value <= most:
        raise ValueError(f"{key} is not a {'count' if kinds is int else 'number'} from {least} to {most:g}")


def same_keys(values, wanted, where=""):
    if not isinstance(values, dict):
        raise ValueError(f"{where}not a JSON object")
    if set(values) != set(wanted):
        wrong = [f"no {key}" for key in set(wanted) - set(values)] + [f"unknown {key}" for key in set(values) - set(wanted)]
        raise ValueError(f"{where}keys: " + ", ".join(sorted(wrong)))


def checked(values):
    """The Line of a JSON object, or a ValueError that says what is wrong with it."""
    flow = "case" in values
    values = {"load": None, **values}  # lines from before there was this key
    same_keys(values, FLOW_KEYS if flow else TRANSFER_KEYS)
    same_keys(values["machine"], MACHINE_KEYS, "machine: ")
    for key in MACHINE_KEYS:
        text(values["machine"], key, "machine: ")
    for key in ("suite", "link", "peer", *(["case"] if flow else ["tcp"])):
        text(values, key)
    number(values, "run", int)
    if values["load"] is not None:
        number(values, "load", (int, float))
    if not isinstance(values["ok"], bool):
        raise ValueError("ok is neither true nor false")
    measured = ["seconds", *(("share", "of_equal", "late_of_equal") if flow else ("data_seconds", "cpu_seconds", "resent"))]
    if not flow or values["ok"]:
        number(values, "bytes", int)
    elif values["bytes"] is not None:
        raise ValueError("bytes of a flow that failed")
    if values["ok"]:
        if values["error"] is not None:
            raise ValueError("an error although it is ok")
        for key in measured:
            if values[key] is not None or key not in ("data_seconds", "resent"):
                number(values, key, int if key == "resent" else (int, float))
        if values["seconds"] < 1e-6:
            raise ValueError("seconds is not above 0")
    else:
        if not isinstance(values["error"], str) or not values["error"]:
            raise ValueError("no error although it is not ok")
        # What another program said: it may hold anything.
        values["error"] = "".join(letter if letter.isprintable() else "?" for letter in values["error"])
        for key in measured:
            if values[key] is not None:
                raise ValueError(f"{key} of a transfer that failed")
    return Line(values)


def labels_of(lines):
    """{machine: text}: its CPU; with the rest where two machines have the same CPU."""
    machines = dict.fromkeys(line.machine for line in lines)
    cpus = [machine[0] for machine in machines]
    return {machine: machine[0] if cpus.count(machine[0]) == 1 else f"{machine[0]} ({machine[1]}; Linux {machine[2]}; {machine[3]})"
            for machine in machines}


def suites_of(lines):
    """{suite: [Line]}"""
    suites = {}
    for line in lines:
        suites.setdefault(line.suite, []).append(line)
    return suites


# ---- Targets ----


def check_claims(claims):
    """A ValueError where a target would be one that nobody holds anything to."""
    for suite, claim in claims.items():
        where = f"[peers.{suite}]"
        if unknown := set(claim) - CLAIM_KEYS:
            raise ValueError(f"{where}: unknown {', '.join(sorted(unknown))}")
        for target in claim.get("targets", []):
            if unknown := set(target) - TARGET_KEYS:
                raise ValueError(f"{where}: unknown {', '.join(sorted(unknown))}")
            if "peer" not in target or not {"at_least", "at_most"} & set(target):
                raise ValueError(f"{where}: a target has a peer, and at_least, at_most or both")
            if target.get("value") not in VALUES:
                raise ValueError(f"{where}: a target's value is one of {', '.join(VALUES)}")
            for key in {"at_least", "at_most", "mib"} & set(target):
                if not isinstance(target[key], (int, float)):
                    raise ValueError(f"{where}: {key} is not a number")


def spread(values):
    """The median, and the quartiles where there are any."""
    if not values:
        return "–"
    if len(values) == 1:
        return f"{values[0]:.2f}"
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return f"{middle:.2f} ({low:.2f}–{high:.2f})"


def values_of(lines, name):
    return [line.value(name) for line in lines if line.value(name) is not None]


def by_round(lines, peer, name):
    return {(line.link, line.mib, line.run): line.value(name) for line in lines if line.peer == peer and line.value(name) is not None}


def ratios(lines, peer, of, name):
    """Within each round that has both."""
    values, others = by_round(lines, peer, name), by_round(lines, of, name)
    return [values[run] / others[run] for run in values if others.get(run)]


def asked(target):
    bounds = [f"at {word} {target[key]:g}" for key, word in (("at_least", "least"), ("at_most", "most")) if key in target]
    return " and ".join(bounds)


class Finding:
    """What a target says of one peer on one machine; `holds` is None where it was not measured."""

    def __init__(self, target, peer, lines):
        name = target["value"]
        wanted = [line for line in lines if line.link == target.get("link", line.link) and line.case == target.get("case")
                  and (line.mib == target.get("mib", line.mib) or line.peer == "ssh-login")]
        mine = [line for line in wanted if line.peer == peer]
        failed = [line for line in mine if not line.ok]
        of = target.get("of")
        values = ratios(wanted, peer, of, name) if of else values_of(mine, name)
        where = "".join(f" in {target[key]}" for key in ("link", "case") if key in target)
        size = f" at {target['mib']:g} MiB" if "mib" in target else ""
        what = f"{peer}{where}{size}: {VALUES[name]}{f' as a multiple of {of}' if of else ''}"
        if failed:  # a transfer that fails is no fast one
            self.holds, self.text = False, f"{what}: {len(failed)} of {len(mine)} failed, {asked(target)} asked"
        elif not values:
            self.holds, self.text = None, f"{what}: not measured, {asked(target)} asked"
        else:
            middle = statistics.median(values)
            self.holds = target.get("at_least", 0) <= middle <= target.get("at_most", NUMBER_MAX)
            self.text = f"{what} is {spread(values)}, {asked(target)} asked"

    @property
    def state(self):
        return {True: "holds", False: "does not hold", None: "was not measured"}[self.holds]


def findings(claim, lines):
    """Of one machine's lines of a suite. A target of "*" is one of every tool there but ftx and the floors."""
    found = []
    for target in claim.get("targets", []):
        peers = [target["peer"]]
        if peers == ["*"]:
            others = dict.fromkeys(line.peer for line in lines if not line.peer.startswith("ftx") and line.peer not in FLOORS)
            peers = list(others) or ["other tools"]
        found += [Finding(target, peer, lines) for peer in peers]
    return found


def missed(lines, claims):
    """Texts of the targets that do not hold or were not measured, and how many there are."""
    labels, bad, count = labels_of(lines), [], 0
    for suite, of_suite in suites_of(lines).items():
        for machine, label in labels.items():
            here = [line for line in of_suite if line.machine == machine]
            found = findings(claims.get(suite, {}), here) if here else []
            count += len(found)
            bad += [f"peers.{suite}: {each.text} (on {label})" for each in found if not each.holds]
    return bad, count


# ---- The page ----


def table(heads, rows):
    head = "".join(f"<th>{html.escape(cell)}</th>" for cell in heads)
    body = "".join(f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def median_of(values):
    return f"{statistics.median(values):.2f}" if values else "–"


def rounds_text(lines):
    moved = [(line.case, line.peer) for line in lines if line.bytes != 0]
    counts = sorted({moved.count(each) for each in moved} or {0})
    return f"{counts[0]}" if len(counts) == 1 else f"{counts[0]}–{counts[-1]}"


def ok_text(lines):
    return f"{sum(line.ok for line in lines)}/{len(lines)}"


def transfers_table(lines):
    floor = ["cp"] if any(line.peer == "cp" for line in lines) else []
    heads = ["peer", "ok"]
    for value in TRANSFER_VALUES.values():
        heads += [value, "× ftx", *(f"× {peer}" for peer in floor)]
    rows = []
    for peer in dict.fromkeys(line.peer for line in lines):
        mine = [line for line in lines if line.peer == peer]
        row = [peer, ok_text(mine)]
        for name in TRANSFER_VALUES:
            row.append(spread(values_of(mine, name)))
            row += [median_of(ratios(lines, peer, of, name)) if peer != "ssh-login" else "–" for of in ("ftx", *floor)]
        resent = [line.resent for line in mine if line.ok and line.resent is not None]
        rows.append([*row, f"{statistics.median(resent):.0f}" if resent else "–"])
    return table([*heads, "resent"], rows)


def flows_table(lines):
    rows = []
    for case, peer in dict.fromkeys((line.case, line.peer) for line in lines):
        mine = [line for line in lines if (line.case, line.peer) == (case, peer)]
        rows.append([case, peer, ok_text(mine), *(spread(values_of(mine, name)) for name in FLOW_VALUES)])
    return table(["case", "flow", "ok", *FLOW_VALUES.values()], rows)


def groups_of(lines):
    """{(link, MiB or None): [Line]}, a table each. A log-in moves nothing: it stands with each size of its link."""
    sizes = {}
    for line in lines:
        if line.mib is not None:
            sizes.setdefault((line.machine, line.link), {})[line.mib] = None
    groups = {}
    for line in lines:
        for mib in [line.mib] if line.mib is not None else sizes.get((line.machine, line.link), [None]):
            groups.setdefault((line.link, mib), []).append(line)
    return groups


def load_text(lines):
    loads = [line.load for line in lines if line.load is not None]
    return f"load {spread(loads)}" if loads else "load unknown"


def machine_text(machine, lines):
    cpu, kind, kernel, commit = machine
    here = [line for line in lines if line.machine == machine]
    return f"{cpu}; {kind}; Linux {kernel}; commit: {commit}; {load_text(here)} when transfers began"


def side(lines, label):
    """One machine's table, and what failed there."""
    tcp = "/".join(dict.fromkeys(line.tcp for line in lines if line.case is None))
    caption = f"{label}: medians (quartiles) of {rounds_text(lines)} rounds, {load_text(lines)}" + (f", TCP {tcp}" if tcp else "")
    shown = flows_table(lines) if lines[0].case else transfers_table(lines)
    failed = [f"failed: {line.case + ', ' if line.case else ''}{line.peer}, run {line.run + 1}: {line.error}"
              for line in lines if not line.ok]
    items = "".join(f'<li class="fails">{html.escape(each)}</li>' for each in failed)
    what_failed = f"<ul>{items}</ul>" if items else ""
    return f'<figure class="tools"><figcaption>{html.escape(caption)}</figcaption>{shown}{what_failed}</figure>'


def title_of(suite, claim):
    return html.escape(f"peers, {suite}: {claim.get('title', 'tools side by side')}")


def by_machine(lines):
    machines = {}
    for line in lines:
        machines.setdefault(line.machine, []).append(line)
    return machines


def css_of(finding):
    return {True: "holds", False: "fails", None: "part"}[finding.holds]


def section(suite, lines, claim, labels):
    source = f' <span class="source">{html.escape(claim["source"])}</span>' if claim.get("source") else ""
    parts = [f'<section id="{html.escape(f"peers.{suite}")}"><h2>{title_of(suite, claim)}</h2>',
             f"<p>{html.escape(claim.get('claim', 'Nothing is asked of this suite.'))}{source}</p>"]
    for machine, of_machine in by_machine(lines).items():
        for found in findings(claim, of_machine):
            said = f"The target {found.state} on {labels[machine]}; {found.text}."
            parts.append(f'<p><span class="{css_of(found)}">{html.escape(said)}</span></p>')
    for (link, mib), of_group in groups_of(lines).items():
        size = f", {mib:g} MiB" if mib is not None else ""
        parts.append(f"<h3>{html.escape(link + size)}</h3>")
        sides = "".join(side(of_machine, labels[machine]) for machine, of_machine in by_machine(of_group).items())
        parts.append(f'<div class="runs">{sides}</div>')
    return "".join(parts) + "</section>"


def content(suite, lines, claim, labels):
    """The suite's line in the table of contents: how many targets hold, on which machine where there are several."""
    short = []
    for machine, of_machine in by_machine(lines).items():
        found = findings(claim, of_machine)
        if found:
            good = sum(each.holds is True for each in found)
            css = "holds" if good == len(found) else "part" if good else "fails"
            where = f" on {labels[machine]}" if len(labels) > 1 else ""
            short.append(f'<span class="{css}">{html.escape(f"{good} of {len(found)} targets hold{where}")}</span>')
    link = f'<a href="#{html.escape(f"peers.{suite}")}">{title_of(suite, claim)}</a>'
    return f"<li>{link} {', '.join(short)}</li>"


def note(lines):
    rounds = {}
    for line in lines:
        key = line.key()
        rounds.setdefault(key[:5] + key[6:], set()).add(line.run)
    if all(len(each) >= ROUNDS_OF_A_REAL_RUN for each in rounds.values()):
        return ""
    return (f'<p class="note">A trial run of scripts/peers: fewer than {ROUNDS_OF_A_REAL_RUN} rounds. It shows that everything runs; '
            "its figures mean little.</p>")


def page_parts(lines, claims):
    """Of the page: facts about the machines, a note, lines of the contents, sections."""
    labels = labels_of(lines)
    suites = suites_of(lines)
    facts = "".join(f"<li>{html.escape(machine_text(machine, lines))}</li>" for machine in labels)
    contents = "".join(content(suite, of_suite, claims.get(suite, {}), labels) for suite, of_suite in suites.items())
    sections = "".join(section(suite, of_suite, claims.get(suite, {}), labels) for suite, of_suite in suites.items())
    return facts, note(lines), contents, sections
