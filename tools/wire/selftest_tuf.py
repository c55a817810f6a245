# SPDX-License-Identifier: GPL-2.0
"""Test that the judge reports all errors of TUF and no others."""
import argparse
import contextlib
import io
import os
import random

import expect
import judge_tuf
from synth import Connection, Pcap
from synth_tuf import fpdu, with_markers

KEY, OTHER = bytes.fromhex("0a0b0c0d0e0f"), bytes.fromhex("f0e0d0c0b0a0")
TOLD = f"from=10.0.0.1,mode=align,key={KEY.hex()}"
BACK = f"to=10.0.0.1:40000,mode=align,key={OTHER.hex()}"
MARKED = f"from=10.0.0.1,mode=markers,period=128,key={KEY.hex()}"
rnd = random.Random(2001)
cases = []


def case(text, finds=None, tuf=(TOLD,), counts=None, **options):
    """Add a capture that the function builds. finds: errors that must be reported;
    counts: values in its first direction's report."""
    def add(function):
        cases.append((text, function, finds, tuf, counts or {}, options))
        return function
    return add


def many(count, key=KEY, low=1, high=1400):
    return [fpdu(key, rnd.randbytes(rnd.randint(low, high)))
            for _ in range(count)]


def talk(pcap, fpdus, end=0, **kind):
    """Build a connection with one FPDU a segment, in one direction."""
    tcp = Connection(pcap, **kind)
    seqs = [tcp.segment(end, octets) for octets in fpdus]
    return tcp, seqs


def cut(tcp, octets, *places):
    """Send an FPDU in pieces; return their sequence numbers."""
    edges = [0, *places, len(octets)]
    return [tcp.segment(0, octets[one:other])
            for one, other in zip(edges, edges[1:])]


def trap(at, size, length=2000):
    """Build an FPDU whose payload looks, at offset at, like an FPDU of size octets."""
    octets = bytearray(fpdu(KEY, rnd.randbytes(length)))
    octets[at:at + 8] = fpdu(KEY, b"", size - 8)
    return bytes(octets)


# ---- good captures: align ----

@case("an_fpdu_a_segment", aligned=True, contained=True, starts=True,
      counts={"segments": 30, "segments_contained": 30, "fpdus": 30,
              "fpdus_cut": 0, "segments_accidental": 0})
def _(pcap):
    talk(pcap, many(30))


@case("both_directions_with_keys_of_their_own", tuf=(TOLD, BACK))
def _(pcap):
    tcp, _ = talk(pcap, many(5))
    for octets in many(5, OTHER):
        tcp.segment(1, octets)
    tcp.close()


@case("every_length_of_1_to_600_octets", contained=True)
def _(pcap):
    talk(pcap, [fpdu(KEY, rnd.randbytes(n)) for n in range(1, 601)])


@case("longest_fpdus_over_many_segments", starts=True,
      counts={"fpdus": 3, "fpdus_cut": 2, "longest": 65543, "segments": 93,
              "segments_begin_fpdu": 3, "segments_contained": 1})
def _(pcap):
    tcp = Connection(pcap)
    for length in 65528, 65535, 1:
        tcp.send(0, fpdu(KEY, rnd.randbytes(length)))


@case("key_not_stated", tuf=("from=:40000,mode=align",))
def _(pcap):
    talk(pcap, many(5))


@case("plain_tcp_before_and_after", contained=True,
      tuf=(TOLD + ",start=7,end=27", BACK + ",start=4"),
      counts={"segments": 2, "framed_octets": 20})
def _(pcap):
    tcp, _ = talk(pcap, [b"key,", b"set", fpdu(KEY, b"x"), fpdu(KEY, b"end"),
                         b"plain again", b"and more"])
    for octets in (b"fine", fpdu(OTHER, b"y")):
        tcp.segment(1, octets)


