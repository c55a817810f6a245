# SPDX-License-Identifier: GPL-2.0
"""mpa_nl_fuzz.py [--seed N] [--time SECONDS] SPEC: malformed requests to the netlink
family "mpa", in TAP. mpa_nl_fuzz.sh runs it.

It first makes each mistake in each attribute of each operation, then random mixtures
(--seed) until the time is over; as an administrator, then as an ordinary user. Each
request must be answered. A mistake must cause an error and not change the policy.
Between them good requests must succeed, and the policy must be in range."""

import argparse
import ctypes
import errno
import os
import pwd
import random
import signal
import socket
import struct
import subprocess
import sys
import time
import traceback

import yaml

import mpa_ends as ends

NETLINK_GENERIC = 16
SOL_NETLINK = 270
ADD_MEMBERSHIP, CAP_ACK, EXT_ACK = 1, 10, 11
NLMSG_ERROR, NLMSG_DONE = 2, 3
REQUEST, MULTI, ACK, DUMP = 0x1, 0x2, 0x4, 0x300
NESTED, NET_BYTEORDER = 0x8000, 0x4000
CTRL, CTRL_GETFAMILY, CTRL_NAME, CTRL_ID, CTRL_GROUPS = 16, 3, 2, 1, 7
FORMATS = {"u8": "B", "u16": "H", "u32": "I", "u64": "Q"}
# The expected answer to a request.
GOOD, BAD, ANY = "success", "an error", "an answer"


def attr(number, payload, length=None):
    """Return a padded attribute. @length: a wrong length field."""
    length = 4 + len(payload) if length is None else length
    return struct.pack("HH", length, number) + payload + bytes(-len(payload) % 4)


def attrs_of(octets):
    """Return [(number, payload)]."""
    found, at = [], 0
    while at + 4 <= len(octets):
        length, number = struct.unpack_from("HH", octets, at)
        if length < 4:
            break
        found.append((number & 0x3FFF, octets[at + 4:at + length]))
        at += length + 3 & ~3
    return found


def message(kind, flags, seq, payload):
    return struct.pack("IHHII", 16 + len(payload), kind, flags, seq, 0) + payload


