# SPDX-License-Identifier: GPL-2.0
"""Test the commands judge and annotate with TUF."""
import json
import os

from selftest_tuf import BY_HAND, KEY, MARKED, TOLD, cut, many, marked, talk, \
    trap
from synth import Pcap
from synth_tuf import fpdu

# Wrong --tuf options, and the errors that must be reported.
USAGE = (
    (("--tuf", "mode=align"), "which direction"),
    (("--tuf", "from=:7"), "mode= is missing"),
    (("--tuf", "from=:7,mode=both"), "neither align nor markers"),
    (("--tuf", "from=,mode=align"), "neither address nor port"),
    (("--tuf", "from=[fd00::1,mode=align"), "is no [ADDRESS]:PORT"),
    (("--tuf", "from=:7,from=:8,mode=align"), "given twice"),
    (("--tuf", "from=:7,mode=align,keys=1"), "is not known"),
    (("--tuf", "from=:7,mode=align,key=0a0b"), "12 hexadecimal digits"),
    (("--tuf", "from=:7,mode=align,start=-1"), "no number of octets"),
    (("--tuf", "from=:7,mode=align,start=9,end=9"), "is not after"),
    (("--tuf", "from=:7,mode=align,period=512"), "goes with mode=markers"),
    (("--tuf", "from=:7,mode=markers,period=64"), "no power of two"),
    (("--tuf", "from=:7,mode=markers,period=384"), "no power of two"),
    (("--tuf", "from=:40000,mode=align", "--tuf", "to=:4242,mode=align"),
     "speak of the same octets"),
    (("--tuf", "from=:7,mode=align", "--single"), "do not go with --tuf"),
    (("--tuf", "from=:7,mode=markers", "--starts"), "go with mode=align"),
    (("--contained",), "go with --tuf"))

SHOWN = """\
  ==== inside the segment of packet 4, from its octet 129 on
  007c  00       Length = 3
  007d  03
  007e  0a       Key = 0a0b0c0d0e0f
  007f  0b
  0080  00       Marker: Next PDU Offset = 7, to 008b
  0081  07
  0082  00       Marker: again = 6, WRONG: must be 7
  0083  06
  0084  0c       Key, from its octet 2 on
  0085  0d
  0086  0e
  0087  0f
  0088  62       ULPDUs, octets 0 to 2
  0089  62
  008a  62
"""


def judged(tap, command, path):
    """Check the command's own exit status and report."""
    pcap = Pcap()
    tcp, _ = talk(pcap, many(3))
    cut(tcp, trap(500, 700), 500, 1200)
    pcap.write(path)
    for told, want in ((TOLD, 1), (TOLD + ",end=8", 1), ("to=:7,mode=align", 1)):
        ran = command("judge", "--tuf", told, path)
        tap.result(ran.returncode == want, f"tuf: exit status {want}: {told}",
                   ran.stdout + ran.stderr)
    ran = command("judge", "--json", "--tuf", TOLD, path)
    report = json.loads(ran.stdout)["files"][0]
    tap.result(not report["good"]
               and report["directions"][0]["segments_accidental"] == 1,
               "tuf: json", ran.stdout)
    ran = command("annotate", "--fpdus", "9", "--tuf", TOLD, path)
    tap.result("packet 8, 700 octets: passes for an FPDU, WRONG" in ran.stdout,
               "tuf: annotate reports what passes for an FPDU",
               ran.stdout + ran.stderr)
    for arguments, finds in USAGE:
        ran = command("judge", *arguments, path)
        tap.result(ran.returncode == 2 and finds in ran.stderr,
                   f"tuf: refused: {finds}", f"{ran.returncode}\n{ran.stderr}")


def counted(tap, command, path):
    """Compare a sender's counters with its capture."""
    pcap = Pcap()
    fpdus = many(3)
    tcp, seqs = talk(pcap, fpdus)
    cut(tcp, fpdu(KEY, bytes(100)), 60)
    tcp.segment(0, fpdus[1], seq=seqs[1])
    pcap.write(path)
    right = {"from": "10.0.0.1:40000", "tx_fpdus": 4, "tx_markers": 0,
             "tx_segs_aligned": 4, "tx_segs_unaligned": 1,
             "tx_segs_contained": 3}
    file = path + ".json"
    for change, want, finds in (
            ({}, 0, "GOOD"),
            ({"tx_fpdus": 5}, 1, "has counted 5 FPDUs, the wire has seen 4"),
            ({"tx_segs_contained": 4}, 1, "has counted 4 contained segments"),
            ({"tx_segs_unaligned": 0}, 1, "has counted 4 data segments"),
            ({"tx_markers": 1}, 1, "has counted 1 markers"),
            ({"tx_markers": None}, 2, "no counters")):
        with open(file, "w", encoding="ascii") as out:
            json.dump({**right, **change}, out)
        ran = command("judge", "--tuf", TOLD, "--counters", file, path)
        tap.result(ran.returncode == want and finds in ran.stdout + ran.stderr,
                   f"tuf: counters: {finds}", ran.stdout + ran.stderr)


def annotated(tap, command, path):
    pcap = Pcap()
    octets = bytearray(BY_HAND)
    octets[131] ^= 1
    marked(pcap, [], front=b"plain" + bytes(octets))
    pcap.write(path)
    ran = command("annotate", "--fpdus", "3", "--tuf", MARKED + ",start=5",
                  path)
    tap.result(ran.returncode == 0 and SHOWN in ran.stdout
               and max(map(len, ran.stdout.splitlines())) < 80,
               "tuf: annotate shows a marker inside a header",
               f"expected:\n{SHOWN}\ngot:\n{ran.stdout}{ran.stderr}")
    ran = command("annotate", "--tuf", "from=:7,mode=align", path)
    tap.result(ran.returncode == 1, "tuf: annotate finds nothing",
               ran.stdout + ran.stderr)


def run(tap, folder, command):
    path = os.path.join(folder, "tuf")
    judged(tap, command, path)
    counted(tap, command, path)
    annotated(tap, command, path)


COUNT = 5 + len(USAGE) + 6 + 2