@case("framing_that_begins_anew", contained=True,
      tuf=(TOLD + ",end=40",
           f"from=10.0.0.1,mode=align,key={OTHER.hex()},start=45"))
def _(pcap):
    talk(pcap, [fpdu(KEY, bytes(32)), b"plain", fpdu(OTHER, bytes(9))])


@case("ipv6", tuf=("from=[fd00::1]:40000,to=fd00:0::2,mode=align",))
def _(pcap):
    talk(pcap, many(5), ipv6=True)


@case("neither_syn_nor_fin")
def _(pcap):
    talk(pcap, many(5), syn=False)


@case("sequence_numbers_wrap", contained=True)
def _(pcap):
    talk(pcap, many(9, low=900), isn=(2**32 - 3000, 1))


@case("whole_fpdus_sent_again", contained=True, aligned=True,
      counts={"segments": 11, "segments_again": 2,
              "segments_again_contained": 2})
def _(pcap):
    fpdus = many(9)
    tcp, seqs = talk(pcap, fpdus)
    for n in 2, 8:
        tcp.segment(0, fpdus[n], seq=seqs[n])


@case("front_of_an_fpdu_sent_again", aligned=True,
      counts={"fpdus_cut": 1, "segments_again_begin_fpdu": 1,
              "segments_again_contained": 0})
def _(pcap):
    fpdus = many(3, low=100)
    tcp, seqs = talk(pcap, fpdus)
    tcp.segment(0, fpdus[1][:60], seq=seqs[1])


@case("pieces_that_fail_the_test", starts=True,
      counts={"fpdus_cut": 1, "segments": 5, "segments_begin_fpdu": 2})
def _(pcap):
    tcp, _ = talk(pcap, many(1))
    octets = trap(500, 700)
    # The piece that would pass is one octet too short.
    cut(tcp, octets, 500, 1199, 1206)


@case("piece_with_another_key")
def _(pcap):
    tcp, _ = talk(pcap, many(1))
    octets = bytearray(trap(500, 700))
    octets[503] ^= 1
    cut(tcp, bytes(octets), 500, 1200)


@case("looks_like_an_fpdu_outside_of_what_is_framed",
      tuf=(TOLD + ",start=16,end=45",))
def _(pcap):
    talk(pcap, [fpdu(KEY, b"inviting")] + [fpdu(KEY, bytes(21))]
         + [fpdu(KEY, b"inviting")])


@case("last_fpdu_cut_when_that_is_allowed", cut_ok=True)
def _(pcap):
    talk(pcap, many(2) + [fpdu(KEY, bytes(900))[:-1]])


@case("header_cut_when_that_is_allowed", cut_ok=True, aligned=True)
def _(pcap):
    talk(pcap, many(2) + [fpdu(KEY, bytes(900))[:5]])


@case("end_not_reached_when_that_is_allowed", cut_ok=True,
      tuf=(TOLD + ",end=5000",))
def _(pcap):
    talk(pcap, [fpdu(KEY, bytes(900)), fpdu(KEY, bytes(900))[:-1]])


@case("segments_of_one_octet")
def _(pcap):
    tcp = Connection(pcap)
    tcp.send(0, b"".join(many(2, high=300)), 1)


# ---- bad captures: align ----

for _name, _by in ("short", -1), ("long", 1):
    @case(f"length_too_{_name}", "must be 0a0b0c0d0e0f")
    def _(pcap, by=_by):
        talk(pcap, many(2) + [fpdu(KEY, bytes(90), 90 + by)] + many(2))

    @case(f"length_too_{_name}_in_the_last_fpdu",
          "cut off" if _by > 0 else "1 octets at")
    def _(pcap, by=_by):
        talk(pcap, many(2) + [fpdu(KEY, bytes(90), 90 + by)])


@case("length_too_long_where_a_cut_is_allowed", "must be 0a0b0c0d0e0f",
      cut_ok=True)
def _(pcap):
    talk(pcap, [fpdu(KEY, bytes(90), 91), fpdu(KEY, bytes(90))])


