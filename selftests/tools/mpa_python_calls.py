# SPDX-License-Identifier: GPL-2.0
"""Tests of python/mpa; mpa_python.sh runs them."""

import array
import errno
import select
import socket
import struct
import subprocess
import tempfile
import time

import mpa
from mpa import _abi
from mpa_ends import fpdu, frame, take
from mpa_python_test import BIN, TOP, WAIT, Case, Task, pattern, reset

SHORT = 0.2     # seconds, for a timeout that is expected to expire


class Startup(Case):
    def test_other_threads_run_during_startup(self):
        listener = self.server()
        # This thread answers, so it has to run while the other one waits.
        client = Task(mpa.connect, listener.address, timeout=WAIT)
        self.assertTrue(select.select([listener], [], [], WAIT)[0])
        responder = self.opened(listener.accept())
        self.opened(client.result()).send(b"hello")
        self.assertEqual(b"hello", responder.recv())

    def test_private_data_and_flags_reach_the_peer(self):
        first, second = self.pair(server={"private": b"from the server"},
                                  private=b"from the client", markers=True)
        self.assertEqual(b"from the client", second.peer().private)
        self.assertEqual(b"from the server", first.peer().private)
        self.assertTrue(second.peer().flags & mpa.PeerFlags.MARKERS)
        self.assertFalse(first.peer().flags & mpa.PeerFlags.MARKERS)
        info = first.info()
        self.assertEqual((mpa.State.FULL, mpa.Role.INITIATOR), (info.state, info.role))
        self.assertTrue(info.flags & mpa.InfoFlags.RX_MARKERS)
        self.assertFalse(info.flags & mpa.InfoFlags.TX_MARKERS)

    def test_peer_is_none_before_its_frame(self):
        listener = self.server()
        self.opened(socket.create_connection(listener.address))
        responder = self.opened(listener.accept())
        self.assertIsNone(responder.peer())

    def test_request_that_comes_late_is_waited_for(self):
        listener = self.server(manual=True)
        peer = self.opened(socket.create_connection(listener.address))
        responder = self.opened(listener.accept())
        responder.settimeout(SHORT)
        with self.assertRaises(mpa.Timeout) as seen:
            responder.wait_request()
        self.assertEqual(peer.getsockname(), seen.exception.address)
        responder.settimeout(WAIT)
        waiting = Task(responder.wait_request)
        peer.sendall(frame(False))      # no record follows
        self.assertEqual(1, waiting.result().revision)

    def test_request_cannot_be_waited_for_without_manual(self):
        listener = self.server()
        peer = self.opened(socket.create_connection(listener.address))
        responder = self.opened(listener.accept())
        responder.settimeout(SHORT)
        with self.assertRaisesRegex(mpa.MpaError, "wait_request: only with") as seen:
            responder.wait_request()
        self.assertEqual(errno.EINVAL, seen.exception.errno)
        peer.sendall(frame(False))
        take(peer, 20)                  # the request has arrived
        with self.assertRaisesRegex(mpa.MpaError, "wait_request: only with"):
            responder.wait_request()
        self.assertEqual(1, responder.peer().revision)

    def test_manual_among_the_flags_is_manual(self):
        listener = self.server(flags=mpa.Start.MANUAL)
        client = Task(mpa.connect, listener.address, flags=mpa.Start.MANUAL)
        responder = self.opened(listener.accept())
        responder.wait_request()
        responder.accept_request()
        initiator = self.opened(client.result())
        initiator.wait_request()
        initiator.accept_request()

    def test_silent_peer_is_a_timeout(self):
        listener = self.plain_listener()
        with self.assertRaises(mpa.Timeout) as seen:
            mpa.connect(listener.getsockname(), timeout=SHORT)
        self.assertEqual(errno.ETIMEDOUT, seen.exception.errno)
        self.assertIsInstance(seen.exception, TimeoutError)

    def test_startup_timeout_of_the_kernel_is_a_timeout(self):
        sock = self.opened(socket.create_connection(self.plain_listener().getsockname()))
        mpa.attach(sock)
        with self.assertRaises(mpa.Timeout) as seen:
            mpa.start(sock, timeout=SHORT)
        self.assertIn("peer did not answer", str(seen.exception))

    def test_start_without_waiting(self):
        sock = self.opened(socket.create_connection(self.plain_listener().getsockname()))
        sock.setblocking(False)
        mpa.attach(sock)
        with self.assertRaises(BlockingIOError):
            mpa.start(sock)
        self.assertEqual(mpa.State.STARTUP, mpa.Connection(sock).info().state)

    def test_refusal_has_private_data(self):
        listener = self.server(manual=True)
        client = Task(mpa.connect, listener.address, private=b"may I?")
        responder = self.opened(listener.accept())
        self.assertEqual(b"may I?", responder.wait_request().private)
        responder.reject_request(b"not today")
        with self.assertRaises(mpa.Refused) as seen:
            client.result()
        self.assertEqual(b"not today", seen.exception.private)
        self.assertIn("rejected the request, and says: not today", str(seen.exception))
        self.assertEqual(errno.ECONNREFUSED, seen.exception.errno)
        self.assertEqual(mpa.State.REJECTED, responder.info().state)

    def test_refusal_is_reported_in_printable_text(self):
        listener = self.server(manual=True)
        for private, text in (("größer".encode(), ", and says: größer"),
                              (b"a\nb", ", and says: 610a62"),
                              (b"\xff\x00", ", and says: ff00"),
                              (b"", "rejected the request")):
            client = Task(mpa.connect, listener.address)
            responder = self.opened(listener.accept())
            responder.wait_request()
            responder.reject_request(private)
            with self.assertRaises(mpa.Refused) as seen:
                client.result()
            self.assertTrue(str(seen.exception).endswith(text), str(seen.exception))

    def test_request_is_accepted_by_hand(self):
        listener = self.server(manual=True, private=b"as ever")
        client = Task(mpa.connect, listener.address)
        responder = self.opened(listener.accept())
        responder.wait_request()
        responder.accept_request(b"specially")
        initiator = self.opened(client.result())
        self.assertEqual(b"specially", initiator.peer().private)
        initiator.send(b"x")
        self.assertEqual(b"x", responder.recv())

    def test_initiator_decides_by_hand(self):
        first, second = self.pair(server={"private": b"my offer"}, manual=True)
        self.assertEqual(mpa.State.REQUESTED, first.info().state)
        self.assertEqual(b"my offer", first.wait_request().private)
        first.accept_request()
        first.send(b"taken")
        self.assertEqual(b"taken", second.recv())

    def test_nobody_listens_is_not_refused_by_mpa(self):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            address = listener.getsockname()
        with self.assertRaises(ConnectionRefusedError) as seen:
            mpa.connect(address)
        self.assertNotIsInstance(seen.exception, mpa.MpaError)

    def test_other_protocol_is_not_mpa(self):
        address = self.answering(b"HTTP/1.0 400 Bad Request\r\n\r\n")
        with self.assertRaises(mpa.NotMpa) as seen:
            mpa.connect(address)
        self.assertEqual(errno.EPROTO, seen.exception.errno)

    def test_closing_peer_is_lost(self):
        listener = self.plain_listener()
        client = Task(mpa.connect, listener.getsockname())
        listener.accept()[0].close()
        with self.assertRaises(mpa.Lost):
            client.result()

    def test_unread_octets_are_busy(self):
        listener = self.plain_listener()
        sock = self.opened(socket.create_connection(listener.getsockname()))
        peer = self.opened(listener.accept()[0])
        peer.sendall(b"banner")
        select.select([sock], [], [], WAIT)
        mpa.attach(sock)
        with self.assertRaises(mpa.Busy) as seen:
            mpa.start(sock)
        self.assertEqual(errno.EBUSY, seen.exception.errno)

    def test_missing_module_is_not_loaded(self):
        sock = self.opened(socket.create_connection(self.plain_listener().getsockname()))
        with self.assertRaises(mpa.NotLoaded) as seen:
            mpa.attach(sock, b"nosuch")
        self.assertEqual(errno.ENOENT, seen.exception.errno)
        self.assertIn("modprobe", str(seen.exception))

    def assert_refused_before_connecting(self, error, text, **options):
        listener = self.plain_listener()
        listener.setblocking(False)
        with self.assertRaisesRegex(error, text):
            mpa.connect(listener.getsockname(), **options)
        with self.assertRaises(BlockingIOError):
            listener.accept()

    def test_long_private_data_are_reported(self):
        text = r"private: at most 512 octets \(508 with revision 2\), not "
        self.assert_refused_before_connecting(mpa.MpaError, text + "513",
                                              private=b"x" * 513)
        self.assert_refused_before_connecting(mpa.MpaError, text + "509",
                                              private=b"x" * 509, revision=2, ird=1)
        with self.assertRaisesRegex(mpa.MpaError, text + "509"):
            mpa.create_server(("127.0.0.1", 0), private=b"x" * 509)
        for options in {"private": b"x" * 512}, {"private": b"x" * 508, "revision": 2,
                                                 "ird": 1}:
            first, second = self.pair(**options)
            self.assertEqual(options["private"], second.peer().private)
            with self.assertRaisesRegex(mpa.MpaError, text + "513"):
                second.accept_request(b"x" * 513)
            first.close()

    def test_options_that_cannot_be_are_reported_before_connecting(self):
        for error, text, options in (
                (TypeError, "^there is no option nosuch; .* are markers, crc", {"nosuch": 1}),
                (TypeError, "bytes-like object is required", {"private": "text"}),
                (mpa.MpaError, "need revision=2", {"ird": 1}),
                (mpa.MpaError, "ord: 0 to 16383, not 16384", {"revision": 2,
                                                              "ord": 16384}),
                (mpa.MpaError, "revision: 0, 1 or 2, not 3", {"revision": 3})):
            self.assert_refused_before_connecting(error, text, **options)
            with self.assertRaisesRegex(error, text):
                mpa.create_server(("127.0.0.1", 0), **{"revision": 1, **options})

    def test_address_is_a_pair(self):
        for call in mpa.connect, mpa.create_server:
            with self.assertRaisesRegex(TypeError, r"address is a pair \(host, port\)"):
                call("localhost", 4402)

    def test_address_of_ipv6_is_taken_as_it_is(self):
        listener = self.opened(mpa.create_server(("::1", 0)))
        client = Task(mpa.connect, listener.address)
        self.opened(listener.accept())
        self.opened(client.result())

    def test_depths_without_revision_2_are_reported(self):
        address = self.plain_listener().getsockname()
        for options in {"ird": 1}, {"ord": 1}, {"p2p": mpa.Start.RTR_FPDU}:
            with self.assertRaisesRegex(mpa.MpaError, "need revision=2"):
                mpa.connect(address, **options)

    def test_depths_are_agreed_on(self):
        first, second = self.pair(server={"ird": 3, "ord": 9}, revision=2, ird=5, ord=7)
        first.send(b"x")
        second.recv()
        self.assertEqual((2, 5, 3), (first.info().revision, first.info().ird,
                                     first.info().ord))
        self.assertEqual((3, 5), (second.info().ird, second.info().ord))
        self.assertEqual((5, 7), (second.peer().ird, second.peer().ord))

    def test_depths_that_do_not_fit_are_disagreement(self):
        reply = bytearray(frame(True, 0x50))
        reply[17:20] = struct.pack(">BH", 2, 4)     # Rev, PD_Length
        address = self.answering(bytes(reply) + struct.pack(">HH", 1, 100))
        with self.assertRaises(mpa.Disagreed) as seen:
            mpa.connect(address, revision=2, ird=2, ord=1)
        self.assertEqual((errno.ENOBUFS, mpa.Code.IRD),
                         (seen.exception.errno, seen.exception.code))

    def test_responder_begins_with_p2p(self):
        rtr = mpa.Start.RTR_FPDU
        first, second = self.pair(server={"p2p": rtr}, revision=2, p2p=rtr)
        second.send(b"I begin")
        self.assertEqual(b"I begin", first.recv())

    def test_direct_needs_no_startup(self):
        listener = self.plain_listener()
        ends = [self.opened(socket.create_connection(listener.getsockname())),
                self.opened(listener.accept()[0])]
        for end in ends:
            mpa.attach(end)
            mpa.start(end, mpa.DIRECT)
        first, second = map(mpa.Connection, ends)
        second.send(b"either end may begin")
        self.assertEqual(b"either end may begin", first.recv())


