# SPDX-License-Identifier: GPL-2.0
"""Shared by the tests of python/: both ends of connections, simulated peers, and TAP."""

import contextlib
import os
import pathlib
import random
import signal
import socket
import struct
import subprocess
import sys
import threading
import unittest

HERE = pathlib.Path(__file__).resolve().parent
TOP = HERE.parent.parent
BIN = os.environ.get("MPA_BIN", str(HERE.parent))
MODULES = os.environ.get("MPA_PYTHON", str(TOP / "python"))
sys.path[:0] = [MODULES, str(HERE.parent / "lib")]

import mpa  # noqa: E402
from mpa_ends import frame, take  # noqa: E402

TEST_SECONDS = 600      # an emulated processor is slow
WAIT = 150


OCTETS = random.Random(1).randbytes(1 << 16) * 64


def pattern(number, length):
    """Return octets that distinguish records."""
    at = number * 37 % (1 << 16)
    return OCTETS[at:at + length]


class Task(threading.Thread):
    """A thread that passes on the result or exception of its function."""

    def __init__(self, function, *args, **options):
        super().__init__(daemon=True)
        self._call = function, args, options
        self._result = self._error = None
        self.start()

    def run(self):
        function, args, options = self._call
        try:
            self._result = function(*args, **options)
        except BaseException as err:
            self._error = err

    def result(self):
        self.join(WAIT)
        if self.is_alive():
            raise AssertionError("the thread has not ended")
        if self._error:
            raise self._error
        return self._result


class Case(unittest.TestCase):
    """A test that closes all that it has opened."""

    def setUp(self):
        self.stack = contextlib.ExitStack()
        self.addCleanup(self.stack.close)

    def opened(self, what):
        return self.stack.enter_context(contextlib.closing(what))

    def server(self, **options):
        return self.opened(mpa.create_server(("127.0.0.1", 0), **options))

    def pair(self, server=None, **options):
        """Open a connection; return the initiator, with these options, and its responder."""
        listener = self.server(**server or {})
        client = Task(mpa.connect, listener.address, **options)
        responder = self.opened(listener.accept())
        initiator = self.opened(client.result())
        for end in initiator, responder:
            end.settimeout(WAIT)
        return initiator, responder

    def talking_pair(self, **options):
        """Return a pair whose responder may send: it has received a first record."""
        first, second = self.pair(**options)
        first.send(b"first")
        self.assertEqual(b"first", second.recv())
        return first, second

    def plain_listener(self):
        return self.opened(socket.create_server(("127.0.0.1", 0)))

    def by_hand(self):
        """Return a responder with MPA, and its peer, a plain TCP socket. Both have started."""
        listener = self.server()
        peer = self.opened(socket.create_connection(listener.address))
        peer.sendall(frame(False))
        conn = self.opened(listener.accept())
        conn.settimeout(WAIT)
        take(peer, 20)
        return peer, conn

    def answering(self, octets):
        """Start a TCP server that reads a request frame and sends this; return its address."""
        listener = self.plain_listener()

        def answer():
            with listener.accept()[0] as peer:
                take(peer, 20)
                peer.sendall(octets)
                peer.recv(1)
        Task(answer)
        return listener.getsockname()

    def program(self, *words):
        """Start a program."""
        made = subprocess.Popen(words, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True)

        def end():
            made.kill()
            made.communicate()
        self.stack.callback(end)
        return made

    def said(self, made, status=0):
        """Return the program's output, once it has ended."""
        text = made.communicate(timeout=WAIT)[0]
        self.assertEqual(status, made.returncode, text)
        return text


def reset(sock):
    """Close with a RST."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


class Tap(unittest.TestResult):
    """Prints TAP, one line at the end of each test."""

    def __init__(self):
        super().__init__()
        self.n = 0

    def _line(self, result, test, more="", comment=""):
        self.n += 1
        print(f"{result} {self.n} {test.id().split('.', 1)[1]}{more}")
        for line in comment.splitlines():
            print("#", line)
        sys.stdout.flush()

    def startTest(self, test):
        super().startTest(test)
        signal.alarm(TEST_SECONDS)

    def stopTest(self, test):
        signal.alarm(0)
        super().stopTest(test)

    def addSuccess(self, test):
        self._line("ok", test)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self._line("not ok", test, comment=self.failures[-1][1])

    def addError(self, test, err):
        super().addError(test, err)
        self._line("not ok", test, comment=self.errors[-1][1])

    def addSkip(self, test, reason):
        self._line("ok", test, f" # SKIP {reason}")


def late(*_):
    raise AssertionError(f"expected an end, seen none in {TEST_SECONDS} s")


def run(modules, wanted):
    """Run the tests of modules, or those whose names contain a wanted word. Return the
    exit status."""
    signal.signal(signal.SIGALRM, late)
    chosen = unittest.TestSuite()
    for module in modules:
        for group in unittest.defaultTestLoader.loadTestsFromModule(module):
            chosen.addTests(test for test in group
                            if not wanted or any(word in test.id() for word in wanted))
    result = Tap()
    chosen.run(result)
    print(f"1..{result.n}")
    return 0 if result.n and result.wasSuccessful() else 1