@case("length_0_where_a_cut_is_allowed", "Length 0 cannot be", cut_ok=True)
def _(pcap):
    talk(pcap, [fpdu(KEY, bytes(90)), fpdu(KEY, b"")])


@case("length_0", "Length 0 cannot be", counts={"fpdus": 2, "segments": 2})
def _(pcap):
    talk(pcap, many(2) + [fpdu(KEY, b"")] + many(2))


@case("one_octet_of_a_key_wrong", "FPDU 3 at 216: Key 0a0b0c0d0e0e, must be",
      counts={"segments_begin_fpdu": 5, "segments_contained": 4})
def _(pcap):
    talk(pcap, [fpdu(KEY, bytes(100))] * 2
         + [fpdu(KEY[:5] + b"\x0e", bytes(100))] + many(2))


@case("another_key_than_stated", "FPDU 1 at 0: Key f0e0d0c0b0a0")
def _(pcap):
    talk(pcap, many(3, OTHER))


@case("key_not_stated_and_not_the_same", "FPDU 2 at 28: Key f0e0d0c0b0a0",
      tuf=("from=10.0.0.1,mode=align",))
def _(pcap):
    talk(pcap, [fpdu(KEY, bytes(20)), fpdu(OTHER, bytes(20))])


@case("piece_that_passes_the_test", "packet 6 passes the containment test",
      counts={"segments_accidental": 1})
def _(pcap):
    tcp, _ = talk(pcap, many(1))
    cut(tcp, trap(500, 700), 500, 1200)


@case("last_piece_that_passes_the_test", "700 octets at 1308")
def _(pcap):
    tcp, _ = talk(pcap, many(0))
    cut(tcp, trap(1308, 700), 1308)


@case("piece_that_passes_only_when_sent_again",
      "packet 7, sent again, passes the containment test",
      counts={"segments_accidental": 1, "segments_again": 1})
def _(pcap):
    tcp, _ = talk(pcap, many(1))
    octets = trap(500, 700)
    seqs = cut(tcp, octets, 1100)
    tcp.segment(0, octets[500:1200], seq=seqs[0] + 500)


@case("piece_of_8_octets_that_passes_the_test", "8 octets at 500")
def _(pcap):
    tcp = Connection(pcap)
    cut(tcp, trap(500, 8), 500, 508)


@case("piece_of_two_fpdus_that_passes_the_test", "passes the containment test")
def _(pcap):
    tcp = Connection(pcap)
    first = trap(1900, 208, 2000)
    second = fpdu(KEY, bytes(200))
    cut(tcp, first + second, 1900, 2108)


@case("piece_of_a_cut_off_fpdu_that_passes_the_test", "700 octets at 500",
      cut_ok=True)
def _(pcap):
    cut(Connection(pcap), trap(500, 700)[:1900], 500, 1200)


@case("front_of_an_fpdu_sent_again_with_another_length",
      "packet 7, sent again, passes the containment test")
def _(pcap):
    fpdus = many(3, low=100)
    tcp, seqs = talk(pcap, fpdus)
    tcp.segment(0, fpdu(KEY, fpdus[1][8:60]), seq=seqs[1])


@case("segments_not_aligned", "1 of 4 segments do not begin with an FPDU",
      aligned=True)
def _(pcap):
    tcp, _ = talk(pcap, many(2))
    cut(tcp, fpdu(KEY, bytes(100)), 50)


@case("segment_sent_again_not_aligned",
      "1 of 4 segments do not begin with an FPDU", aligned=True)
def _(pcap):
    fpdus = many(3, low=100)
    tcp, seqs = talk(pcap, fpdus)
    tcp.segment(0, fpdus[1][8:], seq=seqs[1] + 8)


@case("two_fpdus_in_a_segment", "1 of 3 segments are not exactly one FPDU",
      contained=True, counts={"fpdus_inside_segments": 1, "fpdus_cut": 0})
