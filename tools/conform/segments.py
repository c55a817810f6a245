# SPDX-License-Identifier: GPL-2.0
"""TCP segments: their cuts, order, loss and repetition, which RFC 5044 leaves to TCP (7.1.5)
and which MPA must not depend on (5.1, 5.2, A.4); and how the tested end cuts its stream. With
--segments: a connection's socket is a tcp.Tcp."""
import ddp
import rfc5044
from catalogue import INFO, INITIATOR, RESPONDER, SHOULD, group
from packets import FIN
from peer import C, FIRST, M, R, Fail, Skip, crc_anew
from tcp import WINDOW

case = group("segments")
RECEIVES = "RFC 5044, 5.1; 5.2; 6; A.4"
TCP = "RFC 5044, 7.1.5"


def with_tcp(**options):
    """What the connection of a case is made with."""
    def add(each):
        each.tcp = options
        return each
    return add


# ---- segments with parts of what is sent ----

def place(p, octets):
    """Where the next octets of the stream begin, once they are counted as sent."""
    at = p.sock.written
    p.sock.written += len(octets)
    p.sent += octets
    return at


def emit(p, at, octets, *parts, flags=0):
    """Segments with the parts (begin, end) of octets, which begin at @at."""
    for begin, end in parts:
        p.note("sent", f"a segment, octets {at + begin} to {at + end} of the stream")
        p.sock.segment(at + begin, octets[begin:end], flags)


def send(p, octets, *parts):
    emit(p, place(p, octets), octets, *parts)


def cut(octets, *places):
    """The parts between these places."""
    ends = sorted({0, len(octets), *places})
    return list(zip(ends, ends[1:]))


def in_parts(p, octets, *places):
    """A segment after the other, and nothing comes before the last one."""
    at = place(p, octets)
    for part in cut(octets, *places):
        if part[0] and p.wait(1, 0):
            raise Fail(f"it answers {part[0]} of {len(octets)} octets of an FPDU")
        emit(p, at, octets, part)


def every(octets, size):
    return cut(octets, *range(0, len(octets), size))


def fpdus(p, *sizes):
    """ULPDUs, and their FPDUs."""
    ulpdus = [p.octets(size) for size in sizes]
    return ulpdus, [p.fpdu(ulpdu) for ulpdu in ulpdus]


# ---- startup ----

def frame(p):
    """Our startup frame with 40 octets of private data, not sent yet."""
    private = p.octets(40)
    if p.role == RESPONDER:
        return p.held(lambda: p.request(private=private))
    theirs = p.take_frame()
    return p.held(lambda: p.answer(theirs, private=private))


def begun(p):
    """Full Operation, as our frame has arrived."""
    if p.role == RESPONDER and p.take_frame().flags & R:
        raise Fail("it rejects a plain request (R is 1 in its reply)")
    p.operate(C)
    if p.role == INITIATOR:
        p.goes_on()


def works(p):
    if p.options.peer != "ddp":
        p.echo(FIRST)


WAYS = (("in single octets, a segment each", lambda octets: every(octets, 1)),
        ("in segments in reverse order", lambda octets: every(octets, 7)[::-1]),
        ("of which each segment comes twice", lambda octets: 2 * every(octets, 9)))

for _what, _parts in WAYS:
    @case(f"a startup frame {_what}", f"{TCP}; 7.1.2 rules 2 and 3",
          text=f"""Send a startup frame {_what}; then a ULPDU. Expected: it is accepted, and
          the ULPDU comes back.""")
    def _(p, parts=_parts):
        octets = frame(p)
        send(p, octets, *parts(octets))
        begun(p)
        works(p)


@case("a part of the startup frame is lost at first", f"{TCP}; 7.1.2 rules 2 and 3")
def _(p):
    """Send the first 18 octets of a startup frame, and those from 30 on; wait; send octets 10
    to 50.
    Expected: nothing before these, and Full Operation after them."""
    octets = frame(p)
    at = place(p, octets)
    emit(p, at, octets, (30, len(octets)), (0, 18))
    p.still_there("the startup frame has a gap")
    emit(p, at, octets, (10, 50))
    begun(p)
    works(p)


