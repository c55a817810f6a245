# SPDX-License-Identifier: GPL-2.0
"""mpa conform: plays right and wrong peers against any MPA end. See mpa-conform.rst."""
import argparse
import os
import signal
import socket
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.append(os.path.join(HERE, os.pardir, "wire"))

# pylint: disable=wrong-import-position
import catalogue
import pcapng
import peer
import report
import tcp
# In the order in which they run
import startup, fpdu, markers, closing, enhanced  # noqa # pylint: disable=C0410,W0611
import strangers, ddp, ask, segments  # noqa # pylint: disable=C0410,W0611

GIVEN_UP = 3        # cases in a row without an octet or a connection


class World:
    """Where connections to the tested end come from."""

    def __init__(self, options):
        self.options = options
        self.role = peer.INITIATOR if options.listen else peer.RESPONDER
        self.listener = self.process = self.network = None
        if options.segments is not None:
            self.network = tcp.Network(options.segments, options.host, options.port,
                                       bool(options.listen))
            if options.listen:
                print(f"listening on {self.network.address} port {self.network.port}",
                      file=sys.stderr)
        elif options.listen:
            self.listener = listen(options.host, options.port)

    def begin(self):
        """The tested end is started, if we are to do that."""
        if self.options.command:
            self.process = subprocess.Popen(
                self.options.command, shell=True, start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL)

    def finish(self):
        """Returns the signal by which the command has ended, if it has."""
        process, self.process = self.process, None
        if not process:
            return None
        try:
            # A command that has closed its connections may be about to exit.
            status = process.wait(self.options.quiet)
        except subprocess.TimeoutExpired:
            status = 0
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()
        # The second one is a shell's status for its command; programs exit with 255, too.
        died = -status if status < 0 else status - 128
        return died if died in signal.valid_signals() else None

    def open(self, tcp_options):
        if self.options.listen:
            patience = max(self.options.timeout, 10)
            if self.network:
                return self.network.accept(patience, **tcp_options)
            self.listener.settimeout(patience)
            try:
                return self.listener.accept()[0]
            except OSError:
                raise peer.Unreachable("nobody connects") from None
        until = time.monotonic() + self.options.timeout
        while True:
            try:
                if self.network:
                    return self.network.connect(self.options.timeout, **tcp_options)
                return socket.create_connection(
                    (self.options.host, self.options.port), self.options.timeout)
            except OSError as error:
                # It may take a while until the command listens.
                if not self.process or time.monotonic() > until:
                    raise peer.Unreachable(f"cannot connect: {error}") from None
                time.sleep(0.02)


def listen(host, port):
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.create_server((host, port), family=family)
    print(f"listening on port {listener.getsockname()[1]}", file=sys.stderr)
    return listener


def play(case, world):
    """One case; returns its result."""
    peers = []

    def again():
        peers.append(peer.Peer(world.open(case.tcp), world.role, world.options,
                               f"{world.options.seed} {case.name}"))
        peers[-1].again, peers[-1].checks = again, case.checks
        peers[-1].ddp = case.group == "ddp"
        return peers[-1]

    began = time.monotonic()
    result = report.Result(case, peers)
    if world.network:
        result.packets = world.network.packets = []
    world.begin()
    try:
        result.seen = case.run(again()) or "as expected"
        result.status = "info" if case.level == catalogue.INFO else "pass"
    except peer.Skip as why:
        result.status, result.seen = "skip", str(why)
    except (peer.Fail, OSError) as why:
        result.fail(why)
    finally:
        for each in peers:
            each.sock.close()
        died = world.finish()
    if died:
        result.status = "fail"
        result.seen += f"; the tested end was ended by {signal.Signals(died).name}"
    result.seconds = time.monotonic() - began
    if world.options.pcap:
        result.capture = os.path.join(world.options.pcap, f"{case.name}.pcapng")
        pcapng.write(result.capture, result)
    return result


def applies(case, world):
    return world.role in case.roles and (case.group != "ddp" or world.options.peer == "ddp") \
        and (case.group == "segments") == bool(world.network)


def run(cases, world, done):
    """Run all cases; calls done(result) after each."""
    results, mute = [], 0
    for case in cases:
        if mute >= GIVEN_UP:
            result = report.Result(case, [])
            result.status = "skip"
            result.seen = f"given up: {GIVEN_UP} cases in a row met nobody"
        else:
            result = play(case, world)
            mute = mute + 1 if result.met_nobody else 0
        results.append(result)
        done(result)
        if world.options.first and result.status == "fail":
            break
    return results


