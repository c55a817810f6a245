# SPDX-License-Identifier: GPL-2.0
"""Test that the judge reports all errors and no others. Prints TAP."""
import argparse
import contextlib
import io
import json
import os
import random
import struct
import subprocess
import sys
import tempfile

import annotate
import judge
import selftest_lua
import selftest_tuf
import selftest_tuf_commands
from synth import (C, M, R, REPLY, REQUEST, S, SYN, Connection, Pcap,
                   Sender, crc32c, startup)

HERE = os.path.dirname(os.path.abspath(__file__))
rnd = random.Random(5044)
cases = []


def case(text, finds=None, **options):
    """Add a capture that the function builds. finds: errors that must be reported."""
    def add(function):
        cases.append((text, function, finds, options))
        return function
    return add


def many(count, low=1, high=1500):
    return [rnd.randbytes(rnd.randint(low, high)) for _ in range(count)]


def talk(pcap, ulpdus, request=M | C, reply=M | C, size=None, **kind):
    """Build a connection with these ULPDUs in both directions, one FPDU a segment."""
    tcp = Connection(pcap, **kind)
    ways = tcp.start(request, reply)
    for end in 0, 1:
        octets = [ways[end].fpdu(ulpdu) for ulpdu in ulpdus]
        for part in [b"".join(octets)] if size else octets:
            tcp.send(end, part, size or len(part))
    tcp.close()


# ---- good captures ----

@case("examples_of_rfc5044_figures_5_and_6")
def _(pcap):
    first = Sender(True).fpdu(ddp(1))
    assert first[-4:] == bytes.fromhex("52239983"), "figure 5's CRC"
    tcp = Connection(pcap)
    ways = tcp.start()
    # Figure 6's FPDU follows one of 492 octets.
    for ulpdu in (b"\0" * 482, ddp(2)):
        last = ways[0].fpdu(ulpdu)
        tcp.segment(0, last)
    assert last[-4:] == bytes.fromhex("84925898"), "figure 6's CRC"


def ddp(msn):
    return bytes.fromhex("41430000000000000000") + \
        struct.pack(">II", msn, 0) + bytes(24)


for _request, _reply, _what in ((M | C, M | C, "both_ways"),
                                (M | C, C, "to_the_initiator"),
                                (C, M | C, "to_the_responder"),
                                (C, C, "none"), (C, 0, "none_crc_of_one_side"),
                                (0, 0, "none_crc_off"), (M, M, "crc_off")):
    @case(f"markers_{_what}")
    def _(pcap, request=_request, reply=_reply):
        talk(pcap, many(40), request, reply)


@case("every_length_of_1_to_600_octets")
def _(pcap):
    talk(pcap, [rnd.randbytes(n) for n in range(1, 601)])


@case("fpdu_ends_where_a_marker_begins")
def _(pcap):
    talk(pcap, [rnd.randbytes(n) for n in
                [100, 896, 502, 502, 498, 4, 490, 1010] + [498] * 30])


@case("longest_fpdus_over_many_segments")
def _(pcap):
    talk(pcap, [rnd.randbytes(64768)] * 3 + many(3), size=1448)


@case("fpdus_without_markers_over_many_segments")
def _(pcap):
    talk(pcap, many(10, 1, 9000), C, C, size=1000)


@case("super_segments_of_60000_octets")
def _(pcap):
    talk(pcap, many(120), size=60000)


@case("segments_of_one_octet")
def _(pcap):
    talk(pcap, many(2, 1, 600), size=1)


@case("ipv6")
def _(pcap):
    talk(pcap, many(20), ipv6=True)


@case("sequence_numbers_wrap")
def _(pcap):
    talk(pcap, many(20), isn=(2**32 - 5000, 2**32 - 25))


@case("several_connections_and_one_that_is_not_mpa")
def _(pcap):
    for port in range(3):
        talk(pcap, many(5), ports=(50000 + port, 7))
    tcp = Connection(pcap, ports=(50009, 80))
    tcp.send(0, b"GET / HTTP/1.0\r\n\r\n")


