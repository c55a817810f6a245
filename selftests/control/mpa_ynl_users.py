# SPDX-License-Identifier: GPL-2.0
"""Tests for mpa_ynl.py: ordinary users, other namespaces, and root of user namespaces."""

import ctypes
import errno

import mpa_ends as ends
from mpa_ynl_family import (
    CLONE_NEWNET, CLONE_NEWUSER, NOBODY, become_nobody, do, dump, event, expect,
    in_child, join, libc, listen, mpa, refused, sysctl, sysctls, test, unshare)
from mpa_ynl_taps import records, tap


@test
def ordinary_user_sees_and_changes_nothing():
    a, b = ends.pair()
    cookies = {ends.cookie(sock) for sock in (a, b)}
    before = sysctls()

    def nobody():
        become_nobody()
        conns = dump()
        refused(errno.EPERM, listen, "events")
        c, d = ends.pair()
        refused(errno.EPERM, do, "policy-set", startup_max=17)
        refused(errno.EPERM, do, "policy-set")
        refused(errno.EPERM, do, "tap-set", cookie=ends.cookie(c), octets=16)
        refused(errno.EPERM, do, "tap-clear", cookie=ends.cookie(c))
        return set(conns), do("policy-get")

    seen, policy = in_child(nobody)
    assert cookies <= seen, f"expected {cookies}, seen {seen}"
    expect(before, policy)
    expect(before, sysctls())


@test
def other_namespace_sees_nothing():
    before = sysctls()

    def both():
        a, b = ends.pair()
        here = listen("events")
        with open("/proc/self/ns/net") as namespace:
            unshare(CLONE_NEWNET)
            there = listen("events")
            expect({}, dump())
            refused(errno.ENOENT, do, "conn-get", cookie=ends.cookie(a))
            refused(errno.ENOENT, do, "tap-set", cookie=ends.cookie(a), octets=16)
            c, d = ends.pair()
            own = {ends.cookie(sock) for sock in (c, d)}
            expect(own, dump().keys())
            do("policy-set", startup_max=17)
            expect(17, sysctl("startup-max"))
            if libc.setns(namespace.fileno(), CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), "setns")
        told_here = {ends.cookie(sock) for sock in (a, b)}
        for sock in a, b, c, d:
            sock_cookie = ends.cookie(sock)
            sock.close()
            event(here if sock_cookie in told_here else there, "closed-ntf", sock_cookie)
        for listener, cookies in (here, told_here), (there, own):
            expect(cookies, {message["msg"]["cookie"]
                             for message in listener.async_msg_queue})

    in_child(both)
    expect(before, sysctls())


@test
def root_of_a_user_namespace_has_its_own_policy_only():
    a, b = ends.pair()
    before = sysctls()

    def contained():
        become_nobody()
        other = mpa()
        try:
            unshare(CLONE_NEWUSER)
        except OSError as error:
            return str(error)
        for name, line in (("setgroups", "deny"), ("uid_map", f"0 {NOBODY} 1"),
                           ("gid_map", f"0 {NOBODY} 1")):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(line)
        unshare(CLONE_NEWNET)
        refused(errno.EPERM, other.do, "policy-set", {"startup-max": 17})
        refused(errno.EPERM, other.do, "tap-set", {"cookie": ends.cookie(a), "octets": 1})
        refused(errno.EPERM, join, other, "events")
        do("policy-set", startup_max=17)
        expect(17, sysctl("startup-max"))
        listener = mpa()
        c, d = ends.pair()
        tap(listener, ends.cookie(c), 16)
        ends.transfer(c, d, 5)
        records(listener, 1)
        return None

    reason = in_child(contained)
    expect(before, sysctls())
    return reason