class Sending(Case):
    def test_one_send_is_one_recv(self):
        first, second = self.talking_pair()
        lengths = [1, 2, 3, 1000, 1448, 10000, mpa.ULPDU_MAX]
        for n, length in enumerate(lengths):
            first.send(pattern(n, length))
            second.send(bytearray(pattern(n + 1, length)))
        for n, length in enumerate(lengths):
            self.assertEqual(pattern(n, length), second.recv())
            self.assertEqual(pattern(n + 1, length), first.recv())

    def test_long_and_empty_records_are_reported(self):
        first, second = self.talking_pair()
        for record in bytes(mpa.ULPDU_MAX + 1), b"":
            with self.assertRaises(mpa.LongRecord) as seen:
                first.send(record)
            self.assertEqual(errno.EMSGSIZE, seen.exception.errno)
            self.assertIn(f" {len(record)} octets", str(seen.exception))
        first.oversize = False
        with self.assertRaises(mpa.LongRecord):
            first.send(bytes(first.mulpdu + 1))
        with self.assertRaises(mpa.LongRecord):
            first.send_many([bytes(first.mulpdu + 1)] * 2)
        first.send(b"continues")
        self.assertEqual(b"continues", second.recv())

    def test_responder_may_not_send_first(self):
        first, second = self.pair()
        second.settimeout(SHORT)
        with self.assertRaises(mpa.Timeout):
            second.send(b"early")
        second.settimeout(0)
        with self.assertRaises(BlockingIOError):
            second.send(b"early")
        second.settimeout(WAIT)
        first.send(b"first")
        second.send(b"second")
        self.assertEqual(b"second", first.recv())

    def test_many_records_with_a_call(self):
        first, second = self.talking_pair()
        lengths = [60] * 2 + [100] * 2500 + [1, 2, 3, 50000, 50000, 7] + [20] * 3 + [0x8000]
        records = [pattern(n, length) for n, length in enumerate(lengths)]
        sending = Task(first.send_many, iter(records))
        for n, record in enumerate(records):
            self.assertEqual(record, second.recv(), f"record {n}")
        self.assertEqual(len(records), sending.result())
        self.assertEqual(len(records) + 1, first.info().tx_ulpdus)

    def test_many_records_leave_in_few_packets(self):
        first, second = self.talking_pair()
        # The records differ in length, and are so few that TCP itself does not delay
        # them.
        records = [pattern(n, 20 + n) for n in range(8)]
        before = first.info().tx_packets
        first.send_many(records)
        self.assertEqual(records, [second.recv() for _ in records])
        # If the processor is late, a batch may end early, but not at each record.
        self.assertLess(first.info().tx_packets - before, len(records))

    def test_error_among_many_says_how_many_were_sent(self):
        first, second = self.talking_pair()
        with self.assertRaises(mpa.LongRecord) as seen:
            first.send_many([b"a", b"b", b"cc", bytes(70000), b"d"])
        self.assertEqual(3, seen.exception.sent)
        self.assertEqual([b"a", b"b", b"cc"], [second.recv() for _ in range(3)])
        first.settimeout(SHORT)
        with self.assertRaises(mpa.Timeout) as seen:
            first.send_many(bytes(10000) for _ in range(5000))
        sent = seen.exception.sent
        self.assertGreater(sent, 0)
        self.assertEqual(sent + 4, first.info().tx_ulpdus)
        first.settimeout(0)
        with self.assertRaises(BlockingIOError) as seen:
            first.send_many([b"no", b"room"] * 10000)
        sent += seen.exception.sent
        self.assertEqual(sent + 4, first.info().tx_ulpdus)
        first.shutdown()
        self.assertEqual(sent, sum(1 for _ in second))

    def test_what_came_before_an_exception_among_many_is_sent(self):
        def records():
            yield from (b"a", b"b", b"cc")
            raise KeyError("no more")

        first, second = self.talking_pair()
        for given, error, expected in (
                (records(), KeyError, [b"a", b"b", b"cc"]),
                ([b"a", "b"], TypeError, [b"a"]),
                (["a"], TypeError, [])):
            with self.assertRaises(error) as seen:
                first.send_many(given)
            self.assertEqual(len(expected), seen.exception.sent)
            self.assertEqual(expected, [second.recv() for _ in expected])
        first.send(b"continues")
        self.assertEqual(b"continues", second.recv())

    def test_lengths_are_octets(self):
        first, second = self.talking_pair()
        self.assertEqual(2, first.send_many([array.array("H", [1, 2])] * 2))
        self.assertEqual([array.array("H", [1, 2]).tobytes()] * 2,
                         [second.recv() for _ in range(2)])

    def test_values_that_cannot_be_are_reported(self):
        first, _ = self.pair()
        for name, value, text in (
                ("segment", 70000, "^segment: 1 to 64768 octets, SEGMENT_FILL or "
                 "SEGMENT_OFF, not 70000"),
                ("packing", 7, "^packing: True or False, not 7"),
                ("place", True, "^place: the peer sends no markers")):
            with self.assertRaises(mpa.MpaError) as seen:
                setattr(first, name, value)
            self.assertEqual(errno.EINVAL, seen.exception.errno)
            self.assertRegex(seen.exception.strerror, text)
        with self.assertRaises(AttributeError):
            first.placed = True

    def test_segment_cuts_a_send(self):
        first, second = self.talking_pair()
        first.segment = 1000
        self.assertEqual(1000, first.segment)
        octets = pattern(1, 100500)
        sending = Task(first.send, octets)
        records = [second.recv() for _ in range(101)]
        sending.result()
        self.assertEqual([1000] * 100 + [500], [len(record) for record in records])
        self.assertEqual(octets, b"".join(records))
        first.segment = mpa.SEGMENT_FILL
        octets = pattern(2, 3000000)
        first.settimeout(WAIT)      # nonblocking on the other end: the rest has to follow
        sending = Task(lambda: (first.send(octets), first.shutdown()))
        self.assertEqual(octets, b"".join(second))
        sending.result()

    def test_file_is_sent(self):
        first, second = self.talking_pair()
        octets = pattern(3, 500000)
        with tempfile.TemporaryFile() as file:
            file.write(octets)
            file.flush()
            sending = Task(lambda: (first.sendfile(file), first.shutdown()))
            self.assertEqual(octets, b"".join(second))
            self.assertEqual(500000, sending.result()[0])