def before_the_capture(pcap, ports):
    """Build a connection whose startup frames are not in the capture."""
    tcp = Connection(pcap, ports=ports, syn=False)
    for ulpdu in many(3):
        tcp.segment(0, Sender(False).fpdu(ulpdu))


@case("a_connection_whose_begin_is_missing", "10.0.0.1:50002 and 10.0.0.2:8: "
      "its begin is not in the capture")
def _(pcap):
    talk(pcap, many(3), ports=(50001, 7))
    before_the_capture(pcap, (50002, 8))


@case("a_connection_whose_begin_is_missing_at_another_port", port=7)
def _(pcap):
    talk(pcap, many(3), ports=(50001, 7))
    before_the_capture(pcap, (50002, 8))


@case("ports_of_other_protocols")
def _(pcap):
    for port in (25, 80, 443, 2049, 3260, 3306):
        talk(pcap, many(5), ports=(50000 + port, port))


@case("ports_used_again")
def _(pcap):
    talk(pcap, many(5))
    talk(pcap, many(6), isn=(99000, 7000000))


@case("records_that_look_like_other_protocols")
def _(pcap):
    talk(pcap, [b"GET / HTTP/1.0\r\n\r\n", REQUEST + b"\0\1\0\0", REPLY,
                b"\x16\x03\x01\x02\0\1\0\1\xfc\x03\x03" + bytes(500),
                b"SSH-2.0-x\r\n", b"\5\0\0\3\x10\0\0\0" * 20])


@case("plain_tcp_before_mpa")
def _(pcap):
    tcp = Connection(pcap)
    tcp.send(0, b"HELO, let us talk MPA\r\n")
    tcp.send(1, b"200 with pleasure\r\n")
    ways = tcp.start(private=b"as agreed", answer=b"x" * 512)
    for end in 0, 1, 0:
        tcp.segment(end, ways[end].fpdu(rnd.randbytes(700)))


@case("neither_syn_nor_fin")
def _(pcap):
    tcp = Connection(pcap, syn=False)
    ways = tcp.start()
    for end in 0, 1, 0:
        tcp.segment(end, ways[end].fpdu(rnd.randbytes(700)))


@case("retransmissions_and_reordering")
def _(pcap):
    tcp = Connection(pcap)
    ways = tcp.start()
    tcp.segment(0, ways[0].fpdu(b"first"))
    octets = b"".join(ways[0].fpdu(ulpdu) for ulpdu in many(30))
    start, jobs = tcp.seq[0], []
    for at in range(0, len(octets), 700):
        jobs.append((at, 700))
        if rnd.random() < .3:
            jobs.append((max(0, at - rnd.randint(1, 2000)), 1400))
    for n in range(0, len(jobs) - 4, 5):
        part = jobs[n:n + 5]
        rnd.shuffle(part)
        jobs[n:n + 5] = part
    for at, size in jobs:
        tcp.segment(0, octets[at:at + size], seq=start + at)
    tcp.seq[0] = start + len(octets)
    tcp.segment(1, ways[1].fpdu(b"answer"))
    tcp.close()


def enhanced(pcap, request=b"\xc0\1\0\1", reply=b"\xc0\1\0\1", ulpdus=((0, b"data"),),
             flags=(M | C | S, M | C | S)):
    """Build a connection with revision 2. request, reply: private data; ulpdus: with
    the sending end."""
    tcp = Connection(pcap)
    ways = tcp.start(*flags, request, reply, 2)
    for end, ulpdu in ulpdus:
        tcp.segment(end, ways[end].fpdu(ulpdu))


@case("revision_2_with_an_empty_first_fpdu")
def _(pcap):
    enhanced(pcap, ulpdus=((0, b""), (0, b"data"), (0, bytes(800)), (1, b"answer")))


