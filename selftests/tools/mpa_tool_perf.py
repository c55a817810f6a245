#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""For mpa_tool_perf.sh: checks the output of "mpa perf client --json", and acts as
servers that are not mpa perf, or that report wrong figures.

  check DIR          the files NAME.json of the functions below, in TAP's terms
  serve WHAT PORT    one control connection, or another; says "listening"
  hello PORT TEXT    send a hello of any text to a server, print the answer
  hold PORT          send a hello that begins a visit, say "held", and be silent
  junk PORT          send a server what it cannot use, in many ways
"""
import json
import os
import socket
import statistics
import struct
import sys

HELLO = 128


def hello(text):
    return text.encode().ljust(HELLO - 1)[:HELLO - 1] + b"\n"


def receive(sock, n):
    got = b""
    while len(got) < n:
        more = sock.recv(n - len(got))
        if not more:
            raise EOFError
        got += more
    return got


def get(sock):
    return json.loads(receive(sock, struct.unpack(">I", receive(sock, 4))[0]))


def put(sock, message):
    text = json.dumps(message).encode()
    sock.sendall(struct.pack(">I", len(text)) + text)


# ---- the results of a run ----

COUNT = {"octets", "records", "measured_octets", "measured_records", "seconds"}
SIDE = {"sent": COUNT, "received": COUNT,
        "cpu": {"user_seconds", "system_seconds", "seconds"},
        "tcp": {"retransmitted_segments", "rtt_us", "mss", "congestion_control"},
        "machine": {"system", "boot", "processors", "virtual"}}
MPA = {"role", "revision", "flags", "emss", "mulpdu", "ird", "ord", "tx_ulpdus", "tx_octets",
       "tx_markers", "rx_ulpdus", "rx_octets", "rx_markers", "tx_packets", "tx_segs_aligned",
       "tx_segs_unaligned", "rx_placed", "aligned_percent"}
DIRECTION = {"octets", "records", "measured_octets", "measured_records", "seconds",
             "octets_per_second", "bits_per_second", "records_per_second"}
LATENCY = {"count", "min_us", "p50_us", "p90_us", "p99_us", "p99_9_us", "max_us", "mean_us",
           "deviation_us"}


def equal(what, expected, seen):
    assert expected == seen, f"{what}: expected {expected}, seen {seen}"


def fields(each):
    """Check that all the fields that mpa-perf(1) promises are there."""
    for name in ("client", "server"):
        side = each[name]
        groups = dict(SIDE, mpa=MPA) if each["framing"] == "mpa" else SIDE
        equal(name, set(groups), set(side))
        for group, names in groups.items():
            equal(f"{name}.{group}", names, set(side[group]))
    for name in ("to_server", "to_client"):
        equal(name, DIRECTION, set(each[name]))


def sums(each, params):
    """Check that both ends, their kernels and the result agree."""
    opening = params["connections"]
    for name, sender, receiver in (("to_server", "client", "server"),
                                   ("to_client", "server", "client")):
        sent, received = each[sender]["sent"], each[receiver]["received"]
        equal(name, sent["octets"], received["octets"])
        equal(name, sent["octets"], each[name]["octets"])
        equal(name, received["measured_octets"], each[name]["measured_octets"])
        assert sent["measured_octets"] <= sent["octets"], name
        if each["framing"] == "mpa":
            equal(name, sent["records"], received["records"])
            tx, rx = each[sender]["mpa"], each[receiver]["mpa"]
            equal(f"{name}, MPA", tx["tx_ulpdus"], rx["rx_ulpdus"])
            equal(f"{name}, MPA", tx["tx_octets"], rx["rx_octets"])
            # The initiator sends the opening record, 16 octets.
            first = opening if tx["role"] == 1 or tx["role"] == 3 and sender == "client" else 0
            equal(f"{name}, records", sent["records"] + first, tx["tx_ulpdus"])
            equal(f"{name}, octets", sent["octets"] + 16 * first, tx["tx_octets"])
        rate = each[name]["octets_per_second"]
        if each[name]["measured_octets"]:
            assert rate > 0, f"{name}: no rate"
            assert abs(each[name]["bits_per_second"] / rate - 8) < 1e-6, name


def latency(each):
    seen = each["latency"]
    equal("latency", LATENCY, set(seen))
    values = [seen[name] for name in ("min_us", "p50_us", "p90_us", "p99_us", "p99_9_us",
                                      "max_us") if seen[name] is not None]
    equal("percentiles in order", sorted(values), values)
    assert seen["min_us"] <= seen["mean_us"] <= seen["max_us"], seen
    equal("histogram", seen["count"], sum(n for _, n in each["histogram"]))
    equal("99.9 %", seen["count"] >= 1000, seen["p99_9_us"] is not None)
    equal("answers", each["client"]["received"]["measured_records"], seen["count"])


def good(result):
    equal("mpa_perf", 1, result["mpa_perf"])
    equal("status", 0, result["status"])
    for each in result["rounds"]:
        fields(each)
        sums(each, result["parameters"])
        if result["parameters"]["test"] == "latency":
            latency(each)
        if "intervals" in each:
            equal("intervals", each["client"]["sent"]["measured_octets"],
                  sum(i["sent_octets"] for i in each["intervals"]))
            equal("intervals", each["client"]["received"]["measured_octets"],
                  sum(i["received_octets"] for i in each["intervals"]))


def octets(result, to_server, to_client):
    equal("to the server", to_server, result["rounds"][0]["to_server"]["octets"])
    equal("to the client", to_client, result["rounds"][0]["to_client"]["octets"])


def compared(result):
    rounds, seen = result["rounds"], result["compare"]
    equal("rounds", ["mpa", "tcp"] * 3, [each["framing"] for each in rounds])
    medians = {}
    for framing in ("mpa", "tcp"):
        rates = [sum(each[way][seen["metric"]] or 0 for way in ("to_server", "to_client"))
                 for each in rounds if each["framing"] == framing]
        medians[framing] = statistics.median(rates)
        for name, value in (("median", medians[framing]), ("min", min(rates)),
                            ("max", max(rates))):
            assert abs(seen[framing][name] / value - 1) < 1e-6, f"{framing} {name}: {seen}"
    assert abs(seen["ratio"] / (medians["mpa"] / medians["tcp"]) - 1) < 1e-6, seen
    equal("one machine", True, seen["one_machine"])


def agreed(result, **wanted):
    for name, value in wanted.items():
        equal(name, value, result["rounds"][0]["agreed"][name])


def warmed_up(result):
    """--octets counts whole calls, from the end of the warm-up."""
    sent = result["rounds"][0]["client"]["sent"]
    assert N <= sent["measured_octets"] < N + 2 * 65536, sent
    assert sent["measured_octets"] < sent["octets"], sent


def placed(result):
    each = result["rounds"][0]
    assert each["server"]["mpa"]["rx_placed"] > 0, "expected records out of order, seen none"
    assert each["client"]["tcp"]["retransmitted_segments"] > 0, "expected losses, seen none"


N = 256 << 10
EACH = {
    "send_1": lambda r: octets(r, N, 0),
    "send_50": lambda r: octets(r, 50 * 65536, 0),
    "reverse_1": lambda r: octets(r, 0, N),
    "reverse_50": lambda r: octets(r, 0, 50 * 65536),
    "bidir_1": lambda r: octets(r, N, N),
    "bidir_50": lambda r: octets(r, 50 * 4096, 50 * 4096),
    "rate": lambda r: octets(r, N, 0),
    "latency_1": lambda r: octets(r, 64000, 64000),
    "latency_50": lambda r: octets(r, 3200, 3200),
    "warmup": warmed_up,
    "tcp": lambda r: equal("framing", "tcp", r["rounds"][0]["framing"]),
    "compare": compared,
    "markers": lambda r: agreed(r, markers_sent=True, markers_received=True),
    "responder": lambda r: agreed(r, role="responder"),
    "direct": lambda r: agreed(r, role="direct"),
    "crc_stays": lambda r: agreed(r, crcs_sent=True, crcs_received=True),
    "crc_off": lambda r: agreed(r, crcs_sent=False, crcs_received=False),
    "place": placed,
}


def check(directory):
    for name, more in EACH.items():
        try:
            with open(os.path.join(directory, name + ".json"), encoding="utf-8") as file:
                result = json.load(file)
            good(result)
            more(result)
            print(name, "ok")
        except (AssertionError, KeyError, ValueError, OSError, TypeError) as error:
            print(name, "not", type(error).__name__, error)


# ---- servers ----

def lie(listener, control, corrupt):
    """Act as a server of plain TCP, with a wrong count or wrong octets."""
    receive(control, HELLO)
    control.sendall(hello("MPA-PERF 1 OK"))
    request = get(control)
    put(control, {"token": "0123456789abcdef"})
    data, _ = listener.accept()
    equal("hello", hello("MPA-PERF 1 DATA 0123456789abcdef 0"), receive(data, HELLO))
    data.sendall(hello("MPA-PERF 1 OK"))
    receive(data, 16)
    put(control, {"ready": True})
    equal("go", True, "go" in get(control))
    put(control, {"going": True})
    if corrupt:
        data.sendall(b"\0" * request["size"])
    got = 0
    try:
        while more := data.recv(65536):
            got += len(more)
    except ConnectionResetError:
        pass
    data.close()
    theirs = get(control)
    if "results" not in theirs:
        return
    results = theirs["results"]
    results["sent"], results["received"] = results["received"], results["sent"]
    results["received"]["octets"] = got - 1
    put(control, {"results": results})
    control.recv(1)


def serve(what, port):
    listener = socket.create_server(("", port))
    print("listening", flush=True)
    control, _ = listener.accept()
    if what == "banner":
        control.sendall(b"SSH-2.0-OpenSSH_9.2\r\n")
        control.recv(1)
    elif what == "newer":
        receive(control, HELLO)
        control.sendall(hello("MPA-PERF 2 OK"))
        control.recv(1)
    elif what != "closes":
        lie(listener, control, what == "corrupts")
    control.close()


# ---- clients ----

def connect(port):
    return socket.create_connection(("10.5.4.2", port), 20)


def until_end(sock):
    """Return the server's octets, up to its close."""
    got = b""
    try:
        while more := sock.recv(4096):
            got += more
    except ConnectionResetError:
        pass
    return got