class Threads(Case):
    def test_threads_send_and_receive_at_once(self):
        def send(conn, start):
            for n in range(start, start + 200):
                conn.send(pattern(n, 1 + n * 97 % 20000))

        def exchange(ends):
            senders = [Task(send, end, start) for end in ends for start in (0, 200)]
            receivers = [[Task(list, end) for _ in range(2)] for end in ends]
            for sender in senders:
                sender.result()
            for end in ends:
                end.shutdown()
            return [[record for task in tasks for record in task.result()]
                    for tasks in receivers]

        expected = sorted(pattern(n, 1 + n * 97 % 20000) for n in range(400))
        for timeout in WAIT, None:
            ends = self.pair()
            for end in ends:
                end.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 32768)
                end.settimeout(timeout)
            for seen in exchange(ends):
                self.assertTrue(expected == sorted(seen))

    def test_shutdown_ends_a_thread_that_receives(self):
        first, second = self.pair()
        first.settimeout(None)
        first.send(b"hello")
        self.assertEqual(b"hello", second.recv())
        receiving = Task(list, first)
        second.send(b"the thread is there")
        while first.info().rx_ulpdus < 1:
            pass
        first.shutdown(socket.SHUT_RDWR)
        self.assertEqual([b"the thread is there"], receiving.result())