for _what, _request, _reply in (
        ("of_clients_and_servers", b"\0\1\0\1more", b"\0\1\0\1"),
        ("with_an_rtr_of_the_responders_choice", b"\xc0\1\0\1", b"\x80\1\x40\1"),
        ("that_leaves_ird_and_ord_to_the_programs", b"\x3f\xff\x3f\xff",
         b"\x3f\xff\x3f\xff")):
    case("enhanced_startup_" + _what)(
        lambda pcap, request=_request, reply=_reply: enhanced(pcap, request, reply))


@case("enhanced_refusal_that_asks_for_more_ird", startup=True)
def _(pcap):
    enhanced(pcap, b"\0\1\0\1", b"\0\1\0\x09", (), (M | C | S, M | C | S | R))


@case("refusal", startup=True)
def _(pcap):
    tcp = Connection(pcap)
    tcp.start(reply=M | C | R, answer=b"not today")
    tcp.send(0, b"plain TCP again")
    tcp.close()


@case("last_fpdu_cut_when_that_is_allowed", cut_ok=True)
def _(pcap):
    tcp = Connection(pcap)
    ways = tcp.start()
    tcp.segment(0, ways[0].fpdu(b"whole"))
    tcp.segment(0, ways[0].fpdu(bytes(900))[:-30])


@case("every_segment_aligned_when_that_is_asked", aligned=True)
def _(pcap):
    talk(pcap, many(30))


def small(pcap, count, size):
    """Build FPDUs with ULPDUs of 64 octets, 72 octets long, in segments of size octets."""
    tcp = Connection(pcap)
    ways = tcp.start(C, C)
    octets = b"".join(ways[0].fpdu(rnd.randbytes(64)) for _ in range(count))
    tcp.send(0, octets, size)
    tcp.close()


@case("twenty_fpdus_a_segment_when_that_is_asked", packed=20, aligned=True)
def _(pcap):
    small(pcap, 400, 1440)


@case("one_fpdu_a_segment_when_that_is_asked", single=True, aligned=True)
def _(pcap):
    small(pcap, 30, 72)


@case("another_port_when_one_is_asked", port=7)
def _(pcap):
    talk(pcap, many(3), ports=(50001, 7))
    tcp = Connection(pcap, ports=(50002, 8))
    ways = tcp.start()
    tcp.segment(0, ways[0].fpdu(bytes(900), ("crc",)))


@case("segments_sent_again_are_aligned", aligned=True)
def _(pcap):
    tcp = Connection(pcap)
    ways = tcp.start()
    octets = [ways[0].fpdu(rnd.randbytes(1000)) for _ in range(9)]
    seqs = [tcp.segment(0, part) for part in octets]
    for n in 3, 4, 8:
        tcp.segment(0, octets[n], seq=seqs[n])
    # Merge two segments.
    tcp.segment(0, octets[5] + octets[6], seq=seqs[5])


# ---- bad captures ----

def fault(name, ulpdu=1400, kind=M | C, before=2, after=2):
    def build(pcap):
        tcp = Connection(pcap)
        ways = tcp.start(kind, kind)
        for wrong in [()] * before + [(name,)] + [()] * after:
            tcp.segment(0, ways[0].fpdu(rnd.randbytes(ulpdu), wrong))
        tcp.close()
    return build


for _name, _finds in (("crc", "wrong CRC"), ("marker", "must say"),
                      ("no marker", "wrong CRC"),
                      ("marker place", "must say"),
                      ("pad", "pad is not zero")):
    _ulpdu = 1401 if _name == "pad" else 1400
    case(f"wrong_{_name.replace(' ', '_')}", _finds)(fault(_name, _ulpdu))
    case(f"wrong_{_name.replace(' ', '_')}_in_the_last_fpdu",
         "cut off" if _name == "no marker" else _finds)(
             fault(_name, _ulpdu, after=0))
case("wrong_pad_where_that_is_allowed", any_pad="10.0.0.1")(
    fault("pad", 1401))
