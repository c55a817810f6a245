# SPDX-License-Identifier: GPL-2.0
"""Print a capture's startup frames and first FPDUs octet by octet, like figures 5 and 6
of RFC 5044."""
import argparse
import os
import sys

import annotate_tuf
import capture
import expect
import judge
import output
import rfc5044


def show_startup(out, frame, number, src, dst):
    out.line(f"MPA {frame.kind} Frame, {src} -> {dst} (packet {number})",
             "title")
    octets = frame.octets
    for at in (0, 8):
        text = octets[at:at + 8].hex(" ")
        note = f'Key: "{octets[:16].decode()}"' if not at else ""
        out.line(f"  {at:04x}  {text}  {note}".rstrip())
    flags = frame.flags
    notes = [f"M = {flags >> 7}: "
             + ("send me markers" if flags & rfc5044.M else "no markers to me"),
             f"C = {flags >> 6 & 1}: "
             + ("CRCs" if flags & rfc5044.C else "no CRCs")]
    notes.append(f"R = {flags >> 5 & 1}"
                 + (": rejected" if flags & rfc5044.R else ""))
    notes.append(f"reserved {flags & 31}")
    out.octet(16, flags, "; ".join(notes))
    out.octet(17, frame.revision, f"Rev = {frame.revision}")
    out.octet(18, octets[18], f"PD_Length = {frame.private_len}")
    out.octet(19, octets[19])
    for at in range(0, min(len(frame.private), 64), 8):
        part = frame.private[at:at + 8]
        text = "".join(chr(c) if 32 <= c < 127 else "." for c in part)
        out.line(f"  {20 + at:04x}  {part.hex(' '):<23}  "
                 f"{'Private data: ' if not at else '              '}{text}")
    if len(frame.private) > 64:
        out.line(f"  ...   {len(frame.private) - 64} more octets of private "
                 "data")
    out.line("")


def fields(fpdu):
    """Yield the fields of an FPDU in the order of their octets: (offset, length, kind,
    the field's octets before these)."""
    stops = set(fpdu.markers)
    plain = [(fpdu.head, 2, "length")]
    off = fpdu.head + 2
    left = fpdu.ulpdu_len
    kinds = [("ulpdu", left), ("pad", len(fpdu.pad)), ("crc", 4)]
    found = [(m, 4, "marker", 0) for m in fpdu.markers]
    found += [(at, size, kind, 0) for at, size, kind in plain]
    for kind, left in kinds:
        skip = 0
        while left:
            if off in stops:
                off += 4
                continue
            ahead = [m for m in fpdu.markers if m > off]
            take = min(left, ahead[0] - off) if ahead else left
            found.append((off, take, kind, skip))
            off += take
            skip += take
            left -= take
    return sorted(found)


def show_fpdu(out, direction, n, segments, who):
    fpdu = direction.fpdus[n]
    octets = direction.stream[fpdu.at:fpdu.at + fpdu.len]
    pad = len(fpdu.pad)
    out.line(f"FPDU {n + 1} of {len(direction.fpdus)}, {who}", "title")
    marks = len(fpdu.markers)
    marks = f", {marks} marker{'s' * (marks != 1)}" if direction.marked else ""
    out.line(f"  {fpdu.len} octets: ULPDU {fpdu.ulpdu_len}, pad {pad}"
             f"{marks}, CRC {'good' if fpdu.crc_good else 'WRONG'}"
             + ("" if direction.crc else " (not in use)"))
    out.line("  octet content  annotation")
    wrong = {off: want for off, _, _, want in fpdu.wrong_markers}
    first = segments.of(fpdu.at)
    if first and first.off != fpdu.at:
        out.line(f"  ==== inside the segment of packet {first.number}, from its"
                 f" octet {fpdu.at - first.off} on", "segment")
    shown = skipped = 0
    for off, size, kind, skip in fields(fpdu):
        last_marker = fpdu.markers[-1] if fpdu.markers else None
        if kind == "marker":
            shown += 1
        hidden = shown > output.MARKERS and last_marker is not None and (
            off < last_marker) and kind in ("marker", "ulpdu")
        if hidden:
            skipped += size
            continue
        if skipped:
            out.line(f"  ...            {skipped} more octets of ULPDU and "
                     "markers")
            skipped = 0
        show_field(out, fpdu, octets, (off, size, kind, skip), wrong, segments)
    out.line("")


