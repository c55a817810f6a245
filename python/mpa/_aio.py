# SPDX-License-Identifier: GPL-2.0 OR MIT
"""asyncio streams whose items are records."""
from __future__ import annotations

import asyncio
import collections
import contextlib
import errno
import logging
import socket
import struct
from typing import (Any, AsyncIterator, Awaitable, Callable, Deque, List, Optional, Set,
                    Tuple, TypeVar)

from ._abi import INITIATOR, MORE_FOLLOW, Octets, Record
from ._errors import Damaged, LongRecord, Lost, NotMpa, Timeout, TooMany
from ._sockets import Connection, Listener, Records, create_server
from ._start import attach, finish, start_nowait, start_request

# drain() waits if a writer has more octets queued than the first limit, until they are
# down to the second.
WAITING_HIGH, WAITING_LOW = 1 << 18, 1 << 16
TURNS = 64                         # records in a row before other tasks run


class _Stream:
    """Shared by the reader and the writer of a connection."""

    def __init__(self, conn: Records) -> None:
        conn.settimeout(0)
        self.conn = conn
        self.loop = asyncio.get_running_loop()
        self.reading: Optional[asyncio.Future[None]] = None
        self.closed: asyncio.Future[None] = self.loop.create_future()
        self.closing = False

    def finish(self) -> None:
        """Close the socket; a reader sees the end."""
        if self.closed.done():
            return
        self.loop.remove_reader(self.conn)
        self.loop.remove_writer(self.conn)
        self.wake_reader()
        self.closed.set_result(None)
        self.conn.close()

    def wake_reader(self) -> None:
        """Wake the reader."""
        if self.reading and not self.reading.done():
            self.reading.set_result(None)


_T = TypeVar("_T")


class RecordReader:
    """The records of a connection, for one task at a time.

    Nothing is read ahead: a task that does not read slows the peer down, and a read()
    that is cancelled loses no record.
    """

    def __init__(self, stream: _Stream) -> None:
        self._stream = stream
        self._turns = 0

    async def read(self) -> Optional[bytes]:
        """The next record; None at the end, or after the writer was closed."""
        return await self._read(self._stream.conn.recv, None)

    async def read_info(self) -> Optional[Record]:
        """The next record and its place in the stream, like recv_info()."""
        return await self._read(self._stream.conn.recv_info, None)

    async def read_batch(self, most: int = 64) -> List[bytes]:
        """All records that have arrived, like recv_batch(); [] at the end."""
        return await self._read(lambda: self._stream.conn.recv_batch(most), [])

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        record = await self.read()
        if record is None:
            raise StopAsyncIteration
        return record

    async def _read(self, receive: Callable[[], _T], end: _T) -> _T:
        stream = self._stream
        if stream.reading:
            raise RuntimeError("another task is reading from this connection")
        self._turns += 1
        if self._turns % TURNS == 0:
            await asyncio.sleep(0)
        while not stream.closing:
            try:
                return receive()
            except BlockingIOError:
                pass
            stream.reading = stream.loop.create_future()
            stream.loop.add_reader(stream.conn, stream.wake_reader)
            try:
                await stream.reading
            finally:
                stream.reading = None
                if not stream.closed.done():
                    stream.loop.remove_reader(stream.conn)
        return end


