# SPDX-License-Identifier: GPL-2.0
"""The list of cases. A case is a function below @case: its docstring describes the
action and, after "Expected:", the result. It returns what was seen. To add one,
write it at the end of its group: numbers stay."""
from peer import INITIATOR, RESPONDER

MUST, SHOULD, INFO = "MUST", "SHOULD", "informative"
EITHER = (RESPONDER, INITIATOR)
cases = []


class Case:
    """A row of the catalogue, and what runs it."""

    def __init__(self, group, title, reference, roles, level, text, run, checks):
        number = sum(each.group == group for each in cases) + 1
        self.name = f"{group}.{number}"
        self.group, self.title, self.reference = group, title, reference
        self.roles = (roles,) if isinstance(roles, str) else roles
        self.level, self.run, self.checks = level, run, checks
        self.tcp = {}           # of the group "segments": what tcp.Tcp is made with
        do, _, expected = " ".join(text.split()).partition(" Expected: ")
        assert expected, title
        self.procedure, self.expected = do, expected


def group(name, checks=("pad", "crc", "markers")):
    """The decorator of a group's cases. checks: what is looked at in FPDUs that
    come, so that what a later group is about fails there."""
    def case(title, reference, roles=EITHER, level=MUST, text=None):
        def add(run):
            cases.append(Case(name, title, reference, roles, level,
                              text or run.__doc__, run, checks))
            return cases[-1]
        return add
    return case


def octets(count):
    return f"{count} octet{'s' * (count != 1)}"


def chosen(words):
    """The cases of groups, or of names, or all."""
    return [case for case in cases if not words or any(
        word in (case.group, case.name) for word in words)]