@case("a startup frame again, with the first FPDU", f"{TCP}; 7.1.2 rule 2")
def _(p):
    """Start. Send a segment with the second half of the startup frame, again, and an FPDU.
    Expected: what was received is passed over, and the ULPDU comes back."""
    p.start()
    fpdu = p.fpdu(FIRST)
    at = place(p, fpdu)
    octets = bytes(p.sent)
    emit(p, 0, octets, (at - 10, len(octets)))
    p.comes_back(FIRST)


# ---- FPDUs that are received ----

@case("an FPDU cut at each octet", RECEIVES)
def _(p):
    """Send FPDUs of 20 octets, each in two segments; the cut is after 1 to 19 octets.
    Expected: all ULPDUs come back."""
    p.start()
    for at in range(1, 20):
        (ulpdu,), (octets,) = fpdus(p, 13)
        in_parts(p, octets, at)
        p.comes_back(ulpdu)


@case("a marker cut at each octet", f"{RECEIVES}; 4.3")
def _(p):
    """Send FPDUs of some 710 octets with markers, each in three segments: the cuts are before,
    in and after the first marker.
    Expected: all ULPDUs come back."""
    p.start()
    needs_markers(p)
    for back in range(-2, 8):
        ulpdu = p.octets(700)
        marker = -p.tx.pos % rfc5044.INTERVAL
        octets = p.fpdu(ulpdu)
        in_parts(p, octets, max(marker + back, 0), min(marker + 12, len(octets)))
        p.comes_back(ulpdu)


def needs_markers(p):
    if not p.tx.markers:
        raise Skip("it does not ask for markers")


@case("an octet a segment", RECEIVES)
def _(p):
    """Send two FPDUs, each octet in a segment.
    Expected: both ULPDUs come back."""
    p.start()
    ulpdus, parts = fpdus(p, 5, 30)
    octets = b"".join(parts)
    send(p, octets, *every(octets, 1))
    p.comes_back(*ulpdus)


for _size in (1000, 401, 99):
    @case(f"FPDUs in segments of {_size} octets", RECEIVES,
          text=f"""Send 40 FPDUs of random sizes as one stream, in segments of {_size} octets.
          Expected: all ULPDUs come back.""")
    def _(p, size=_size):
        p.start()
        ulpdus, parts = fpdus(p, *(p.rnd.randint(1, 120) for _ in range(40)))
        octets = b"".join(parts)
        send(p, octets, *every(octets, size))
        p.comes_back(*ulpdus)


@case("segments without PUSH", "RFC 5044, 6", level=INFO)
def _(p):
    """Send two FPDUs in segments without PUSH.
    Expected: both come back; TCP may hold such octets back, for a while."""
    p.start()
    ulpdus, parts = fpdus(p, 20, 20)
    for octets in parts:
        send(p, octets, (0, len(octets)))
    p.comes_back(*ulpdus)
    return "delivered"


@case("segments in reverse order", f"{TCP}; 3")
def _(p):
    """Send six FPDUs, a segment each, the last one first.
    Expected: all ULPDUs come back, in the order of the stream."""
    p.start()
    ulpdus, parts = fpdus(p, 10, 200, 30, 500, 5, 100)
    octets = b"".join(parts)
    ends = [sum(map(len, parts[:n])) for n in range(6)]
    send(p, octets, *cut(octets, *ends)[::-1])
    p.comes_back(*ulpdus)


@case("segments in any order, cut anywhere, some twice", f"{TCP}; 5.2; A.4")
def _(p):
    """Send 60 FPDUs as one stream, in 80 segments of random sizes in random order; each
    fourth one twice.
    Expected: all ULPDUs come back, in the order of the stream."""
    p.start()
    ulpdus, parts = fpdus(p, *(p.rnd.randint(1, 200) for _ in range(60)))
    octets = b"".join(parts)
    pieces = cut(octets, *(p.rnd.randrange(len(octets)) for _ in range(80)))
    pieces += pieces[::4]
    p.rnd.shuffle(pieces)
    send(p, octets, *pieces)
    p.comes_back(*ulpdus)