class Receiving(Case):
    def test_end_is_none(self):
        first, second = self.pair()
        first.send(b"last")
        first.shutdown()
        self.assertEqual([b"last", None, None], [second.recv() for _ in range(3)])
        self.assertIsNone(second.recv_info())
        self.assertEqual([], second.recv_batch())

    def test_timeouts(self):
        first, _ = self.pair()
        first.settimeout(SHORT)
        began = time.monotonic()
        with self.assertRaises(mpa.Timeout) as seen:
            first.recv()
        self.assertGreaterEqual(time.monotonic() - began, SHORT)
        self.assertEqual(errno.ETIMEDOUT, seen.exception.errno)
        first.settimeout(0)
        for call in first.recv, first.recv_info, first.recv_batch:
            with self.assertRaises(BlockingIOError):
                call()

    def test_batch_has_whole_records(self):
        first, second = self.talking_pair()
        records = [pattern(n, 1 + 300 * n % 40000) for n in range(200)]
        sending = Task(first.send_many, records)
        seen = []
        while len(seen) < len(records):
            batch = second.recv_batch(7)
            self.assertTrue(1 <= len(batch) <= 7, len(batch))
            seen += batch
        self.assertEqual(records, seen)
        sending.result()
        first.send_many([b"a", b"b", b"c"])
        self.assertEqual(b"a", second.recv())
        second.recv_info()
        self.assertEqual([b"c"], second.recv_batch())

    def test_batch_with_info_has_the_same_number(self):
        first, second = self.talking_pair()
        first.send_many([b"one", b"two", b"three", b"four"])
        self.assertEqual(b"one", second.recv_info().data)
        self.assertEqual([b"two", b"three"], second.recv_batch(2))
        self.assertEqual([b"four"], second.recv_batch(2))

    def test_info_says_where_a_record_lies(self):
        first, second = self.pair()
        first.send_many([bytes(100), bytes(50)])
        records = [second.recv_info(), second.recv_info()]
        self.assertEqual([mpa.Record(bytes(100), 0, 0, 0, False, 100),
                          mpa.Record(bytes(50), 108, 1, 108, False, 50)], records)

    def test_records_out_of_order_are_placed(self):
        # Undo it after this test, so that other tests are not slowed down.
        for command in ("ip link set lo mtu 1500",
                        "ethtool -K lo tso off gso off gro off",
                        "tc qdisc add dev lo root netem delay 4ms loss 4% limit 2000"):
            subprocess.run(command.split(), check=True, stdout=subprocess.DEVNULL)
        try:
            first, second = self.pair(server={"markers": True, "timeout": WAIT})
            first.send(b"first")
            second.recv()
            second.place = True
            self.assertEqual(1, second.place)
            sending = Task(lambda: (first.send_many(
                pattern(n, 1000) for n in range(1500)), first.shutdown()))
            seen = list(iter(second.recv_info, None))
            sending.result()
        finally:
            for command in ("tc qdisc del dev lo root", "ip link set lo mtu 65536"):
                subprocess.run(command.split(), check=True)
        early = [record for record in seen if record.placed]
        self.assertTrue(early, "no record was placed")
        self.assertTrue(all(record.order is None for record in early))
        self.assertEqual(len(early), second.info().rx_placed)
        seen.sort(key=lambda record: record.position)
        self.assertEqual([pattern(n, 1000) for n in range(1500)],
                         [record.data for record in seen])

    def test_place_before_the_request(self):
        listener = self.server(markers=True)
        client = self.opened(socket.create_connection(listener.address))
        conn = self.opened(listener.accept())
        conn.place = True
        self.assertEqual((1, mpa.State.STARTUP), (conn.place, conn.info().state))
        mpa.attach(client)
        mpa.start(client)
        mpa.Connection(client).send(b"hello")
        self.assertEqual(b"hello", conn.recv_info().data)
        self.assertEqual(1, conn.place)

    def test_damaged_record_shows_code_and_position(self):
        peer, conn = self.by_hand()
        peer.sendall(fpdu(bytes(100)) + fpdu(b"bad", good=False) + fpdu(b"good"))
        self.assertEqual(bytes(100), conn.recv())
        for _ in range(2):
            with self.assertRaises(mpa.Damaged) as seen:
                conn.recv()
            self.assertEqual((errno.EBADMSG, mpa.Code.CRC, 108),
                             (seen.exception.errno, seen.exception.code,
                              seen.exception.position))
        self.assertIn("CRC", str(seen.exception))
        # Sending still works.
        conn.send(b"why")
        self.assertEqual(fpdu(b"why"), take(peer, 12))

    def test_end_inside_a_record_is_damage(self):
        peer, conn = self.by_hand()
        peer.sendall(fpdu(b"good") + fpdu(b"cut")[:5])
        peer.shutdown(socket.SHUT_WR)
        self.assertEqual(b"good", conn.recv())
        with self.assertRaises(mpa.Damaged) as seen:
            conn.recv()
        self.assertEqual((mpa.Code.TCP, 12),
                         (seen.exception.code, seen.exception.position))

    def test_reset_is_lost(self):
        peer, conn = self.by_hand()
        reset(peer)
        with self.assertRaises(mpa.Lost) as seen:
            conn.recv()
        self.assertEqual(errno.ECONNRESET, seen.exception.errno)
        self.assertIsInstance(seen.exception, ConnectionError)

    def test_reset_after_the_end_is_no_error_of_recv(self):
        peer, conn = self.by_hand()
        peer.shutdown(socket.SHUT_WR)
        reset(peer)
        self.assertEqual([None, None], [conn.recv(), conn.recv()])
        with self.assertRaises(mpa.Lost) as seen:
            conn.send(b"x")
        self.assertEqual(errno.EPIPE, seen.exception.errno)

    def test_peer_learns_that_the_connection_is_gone(self):
        peer, conn = self.by_hand()
        address = peer.getsockname()
        self.assertEqual(f"<Connection fd={conn.fileno()}, peer={address}>", repr(conn))
        reset(peer)
        with self.assertRaises(mpa.Lost) as seen:
            conn.recv()
        self.assertEqual(address, seen.exception.address)
        conn.close()
        self.assertEqual(f"<Connection closed, peer={address}>", repr(conn))
        self.assertEqual(address, conn.peer_address)

    def test_structs_may_grow(self):
        octets = _abi.INFO.pack(*range(1, 23))
        for seen in octets + bytes(64), octets[:96]:
            self.assertEqual(tuple(range(1, 20)), _abi.unpacked(_abi.INFO, seen)[:19])
        self.assertEqual((0, 0), _abi.unpacked(_abi.INFO, octets[:104])[-2:])


