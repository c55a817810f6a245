# SPDX-License-Identifier: GPL-2.0
"""Tests for mpa_ynl.py: the administrator's policy, and the kernel's attribute policies
compared with the specification."""

import errno

import mpa_policy_dump
from mpa_ynl_family import (
    NETLINK, POLICY, YnlFamily, cli, do, expect, mpa, refused, sysctl, sysctls,
    test)


@test
def policy_is_that_of_the_sysctls():
    expect(sysctls(), do("policy-get"))
    before = sysctl("startup-max")
    try:
        expect(77, sysctl("startup-max", 77))
        expect(sysctls(), do("policy-get"))
    finally:
        sysctl("startup-max", before)


def limits(name):
    checks = mpa().attr_sets["policy"][name].yaml.get("checks", {})
    return checks.get("min", 0), checks.get("max", 2 ** 32 - 1)


@test
def policy_set_moves_the_sysctls_that_it_names():
    before = sysctls()
    try:
        for name in POLICY:
            for value in limits(name):
                expect(None, mpa().do("policy-set", {name: value}))
                expect(value, sysctl(name), f"{name}:")
            mpa().do("policy-set", {name: before[name]})
            expect(before, sysctls())
        other = {"crc-optional": 1 - before["crc-optional"], "startup-timeout-ms": 1234,
                 "startup-max": 99, "markers": 1 - before["markers"],
                 "place": 1 - before["place"]}
        mpa().do("policy-set", other)
        expect(other, sysctls())
        expect(other, do("policy-get"))
    finally:
        mpa().do("policy-set", before)
    expect(before, sysctls())


@test
def command_line_client_sets_the_policy():
    before = sysctl("startup-max")
    expect(None, cli("--no-schema", "--do", "policy-set", "--json",
                     '{"startup-max": 1234}'))
    expect(1234, sysctl("startup-max"))
    sysctl("startup-max", before)


@test
def policy_out_of_range_changes_nothing():
    before = sysctls()
    n = 0
    for name in POLICY:
        least, most = limits(name)
        for value in {max(least - 1, 0), min(most + 1, 2 ** 32 - 1)} - {least, most}:
            for other in "startup-max", "startup-timeout-ms":
                if other == name:
                    continue
                attrs = [(other, before[other] + 1), (name, value)]
                for order in attrs, attrs[::-1]:
                    extack = refused(errno.ERANGE, mpa().do, "policy-set", dict(order))
                    expect("." + name, extack.get("bad-attr"), "attribute named:")
                    expect(before, sysctls())
                    n += 1
    expect(16, n, "requests")


@test
def policy_set_of_nothing_changes_nothing():
    before = sysctls()
    expect(None, do("policy-set"))
    expect(before, sysctls())


@test
def kernel_has_the_policies_of_the_specification():
    nlctrl = YnlFamily(f"{NETLINK}/specs/nlctrl.yaml", schema="", process_unknown=True)
    lines, compared = mpa_policy_dump.differences(mpa(), nlctrl)
    assert not lines, "\n".join(lines)
    expect(10, compared, "attributes compared:")
