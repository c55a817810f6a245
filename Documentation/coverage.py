#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""coverage.py DIR: whether the tables of conform.rst have a row for each sentence with MUST, SHALL,
REQUIRED, SHOULD or RECOMMENDED of rfc5044.txt and rfc6581.txt in DIR, and no other rows; and
whether each case of mpa conform is in one. Without these files: the cases only."""
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.realpath(__file__))
PAGE = os.path.join(HERE, "networking/mpa/conform.rst")
KEYWORD = re.compile(r"\b(MUST|SHALL|REQUIRED|SHOULD|RECOMMENDED)\b")
# Instead of cases; the page explains them.
REASONS = ("local", "program", "SCTP", "IPsec")


def sentences(path):
    """(section, sentence) of an RFC, if it has a keyword."""
    section, paragraph = "", []

    def end():
        text = " ".join(paragraph)
        paragraph.clear()
        for sentence in re.split(r"(?<=[.:;?])\s+(?=[A-Z\"(*0-9])", text):
            if KEYWORD.search(sentence) and "key words" not in sentence:
                yield section, sentence

    with open(path, encoding="latin-1") as file:
        lines = file.read().replace("\f", "\n").splitlines()
    for line in lines:
        if re.match(r"RFC \d+ .* \d{4}$|\S.*\[Page \d+\]$", line):
            continue
        title = re.match(r"((?:[A-Z]\.)?(?:\d+\.)*\d+)\.?  ?\S", line)
        # A page may end inside a paragraph.
        if title or not line.strip() and paragraph and re.search("[.:;]$", paragraph[-1]):
            yield from end()
        if title:
            section = title[1]
        elif line.strip():
            paragraph.append(line.strip())
    yield from end()


def rows(page, rfc):
    """(section, fragments of the sentence, cases or reason) of a table."""
    table = re.search(rf"^\.\. csv-table:: {rfc}\n((?:   .*\n|\n)*)", page, re.M)[1]
    for section, quote, cases in re.findall(r"^   (\S+) \| (.*) \| (.*)$", table, re.M):
        if section != ":header:":
            yield section, quote.split(" ... "), cases


def fits(row, section, sentence):
    at = 0
    for part in row[1]:
        at = sentence.find(part, at)
        if at < 0:
            return False
        at += len(part)
    return row[0] == section


def named(text):
    """The cases that a text names."""
    for group, first, last in re.findall(
            r"\b([a-z]+)\.(\d+)(?: to [a-z]+\.(\d+))?", text):
        for number in range(int(first), int(last or first) + 1):
            yield f"{group}.{number}"


def compare(table, path):
    """Rows and sentences that do not have each other."""
    met = set()
    for section, sentence in sentences(path):
        found = [n for n, row in enumerate(table) if fits(row, section, sentence)]
        met.update(found)
        if not found:
            yield f"no row for {section}: {sentence}"
    for n, row in enumerate(table):
        if n not in met:
            yield f"no sentence for the row {row[0]}: {' ... '.join(row[1])}"


def problems(folder):
    with open(PAGE, encoding="utf-8") as file:
        page = file.read()
    for rfc in ("RFC 5044", "RFC 6581"):
        table = list(rows(page, rfc))
        for row in table:
            if row[2] not in REASONS and not list(named(row[2])):
                yield f"neither a case nor a reason: {row[0]} {row[2]}"
        path = os.path.join(folder, rfc.lower().replace(" ", "") + ".txt")
        if os.path.exists(path):
            yield from compare(table, path)
            print(f"{len(table)} rows for {rfc}")
        else:
            print(f"there is no {path}: the sentences of {rfc} are not compared")
    tables = set(named(page[page.index(".. csv-table:: "):]))
    known = [line.split() for line in subprocess.check_output(
        [os.path.join(HERE, "../tools/conform/conform"), "--list"], text=True).splitlines()]
    names = {words[0] for words in known}
    for name in sorted(set(named(page)) - names):
        yield f"there is no case {name}"
    for words in known:
        if words[0] not in tables:
            yield f"in no row: {' '.join(words)}"


def main():
    found = list(problems(sys.argv[1] if sys.argv[1:] else ""))
    for text in found:
        print(text)
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