def _(pcap):
    talk(pcap, many(2) + [b"".join(many(2))])


@case("two_fpdus_in_a_segment_and_each_must_start_one",
      "1 times an FPDU does not start a segment", starts=True)
def _(pcap):
    talk(pcap, many(2) + [b"".join(many(2))])


@case("two_fpdus_in_a_segment_sent_again",
      "1 times an FPDU does not start a segment", starts=True)
def _(pcap):
    fpdus = many(3)
    tcp, seqs = talk(pcap, fpdus)
    tcp.segment(0, fpdus[1] + fpdus[2], seq=seqs[1])


@case("fpdu_cut_where_all_must_be_contained",
      "2 of 4 segments are not exactly one FPDU", contained=True)
def _(pcap):
    tcp, _ = talk(pcap, many(2))
    cut(tcp, fpdu(KEY, bytes(100)), 50)


@case("first_fpdu_in_one_segment_with_plain_octets",
      "1 times an FPDU does not start", tuf=(TOLD + ",start=5",), starts=True)
def _(pcap):
    talk(pcap, [b"plain" + fpdu(KEY, bytes(30))] + many(2))


@case("last_fpdu_in_one_segment_with_plain_octets",
      "1 of 2 segments are not exactly", tuf=(TOLD + ",end=76",),
      contained=True)
def _(pcap):
    talk(pcap, [fpdu(KEY, bytes(30))] + [fpdu(KEY, bytes(30)) + b"plain"])


@case("octets_after_the_last_fpdu", "3 octets at 38 are not explained")
def _(pcap):
    talk(pcap, [fpdu(KEY, bytes(30)), b"end"])


@case("end_of_stream_inside_an_fpdu", "89 of 90 octets of ULPDUs are there")
def _(pcap):
    talk(pcap, many(2) + [fpdu(KEY, bytes(90))[:-1]])


@case("framing_ends_inside_an_fpdu", "cut off", tuf=(TOLD + ",end=75",),
      cut_ok=True)
def _(pcap):
    talk(pcap, [fpdu(KEY, bytes(30))] * 2 + [b"plain"])


@case("framing_ends_later_than_stated", "BAD", tuf=(TOLD + ",end=77",))
def _(pcap):
    talk(pcap, [fpdu(KEY, bytes(30))] * 2 + [b"plain"])


@case("end_not_reached", "to end at stream octet 77, there are 76",
      tuf=(TOLD + ",end=77",))
def _(pcap):
    talk(pcap, [fpdu(KEY, bytes(30))] * 2)


@case("framing_begins_later_than_stated", "BAD", tuf=(TOLD + ",start=4",))
def _(pcap):
    talk(pcap, [b"plain"] + many(2))


@case("framing_does_not_begin", "there is no FPDU in it",
      tuf=(TOLD + ",start=50",))
def _(pcap):
    talk(pcap, [b"plain"])


@case("one_direction_is_not_there", "nothing was sent as --tuf from=10.0.0.7",
      tuf=(TOLD, "from=10.0.0.7,mode=align"))
def _(pcap):
    talk(pcap, many(2))


@case("the_other_direction_is_silent", "there is no FPDU in it",
      tuf=(TOLD, BACK))
def _(pcap):
    talk(pcap, many(2))


@case("hole_in_the_stream", "are missing after stream octet")
def _(pcap):
    tcp, _ = talk(pcap, many(2))
    tcp.seq[0] += 100
    tcp.segment(0, fpdu(KEY, b"x"))


@case("octets_repeated_otherwise", "with other contents")
def _(pcap):
    fpdus = many(3, low=100)
    tcp, seqs = talk(pcap, fpdus)
    tcp.segment(0, fpdus[1][:-1] + bytes([fpdus[1][-1] ^ 1]), seq=seqs[1])


# ---- markers ----