case("wrong_pad_where_the_other_end_may", "pad is not zero",
     any_pad="10.0.0.2")(fault("pad", 1401))
case("wrong_crc_without_markers", "wrong CRC")(fault("crc", kind=C))
case("wrong_crc_where_an_fpdu_ends_at_a_marker", "wrong CRC")(
    fault("crc", ulpdu=498, before=31, after=0))
case("wrong_crc_in_an_fpdu_that_tshark_cannot_judge", "wrong CRC")(
    fault("crc", ulpdu=502))


@case("one_bit_of_payload_turned", "wrong CRC")
def _(pcap):
    tcp = Connection(pcap)
    ways = tcp.start()
    octets = bytearray(ways[0].fpdu(rnd.randbytes(5000)))
    octets[777] ^= 16
    tcp.segment(0, octets)


@case("reserved_half_of_a_marker_set", "reserved 0x0100")
def _(pcap):
    tcp = Connection(pcap)
    ways = tcp.start()
    octets = ways[0].fpdu(b"record")
    octets = b"\1" + octets[1:-4]
    tcp.segment(0, octets + crc32c(octets))


@case("end_of_stream_inside_an_fpdu", "cut off")
def _(pcap):
    tcp = Connection(pcap)
    ways = tcp.start()
    tcp.segment(0, ways[0].fpdu(b"whole"))
    tcp.segment(0, ways[0].fpdu(bytes(900))[:-1])


@case("end_of_stream_inside_a_header", "cut off")
def _(pcap):
    tcp = Connection(pcap)
    ways = tcp.start()
    tcp.segment(0, ways[0].fpdu(b"whole") + b"\0")


@case("octets_after_the_last_fpdu", "not explained")
def _(pcap):
    tcp = Connection(pcap)
    ways = tcp.start()
    tcp.segment(0, ways[0].fpdu(b"whole") + bytes(40))


@case("ulpdu_length_over_64768", "cannot be")
def _(pcap):
    tcp = Connection(pcap)
    ways = tcp.start(C, C)
    tcp.segment(0, ways[0].fpdu(b"whole"))
    tcp.send(0, ways[0].fpdu(bytes(65535)))


@case("empty_ulpdu_with_revision_1", "cannot be")
def _(pcap):
    talk(pcap, [b"one", b"", b"two"])


for _what, _ulpdus in (("the_responders_first", ((0, b""), (1, b""))),
                       ("the_initiators_second", ((0, b""), (0, b"")))):
    case(f"empty_fpdu_that_is_{_what}", "cannot be")(
        lambda pcap, ulpdus=_ulpdus: enhanced(pcap, ulpdus=ulpdus))
case("empty_fpdu_that_was_not_agreed", "cannot be")(
    lambda pcap: enhanced(pcap, b"\xc0\1\0\1", b"\x80\1\x40\1", ((0, b""),)))

# Each case breaks one rule of RFC 6581.
for _what, _finds, _request, _reply in (
        ("s_with_less_than_4_octets", "S is set, with less than 4", b"x", b"\0\1\0\1"),
        ("s_with_less_than_4_octets_in_the_reply", "S is set, with less than 4",
         b"\0\1\0\1", b"\0\1\0"),
        ("a_missing_in_the_reply", "A is 1 in the Request Frame, 0", b"\xc0\1\0\1",
         b"\0\1\0\1"),
        ("a_that_nobody_asked_for", "A is 0 in the Request Frame, 1", b"\0\1\0\1",
         b"\xc0\1\0\1"),
        ("rtr_without_a", "Request Frame: B, C or D without A", b"\0\1\x40\1",
         b"\0\1\0\1"),
        ("rtr_without_a_in_the_reply", "Reply Frame: B, C or D without A",
         b"\0\1\0\1", b"\x40\1\0\1"),
        ("a_without_an_rtr_in_the_reply", "A without an RTR", b"\xc0\1\0\1",
         b"\x80\1\0\1"),
        ("ord_of_the_responder_over_ird", "ORD 2 is over the initiator's IRD 1",
         b"\0\1\0\1", b"\0\1\0\2"),
        ("ord_where_ird_is_not_negotiated", "where the initiator's IRD is 0x3fff",
         b"\x3f\xff\0\1", b"\0\1\0\1"),
        ("ird_where_ord_is_not_negotiated", "where the initiator's ORD is 0x3fff",
         b"\0\1\x3f\xff", b"\0\1\0\1")):
    case(_what, _finds)(
        lambda pcap, request=_request, reply=_reply: enhanced(pcap, request, reply))