class AsSockets(Case):
    """These calls have the names that a socket's calls have."""

    def test_addresses(self):
        first, second = self.talking_pair()
        self.assertEqual(first.getsockname(), second.getpeername())
        self.assertEqual(second.getsockname(), first.getpeername())

    def test_sendall_sends_a_record(self):
        first, second = self.pair()
        first.sendall(b"one")
        first.sendall(bytearray(b"two"))
        self.assertEqual([b"one", b"two"], [second.recv(), second.recv()])

    def test_recv_into_receives_a_record(self):
        first, second = self.pair()
        first.send(b"hello")
        first.send(b"abc")
        first.send(b"last")
        first.shutdown()
        room = bytearray(mpa.ULPDU_MAX)
        self.assertEqual(5, second.recv_into(room))
        self.assertEqual(b"hello", room[:5])
        self.assertEqual(2, second.recv_into(memoryview(room)[:2]))     # the rest of the record
        self.assertEqual(1, second.recv_into(room, 2))
        self.assertEqual(b"cbllo", room[:5])
        self.assertEqual(4, second.recv_into(room))
        self.assertEqual(0, second.recv_into(room))

    def test_recv_into_reports_what_is_damaged(self):
        peer, conn = self.by_hand()
        peer.sendall(fpdu(b"hello")[:-1] + b"?")
        with self.assertRaises(mpa.Damaged):
            conn.recv_into(bytearray(10))

    def test_server_of_one_family(self):
        for family in socket.AF_INET, socket.AF_INET6:
            with mpa.create_server(("", 0), family=family) as server:
                self.assertEqual(family, server.sock.family)
                with self.assertRaises(ConnectionRefusedError):
                    socket.create_connection(
                        ("::1" if family == socket.AF_INET else "127.0.0.1",
                         server.address[1]))

    def test_server_on_a_socket_of_ones_own(self):
        sock = socket.socket()
        sock.bind(("127.0.0.1", 0))
        server = self.opened(mpa.create_server(sock=sock))
        self.assertIs(sock, server.sock)
        client = Task(mpa.connect, sock.getsockname())
        responder = self.opened(server.accept())
        self.opened(client.result()).send(b"hello")
        self.assertEqual(b"hello", responder.recv())
        with self.assertRaises(ValueError):
            mpa.create_server()
        with self.assertRaises(ValueError):
            mpa.create_server(("", 0), sock=sock)