def note(fpdu, octets, kind, skip, size):
    """Return the annotation of a field's first octet."""
    if kind == "length":
        return f"ULPDU Length = {fpdu.ulpdu_len}"
    if kind == "ulpdu":
        return (f"ULPDU, octets {skip} to {skip + size - 1}" if size > 1
                else f"ULPDU, octet {skip}")
    if kind == "pad":
        return "PAD"
    return "CRC32c: " + ("good" if fpdu.crc_good else "wrong")


def show_field(out, fpdu, octets, field, wrong, segments):
    off, size, kind, skip = field
    elided = False
    for n in range(size):
        at = off + n
        segment = segments.begins.get(fpdu.at + at)
        if segment:
            out.line(f"  ==== segment of packet {segment.number}, "
                     f"{len(segment.payload)} octets", "segment")
        if kind == "ulpdu" and output.HEAD <= n < size - 1 \
                and size > output.HEAD + 2 \
                and not segment:
            if not elided:
                out.line("  ...")
                elided = True
            continue
        elided = False
        colour = kind
        if kind == "marker":
            ptr = int.from_bytes(octets[off + 2:off + 4], "big")
            text = ("Marker: Reserved", "",
                    f"Marker: FPDUPTR = {ptr}", "")[n]
            if n == 2 and off in wrong:
                text += f", WRONG: must be {wrong[off]}"
                colour = "wrong"
            elif n == 2 and off > fpdu.head:
                text += f", back to {fpdu.pos + fpdu.head:04x}"
        else:
            text = note(fpdu, octets, kind, skip, size) if n == 0 else ""
            if kind == "crc" and not fpdu.crc_good:
                colour = "wrong"
        out.octet(fpdu.pos + at, octets[at], text, colour)


def show(path, count, colour):
    """Print a capture. Return False if it has no MPA connection."""
    out = output.Printer(colour)
    found = [c for c in map(judge.find, capture.read(path)) if c]
    options = argparse.Namespace(cut_ok=True, any_pad=None)
    for connection in found:
        connection.parse(options, lambda text: None)
        names = [capture.name(half.src) for half in connection.halves]
        segments = [output.Segments(half) for half in connection.halves]
        frames = connection.request, connection.reply
        for n, frame in enumerate(frames):
            if frame:
                segment = segments[n].of(frame.at)
                show_startup(out, frame, segment.number, names[n],
                             names[1 - n])
        who = ("initiator -> responder", "responder -> initiator")
        for n, direction in enumerate(connection.directions):
            for k in range(min(count, len(direction.fpdus))):
                show_fpdu(out, direction, k, segments[n], who[n])
            left = len(direction.fpdus) - count
            if left > 0:
                out.line(f"... {left} more FPDUs {who[n]}\n")
        for problem in connection.problems:
            out.line(f"! {problem}", "wrong")
    return bool(found)


def arguments():
    parser = argparse.ArgumentParser(
        prog="annotate", formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Startup frames and first FPDUs of each direction of the "
        "MPA connections in a\ncapture, octet by octet. Offsets of FPDUs count "
        "from SeqStart (RFC 5044 section\n4.3). With --tuf: first FPDUs of TUF; "
        "offsets count from where framing begins.", epilog=expect.HELP)
    parser.add_argument("file", metavar="FILE.pcap")
    parser.add_argument("--fpdus", type=int, default=2, metavar="N",
                        help="FPDUs to show of each direction (default: 2)")
    parser.add_argument("--tuf", action="append", type=expect.framing,
                        metavar="FRAMING",
                        help="show TUF instead of MPA; see below")
    return parser


def main():
    options = arguments().parse_args()
    colour = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    try:
        if options.tuf:
            missing = "nothing that --tuf speaks of"
            found = annotate_tuf.show(options.file, options.tuf, options.fpdus,
                                      colour)
        else:
            missing = "no MPA connection"
            found = show(options.file, options.fpdus, colour)
        if not found:
            print(f"annotate: {options.file}: there is {missing} in it",
                  file=sys.stderr)
            sys.exit(1)
        sys.stdout.flush()
    except (capture.CaptureError, expect.ExpectError) as error:
        print(f"annotate: {error}", file=sys.stderr)
        sys.exit(2)
    except BrokenPipeError:
        # The pager was closed: prevent Python's message at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    main()