class RecordWriter:
    """Sends records on a connection: write(), then await drain().

    Records that the socket does not accept at once are queued. A responder's records
    wait for the initiator's first one (RFC 5044 section 7.1.2).
    """

    def __init__(self, stream: _Stream) -> None:
        self._stream = stream
        self._queue: Deque[memoryview] = collections.deque()
        self._octets = 0
        self._waits = False     # waits until the socket is writable
        self._eof = False
        self._error: Optional[OSError] = None
        self._drainers: Set[asyncio.Future[None]] = set()

    @property
    def connection(self) -> Any:
        """The underlying Connection: for info(), peer() and options."""
        return self._stream.conn

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """asyncio's "peername", "sockname" and "socket"; default for other names."""
        conn = self._stream.conn
        if name == "socket":
            return conn.sock
        if name == "peername":
            return default if conn.peer_address is None else conn.peer_address
        if name == "sockname":
            with contextlib.suppress(OSError):
                return conn.getsockname()
        return default

    def is_closing(self) -> bool:
        """Whether close() or abort() was called, or the connection failed."""
        return self._stream.closing or self._error is not None

    @property
    def waiting(self) -> int:
        """Octets that the socket has not accepted yet."""
        return self._octets

    def write(self, record: Octets) -> None:
        """Send a record, or queue it; it never waits."""
        if self._error:
            raise self._error
        if self._stream.closing or self._eof:
            raise Lost(errno.EPIPE, "write: the writer is closed")
        conn = self._stream.conn
        octets = memoryview(record)
        if not octets.nbytes or (octets.nbytes > conn.longest and conn.segment < 0):
            raise LongRecord(errno.EMSGSIZE, f"a record of {octets.nbytes} octets: it "
                             f"can have 1 to {conn.longest}")
        # bytes cannot change while they are queued.
        self._queue.append(octets if isinstance(record, bytes) else
                           memoryview(bytes(octets)))
        self._octets += octets.nbytes
        if not self._waits:
            self._flush()

    async def drain(self) -> None:
        """Wait until the queue is short."""
        if not self._error and self._octets > WAITING_HIGH:
            done = self._stream.loop.create_future()
            self._drainers.add(done)
            try:
                await done
            finally:
                self._drainers.discard(done)
        if self._error:
            raise self._error

    def write_eof(self) -> None:
        """End sending once the queue is sent; receiving continues."""
        self._eof = True
        if not self._waits:
            self._flush()

    def close(self) -> None:
        """Close once the queue is sent. Unread records are lost."""
        self._stream.closing = True
        self._stream.wake_reader()
        if not self._waits:
            self._flush()

    def abort(self) -> None:
        """Close at once, with a RST; queued records are dropped."""
        self._stream.closing = True
        self._drop()
        if not self._stream.closed.done():
            with contextlib.suppress(OSError):
                self._stream.conn.sock.setsockopt(
                    socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self._stream.finish()

    async def wait_closed(self) -> None:
        """Wait until close() is complete; raises if records could not be sent."""
        await asyncio.shield(self._stream.closed)
        if self._error:
            raise self._error

    def _flush(self) -> None:
        """Pass records to the socket until it accepts no more."""
        stream = self._stream
        if stream.closed.done():
            return
        waits = False
        try:
            while self._queue:
                record = self._queue[0]
                # Later records form a batch with this one.
                sent = stream.conn.send_some(
                    record, MORE_FOLLOW if len(self._queue) > 1 else 0)
                self._octets -= sent
                self._queue.popleft()
                if sent < len(record):
                    self._queue.appendleft(record[sent:])
            if self._eof and not stream.closing:
                stream.conn.shutdown(socket.SHUT_WR)
        except (BlockingIOError, InterruptedError):
            waits = True
        except OSError as err:
            self._error = err
            self._drop()
        if waits != self._waits:
            self._waits = waits
            if waits:
                stream.loop.add_writer(stream.conn, self._flush)
            else:
                stream.loop.remove_writer(stream.conn)
        if self._octets <= WAITING_LOW:
            self._wake()
        if stream.closing and not self._queue:
            stream.finish()

    def _drop(self) -> None:
        self._queue.clear()
        self._octets = 0
        self._wake()

    def _wake(self) -> None:
        for done in self._drainers:
            if not done.done():
                done.set_result(None)


def streams(conn: Records) -> Tuple[RecordReader, RecordWriter]:
    """Return a reader and a writer for a connection, in the running event loop."""
    stream = _Stream(conn)
    return RecordReader(stream), RecordWriter(stream)


async def _connected(host: str, port: int, family: int) -> socket.socket:
    """Open a TCP connection to the first address that answers."""
    loop = asyncio.get_running_loop()
    failed: OSError = OSError(errno.EADDRNOTAVAIL, f"{host} has no address")
    for found, kind, proto, _, address in await loop.getaddrinfo(
            host, port, family=family, type=socket.SOCK_STREAM):
        sock = socket.socket(found, kind, proto)
        try:
            sock.setblocking(False)
            await loop.sock_connect(sock, address)
            return sock
        except OSError as err:
            sock.close()
            failed = err
        except BaseException:
            sock.close()
            raise
    raise failed


async def open_connection(host: Optional[str] = None, port: int = 0,
                          private: bytes = b"", *, family: int = 0,
                          sock: Optional[socket.socket] = None, nodelay: bool = True,
                          **options: Any) -> Tuple[RecordReader, RecordWriter]:
    """Connect and start as the initiator. options are those of start(), without manual.

    In place of host and port, pass a connected socket as sock; the streams then own it.
    family limits the addresses, for instance to socket.AF_INET6.
    """
    if options.get("manual"):
        raise ValueError("manual: use Connection.connect() in a thread, and streams()")
    start_request(INITIATOR, private, options)
    loop = asyncio.get_running_loop()
    if (host is None) == (sock is None):
        raise ValueError("open_connection: pass either host and port, or sock")
    if sock is None:
        assert host is not None
        sock = await _connected(host, port, family)
    try:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, nodelay)
        attach(sock)
        if not start_nowait(sock, INITIATOR, private, **options):
            done = asyncio.Event()
            loop.add_writer(sock, done.set)
            try:
                await done.wait()
            finally:
                loop.remove_writer(sock)
            finish(sock)
    except BaseException:
        sock.close()
        raise
    return streams(Connection(sock))


