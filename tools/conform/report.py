# SPDX-License-Identifier: GPL-2.0
"""What is said of the cases: on a terminal, for machines, and as a page."""
import html as markup
import io
import json as notation
import os
import sys
import textwrap
import types
from contextlib import redirect_stdout
from xml.sax.saxutils import quoteattr

import annotate
import catalogue
import output
import peer
import rfc5044

COLOURS = {"pass": "32", "fail": "31;1", "warn": "33", "info": "36", "skip": "2"}
FPDUS = 4           # shown of a direction
OCTETS = 512        # shown of what is neither a startup frame nor an FPDU


class Result:
    """Of one case: pass, fail, warn (a SHOULD that is not met), info or skip."""

    def __init__(self, case, peers):
        self.case, self.peers = case, peers
        self.status, self.seen, self.seconds = "fail", "", 0.0
        self.met_nobody = False
        self.capture = None     # the file
        self.packets = None     # with --segments: (time, packet)

    def fail(self, why):
        self.status = {catalogue.MUST: "fail", catalogue.SHOULD: "warn",
                       catalogue.INFO: "info"}[self.case.level]
        self.seen = str(why)
        self.met_nobody = not any(each.got for each in self.peers) and \
            isinstance(why, (peer.Silent, peer.Unreachable))
        if self.met_nobody:
            self.status = "fail"


def counts(results):
    texts = {"pass": "passed", "fail": "failed", "warn": "SHOULD not met",
             "info": "informative", "skip": "skipped"}
    return ", ".join(f"{sum(each.status == status for each in results)} {text}"
                     for status, text in texts.items())


def row(case):
    role = case.roles[0] if len(case.roles) == 1 else "both roles"
    print(f"{case.name:<14}{role:<12}{case.level:<13}{case.title}")


def explain(case):
    row(case)
    for title, text in (("reference", case.reference), ("procedure", case.procedure),
                        ("expected", case.expected)):
        print(textwrap.fill(f"{title + ':':<11}{text}", 78, initial_indent="  ",
                            subsequent_indent=" " * 13))


class Terminal:
    """A line a case, coloured on a terminal."""

    def __init__(self):
        self.colour = sys.stdout.isatty() and "NO_COLOR" not in os.environ

    def tell(self, result):
        word = f"{result.status.upper():<5}"
        if self.colour:
            word = f"\x1b[{COLOURS[result.status]}m{word}\x1b[0m"
        case = result.case
        print(f"{word} {case.name:<13} {case.title}", flush=True)
        if result.status in ("fail", "warn"):
            print(f"      expected: {case.expected}\n      seen:     {result.seen}\n"
                  f"      {case.reference}")
        elif result.status in ("info", "skip"):
            print(f"      {result.seen}")

    def end(self, results):
        print(counts(results))


class Tap:
    """Informative cases are ok, and say what they have seen."""

    def __init__(self, count):
        self.count = 0
        print(f"1..{count}")

    def tell(self, result):
        self.count += 1
        case, good = result.case, result.status != "fail"
        text = f"{'ok' if good else 'not ok'} {self.count} {case.name} {case.title}"
        if result.status == "skip":
            text += f" # SKIP {result.seen}"
        print(text.replace("\n", " "))
        if result.status in ("fail", "warn"):
            print(f"# expected: {case.expected} ({case.reference}, {case.level})")
        if result.status != "skip":
            print(f"# seen: {result.seen}", flush=True)

    def end(self, results):
        print(f"# {counts(results)}")


def facts(result):
    case = result.case
    return {"case": case.name, "title": case.title, "reference": case.reference,
            "level": case.level, "procedure": case.procedure, "expected": case.expected,
            "status": result.status, "seen": result.seen,
            "seconds": round(result.seconds, 3), "capture": result.capture}


def json(file, results, world):
    notation.dump({"role": world.role, "seed": world.options.seed,
                   "counts": {status: sum(each.status == status for each in results)
                              for status in COLOURS},
                   "cases": [dict(facts(result), octets=[
                       [{"from": "tested end" if who == "came" else "conform",
                         "octets": what.hex()} if isinstance(what, bytes) else
                        {"from": "tested end" if who == "came" else "conform",
                         "event": what} for _, who, what in each.log]
                       for each in result.peers]) for result in results]},
                  file, indent=1)