@case("a segment is lost, and repaired", f"{TCP}; 3; 6")
def _(p):
    """Send four FPDUs, but not the first one; wait; send it.
    Expected: nothing comes before it; then all come back, in the order of the stream."""
    p.start()
    ulpdus, parts = fpdus(p, 50, 60, 70, 80)
    octets, first = b"".join(parts), len(parts[0])
    at = place(p, octets)
    emit(p, at, octets, *cut(octets, first)[1:])
    p.still_there("the first FPDU is missing")
    emit(p, at, octets, (0, first))
    p.comes_back(*ulpdus)


@case("what was lost comes with other boundaries", f"{TCP}; 5.2; A.4")
def _(p):
    """Send three FPDUs in segments of 50 octets, without the third and the fifth segment;
    wait; send octets 80 to 270.
    Expected: the first ULPDU comes back at once, the others after that."""
    p.start()
    ulpdus, parts = fpdus(p, 60, 140, 150)
    octets = b"".join(parts)
    at = place(p, octets)
    pieces = every(octets, 50)
    emit(p, at, octets, *pieces[:2], pieces[3], *pieces[5:])
    p.comes_back(ulpdus[0])
    p.still_there("two segments are missing")
    emit(p, at, octets, (80, 270))
    p.comes_back(*ulpdus[1:])


@case("retransmissions that overlap", f"{TCP}; A.3; A.4")
def _(p):
    """Send ten FPDUs in segments that each begin 30 octets after the one before, and have
    100.
    Expected: each ULPDU comes back once."""
    p.start()
    ulpdus, parts = fpdus(p, *(p.rnd.randint(1, 150) for _ in range(10)))
    octets = b"".join(parts)
    send(p, octets, *((at, min(at + 100, len(octets))) for at in range(0, len(octets), 30)))
    p.comes_back(*ulpdus)
    p.nothing("each FPDU was answered")


@case("duplicates", f"{TCP}; A.3")
def _(p):
    """Send five FPDUs, a segment each; each again at once; all again when they are answered.
    Expected: each ULPDU comes back once, and so does one that is sent after that."""
    p.start()
    ulpdus, parts = fpdus(p, 10, 20, 30, 40, 50)
    at = p.sock.written
    for octets in parts:
        send(p, octets, *2 * [(0, len(octets))])
    p.comes_back(*ulpdus)
    octets = b"".join(parts)
    emit(p, at, octets, *every(octets, 36))
    p.nothing("each FPDU was answered")
    p.echo(FIRST)


@case("acknowledged octets come again with other values", f"{TCP}; A.3")
def _(p):
    """Send an FPDU, wait until it is acknowledged, and send a segment with other octets at
    its place and the next FPDU after these.
    Expected: what was acknowledged stays; both ULPDUs come back, each once."""
    p.start()
    ulpdus, (first, second) = fpdus(p, 20, 30)
    at = place(p, first)
    emit(p, at, first, (0, len(first)))
    p.comes_back(ulpdus[0])
    if not p.sock.until(lambda: p.sock.acked >= at + len(first), p.options.timeout):
        raise Fail("it does not acknowledge an FPDU that it has answered")
    place(p, second)
    octets = crc_anew(first[:2] + bytes(len(first) - 2)) + second
    emit(p, at, octets, (0, len(octets)))
    p.comes_back(ulpdus[1])
    p.nothing("each FPDU was answered")


@case("a bad FPDU after a gap", "RFC 5044, 6; 8 code 2")
def _(p):
    """Send an FPDU with a wrong CRC without the good one before it, and a good one after it;
    wait; send the first.
    Expected: nothing before that; after it the first ULPDU, and no other."""
    p.start().echo(FIRST)
    p.needs_echo()
    good, bad, after = p.fpdu(b"good"), p.fpdu(b"bad", "crc"), p.fpdu(b"after")
    octets = good + bad + after
    at = place(p, octets)
    emit(p, at, octets, *cut(octets, len(good), len(good + bad))[1:])
    p.nothing("the first FPDU is missing")
    emit(p, at, octets, (0, len(good)))
    return p.not_delivered(b"bad", b"after")