case("record_before_the_rtr", "the first FPDU is not the RTR")(enhanced)
case("record_where_another_rtr_may_be_meant")(
    lambda pcap: enhanced(pcap, b"\xc0\1\x80\1", b"\xc0\1\x80\1"))
case("plain_reply_to_an_enhanced_request", "a plain reply")(
    lambda pcap: enhanced(pcap, reply=b"", flags=(M | C | S, M | C)))
case("enhanced_reply_to_a_plain_request", "an enhanced reply")(
    lambda pcap: enhanced(pcap, b"", flags=(M | C, M | C | S)))
case("enhanced_request_of_three_octets_without_a_reply",
     "Request Frame: S is set, with less than 4 octets", startup=True)(
    lambda pcap: Connection(pcap).send(0, startup(REQUEST, M | C | S, bytes(3), 2)))


@case("reply_before_the_request", "before the Request Frame")
def _(pcap):
    tcp = Connection(pcap)
    tcp.segment(1, startup(REPLY, M | C))
    tcp.segment(0, startup(REQUEST, M | C))
    tcp.segment(0, Sender(True).fpdu(b"data"))


@case("fpdu_between_request_and_reply", "before the Reply Frame")
def _(pcap):
    tcp = Connection(pcap)
    tcp.segment(0, startup(REQUEST, M | C))
    tcp.segment(0, Sender(True).fpdu(b"data"))
    tcp.segment(1, startup(REPLY, M | C))


@case("hole_in_the_stream", "are missing after stream octet")
def _(pcap):
    tcp = Connection(pcap)
    ways = tcp.start()
    for n, ulpdu in enumerate(many(9, 1000)):
        octets = ways[0].fpdu(ulpdu)
        if n == 4:
            tcp.seq[0] += len(octets)
        else:
            tcp.segment(0, octets)


@case("segments_captured_in_part", "1348 octets are missing")
def _(pcap):
    pcap.snaplen = 600
    tcp = Connection(pcap)
    ways = tcp.start(C, C)
    for _ in range(2):
        tcp.segment(0, ways[0].fpdu(bytes(1213)))


@case("last_segment_captured_in_part", "674 octets are missing")
def _(pcap):
    pcap.snaplen = 600
    tcp = Connection(pcap)
    ways = tcp.start(C, C)
    for size in 100, 1213:
        tcp.segment(0, ways[0].fpdu(bytes(size)))


@case("octets_repeated_otherwise", "with other contents")
def _(pcap):
    tcp = Connection(pcap)
    ways = tcp.start()
    octets = ways[0].fpdu(bytes(900))
    at = tcp.segment(0, octets)
    tcp.segment(0, octets[:50] + b"\1" + octets[51:], seq=at)


@case("responder_does_not_wait_for_the_first_fpdu", "rule 4")
def _(pcap):
    tcp = Connection(pcap)
    ways = tcp.start()
    for end in 1, 0:
        tcp.segment(end, ways[end].fpdu(b"me first"))


@case("responder_does_not_wait_for_the_whole_fpdu", "rule 4")
def _(pcap):
    tcp = Connection(pcap)
    ways = tcp.start()
    octets = ways[0].fpdu(bytes(1000))
    tcp.segment(0, octets[:900])
    tcp.segment(1, ways[1].fpdu(b"me too"))
    tcp.segment(0, octets[900:])