def junit(file, results, world):
    failed = sum(result.status == "fail" for result in results)
    skipped = sum(result.status == "skip" for result in results)
    file.write('<?xml version="1.0" encoding="UTF-8"?>\n'
               f'<testsuite name="mpa conform, {world.role}" tests="{len(results)}" '
               f'failures="{failed}" skipped="{skipped}">\n')
    for result in results:
        case = result.case
        file.write(f' <testcase classname="{case.group}" name='
                   f'{quoteattr(case.name + " " + case.title)} '
                   f'time="{result.seconds:.3f}">')
        text = markup.escape(f"{case.reference}\nexpected: {case.expected}\n"
                             f"seen: {result.seen}")
        if result.status == "fail":
            file.write(f'<failure message={quoteattr(result.seen)}>{text}</failure>')
        elif result.status == "skip":
            file.write(f'<skipped message={quoteattr(result.seen)}/>')
        else:
            file.write(f'<system-out>{text}</system-out>')
        file.write('</testcase>\n')
    file.write('</testsuite>\n')


# ---- the page ----

STYLE = """body { font: 15px sans-serif; max-width: 70em; margin: 2em auto; padding: 0 1em }
pre { background: #f4f4f4; padding: .6em; overflow-x: auto; font-size: 13px }
summary { cursor: pointer; padding: .2em 0 } dt { font-weight: bold }
.pass { color: #070 } .fail { color: #b00; font-weight: bold } .warn { color: #960 }
.info { color: #057 } .skip { color: #777 }
@media (prefers-color-scheme: dark) { body { background: #111; color: #ddd }
pre { background: #222 } .pass { color: #6c6 } .fail { color: #f66 }
.warn { color: #fb3 } .info { color: #6bf } }"""


class Unsegmented:
    """Where segments begin is not known: annotate.py shows none."""
    begins = {}

    def of(self, _):
        return None


def annotated(each):
    """What went both ways on a connection, octet by octet."""
    text = io.StringIO()
    with redirect_stdout(text):
        for who, octets, to in (("conform", bytes(each.sent), "tested end"),
                                ("tested end", bytes(each.got), "conform")):
            print(f"==== {who} -> {to}: {len(octets)} octets")
            direction(octets, each, who, to)
        events = [f"{'tested end' if who == 'came' else 'conform'}: {what}"
                  for _, who, what in each.log if isinstance(what, str)]
        print("\n".join(events))
    return text.getvalue()


def direction(octets, each, who, to):
    out = output.Printer(False)
    at = 0
    if octets[:16] in (rfc5044.REQUEST, rfc5044.REPLY) and len(octets) >= 20:
        frame = rfc5044.Startup(octets, 0)
        if frame.whole:
            annotate.show_startup(out, frame, 1, who, to)
            at = frame.end
    ours = who == "conform"
    marked = each.tx.markers if ours else each.marked
    if each.start_at is not None:
        found = types.SimpleNamespace(
            stream=octets, marked=marked, crc=each.crc,
            fpdus=list(rfc5044.fpdus(octets, at, marked, True)))
        for n in range(min(FPDUS, len(found.fpdus))):
            annotate.show_fpdu(out, found, n, Unsegmented(), who)
        if len(found.fpdus) > FPDUS:
            print(f"... {len(found.fpdus) - FPDUS} more FPDUs\n")
        at = found.fpdus[-1].at + found.fpdus[-1].len if found.fpdus else at
    rest = octets[at:at + OCTETS]
    for off in range(0, len(rest), 16):
        part = rest[off:off + 16]
        print(f"  {at + off:04x}  {part.hex(' '):<47}  "
              + "".join(chr(c) if 32 <= c < 127 else "." for c in part))
    if len(octets) - at > OCTETS:
        print(f"  ... {len(octets) - at - OCTETS} more octets")


def html(file, results, world):
    escape = markup.escape
    file.write(f'<!DOCTYPE html><html lang="en"><meta charset="utf-8">'
               f'<title>mpa conform</title><style>{STYLE}</style>'
               f'<h1>mpa conform: {world.role}</h1><p>{escape(counts(results))}; '
               f'seed {escape(world.options.seed)}</p>\n')
    group = None
    for result in results:
        case = result.case
        if case.group != group:
            group = case.group
            file.write(f'<h2>{group}</h2>\n')
        file.write(f'<details id="{case.name}"{" open" * (result.status == "fail")}>'
                   f'<summary><span class="{result.status}">{result.status.upper()}'
                   f'</span> {case.name} {escape(case.title)}</summary><dl>\n')
        for title, text in (("Reference", f"{case.reference} ({case.level})"),
                            ("Procedure", case.procedure), ("Expected", case.expected),
                            ("Seen", result.seen)):
            file.write(f'<dt>{title}</dt><dd>{escape(text)}</dd>\n')
        if result.capture:
            link = os.path.relpath(result.capture, os.path.dirname(file.name) or ".")
            file.write(f'<dt>Capture</dt><dd><a href="{escape(link)}">{escape(link)}</a>, '
                       'for Wireshark</dd>\n')
        file.write('</dl>\n')
        for each in result.peers[-1:]:
            file.write(f'<pre>{escape(annotated(each))}</pre>\n')
        file.write('</details>\n')
    file.write('</html>\n')