# For errors that a peer or the network can cause, log a line without a traceback.
_PEERS_DOING = (Lost, NotMpa, Timeout, Damaged, TooMany)
_log = logging.getLogger("mpa")

Callback = Callable[[RecordReader, RecordWriter], Awaitable[None]]


class Server:
    """The result of start_server(); "async with" closes it and waits for callbacks."""

    def __init__(self, callback: Callback, listener: Listener) -> None:
        self._callback = callback
        self._listener = listener
        self._loop = asyncio.get_running_loop()
        self._tasks: Set[asyncio.Task[None]] = set()
        self._closed: asyncio.Future[None] = self._loop.create_future()
        listener.settimeout(0)
        self._listen()

    async def __aenter__(self) -> Server:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()
        await self.wait_closed()

    @property
    def address(self) -> Tuple[Any, ...]:
        """The listening address."""
        return self._listener.address

    @property
    def sockets(self) -> Tuple[socket.socket, ...]:
        """The listening socket; empty once it is closed."""
        return () if self._closed.done() else (self._listener.sock,)

    def close(self) -> None:
        """Stop listening; connections stay open."""
        if not self._closed.done():
            self._loop.remove_reader(self._listener)
            self._listener.close()
            self._closed.set_result(None)

    def close_clients(self) -> None:
        """Cancel the callbacks' tasks; this resets the connections."""
        for task in self._tasks:
            task.cancel()

    async def wait_closed(self) -> None:
        """Wait until the server is closed and all callbacks have returned."""
        await asyncio.shield(self._closed)
        while self._tasks:
            await asyncio.wait(set(self._tasks))

    async def serve_forever(self) -> None:
        """Serve until cancelled; then reset open connections."""
        try:
            await asyncio.shield(self._closed)
        finally:
            self.close()
            self.close_clients()
            await self.wait_closed()

    def _listen(self) -> None:
        if not self._closed.done():
            self._loop.add_reader(self._listener, self._accept)

    def _accept(self) -> None:
        for _ in range(TURNS):
            try:
                conn = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionError):
                return
            except OSError as err:
                # There are no more files, or no memory: wait until connections end.
                self._loop.call_exception_handler(
                    {"message": "mpa: accept() failed, trying again in a second",
                     "exception": err})
                self._loop.remove_reader(self._listener)
                self._loop.call_later(1, self._listen)
                return
            task = self._loop.create_task(self._serve(conn))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _serve(self, conn: Connection) -> None:
        reader, writer = streams(conn)
        try:
            await self._callback(reader, writer)
        except asyncio.CancelledError:
            writer.abort()
            raise
        except _PEERS_DOING as err:
            _log.warning("mpa: connection from %s port %s: %s", *conn.peer_address[:2],
                         err)
        except Exception as err:  # pylint: disable=broad-except
            self._loop.call_exception_handler(
                {"message": "mpa: a connection's callback failed", "exception": err})
        finally:
            writer.close()


async def start_server(callback: Callback, host: Optional[str] = None, port: int = 0,
                       private: bytes = b"", *, sock: Optional[socket.socket] = None,
                       **options: Any) -> Server:
    """Call callback(reader, writer) as a task for each connection.

    A connection is closed when its callback returns. If the callback raises an error
    that the peer or the network caused, the logger "mpa" gets a warning; other
    exceptions go to the loop's exception handler. options are those of create_server(),
    without manual. In place of host and port, pass a bound socket as sock.
    """
    if options.get("manual"):
        raise ValueError("manual: use create_server() in a thread, and streams()")
    address = None if host is None else (host, port)
    return Server(callback, create_server(address, private, sock=sock, **options))