# Calculated by hand: the second FPDU has a marker inside its header. The third ends
# where a marker is due. The fourth has a marker before it, and ends where another is
# due.
BY_HAND = (bytes.fromhex("00000000 0070 0a0b0c0d0e0f") + b"a" * 112
           + bytes.fromhex("0003 0a0b 00070007 0c0d0e0f") + b"bbb"
           + bytes.fromhex("006d 0a0b0c0d0e0f") + b"c" * 109
           + bytes.fromhex("00000000 00f0 0a0b0c0d0e0f") + b"d" * 116
           + bytes.fromhex("00800080") + b"d" * 124
           + bytes.fromhex("00000000 0001 0a0b0c0d0e0f") + b"e")


@case("written_by_hand", tuf=(MARKED,),
      counts={"fpdus": 5, "markers": 5, "ulpdu_octets": 465})
def _(pcap):
    talk(pcap, [BY_HAND])
    assert BY_HAND == with_markers(
        [fpdu(KEY, octet * n) for octet, n in (
            (b"a", 112), (b"b", 3), (b"c", 109), (b"d", 240), (b"e", 1))], 128)


def marked(pcap, fpdus, period=128, wrong=None, size=1448, front=b"",
           behind=b""):
    tcp = Connection(pcap)
    tcp.send(0, front + with_markers(fpdus, period, wrong) + behind, size)


for _size in 1, 3, 7, 100, 1448, 60000:
    @case(f"markers_in_segments_of_{_size}", tuf=(MARKED,))
    def _(pcap, size=_size):
        marked(pcap, many(9, high=400), size=size)

for _period in 128, 256, 512, 1024, 4096, 8192, 16384, 32768:
    @case(f"markers_each_{_period}_octets",
          tuf=(f"from=10.0.0.1,mode=markers,period={_period}",))
    def _(pcap, period=_period):
        marked(pcap, many(20, high=9000), period)


@case("markers_every_length_of_1_to_400_octets", tuf=(MARKED,))
def _(pcap):
    marked(pcap, [fpdu(KEY, rnd.randbytes(n)) for n in range(1, 401)])


@case("markers_default_period_and_the_longest_fpdu",
      tuf=("from=10.0.0.1,mode=markers",),
      counts={"longest": 65536, "fpdus": 2, "markers": 33})
def _(pcap):
    marked(pcap, [fpdu(KEY, bytes(65536 - 8 - 4 * 32)), fpdu(KEY, b"x")], 2048)


@case("markers_with_an_fpdu_too_long", "65537 octets with header and markers",
      tuf=("from=10.0.0.1,mode=markers,period=4096",))
def _(pcap):
    marked(pcap, many(1, high=9)
           + [fpdu(KEY, bytes(65537 - 8 - 4 * 16))], 4096)


@case("markers_after_plain_tcp_and_before_it",
      tuf=(MARKED + ",start=5,end=149",))
def _(pcap):
    marked(pcap, [fpdu(KEY, bytes(128))], front=b"plain", behind=b"again")


@case("markers_in_one_direction_align_in_the_other", tuf=(MARKED, BACK),
      contained=True)
def _(pcap):
    tcp = Connection(pcap)
    tcp.send(0, with_markers(many(9), 128))
    for octets in many(9, OTHER):
        tcp.segment(1, octets)


@case("looks_contained_where_markers_are_in_use",
      tuf=("from=10.0.0.1,mode=markers",))
def _(pcap):
    tcp = Connection(pcap)
    octets = with_markers([trap(500, 700)], 4096)
    cut(tcp, octets, 504, 1204)