def offer(sock, what):
    """Send octets to a server, which may close before it has read them."""
    try:
        sock.sendall(what)
        sock.shutdown(socket.SHUT_WR)
    except OSError:
        pass
    until_end(sock)


def send_hello(port, text):
    sock = connect(port)
    sock.sendall(hello(text))
    print(until_end(sock).decode().strip())


def junk(port):
    for octets_sent in (b"GET / HTTP/1.0\r\n\r\n", bytes(range(256)) * 64, b"\0",
                        hello("MPA-PERF x CONTROL"), hello("MPA-PERF 1 DATA 00 0"),
                        hello("MPA-PERF 1 NONSENSE"), hello("MPA-PERF 1")):
        offer(connect(port), octets_sent)
    sock = connect(port)
    sock.sendall(b"MPA-PERF 1")
    sock.close()
    for message in (b"\xff\xff\xff\xff", b"\0\0\0\2[]", b"\0\0\0\2{}", b"\0\0\0\4nope",
                    b"\0\0\0\21{\"test\":\"stream\"}"):
        answer = b""
        while not answer.startswith(hello("MPA-PERF 1 OK")):
            # The previous connection may still be open.
            sock = connect(port)
            sock.sendall(hello("MPA-PERF 1 CONTROL"))
            answer = receive(sock, HELLO)
        offer(sock, message)


def hold(port):
    """Send a hello and nothing else, until the server closes."""
    sock = connect(port)
    sock.sendall(hello("MPA-PERF 1 CONTROL"))
    receive(sock, HELLO)
    print("held", flush=True)
    until_end(sock)


def main():
    what, *rest = sys.argv[1:]
    if what == "check":
        check(rest[0])
    elif what == "serve":
        serve(rest[0], int(rest[1]))
    elif what == "hello":
        send_hello(int(rest[0]), rest[1])
    elif what == "hold":
        hold(int(rest[0]))
    elif what == "junk":
        junk(int(rest[0]))


main()