def place(text):
    host, _, port = text.rpartition(":")
    if not port.isdigit() or int(port) > 65535:
        raise argparse.ArgumentTypeError(f"\"{text}\" is no HOST:PORT")
    return host.strip("[]"), int(port)


def arguments():
    parser = argparse.ArgumentParser(
        prog="mpa conform", description="Play right and wrong peers against an MPA end, "
        "and report what it does. Exit status: 0 no failure, 1 failures, 2 nobody was "
        "met, or wrong usage.")
    add = parser.add_argument
    add("at", nargs="?", type=place, metavar="HOST:PORT",
        help="where the tested end listens: a responder")
    add("--listen", type=place, metavar="[HOST:]PORT",
        help="where the tested end connects to, once for each case: an initiator")
    add("--segments", nargs="?", const="", metavar="ADDRESS",
        help="the cases of group \"segments\" alone, by a TCP of our own with this address "
        "(root; default: one on this machine)")
    add("--peer", choices=("echo", "sink", "source", "ddp"), default="echo",
        help="what the tested end does with ULPDUs (echo); ddp: it is rping")
    add("--command", metavar="COMMAND", help="start the tested end by this, for each case")
    add("--only", action="append", metavar="GROUP", help="only these; or cases by name")
    add("--first", action="store_true", help="end with the first failure")
    add("--list", action="store_true", help="the cases")
    add("--explain", metavar="CASE", help="what a case does, and why")
    add("--seed", default="5044", help="of random ULPDUs (5044)")
    add("--timeout", type=float, default=5, metavar="SECONDS",
        help="how long is waited for what must come (5)")
    add("--quiet", type=float, default=0.2, metavar="SECONDS",
        help="how long is looked for what must not come (0.2)")
    add("--patience", type=float, default=15, metavar="SECONDS",
        help="how long the cases of group \"time\" wait (15)")
    add("--tap", action="store_true", help="print TAP")
    for name in ("junit", "json", "html"):
        add(f"--{name}", metavar="FILE", help=f"write a report as {name.upper()}")
    add("--pcap", metavar="DIR", help="write DIR/CASE.pcapng, a capture of each case")
    return parser


def checked(parser, words=None):
    options = parser.parse_args(words)
    known = {case.group for case in catalogue.cases} | \
        {case.name for case in catalogue.cases}
    for word in (options.only or []) + ([options.explain] if options.explain else []):
        if word not in known:
            parser.error(f"there is no group or case \"{word}\"; --list has all")
    if not options.list and not options.explain:
        if options.segments and not options.at and not options.listen:
            try:
                options.at, options.segments = place(options.segments), ""
            except argparse.ArgumentTypeError as why:
                parser.error(str(why))
        if bool(options.at) == bool(options.listen):
            parser.error("either HOST:PORT or --listen PORT")
        options.host, options.port = options.at or options.listen
        if options.at and not options.host:
            parser.error("which host? For example: mpa conform localhost:4242")
    return options


def main():
    parser = arguments()
    options = checked(parser)
    if options.list or options.explain:
        for case in catalogue.chosen(options.only or
                                     (options.explain and [options.explain])):
            (report.explain if options.explain else report.row)(case)
        return 0
    try:
        if options.pcap:
            os.makedirs(options.pcap, exist_ok=True)
        world = World(options)
    except OSError as error:
        print(f"mpa conform: {error}", file=sys.stderr)
        return 2
    cases = [case for case in catalogue.chosen(options.only) if applies(case, world)]
    if not cases:
        print("mpa conform: none of these cases applies; those of the group \"segments\" need "
              "--segments, and that has no others", file=sys.stderr)
        return 2
    told = report.Tap(len(cases)) if options.tap else report.Terminal()
    results = run(cases, world, told.tell)
    told.end(results)
    for name in ("junit", "json", "html"):
        if getattr(options, name):
            with open(getattr(options, name), "w", encoding="utf-8") as file:
                getattr(report, name)(file, results, world)
    if all(result.met_nobody or result.status == "skip" for result in results):
        return 2
    return int(any(result.status == "fail" for result in results))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        # The pager was closed: Python must not complain again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