# The first FPDU is so long that the second's header has a marker before its octet
# _place. 0: the first FPDU ends where a marker is due; 8: the marker is after the
# header.
for _place in range(9):
    def two(place):
        return [fpdu(KEY, bytes(116 - place)), fpdu(KEY, rnd.randbytes(40))]

    @case(f"marker_before_octet_{_place}_of_a_header", tuf=(MARKED,),
          counts={"fpdus": 2, "markers": 2})
    def _(pcap, place=_place):
        marked(pcap, two(place))

    for _which in "first", "second":
        @case(f"marker_before_octet_{_place}_of_a_header_{_which}_copy_wrong",
              f"marker at 128: its {_which} copy says", tuf=(MARKED,),
              counts={"markers_wrong": 1})
        def _(pcap, place=_place, which=_which):
            marked(pcap, two(place), wrong={1: which})

    @case(f"marker_before_octet_{_place}_of_a_header_missing", "BAD",
          tuf=(MARKED,))
    def _(pcap, place=_place):
        marked(pcap, two(place), wrong={1: "missing"})

for _n, _text in ((0, "first"), (7, "middle"), (15, "last")):
    for _fault in "first", "second", "missing":
        @case(f"{_text}_marker_{_fault}_"
              + ("copy_wrong" if _fault != "missing" else "at_all"),
              f"its {_fault} copy says" if _fault != "missing" else "BAD",
              tuf=(MARKED,))
        def _(pcap, n=_n, fault=_fault):
            marked(pcap, [fpdu(KEY, rnd.randbytes(91)) for _ in range(20)],
                   wrong={n: fault})


@case("markers_of_another_period", "BAD",
      tuf=("from=10.0.0.1,mode=markers,period=256",))
def _(pcap):
    marked(pcap, many(9))


@case("markers_that_nobody_agreed_on", "Key 0000005a0a0b, must be")
def _(pcap):
    marked(pcap, [fpdu(KEY, bytes(90))] * 3)


@case("markers_missing_that_were_agreed_on", "must be 0a0b0c0d0e0f",
      tuf=(MARKED,))
def _(pcap):
    talk(pcap, many(9))


@case("markers_wrong_key", "FPDU 2 at 128: Key 0a0b0c0d0eff", tuf=(MARKED,))
def _(pcap):
    marked(pcap, [fpdu(KEY, bytes(116)), fpdu(KEY[:5] + b"\xff", b"x"),
                  fpdu(KEY, b"y")])


@case("markers_wrong_length", "must say", tuf=(MARKED,))
def _(pcap):
    marked(pcap, [fpdu(KEY, bytes(300), 299), fpdu(KEY, bytes(300))])


@case("marker_with_no_fpdu_after_it", "4 octets at 128 are not explained",
      tuf=(MARKED,))
def _(pcap):
    marked(pcap, [fpdu(KEY, bytes(116))], behind=bytes(4))


@case("framing_ends_inside_a_marker", "2 octets at 128 are not explained",
      tuf=(MARKED,))
def _(pcap):
    marked(pcap, [fpdu(KEY, bytes(116))], behind=bytes(2))


# ---- running them ----

def verdict(path, told, **options):
    defaults = dict(aligned=False, contained=False, starts=False,
                    counters=None, port=None, cut_ok=False)
    settings = argparse.Namespace(tuf=[expect.framing(text) for text in told],
                                  **{**defaults, **options})
    report = judge_tuf.judge(path, settings, lambda text: None)
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        judge_tuf.show(report, settings)
    return report, text.getvalue()


def check(path, finds, told, counts, options):
    report, text = verdict(path, told, **options)
    if report["good"] != (finds is None) or (finds or "GOOD") not in text:
        return False, f"expected: {finds or 'GOOD'}\n{text}"
    way = report["directions"][0]
    for key, value in counts.items():
        if way[key] != value:
            return False, (f"expected {value} of {key}, got {way[key]}\n{text}")
    return True, ""


def run(tap, folder):
    for text, build, finds, told, counts, options in cases:
        path = os.path.join(folder, f"tuf_{text}.pcap")
        pcap = Pcap()
        build(pcap)
        pcap.write(path)
        good, why = check(path, finds, told, counts, options)
        tap.result(good, ("good" if finds is None else "bad")
                   + f": tuf: {text}", why)