@case("markers_that_nobody_asked_for", "BAD")
def _(pcap):
    tcp = Connection(pcap)
    tcp.start(C, C)
    tcp.segment(0, Sender(True).fpdu(bytes(700)))


@case("markers_missing_that_were_asked_for", "BAD")
def _(pcap):
    tcp = Connection(pcap)
    tcp.start()
    tcp.segment(0, Sender(False).fpdu(bytes(700)))


@case("reserved_bits_in_a_request", "reserved bits")
def _(pcap):
    talk(pcap, many(2), request=M | C | 4)


@case("r_in_a_request", "R set in a Request Frame")
def _(pcap):
    talk(pcap, many(2), request=M | C | R)


@case("private_data_over_512_octets", "is over 512")
def _(pcap):
    tcp = Connection(pcap)
    ways = tcp.start(private=bytes(513))
    tcp.segment(0, ways[0].fpdu(b"x"))


@case("revisions_differ", "in the Reply Frame")
def _(pcap):
    tcp = Connection(pcap)
    tcp.send(0, startup(REQUEST, M | C, b"", 1))
    tcp.send(1, startup(REPLY, M | C, b"", 0))
    tcp.segment(0, Sender(True).fpdu(b"x"))


@case("no_reply", "no Reply Frame")
def _(pcap):
    tcp = Connection(pcap)
    tcp.send(0, startup(REQUEST, M | C))
    tcp.close()


@case("reply_cut_short", "cut short", startup=True)
def _(pcap):
    tcp = Connection(pcap)
    tcp.send(0, startup(REQUEST, M | C))
    tcp.send(1, startup(REPLY, M | C, b"12345", pd_length=6))


@case("startup_only", "there is no FPDU in it; was it a refusal? --startup")
def _(pcap):
    Connection(pcap).start()


@case("nothing_at_all", "there is no MPA connection in it")
def _(pcap):
    Connection(pcap).segment(0, b"", SYN)


@case("segments_not_aligned_when_that_is_asked", "do not begin with an FPDU",
      aligned=True)
def _(pcap):
    talk(pcap, many(30), size=1448)


@case("segments_sent_again_not_aligned", "1 of 10 segments do not begin",
      aligned=True)
def _(pcap):
    tcp = Connection(pcap)
    ways = tcp.start()
    octets = [ways[0].fpdu(rnd.randbytes(1000)) for _ in range(9)]
    seqs = [tcp.segment(0, part) for part in octets]
    tcp.segment(0, octets[4][8:], seq=seqs[4] + 8)


@case("too_few_fpdus_a_segment", "19.0 FPDUs a segment, 20 are asked for",
      packed=20)
def _(pcap):
    small(pcap, 380, 1440 - 72)


@case("only_another_port_when_one_is_asked", "no MPA connection in it", port=9)
def _(pcap):
    talk(pcap, many(3), ports=(50001, 7))


@case("two_fpdus_in_a_segment", "2 FPDUs in a segment, one is asked for",
      single=True)
def _(pcap):
    small(pcap, 30, 144)


# ---- running them ----

class Tap:
    def __init__(self, plan):
        self.count = self.failed = 0
        print(f"1..{plan}")

    def result(self, good, text, why=""):
        self.count += 1
        self.failed += not good
        print(f"{'ok' if good else 'not ok'} {self.count} {text}", flush=True)
        if not good:
            for line in why.splitlines():
                print(f"# {line}")


def verdict(path, **options):
    defaults = dict(aligned=False, packed=None, single=False, counters=None,
                    port=None, cut_ok=False, any_pad=None, startup=False,
                    tshark=True, keep=None)
    settings = argparse.Namespace(**{**defaults, **options})
    report = judge.judge(path, settings, lambda text: None)
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        judge.show(report, settings)
    return report, text.getvalue()


