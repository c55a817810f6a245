# SPDX-License-Identifier: GPL-2.0
"""Tests of the asyncio part of python/mpa; mpa_python.sh runs them."""

import asyncio
import contextlib
import errno
import os
import socket

import mpa
from mpa_ends import fpdu, frame, take
from mpa_python_test import WAIT, Case, Task, pattern

SHORT = 0.2         # seconds, for a timeout that is expected to expire
CONNECTIONS = 200
RECORDS = 20


async def echo(reader, writer):
    async for record in reader:
        writer.write(record)
        await writer.drain()


async def silence(reader, _):
    """Read until the end."""
    async for _ in reader:
        pass


class Asyncio(Case):
    def run_async(self, function):
        """Run a coroutine function in an event loop; exceptions that nothing caught
        fail the test."""
        complaints = []

        async def main():
            asyncio.get_running_loop().set_exception_handler(
                lambda _, context: complaints.append(context))
            await asyncio.wait_for(function(), WAIT)
        asyncio.run(main())
        self.assertEqual([], complaints)

    def small_buffer(self, writer):
        """Fill the writer's buffer with records."""
        writer.connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 32768)

    @contextlib.asynccontextmanager
    async def served(self, callback, **options):
        """Open a connection to a server with this callback."""
        async with await mpa.start_server(callback, "127.0.0.1", 0) as server:
            reader, writer = await mpa.open_connection(*server.address,
                                                               **options)
            try:
                yield reader, writer
            finally:
                writer.abort()

    def test_many_connections(self):
        async def client(server, number):
            reader, writer = await mpa.open_connection(*server.address)
            records = [pattern(number + n, 1 + (number * 37 + n * 997) % 5000)
                       for n in range(RECORDS)]
            for record in records:
                writer.write(record)
            await writer.drain()
            writer.write_eof()
            self.assertEqual(records, [record async for record in reader])
            writer.close()
            await writer.wait_closed()

        async def main():
            async with await mpa.start_server(echo, "127.0.0.1", 0) as server:
                await asyncio.gather(*(client(server, n) for n in range(CONNECTIONS)))
        self.run_async(main)

    def test_names_that_streams_of_asyncio_have(self):
        async def main():
            async with await mpa.start_server(echo, "127.0.0.1", 0) as server:
                self.assertEqual([server.address],
                                 [sock.getsockname() for sock in server.sockets])
                _, writer = await mpa.open_connection(*server.address)
                self.assertEqual(server.address, writer.get_extra_info("peername"))
                self.assertEqual(writer.connection.getsockname(),
                                 writer.get_extra_info("sockname"))
                self.assertIs(writer.connection.sock, writer.get_extra_info("socket"))
                self.assertEqual("none", writer.get_extra_info("cipher", "none"))
                self.assertFalse(writer.is_closing())
                writer.close()
                self.assertTrue(writer.is_closing())
                await writer.wait_closed()
                self.assertEqual(server.address, writer.get_extra_info("peername"))
                self.assertIsNone(writer.get_extra_info("sockname"))
            self.assertEqual((), server.sockets)
        self.run_async(main)

    def test_sockets_of_ones_own(self):
        async def main():
            bound = socket.socket()
            bound.bind(("127.0.0.1", 0))
            async with await mpa.start_server(echo, sock=bound) as server:
                self.assertEqual((bound,), server.sockets)
                sock = socket.create_connection(server.address)
                reader, writer = await mpa.open_connection(sock=sock)
                self.assertIs(sock, writer.connection.sock)
                writer.write(b"hello")
                self.assertEqual(b"hello", await reader.read())
                writer.close()
                await writer.wait_closed()
                with self.assertRaises(ValueError):
                    await mpa.open_connection("localhost", 1, sock=bound)
                with self.assertRaises(ValueError):
                    await mpa.open_connection()
        self.run_async(main)

    def test_addresses_of_one_family(self):
        async def main():
            async with await mpa.start_server(echo, "", 0,
                                              family=socket.AF_INET6) as server:
                _, writer = await mpa.open_connection(
                    "::1", server.address[1], family=socket.AF_INET6)
                self.assertEqual("::1", writer.get_extra_info("peername")[0])
                writer.abort()
                with self.assertRaises(OSError):
                    await mpa.open_connection("::1", server.address[1],
                                              family=socket.AF_INET)
        self.run_async(main)

    def test_large_records(self):
        async def main():
            async with self.served(echo) as (reader, writer):
                self.small_buffer(writer)
                records = [pattern(n, mpa.ULPDU_MAX - n) for n in range(30)]
                records += [pattern(n, 1 + n) for n in range(2000)]

                async def sending():
                    for record in records:
                        writer.write(record)
                        await writer.drain()
                    writer.write_eof()
                task = asyncio.create_task(sending())
                self.assertEqual(records, [record async for record in reader])
                await task
        self.run_async(main)

    def test_cancelled_read_loses_no_record(self):
        async def main():
            async with self.served(echo) as (reader, writer):
                seen, cancelled = [], 0
                for n in range(150):
                    task = asyncio.create_task(reader.read())
                    await asyncio.sleep(0)
                    writer.write(pattern(n, 100))
                    for _ in range(n % 15):
                        await asyncio.sleep(0)
                    task.cancel()
                    try:
                        seen.append(await task)
                    except asyncio.CancelledError:
                        cancelled += 1
                writer.write_eof()
                seen += [record async for record in reader]
                self.assertGreater(cancelled, 0)
                self.assertEqual([pattern(n, 100) for n in range(150)], seen)
        self.run_async(main)

    def test_cancelled_connection_is_closed(self):
        listener = self.plain_listener()

        async def main():
            before = os.listdir("/proc/self/fd")
            with self.assertRaises(asyncio.TimeoutError):
                await asyncio.wait_for(
                    mpa.open_connection(*listener.getsockname()), SHORT)
            self.assertEqual(before, os.listdir("/proc/self/fd"))
            with listener.accept()[0] as peer:
                self.assertEqual(frame(False), take(peer, 20))
        self.run_async(main)

    def test_drain_waits_for_the_peer(self):
        go_on = asyncio.Event()

        async def late(reader, writer):
            await go_on.wait()
            await echo(reader, writer)

        async def main():
            async with self.served(late) as (reader, writer):
                sent = 0

                async def fill():
                    nonlocal sent
                    while True:
                        writer.write(pattern(sent, 20000))
                        sent += 1
                        await writer.drain()
                filling = asyncio.create_task(fill())
                # The queue is bounded: this loop ends.
                while not writer.waiting > mpa.WAITING_HIGH:
                    await asyncio.sleep(0)
                stopped = sent
                for _ in range(100):
                    await asyncio.sleep(0)
                self.assertEqual(stopped, sent)
                self.assertLess(writer.waiting, mpa.WAITING_HIGH + 20001)
                filling.cancel()
                go_on.set()
                writer.write_eof()
                for n in range(sent):
                    self.assertEqual(pattern(n, 20000), await reader.read())
                self.assertIsNone(await reader.read())
        self.run_async(main)

    def test_responder_that_writes_first_waits(self):
        waited = asyncio.Event()
        finished = []

        async def first(reader, writer):
            writer.write(b"welcome")
            writer.write(b"twice")
            await writer.drain()
            self.assertEqual(12, writer.waiting)
            waited.set()
            self.assertEqual(b"now you may", await reader.read())
            finished.append(await reader.read())

        async def main():
            async with self.served(first) as (reader, writer):
                await waited.wait()
                writer.write(b"now you may")
                self.assertEqual([b"welcome", b"twice"],
                                 [await reader.read() for _ in range(2)])
                writer.write_eof()
                self.assertIsNone(await reader.read())
            self.assertEqual([None], finished)
        self.run_async(main)

    def test_batches_and_places_in_the_stream(self):
        async def main():
            async with self.served(echo) as (reader, writer):
                for n in range(40):
                    writer.write(pattern(n, 10))
                record = await reader.read_info()
                self.assertEqual((pattern(0, 10), 0, 0),
                                 (record.data, record.position, record.order))
                seen = []
                while len(seen) < 39:
                    batch = await reader.read_batch(8)
                    self.assertTrue(1 <= len(batch) <= 8)
                    seen += batch
                self.assertEqual([pattern(n, 10) for n in range(1, 40)], seen)
                writer.write_eof()
                self.assertEqual([], await reader.read_batch())
        self.run_async(main)

    def test_long_record_is_reported_and_the_connection_continues(self):
        async def main():
            async with self.served(echo) as (reader, writer):
                for record in bytes(mpa.ULPDU_MAX + 1), b"":
                    with self.assertRaises(mpa.LongRecord):
                        writer.write(record)
                for record in "text", "", [1, 2]:
                    with self.assertRaisesRegex(TypeError, "bytes-like object is required"):
                        writer.write(record)
                writer.write(b"continues")
                self.assertEqual(b"continues", await reader.read())
                self.small_buffer(writer)
                writer.connection.segment = mpa.SEGMENT_FILL
                octets = pattern(1, 2000000)
                writer.write(octets)
                writer.write_eof()
                self.assertEqual(octets, b"".join([part async for part in reader]))
        self.run_async(main)

    def test_close_sends_what_waits(self):
        seen = []
        end = asyncio.Event()

        async def collect(reader, _):
            seen.extend([record async for record in reader])
            end.set()

        async def main():
            async with self.served(collect) as (reader, writer):
                task = asyncio.create_task(reader.read())
                await asyncio.sleep(0)
                records = [pattern(n, 60000) for n in range(200)]
                for record in records:
                    writer.write(record)
                self.assertGreater(writer.waiting, 0)
                writer.close()
                self.assertIsNone(await task)
                with self.assertRaises(mpa.Lost):
                    writer.write(b"late")
                await writer.wait_closed()
                await end.wait()
                self.assertEqual(len(records), len(seen))
                self.assertEqual(records, seen)
        self.run_async(main)

    def test_two_readers_are_refused(self):
        async def main():
            async with self.served(silence) as (reader, writer):
                task = asyncio.create_task(reader.read())
                await asyncio.sleep(0)
                with self.assertRaises(RuntimeError):
                    await reader.read()
                task.cancel()
                writer.close()
                await writer.wait_closed()
        self.run_async(main)

    def test_damaged_record(self):
        peer, conn = self.by_hand()
        peer.sendall(fpdu(b"good") + fpdu(b"bad", good=False))

        async def main():
            reader, writer = mpa.streams(conn)
            self.assertEqual(b"good", await reader.read())
            with self.assertRaises(mpa.Damaged) as seen:
                await reader.read()
            self.assertEqual((mpa.Code.CRC, 12),
                             (seen.exception.code, seen.exception.position))
            writer.close()
        self.run_async(main)

    def test_lost_connection_is_reported_to_the_writer(self):
        async def leave(reader, writer):
            await reader.read()
            writer.abort()

        async def main():
            async with self.served(leave) as (reader, writer):
                writer.write(b"hello")
                with self.assertRaises(mpa.Lost):
                    await reader.read()
                with self.assertRaises(mpa.Lost):
                    while True:
                        writer.write(b"to nobody")
                        await writer.drain()
                        await asyncio.sleep(0)
        self.run_async(main)

    def test_refused(self):
        listener = self.server(manual=True)

        def refuse():
            with contextlib.closing(listener.accept()) as conn:
                conn.wait_request()
                conn.reject_request(b"go away")
        refusing = Task(refuse)

        async def main():
            with self.assertRaises(mpa.Refused) as seen:
                await mpa.open_connection(*listener.address)
            self.assertEqual(b"go away", seen.exception.private)
        self.run_async(main)
        refusing.result()

    def test_timeout_of_startup(self):
        listener = self.plain_listener()

        async def main():
            with self.assertRaises(mpa.Timeout) as seen:
                await mpa.open_connection(*listener.getsockname(), timeout=SHORT)
            self.assertEqual(errno.ETIMEDOUT, seen.exception.errno)
        self.run_async(main)

    def test_not_mpa(self):
        address = self.answering(b"220 mail.example ESMTP ready\r\n")

        async def main():
            with self.assertRaises(mpa.NotMpa):
                await mpa.open_connection(*address)
        self.run_async(main)

    def test_failed_startup_does_not_stop_a_server(self):
        async def main():
            async with await mpa.start_server(echo, "127.0.0.1", 0) as server:
                with socket.create_connection(server.address) as stranger, \
                        self.assertLogs("mpa", "WARNING") as log:
                    stranger.sendall(b"GET / HTTP/1.0\r\n\r\n")
                    while not log.records:
                        await asyncio.sleep(0.01)
                    self.told_in_a_line(log, stranger.getsockname(), "does not speak MPA")
                reader, writer = await mpa.open_connection(*server.address)
                writer.write(b"hello")
                self.assertEqual(b"hello", await reader.read())
                writer.close()
        self.run_async(main)

    def test_client_that_leaves_is_reported_in_a_line(self):
        async def main():
            async with await mpa.start_server(silence, "127.0.0.1", 0) as server:
                _, writer = await mpa.open_connection(*server.address)
                where = writer.connection.sock.getsockname()
                with self.assertLogs("mpa", "WARNING") as log:
                    writer.abort()
                    while not log.records:
                        await asyncio.sleep(0.01)
                self.told_in_a_line(log, where, "the peer closed the connection")
        self.run_async(main)

    def told_in_a_line(self, log, address, text):
        """Check that there is one warning about the connection from this address,
        without a traceback."""
        record, = log.records
        self.assertIn("from %s port %s: " % address, record.getMessage())
        self.assertIn(text, record.getMessage())
        self.assertIsNone(record.exc_info)

    def test_what_a_callback_raises_goes_to_the_handler(self):
        told = []

        async def fail(reader, _):
            await reader.read()
            raise ValueError("no such thing")

        async def main():
            asyncio.get_running_loop().set_exception_handler(
                lambda _, context: told.append(context["exception"]))
            async with self.served(fail) as (reader, writer):
                writer.write(b"hello")
                self.assertIsNone(await reader.read())
            self.assertIsInstance(told[0], ValueError)
        self.run_async(main)

    def test_serve_forever_ends_when_cancelled(self):
        async def main():
            server = await mpa.start_server(silence, "127.0.0.1", 0)
            address = server.address
            serving = asyncio.create_task(server.serve_forever())
            reader, writer = await mpa.open_connection(*server.address)
            writer.write(b"hello")
            serving.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await serving
            with self.assertRaises(mpa.Lost):
                await reader.read()
            with self.assertRaises(ConnectionRefusedError):
                await mpa.open_connection(*address)
        self.run_async(main)

    def test_options_are_reported_before_connecting(self):
        listener = self.plain_listener()
        listener.setblocking(False)

        async def main():
            for error, options in ((TypeError, {"nosuch": 1}),
                                   (mpa.MpaError, {"private": bytes(513)})):
                with self.assertRaises(error):
                    await mpa.open_connection(*listener.getsockname(), **options)
                with self.assertRaises(BlockingIOError):
                    listener.accept()
        self.run_async(main)

    def test_manual_is_checked_where_it_goes(self):
        async def main():
            with self.assertRaises(ValueError):
                await mpa.open_connection("127.0.0.1", 1, manual=True)
            with self.assertRaises(ValueError):
                await mpa.start_server(echo, "127.0.0.1", 0, manual=True)
        self.run_async(main)

    def test_against_blocking_ends(self):
        async def main():
            async with await mpa.start_server(echo, "127.0.0.1", 0,
                                                      markers=True) as server:
                def ask():
                    with mpa.connect(server.address, timeout=WAIT) as conn:
                        conn.send_many(pattern(n, 500) for n in range(100))
                        conn.shutdown()
                        return list(conn)
                seen = await asyncio.get_running_loop().run_in_executor(None, ask)
            self.assertEqual([pattern(n, 500) for n in range(100)], seen)
        self.run_async(main)
