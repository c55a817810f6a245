# SPDX-License-Identifier: GPL-2.0 OR MIT
"""Records on TCP: Linux's MPA (RFC 5044) and TUF, over the socket module.

    import mpa

    with mpa.connect(("localhost", 4242)) as conn:
        conn.send(b"hello")             # one record out
        print(conn.recv())              # one record in, None at the end

    with mpa.create_server(("", 4242)) as server:
        conn = server.accept()

Records have 1 to 64768 octets. A damaged record is never returned: recv() raises
Damaged. attach() and start() do the same for a socket of your own. TufConnection is for
TUF.

With asyncio there are streams whose items are records:

    reader, writer = await mpa.open_connection("localhost", 4242)
    writer.write(b"hello")              # one record out
    await writer.drain()
    print(await reader.read())          # one record in, None at the end

    async with await mpa.start_server(callback, "", 4242) as server:
        await server.serve_forever()

Timeouts are as for sockets: settimeout(None) waits forever, 0 never waits and raises
BlockingIOError, another number raises Timeout after these seconds. Every error is an
OSError with its errno. Threads may share a connection: records stay whole.

Needs Linux with the module mpa, and Python 3.9 or later.
python.rst has examples: it is in Documentation/networking/mpa of the sources, and
in /usr/share/doc/python3-mpa with the package.
"""
from ._abi import (DEPTH_BY_USER, DIRECT, ENHANCED_PRIVATE_MAX, INITIATOR, MORE_FOLLOW,
                   MPA_ACCEPT, MPA_INFO, MPA_MULPDU, MPA_OVERSIZE, MPA_PACKING, MPA_PEER,
                   MPA_PLACE, MPA_RECV_BATCH, MPA_RECVINFO, MPA_REJECT, MPA_SEGMENT,
                   MPA_START, PRIVATE_DATA_MAX, RECV_BATCH_MAX, RESPONDER, SEGMENT_FILL,
                   SEGMENT_OFF, SOL_MPA, TCP_ULP, TUF_INFO, TUF_KEY_LEN, TUF_RX, TUF_TX,
                   TUF_TX_KEY, TUF_ULPDU_MAX, ULPDU_MAX, Code, InfoFlags, MpaInfo, Octets,
                   Peer, PeerFlags, Record, Role, Start, State, Tuf, TufInfo)
from ._aio import (TURNS, WAITING_HIGH, WAITING_LOW, Callback, RecordReader, RecordWriter,
                   Server, open_connection, start_server, streams)
from ._errors import (Busy, Damaged, Disagreed, LongRecord, Lost, MpaError, NotLoaded,
                      NotMpa, Refused, Timeout, TooMany)
from ._sockets import Connection, Listener, Records, connect, create_server
from ._start import attach, finish, start, start_nowait
from ._tuf import TufConnection

__version__ = "1.0.0"

__all__ = [
    # connections
    "Connection", "Listener", "Record", "Records", "TufConnection", "connect",
    "create_server",
    # asyncio streams
    "Callback", "RecordReader", "RecordWriter", "Server", "open_connection",
    "start_server", "streams", "TURNS", "WAITING_HIGH", "WAITING_LOW",
    # sockets of your own
    "attach", "finish", "start", "start_nowait",
    # exceptions
    "Busy", "Damaged", "Disagreed", "LongRecord", "Lost", "MpaError", "NotLoaded",
    "NotMpa", "Refused", "Timeout", "TooMany",
    # arguments and results
    "Code", "InfoFlags", "MpaInfo", "Octets", "Peer", "PeerFlags", "Role", "Start",
    "State", "Tuf", "TufInfo", "INITIATOR", "RESPONDER", "DIRECT",
    # numbers
    "DEPTH_BY_USER", "ENHANCED_PRIVATE_MAX", "MORE_FOLLOW", "PRIVATE_DATA_MAX",
    "RECV_BATCH_MAX", "SEGMENT_FILL", "SEGMENT_OFF", "TUF_KEY_LEN", "TUF_ULPDU_MAX",
    "ULPDU_MAX", "SOL_MPA", "TCP_ULP", "MPA_ACCEPT", "MPA_INFO", "MPA_MULPDU",
    "MPA_OVERSIZE", "MPA_PACKING", "MPA_PEER", "MPA_PLACE", "MPA_RECV_BATCH",
    "MPA_RECVINFO", "MPA_REJECT", "MPA_SEGMENT", "MPA_START", "TUF_INFO", "TUF_RX",
    "TUF_TX", "TUF_TX_KEY",
]

# Tracebacks and help() name the module that programs import.
for _name in __all__:
    if isinstance(globals()[_name], type):
        globals()[_name].__module__ = __name__