def check(path, finds, options):
    report, text = verdict(path, **options)
    if finds is None:
        return report["good"], "expected: GOOD\n" + text
    if report["good"] or finds not in text:
        return False, f"expected: BAD, and \"{finds}\"\n{text}"
    if finds == "wrong CRC":
        # Both judges must agree on each FPDU that tshark can judge.
        for way in report["connections"][0]["directions"]:
            saw = way["tshark"]
            if way["crc_bad"] != saw["crc_bad"] and not saw["left_out"]:
                return False, f"tshark does not see the wrong CRC\n{text}"
    return True, ""


def command(*arguments, **environment):
    return subprocess.run([os.path.join(HERE, arguments[0]), *arguments[1:]],
                          env=dict(os.environ, **environment), text=True,
                          capture_output=True, check=False)


def lying_tshark(folder, sed):
    """Return a PATH with a tshark that reports wrong values."""
    real = subprocess.run(["which", "tshark"], text=True, check=True,
                          stdout=subprocess.PIPE).stdout.strip()
    path = os.path.join(folder, "tshark")
    with open(path, "w", encoding="ascii") as file:
        file.write(f"#!/bin/bash\n{real} \"$@\" | sed '{sed}'\n")
    os.chmod(path, 0o755)
    return folder + ":" + os.environ["PATH"]


def counters(tap, folder):
    """Compare a sender's counters with its capture."""
    path, file = (os.path.join(folder, name) for name in ("sent", "counters"))
    pcap = Pcap()
    tcp = Connection(pcap)
    ways = tcp.start(C, C)
    for size in 300, 300, 2000:
        tcp.send(0, ways[0].fpdu(bytes(size)), 1000)
    tcp.send(1, ways[1].fpdu(bytes(5000)), 1000)
    pcap.write(path)
    right = {"from": "10.0.0.1:40000", "tx_ulpdus": 3, "tx_packets": 4,
             "tx_segs_aligned": 3, "tx_segs_unaligned": 2}
    for change, want, finds in (
            ({}, 0, "GOOD"),
            ({"tx_ulpdus": 4}, 1, "has counted 4 ULPDUs, the wire has seen 3"),
            ({"tx_segs_aligned": 4, "tx_segs_unaligned": 1}, 1,
             "has counted 4 aligned segments, the wire has seen 3"),
            ({"tx_segs_unaligned": 3}, 1,
             "has counted 6 data segments, the wire has seen 5"),
            ({"from": "10.0.0.1:1"}, 1, "nothing was sent by 10.0.0.1:1"),
            ({"from": None, "tx_ulpdus": "x"}, 1, "nothing was sent by None"),
            (None, 2, "no counters")):
        with open(file, "w", encoding="ascii") as out:
            out.write("{}" if change is None else
                      json.dumps({**right, **change}))
        ran = command("judge", "--counters", file, path)
        tap.result(ran.returncode == want and finds in ran.stdout + ran.stderr,
                   f"counters: {finds}", f"expected {want}, got "
                   f"{ran.returncode}\n{ran.stdout}{ran.stderr}")