@case("is a bad FPDU dropped as a segment", "RFC 5044, 8", level=INFO)
def _(p):
    """Send an FPDU with a wrong CRC; wait; send it with a good one at the same place.
    Expected: it was acknowledged, and no ULPDU comes back; or TCP has dropped it silently,
    and the second one repairs it."""
    p.start().echo(FIRST)
    p.needs_echo()
    (ulpdu,), (good,) = fpdus(p, 40)
    bad = good[:-1] + bytes([good[-1] ^ 1])
    at = place(p, good)
    emit(p, at, bad, (0, len(bad)))
    p.wait(1, p.options.quiet)
    p.sock.unacked.clear()
    if p.end:
        return f"not dropped: {p.end}"
    emit(p, at, good, (0, len(good)))
    if p.wait(1, p.options.quiet) and p.ulpdu() == ulpdu:
        return "dropped, and repaired"
    return "not dropped"


@case("a wrong marker after a gap", "RFC 5044, 8 code 3", level=SHOULD)
def _(p):
    """Send an FPDU with a wrong marker and a good CRC without the one before it; wait; send
    that.
    Expected: the check is made when the gap is closed: the second ULPDU does not come back."""
    p.start().echo(FIRST)
    needs_markers(p)
    p.needs_echo()
    good, bad = p.fpdu(b"good"), p.fpdu(bytes(600), "marker")
    octets = good + bad
    at = place(p, octets)
    emit(p, at, octets, (len(good), len(octets)))
    p.nothing("the first FPDU is missing")
    emit(p, at, octets, (0, len(good)))
    return p.not_delivered(bytes(600))


@with_tcp(wraps=24 + 300)
@case("sequence numbers wrap inside an FPDU", "RFC 5044, 4.3")
def _(p):
    """Send three FPDUs in segments in reverse order; the sequence number 0 is in the first
    one, between ULPDU_Length and the second marker if the tested end asks for markers.
    Expected: all ULPDUs come back."""
    p.start()
    ulpdus, parts = fpdus(p, 700, 20, 600)
    octets = b"".join(parts)
    send(p, octets, *every(octets, 100)[::-1])
    p.comes_back(*ulpdus)


# ---- the end of the stream ----

@case("a FIN in the last segment", "RFC 5044, 7.2", level=SHOULD)
def _(p):
    """Send two FPDUs in one segment with a FIN.
    Expected: both ULPDUs come back."""
    p.start()
    ulpdus, parts = fpdus(p, 30, 40)
    octets = b"".join(parts)
    p.sent_fin = True
    emit(p, place(p, octets), octets, (0, len(octets)), flags=FIN)
    p.comes_back(*ulpdus)


@case("a FIN before octets that were lost", f"{TCP}; 7.2", level=SHOULD)
def _(p):
    """Send an FPDU with a FIN without the one before it; wait; send that.
    Expected: nothing at first; then both ULPDUs come back."""
    p.start()
    ulpdus, (first, second) = fpdus(p, 30, 40)
    octets = first + second
    at = place(p, octets)
    emit(p, at, octets, (len(first), len(octets)), flags=FIN)
    p.still_there("the first FPDU is missing")
    p.sent_fin = True
    emit(p, at, octets, (0, len(first)))
    p.comes_back(*ulpdus)


@case("nothing is sent after a reset", f"{TCP}; 8 code 1")
def _(p):
    """Exchange an FPDU; send a part of one, and others after a gap; reset the connection.
    Connect anew, if the tested end is the responder.
    Expected: no octets after the reset, and a reply to the next request."""
    p.start().echo(FIRST)
    _, parts = fpdus(p, 50, 60, 70)
    octets = b"".join(parts)
    send(p, octets, (0, 20), (60, len(octets)))
    p.nothing("no FPDU is whole")
    p.reset()
    if p.sock.until(lambda: p.sock.ports[::-1] in p.sock.device.strays, p.options.quiet):
        raise Fail("it sent a segment with octets or a FIN after the reset")
    if p.role == RESPONDER:
        p.again().answered()


# ---- the window ----