class Others(Case):
    def test_c_program_as_initiator(self):
        listener = self.server(markers=True)
        program = self.program(BIN + "/mpa_transfer", "connect", "127.0.0.1",
                               str(listener.address[1]), "1", "1-200,64768x3,1442x50")
        conn = self.opened(listener.accept())
        records = [conn.recv() for _ in range(253)]
        sending = Task(lambda: (conn.send_many(records), conn.shutdown()))
        self.assertIsNone(conn.recv())
        sending.result()
        self.assertIn("253 records", self.said(program))

    def test_c_program_as_responder(self):
        # The other C program builds the same records.
        listener = self.server()
        self.program(BIN + "/mpa_transfer", "connect", "127.0.0.1",
                     str(listener.address[1]), "0", "1-100,50000x3")
        source = self.opened(listener.accept())
        records = [source.recv() for _ in range(103)]
        checker = self.program(BIN + "/mpa_transfer", "listen", "127.0.0.1", "5061",
                               "1", "1-100,50000x3")
        self.assertEqual("listening\n", checker.stdout.readline())
        conn = self.opened(mpa.connect(("127.0.0.1", 5061), markers=True))
        conn.send_many(records)
        conn.shutdown()
        self.assertEqual(records, list(conn))
        self.assertIn("103 records", self.said(checker))

    def test_client_of_the_guide(self):
        listener = self.server(private=b"hi")
        client = self.program(
            "/usr/bin/python3", str(TOP / "Documentation/networking/mpa/client.py"),
            "127.0.0.1", str(listener.address[1]), "one", "two")
        conn = self.opened(listener.accept())
        for record in conn:
            conn.send(record.upper())
        self.assertEqual("ONE\nTWO\n", self.said(client))
        self.assertEqual(b"hello from python", conn.peer().private)

    def test_all_addresses(self):
        with mpa.create_server(("", 0)) as listener:
            for host in "127.0.0.1", "::1":
                client = Task(mpa.connect, (host, listener.address[1]))
                responder = self.opened(listener.accept())
                self.opened(client.result()).send(b"hello")
                self.assertEqual(b"hello", responder.recv())