class Spec:
    """Operations and attributes of the specification, with their numbers."""

    def __init__(self, path):
        with open(path) as file:
            tree = yaml.load(file, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        self.name = tree["name"]
        self.sets = {}
        for each in tree["attribute-sets"]:
            self.sets[each["name"]] = {
                one["name"]: {**one, "number": i}
                for i, one in enumerate(each["attributes"], 1)}
        self.ops = {
            one["name"]: {**one, "number": i}
            for i, one in enumerate(tree["operations"]["list"], 1)}
        self.requests = [op for op in self.ops.values() if "do" in op]

    def wanted(self, op):
        """Return the attributes that a request for this operation may have."""
        names = op["do"].get("request", {}).get("attributes", [])
        return [self.sets[op["attribute-set"]][name] for name in names]


def limits(one):
    checks = one.get("checks", {})
    most = 256 ** struct.calcsize(FORMATS[one["type"]]) - 1
    return checks.get("min", 0), checks.get("max", most)


class Kernel:
    """A netlink socket, for requests and answers."""

    def __init__(self, name):
        self.sock = self.open()
        self.seq = 0
        reply = self.ask(CTRL, CTRL_GETFAMILY,
                         attr(CTRL_NAME, name.encode() + b"\0"))
        found = dict(attrs_of(reply[0][4:]))
        self.family, = struct.unpack("H", found[CTRL_ID])
        groups = [dict(attrs_of(one)) for _, one in attrs_of(found[CTRL_GROUPS])]
        self.groups = {one[1].rstrip(b"\0").decode(): struct.unpack("I", one[2])[0]
                       for one in groups}

    @staticmethod
    def open():
        sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_GENERIC)
        sock.setsockopt(SOL_NETLINK, CAP_ACK, 1)
        sock.setsockopt(SOL_NETLINK, EXT_ACK, 1)
        sock.bind((0, 0))
        return sock

    def reopen(self):
        self.sock.close()
        self.sock = self.open()

    def answers(self, octets):
        """Send octets; return [(type, seq, payload)] of all messages received then. A
        dump is read to its end."""
        signal.alarm(60)
        try:
            self.sock.send(octets)
        except OSError as error:
            # These octets may be empty.
            if octets or error.errno != errno.ENODATA:
                raise
        found, dumping = [], False
        while True:
            try:
                # A dump continues as long as it is read.
                got = self.sock.recv(1 << 17, 0 if dumping else socket.MSG_DONTWAIT)
            except BlockingIOError:
                return found
            at = 0
            while at < len(got):
                length, kind, flags, seq, _ = struct.unpack_from("IHHII", got, at)
                found.append((kind, seq, got[at + 16:at + length]))
                # Unsolicited messages of the kernel have number 0.
                if seq:
                    dumping = bool(flags & MULTI) and kind != NLMSG_DONE
                at += length + 3 & ~3

    def ask(self, family, command, octets, flags=REQUEST | ACK):
        """Send a good request; return the replies."""
        error, replies = self.try_out(message(family, flags, self.next(),
                                              struct.pack("BBH", command, 1, 0) + octets))
        assert error == 0, f"request {command} {octets.hex()}: {error}"
        return replies

    def next(self):
        self.seq += 1
        return self.seq

    def try_out(self, octets):
        """Return (errno, replies) for the last request sent; errno is None without an
        answer."""
        error, replies = None, []
        for kind, seq, payload in self.answers(octets):
            if seq != self.seq:
                continue
            if kind in (NLMSG_ERROR, NLMSG_DONE):
                error = -struct.unpack_from("i", payload)[0]
            else:
                replies.append(payload)
        return error, replies