def small_window(p, window, *sizes):
    """ULPDUs in segments with that window. TCP looks at it in new octets, and may have done so
    at the number of the first one: the second segment says it anew."""
    ulpdus, parts = fpdus(p, *sizes)
    p.sock.window = window
    for octets in parts:
        send(p, octets, *cut(octets, 1))
    return ulpdus


@case("a closed window, and its opening", TCP)
def _(p):
    """Close our window, and send eight ULPDUs of 300 octets; open it.
    Expected: no octet comes before that; then all ULPDUs come back."""
    p.start()
    p.sends()
    ulpdus = small_window(p, 0, *8 * [300])
    p.nothing("our window is closed")
    p.sock.release(WINDOW)
    p.comes_back(*ulpdus)


@case("a window smaller than an FPDU", f"{TCP}; 5.1")
def _(p):
    """Open our window to 500 octets, and send a ULPDU of 1000; open it for more.
    Expected: the ULPDU comes back."""
    p.start()
    p.sends()
    ulpdus = small_window(p, 500, 1000, 20)
    p.wait(500, p.options.quiet)
    p.sock.release(WINDOW)
    p.comes_back(*ulpdus)


# ---- segments that the tested end sends ----

def mulpdu(p, emss=0):
    """RFC 5044, 4.5; if it has a smaller MTU than we, its MSS says so."""
    emss = emss or min(p.sock.emss, p.sock.largest)
    return emss - (6 + 4 * -(-emss // rfc5044.INTERVAL) * p.marked + emss % 4)


def aligned(p, since=0):
    """Each segment that came begins and ends with FPDUs."""
    ends = {fpdu.at for fpdu in rfc5044.fpdus(bytes(p.got), p.start_at, p.marked, True)}
    ends.add(p.at)
    for at, length, again in p.sock.arrived:
        if at >= max(since, p.start_at) and not again and not {at, at + length} <= ends:
            raise Fail(f"the segment with octets {at} to {at + length} of its stream cuts "
                       f"FPDUs, which begin at {', '.join(map(str, sorted(ends)))}")


def stream(p, *sizes):
    """Those ULPDUs come back."""
    p.sends()
    p.needs_echo()
    p.echo(*(p.octets(size) for size in sizes))


for _mss in (536, 1001, 1460):
    for _flags in (C, M | C):
        @with_tcp(mss=_mss)
        @case(f"FPDUs for an MSS of {_mss}{', with markers' * bool(_flags & M)}",
              "RFC 5044, 4.5; 5.1", level=SHOULD,
              text="""Offer that MSS, and send eight ULPDUs of the largest size for it (MULPDU).
              Expected: each segment that comes begins with an FPDU, and ends with one.""")
        def _(p, flags=_flags):
            p.start(flags)
            stream(p, *8 * [mulpdu(p)])
            aligned(p)


@case("small FPDUs are whole in their segments", "RFC 5044, 5.1", level=SHOULD)
def _(p):
    """Send eight ULPDUs of random sizes up to 700 octets.
    Expected: a segment has one FPDU or several, entirely."""
    p.start()
    stream(p, *(p.rnd.randint(1, 700) for _ in range(8)))
    aligned(p)


@with_tcp(timestamps=True)
@case("the option for timestamps makes the EMSS smaller", "RFC 5044, 4.5; 5.1", level=SHOULD)
def _(p):
    """Offer timestamps, and send eight ULPDUs of MULPDU for the MSS less 12 octets.
    Expected: each segment that comes begins with an FPDU, and ends with one."""
    p.start()
    if not p.sock.stamps:
        raise Skip("it has no timestamps")
    stream(p, *8 * [mulpdu(p)])
    aligned(p)


@with_tcp(mss=536)
@case("ULPDUs longer than MULPDU", f"RFC 5044, 3; {TCP[10:]}")
def _(p):
    """Offer an MSS of 536, and send ULPDUs of 2000 octets.
    Expected: they come back, in segments of 536 octets at most."""
    p.start()
    stream(p, 2000, 2000, 20)


# ---- segments that it sends again ----

def repeated(p, since):
    """What it repeats after now, beyond that octet: it has to, as that is not acknowledged."""
    now = len(p.sock.arrived)

    def seen():
        return [each for each in p.sock.arrived[now:] if each[2] and each[0] + each[1] > since]
    if not p.sock.until(seen, p.options.timeout):
        raise Fail(f"octets of its stream from {since} on are not acknowledged, and it does "
                   f"not send them again within {p.options.timeout:g} s")
    return seen()


for _flags in (C, M | C):
    @case(f"what is sent again is the same{', with markers' * bool(_flags & M)}",
          f"{TCP}; 4.3",
          text="""Acknowledge nothing of what comes, and send four ULPDUs; when a segment has
          come twice, acknowledge half of an FPDU; when the rest has come again, all. Expected:
          what comes again are the same octets, markers included, and all ULPDUs come back.""")
    def _(p, flags=_flags):
        p.start(flags)
        p.needs_echo()
        p.sock.hold()
        # It need not send all of them before it repeats the first one.
        ulpdus = [p.octets(700) for _ in range(4)]
        p.put(*ulpdus)
        repeated(p, p.at)
        p.sock.hold(p.at + 350)
        p.sock.acknowledge()
        repeated(p, p.at + 350)
        p.sock.release()
        p.comes_back(*ulpdus)


@case("boundaries of what is sent again", "RFC 5044, A.1", level=INFO)
def _(p):
    """Acknowledge nothing of what comes, send four ULPDUs, and wait until a segment comes
    again.
    Expected: the same boundaries, or others."""
    p.start()
    p.needs_echo()
    p.sock.hold()
    ulpdus = [p.octets(size) for size in (200, 300, 400, 500)]
    p.put(*ulpdus)
    again = repeated(p, p.at)
    first = {each[:2] for each in p.sock.arrived if not each[2]}
    p.sock.release()
    p.comes_back(*ulpdus)
    return "the same" if {each[:2] for each in again} <= first else "others"


# The last one with an echo: its TCP remembers the MTU of the path to our address.
@case("a smaller MTU of the path", "RFC 5044, 4.5; 5.1; RFC 1191; RFC 8201", level=SHOULD)
def _(p):
    """Have a segment of the whole EMSS come, do not acknowledge it, and send ICMP's Packet Too
    Big with 1000 octets (IPv6: 1280); when it has come again, acknowledge it. Send ULPDUs of
    the new MULPDU, one by one.
    Expected: each segment then begins with an FPDU, and ends with one."""
    p.start()
    p.needs_echo()
    mtu = 1000 if p.sock.ip.headers == 40 else 1280
    emss, since = mtu - p.sock.ip.headers, p.at
    p.sock.hold()
    stream(p, mulpdu(p))
    if longest(p, since) <= emss:
        raise Skip(f"its segments are not longer than {longest(p, since)} octets")
    p.sock.packet_too_big(mtu, since)
    repeated(p, since)
    p.sock.release()
    since = p.at
    stream(p, 2 * emss)
    if longest(p, since) > emss:
        raise Skip("it does not take the MTU from ICMP")
    since = p.at
    for _ in range(4):
        stream(p, mulpdu(p, emss))
    aligned(p, since)


def longest(p, since):
    return max(length for at, length, _ in p.sock.arrived if at >= since)


# ---- all that is sent ----

for _what, _parts in WAYS:
    @case(f"a conversation {_what}", f"{TCP}; 5.2; A.4",
          text=f"""Start, and send three ULPDUs. With --peer ddp, send rping's server a Send, an
          RDMA Read Response and another Send; its client a Send. All that is sent comes {_what}.
          Expected: the ULPDUs come back; rping's server reads and writes the buffers that were
          named, and its client sends a second Send.""")
    def _(p, parts=_parts):
        def sendall(octets, _flags):
            at = p.sock.written
            p.sock.written += len(octets)
            emit(p, at, octets, *parts(octets))
        p.sock.sendall = sendall
        p.ddp = p.options.peer == "ddp"
        if not p.ddp:
            p.start().echo(*(p.octets(size) for size in (5, 300, 40)))
        elif p.role == RESPONDER:
            ddp.until_written(p)
        else:
            ddp.second_buffer(p)