class Tuf(Case):
    def ends(self):
        listener = self.plain_listener()
        first = socket.create_connection(listener.getsockname())
        made = [self.opened(mpa.TufConnection(sock))
                for sock in (first, listener.accept()[0])]
        for end in made:
            end.settimeout(WAIT)
        return made

    def test_keys_and_records(self):
        first, second = self.ends()
        other = Task(second.exchange_keys)
        first.exchange_keys()
        other.result()
        lengths = [1, 2, 500, 1000]
        for n, length in enumerate(lengths):
            first.packing = False
            first.send(pattern(n, length))
        for n, length in enumerate(lengths):
            self.assertEqual(pattern(n, length), second.recv())
        second.send(b"back")
        record = first.recv_info()
        self.assertEqual((b"back", 0), (record.data, record.position))
        info = first.tuf_info()
        self.assertEqual((mpa.Tuf.ALIGN, 4, 1503, 1, 4),
                         (info.tx_mode, info.tx_ulpdus, info.tx_octets, info.rx_fpdus,
                          info.rx_octets))
        self.assertTrue(0 < info.mulpdu < info.emss)

    def test_off_is_plain_tcp_again(self):
        first, second = self.ends()
        key = first.key()
        second.frame_rx(mpa.Tuf.MARKERS, key, period=512)
        first.frame_tx(mpa.Tuf.MARKERS, period=512)
        first.send(pattern(1, 3000))
        self.assertEqual(pattern(1, 3000), second.recv())
        self.assertEqual(512, second.tuf_info().rx_period)
        first.frame_tx(mpa.Tuf.OFF)
        second.frame_rx(mpa.Tuf.OFF)
        first.sock.sendall(b"plain")
        self.assertEqual(b"plain", take(second.sock, 5))

    def test_client_of_the_guide(self):
        listener = self.plain_listener()
        client = self.program(
            "/usr/bin/python3", str(TOP / "Documentation/networking/mpa/tuf.py"),
            "127.0.0.1", str(listener.getsockname()[1]), "one", "two")
        conn = self.opened(mpa.TufConnection(listener.accept()[0]))
        conn.packing = False
        conn.settimeout(WAIT)
        conn.exchange_keys()
        for _ in range(2):
            conn.send(conn.recv().upper())
        self.assertEqual("ONE\nTWO\n", self.said(client))

    def test_errors(self):
        first, _ = self.ends()
        first.key()
        with self.assertRaises(OSError) as seen:
            first.key()
        self.assertEqual(errno.ENODATA, seen.exception.errno)
        with self.assertRaises(ValueError):
            first.frame_rx(mpa.Tuf.ALIGN, b"short")
        first.frame_tx()
        with self.assertRaises(mpa.LongRecord):
            first.send(bytes(mpa.TUF_ULPDU_MAX + 1))
        with self.assertRaises(OSError) as seen:
            first.frame_tx()
        self.assertEqual(errno.EISCONN, seen.exception.errno)