class Fuzz:
    def __init__(self, spec, kernel, chance):
        self.spec, self.kernel, self.chance = spec, kernel, chance
        self.user = False
        self.count = {GOOD: 0, BAD: 0, ANY: 0}
        self.pairs = [ends.pair() for _ in range(2)]
        self.cookies = [ends.cookie(sock) for pair in self.pairs for sock in pair]
        self.ears = Kernel.open()
        for group in kernel.groups.values():
            self.ears.setsockopt(SOL_NETLINK, ADD_MEMBERSHIP, group)
        self.policy = self.get_policy()

    # ---- good requests ----

    def command(self, name, octets=b"", flags=REQUEST | ACK):
        return self.kernel.ask(self.kernel.family, self.spec.ops[name]["number"],
                               octets, flags)

    def get_policy(self):
        """Return {number: value}; all values must be there, and in range."""
        found = {number: struct.unpack("I", value)[0] for number, value
                 in attrs_of(self.command("policy-get")[0][4:])}
        for one in self.spec.sets["policy"].values():
            least, most = limits(one)
            value = found.get(one["number"], -1)
            assert least <= value <= most, \
                f"{one['name']}: expected {least} to {most}, seen {value}"
        return found

    def good_value(self, one):
        if one["name"] == "cookie":
            return self.chance.choice(self.cookies)
        least, most = limits(one)
        return self.chance.choice([least, most, self.chance.randint(least, most)])

    def good_attr(self, one):
        return attr(one["number"],
                    struct.pack(FORMATS[one["type"]], self.good_value(one)))

    def good_attrs(self, op):
        wanted = self.spec.wanted(op)
        if op["name"] == "policy-set":
            wanted = self.chance.sample(wanted, self.chance.randint(0, len(wanted)))
        return [self.good_attr(one) for one in wanted]

    def good(self):
        """Check that good requests still work."""
        cookie = self.chance.choice(self.cookies)
        one = self.spec.sets["conn"]["cookie"]["number"]
        asked = attr(one, struct.pack("Q", cookie))
        seen = dict(attrs_of(self.command("conn-get", asked)[0][4:]))[one]
        assert seen == struct.pack("Q", cookie), f"expected {cookie}, seen {seen.hex()}"
        replies = self.command("conn-get", flags=REQUEST | ACK | DUMP)
        seen = {struct.unpack("Q", dict(attrs_of(reply[4:]))[one])[0]
                for reply in replies}
        assert set(self.cookies) <= seen, f"expected {self.cookies}, seen {seen}"
        if not self.user:
            named = dict(self.chance.sample(sorted(self.policy.items()), 2))
            for one in self.spec.sets["policy"].values():
                if one["number"] in named:
                    named[one["number"]] = self.good_value(one)
            self.command("policy-set", b"".join(
                attr(number, struct.pack("I", value)) for number, value in named.items()))
            self.policy.update(named)
            expected = self.policy
            assert self.get_policy() == expected, \
                f"expected {expected}, seen {self.get_policy()}"
        a, b = self.chance.choice(self.pairs)
        ends.transfer(a, b, self.chance.randint(1, 3000))
        ends.transfer(b, a, self.chance.randint(1, 3000))
        self.listen()

    def listen(self):
        """Read all events that have arrived; ENOBUFS is no failure."""
        while True:
            try:
                self.ears.recv(1 << 17, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno != errno.ENOBUFS:
                    raise

    # ---- bad requests ----

    def payload(self, n):
        return self.chance.randbytes(n)

    def bad_attrs(self, one, wanted):
        """Yield (mistake, attribute, expected answer) for this attribute. @wanted: the
        operation takes it."""
        number, kind, name = one["number"], one["type"], one["name"]
        if kind not in FORMATS:
            size = one.get("checks", {}).get("exact-len", 0)
            good = self.payload(size)
        else:
            size = struct.calcsize(FORMATS[kind])
            good = struct.pack(FORMATS[kind], self.good_value(one))
        if not wanted:
            yield f"{name}: not for this operation", attr(number, good), BAD
        for n in range(size):
            yield f"{name}: {n} octets of {size}", attr(number, good[:n]), BAD
        for n in 1, 4, 60, 4096:
            yield f"{name}: {n} octets more", attr(number, good + self.payload(n)), BAD
        yield f"{name}: nested flag", attr(number | NESTED, good), BAD
        yield f"{name}: nest", attr(number | NESTED, attr(number, good)), BAD
        yield f"{name}: nest without the flag", attr(number, attr(number, good)), BAD
        yield f"{name}: deep nest", attr(number | NESTED, attr(
            number | NESTED, attr(number | NESTED, attr(number, good)))), BAD
        yield f"{name}: byte order flag", attr(number | NET_BYTEORDER, good), ANY
        yield f"{name}: both flags", attr(number | NESTED | NET_BYTEORDER, good), BAD
        yield f"{name}: length past the end", attr(number, good, 4 + size + 4), BAD
        yield f"{name}: length of 65535", attr(number, good, 65535), BAD
        for n in range(4):
            yield f"{name}: length of {n}", attr(number, good, n), BAD
        if wanted:
            yield f"{name}: doubled", attr(number, good) * 2, ANY
            yield f"{name}: many", attr(number, good) * 500, ANY
            least, most = limits(one)
            top = 256 ** size - 1
            for value in {max(least - 1, 0), min(most + 1, top), top} - {least, most}:
                if not least <= value <= most:
                    yield f"{name}: value {value}", attr(
                        number, struct.pack(FORMATS[kind], value)), BAD

    def strange_attrs(self):
        """Yield attributes that no operation knows."""
        for number in 0, 41, 42, 255, 256, 0x3FFF:
            for size in 0, 1, 4, 8:
                yield f"attribute {number}", attr(number, self.payload(size)), BAD
        for n in 1, 2, 3:
            yield f"{n} octets past the end", self.payload(n), BAD

    def mistakes(self, op):
        """Return the functions that yield mistakes."""
        wanted = self.spec.wanted(op)
        attrs = self.spec.sets[op["attribute-set"]].values()
        return [lambda one=one: self.bad_attrs(one, one in wanted) for one in attrs] + \
            [self.strange_attrs]

    def mistake(self, op):
        return self.chance.choice(list(self.chance.choice(self.mistakes(op))()))

    def request(self, what, answer, octets):
        """Send a request, and check the answer and the policy."""
        kernel = self.kernel
        try:
            error, _ = kernel.try_out(octets)
            self.count[answer] += 1
            assert error is not None, "expected an answer, seen none"
            if answer == BAD:
                assert error, "expected an error, seen success"
            if answer == GOOD:
                assert not error, f"expected success, seen {os.strerror(error)}"
            policy = self.get_policy()
            if error or self.user:
                assert policy == self.policy, \
                    f"after {error} expected {self.policy}, seen {policy}"
            self.policy = policy
        except Exception as failure:
            failure.args = (f"{what}: {failure}\nseen with {octets.hex()}",)
            raise

    def genl(self, command, octets, flags=REQUEST | ACK, version=1, reserved=0):
        return message(self.kernel.family, flags, self.kernel.next(),
                       struct.pack("BBH", command, version, reserved) + octets)

    def each_mistake(self):
        for op in self.spec.requests:
            for make in self.mistakes(op):
                for what, octets, answer in make():
                    # Send the mistake alone, or after good attributes.
                    if self.chance.random() < 0.5:
                        octets = b"".join(self.good_attrs(op)) + octets
                    self.request(f"{op['name']}, {what}", answer,
                                 self.genl(op["number"], octets))
            for _ in range(20):
                self.good_or_not_allowed(op)
            self.good()

    def good_or_not_allowed(self, op):
        answer = ANY if op["name"] == "tap-clear" else GOOD
        if self.user and "admin-perm" in op.get("flags", []):
            answer = BAD
        self.request(op["name"], answer,
                     self.genl(op["number"], b"".join(self.good_attrs(op))))

    def each_header(self):
        """Try unknown operations, and all kinds of versions, flags and lengths."""
        chance = self.chance
        known = {op["number"] for op in self.spec.requests}
        for command in range(256):
            if command not in known:
                self.request(f"command {command}", BAD, self.genl(command, b""))
        for op in self.spec.requests:
            octets = b"".join(self.good_attrs(op))
            for version in 0, 2, 255:
                self.request(f"{op['name']}, version {version}", ANY,
                             self.genl(op["number"], octets, version=version))
            self.request(f"{op['name']}, reserved field", BAD,
                         self.genl(op["number"], octets, reserved=1))
            for bit in range(16):
                self.flags(op, octets, REQUEST | ACK | 1 << bit)
            for _ in range(10):
                self.flags(op, octets, chance.getrandbits(16) | REQUEST | ACK)
            self.flags(op, octets, ACK)
            self.request(f"{op['name']}, no header", BAD, message(
                self.kernel.family, REQUEST | ACK, self.kernel.next(), b""))
        for n in range(20):
            whole = self.genl(1, b"")
            self.silent(f"{n} octets", whole[:n])
            self.silent(f"length of {n}", struct.pack("I", n) + whole[4:])
        for n in 21, 64, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF:
            self.silent(f"length of {n}", struct.pack("I", n) + self.genl(1, b"")[4:])
        for kind in range(16):
            self.request(f"type {kind}", ANY, message(
                kind, REQUEST | ACK, self.kernel.next(), self.payload(20)))

    def flags(self, op, octets, flags):
        self.request(f"{op['name']}, flags {flags:#x}", ANY,
                     self.genl(op["number"], octets, flags))

    def silent(self, what, octets):
        """Octets that are no message need no answer, but later requests must be answered."""
        try:
            self.kernel.answers(octets)
            assert self.get_policy() == self.policy, "expected the policy unchanged"
        except Exception as failure:
            failure.args = (f"{what}: {failure}\nseen with {octets.hex()}",)
            raise

    def mixture(self):
        chance = self.chance
        op = chance.choice(self.spec.requests)
        kind = chance.randrange(6)
        if kind == 0:
            return self.good_or_not_allowed(op)
        if kind == 1:
            octets = self.payload(chance.choice([1, 4, 20, 100, 3000]))
            return self.request("random octets", ANY, self.genl(op["number"], octets))
        octets = self.good_attrs(op)
        answer = ANY
        if kind == 2:
            # Insert the mistake among good attributes.
            what, bad, answer = self.mistake(op)
            at = chance.randint(0, len(octets))
            if "past the end" in what or "length of" in what:
                # These mistakes could include later attributes, so they come last.
                at = len(octets)
            octets.insert(at, bad)
        elif kind == 3:
            for _ in range(chance.randint(1, 20)):
                octets.append(self.mistake(op)[1])
            chance.shuffle(octets)
        octets = bytearray(b"".join(octets))
        if kind == 4 and octets:
            for _ in range(chance.randint(1, 4)):
                octets[chance.randrange(len(octets))] ^= 1 << chance.randrange(8)
        if kind == 5:
            # Send two requests at once. The first one's answer is not checked.
            first = self.genl(op["number"], self.payload(chance.choice([0, 4, 20])))
            first += bytes(-len(first) % 4)
            octets = first + self.genl(op["number"], bytes(octets))
            return self.request("two in one", ANY, octets)
        return self.request("mixture", answer, self.genl(op["number"], bytes(octets)))

    def mixtures(self, seconds):
        until = time.monotonic() + seconds
        n = 0
        while time.monotonic() < until:
            self.mixture()
            n += 1
            if n % 50 == 0:
                self.good()
            if n % 500 == 0:
                self.kernel.reopen()
        self.good()

    def as_nobody(self, seconds):
        nobody = pwd.getpwnam("nobody").pw_uid
        os.setgroups([])
        os.setresgid(nobody, nobody, nobody)
        os.setresuid(nobody, nobody, nobody)
        self.user = True
        self.kernel.reopen()
        self.mixtures(seconds)


def late(*_):
    raise AssertionError("expected an answer, seen none for a minute")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split(":")[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--time", type=float, default=20)
    parser.add_argument("spec")
    args = parser.parse_args()
    print(f"# seed {args.seed}, {args.time:g} s")

    signal.signal(signal.SIGALRM, late)
    # CLONE_NEWNET: use a policy of our own.
    if ctypes.CDLL(None).unshare(0x40000000):
        sys.exit("mpa_nl_fuzz.py: needs root")
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    until = time.monotonic() + args.time
    spec = Spec(args.spec)
    fuzz = Fuzz(spec, Kernel(spec.name), random.Random(args.seed))

    def left(share):
        """Return a share of the time left, which is never 0."""
        return max(until - time.monotonic(), args.time / 5) * share

    failed = 0
    tests = [("each_mistake_is_an_error", fuzz.each_mistake),
             ("each_header_is_answered", fuzz.each_header),
             ("mixtures_are_answered", lambda: fuzz.mixtures(left(0.7))),
             ("ordinary_user_is_answered", lambda: fuzz.as_nobody(left(1)))]
    for n, (name, function) in enumerate(tests, 1):
        seen = None
        began = time.monotonic()
        try:
            function()
        except Exception:
            seen = traceback.format_exc()
            failed += 1
        print("not ok" if seen else "ok", n, name)
        for line in (seen or "").splitlines():
            print("#", line[:1000])
        print(f"# {time.monotonic() - began:.1f} s")
        sys.stdout.flush()
    print(f"1..{len(tests)}")
    for answer, count in fuzz.count.items():
        print(f"# {count} requests that need {answer}")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