def commands(tap, folder):
    good, bad = os.path.join(folder, "good"), os.path.join(folder, "bad")
    pcap = Pcap()
    talk(pcap, many(10))
    pcap.write(good)
    pcap = Pcap()
    fault("crc")(pcap)
    pcap.write(bad)

    for files, want in (((good,), 0), ((bad,), 1), ((good, bad), 1),
                        ((good + "-not",), 2), ((__file__,), 2)):
        ran = command("judge", *files)
        tap.result(ran.returncode == want,
                   f"exit_status_{want}_for_{len(files)}_of_"
                   + os.path.basename(files[-1]),
                   f"expected {want}, got {ran.returncode}\n{ran.stderr}")

    ran = command("judge", "--json", good, bad)
    report = json.loads(ran.stdout)
    tap.result(not report["good"] and report["files"][0]["good"]
               and report["files"][0]["fpdus"] == 20
               and report["files"][1]["connections"][0]["directions"][0]
               ["crc_bad"] == 1, "json", ran.stdout)

    for name, build, want, finds in (
            ("not_mpa", lambda: Connection(pcap, ports=(1, 2)).send(0, b"hi"), 0,
             "GOOD: 20 FPDUs, 20 good CRC, 0 markers good; "
             "1 connection not judged"),
            ("begin_missing", lambda: before_the_capture(pcap, (1, 2)), 2,
             "CANNOT TELL: 20 FPDUs")):
        pcap = Pcap()
        talk(pcap, many(10), C, C, ports=(3, 4))
        build()
        path = os.path.join(folder, name)
        pcap.write(path)
        ran = command("judge", path)
        tap.result(ran.returncode == want and finds in ran.stdout
                   and "not judged: 10.0.0.1:1 and 10.0.0.2:2" in ran.stdout,
                   f"a_connection_that_is_not_judged_is_named: {name}",
                   f"expected {want}, got {ran.returncode}\n{ran.stdout}")
        ran = command("judge", good, path, bad)
        tap.result(ran.returncode == 1, f"bad_before_not_judged: {name}",
                   ran.stdout)

    counters(tap, folder)

    other = os.path.join(folder, "pcapng")
    subprocess.run(["editcap", "-F", "pcapng", good, other], check=True)
    ran = command("judge", other)
    tap.result(ran.returncode == 0, "pcapng", ran.stdout + ran.stderr)

    for sed, text in (("0,/(Good/s/(Good/(Bad/", "finds_a_bad_crc"),
                      ("0,/pointer: 0/s/pointer: 0/pointer: 4/",
                       "reads_another_marker"),
                      ("0,/ULPDU length/{/ULPDU length/d}",
                       "does_not_see_an_fpdu"),
                      ("s/CRC flag: True/x/;s/Revision: 1/Revision: 0/",
                       "sees_another_revision")):
        ran = command("judge", good, PATH=lying_tshark(folder, sed))
        tap.result(ran.returncode == 1, f"bad_when_only_tshark_{text}",
                   f"expected 1, got {ran.returncode}\n{ran.stdout}")

    ran = command("annotate", good, "--fpdus", "1")
    lines = ran.stdout.splitlines()
    tap.result(ran.returncode == 0 and "MPA ID Req Frame" in ran.stdout
               and "CRC32c" in ran.stdout
               and max(map(len, lines)) < 80 and "\x1b" not in ran.stdout,
               "annotate_fits_80_columns_without_colour",
               ran.stdout + ran.stderr)
    pcap = Pcap()
    tcp = Connection(pcap)
    ways = tcp.start()
    for ulpdu in (b"\0" * 482, ddp(2)):
        tcp.segment(0, ways[0].fpdu(ulpdu))
    pcap.write(good)
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        annotate.show(good, 2, False)
    want = ("0200  00       Marker: Reserved", "0202  00", "0203  14",
            "021c  84", "021f  98")
    missing = [line for line in want if line not in text.getvalue()]
    tap.result(not missing, "annotate_shows_rfc5044_figure_6",
               f"missing: {missing}\n{text.getvalue()}")


def main():
    # Wireshark cannot read FPDUs before markers are negotiated.
    read = [c for c in cases if c[0] != "fpdu_between_request_and_reply"]
    tap = Tap(len(cases) + 24 + len(selftest_tuf.cases)
              + selftest_tuf_commands.COUNT + selftest_lua.count(read))
    with tempfile.TemporaryDirectory() as folder:
        for text, build, finds, options in cases:
            path = os.path.join(folder, text + ".pcap")
            pcap = Pcap()
            build(pcap)
            pcap.write(path)
            tap.result(*[(good, ("good: " if finds is None else "bad: ")
                          + text, why)
                         for good, why in [check(path, finds, options)]][0])
        commands(tap, folder)
        selftest_tuf.run(tap, folder)
        selftest_tuf_commands.run(tap, folder, command)
        selftest_lua.run(tap, folder, read)
    print(f"# {tap.count - tap.failed} of {tap.count} passed")
    sys.exit(1 if tap.failed else 0)


if __name__ == "__main__":
    main()
