# SPDX-License-Identifier: GPL-2.0
"""The netlink family "mpa" through the kernel's own client for netlink specifications,
for mpa_ynl.py and its tests."""

import copy
import ctypes
import errno
import functools
import json
import os
import pickle
import pwd
import signal
import socket
import subprocess
import sys
import traceback

import yaml

# Use the parser in C: in an emulated machine the Python parser takes seconds.
yaml.SafeLoader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

YNL, SPEC = sys.argv[1:3]
sys.path.insert(0, f"{YNL}/tools/net/ynl")
from lib import Netlink, NlError, YnlFamily  # noqa: E402

import mpa_ends as ends  # noqa: E402

CLI = f"{YNL}/tools/net/ynl/cli.py"
NETLINK = f"{YNL}/Documentation/netlink"
POLICY = "crc-optional startup-timeout-ms startup-max markers place".split()
CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
NOBODY = pwd.getpwnam("nobody").pw_uid
libc = ctypes.CDLL(None, use_errno=True)
tests = []


def test(function):
    tests.append(function)
    return function


def expect(expected, seen, what=""):
    assert expected == seen, f"{what} expected {expected}, seen {seen}"


@functools.cache
def described():
    return YnlFamily(SPEC, schema="", process_unknown=True)


def mpa():
    """Return a client with its own socket, but the same specification: it takes long to
    read, and an ordinary user may not be allowed to."""
    client = copy.copy(described())
    client.sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW,
                                client.nlproto.proto_num)
    for option in (Netlink.NETLINK_CAP_ACK, Netlink.NETLINK_EXT_ACK,
                   Netlink.NETLINK_GET_STRICT_CHK):
        client.sock.setsockopt(Netlink.SOL_NETLINK, option, 1)
    client.async_msg_queue = []
    return client


def do(op, **attrs):
    """Run an operation; names have "_" in place of "-"."""
    return mpa().do(op, {name.replace("_", "-"): attrs[name] for name in attrs})


def refused(number, function, *args, **kwargs):
    """Return the kernel's message for a call that must fail with this errno."""
    try:
        seen = function(*args, **kwargs)
    except NlError as error:
        expect(errno.errorcode[number], errno.errorcode[error.error])
        return error.nl_msg.extack or {}
    except OSError as error:
        expect(errno.errorcode[number], errno.errorcode[error.errno])
        return {}
    raise AssertionError(f"expected {errno.errorcode[number]}, seen {seen}")


def sysctl(name, value=None):
    path = "/proc/sys/net/mpa/" + name.replace("-", "_")
    if value is not None:
        with open(path, "w") as file:
            file.write(str(value))
    with open(path) as file:
        return int(file.read())


def sysctls():
    return {name: sysctl(name) for name in POLICY}


def listen(group):
    client = mpa()
    client.ntf_subscribe(group)
    return client


def join(client, group):
    """Join a group with a client that was already used."""
    client.sock.setsockopt(Netlink.SOL_NETLINK, Netlink.NETLINK_ADD_MEMBERSHIP,
                           client.nlproto.get_mcast_id(group, None))


def event(listener, name, sock_cookie):
    """Return the first event of this name about this socket."""

    def seen():
        listener.check_ntf()
        for message in listener.async_msg_queue:
            if message["name"] == name and message["msg"]["cookie"] == sock_cookie:
                return message["msg"]

    try:
        return ends.wait_for(seen)
    except AssertionError:
        raise AssertionError(f"expected {name} of {sock_cookie}, seen "
                             f"{listener.async_msg_queue}") from None


def dump(client=None):
    """Return all connections, by cookie; no cookie may occur twice."""
    conns = (client or mpa()).dump("conn-get", {})
    by_cookie = {conn["cookie"]: conn for conn in conns}
    expect(len(conns), len(by_cookie), "different cookies")
    return by_cookie


def cli(*args):
    """Return the command line client's output, parsed from JSON."""
    return json.loads(subprocess.run(
        cli_command(*args), check=True, stdout=subprocess.PIPE, text=True).stdout)


def cli_command(*args):
    return ["/usr/bin/python3", "-B", CLI, "--spec", SPEC, "--output-json",
            "--process-unknown", *args]


def in_child(function):
    """Run a function in a child process; return its result."""
    readable, writable = os.pipe()
    pid = os.fork()
    if pid == 0:
        signal.alarm(60)
        try:
            result = pickle.dumps((None, function()))
        except BaseException:
            result = pickle.dumps((traceback.format_exc(), None))
        with open(writable, "wb") as file:
            file.write(result)
        os._exit(0)
    os.close(writable)
    try:
        with open(readable, "rb") as file:
            failed, result = pickle.load(file)
    finally:
        os.waitpid(pid, 0)
    assert not failed, failed
    return result


def unshare(flags):
    if libc.unshare(flags):
        raise OSError(ctypes.get_errno(), "unshare")
    if flags & CLONE_NEWNET:
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)


def become_nobody():
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)
    # Otherwise /proc/self belongs to root.
    libc.prctl(4, 1, 0, 0, 0)
