# SPDX-License-Identifier: GPL-2.0 OR MIT
"""Connections with TUF."""
from __future__ import annotations

import errno
import socket
from typing import Optional

from ._abi import (FRAMING, OPTION_MAX, SOL_MPA, TUF_INFO, TUF_INFO_LAYOUT, TUF_KEY_GIVEN,
                   TUF_KEY_LEN, TUF_RX, TUF_TELL_EMSS, TUF_TX, TUF_TX_KEY,
                   TUF_ULPDU_MAX, Tuf, TufInfo, unpacked)
from ._errors import Lost
from ._sockets import Records
from ._start import attach


class TufConnection(Records):
    """A connected socket with TUF: the program enables framing for each direction.

    Before framing, and after Tuf.OFF, "sock" sends and receives plain TCP.
    """
    longest = TUF_ULPDU_MAX
    __slots__ = ()

    def __init__(self, sock: socket.socket) -> None:
        super().__init__(sock)
        attach(sock, b"tuf")

    def key(self) -> bytes:
        """The key of this end's stream, which the peer needs; it can be read once."""
        return self.sock.getsockopt(SOL_MPA, TUF_TX_KEY, TUF_KEY_LEN)

    def frame_tx(self, mode: int = Tuf.ALIGN, key: Optional[bytes] = None, *,
                 period: int = 0, tell_emss: bool = False) -> None:
        """Frame each send() from now on; Tuf.OFF ends framing.

        The default key is the one that key() returned.
        """
        self._frame(TUF_TX, mode, key, period, TUF_TELL_EMSS * tell_emss)

    def frame_rx(self, mode: int = Tuf.ALIGN, key: Optional[bytes] = None, *,
                 period: int = 0) -> None:
        """Receive framed records from the first unread octet on; key is the peer's.
        Tuf.OFF ends framing."""
        self._frame(TUF_RX, mode, key, period, 0)

    def _frame(self, option: int, mode: int, key: Optional[bytes], period: int,
               flags: int) -> None:
        if key is not None and len(key) != TUF_KEY_LEN:
            raise ValueError(f"a key has {TUF_KEY_LEN} octets, this one {len(key)}")
        flags |= 0 if key is None else TUF_KEY_GIVEN
        try:
            self.sock.setsockopt(SOL_MPA, option, FRAMING.pack(
                mode, key or b"", 0, period, flags))
        except OSError as err:
            raise self._explained(err, "TUF_TX" if option == TUF_TX else
                                  "TUF_RX") from None

    def exchange_keys(self) -> None:
        """Frame both directions. The peer has to do the same at this position.

        Each end sends its key in plain TCP; all later octets are framed.
        """
        self.sock.sendall(self.key())
        self.frame_tx()
        key = b""
        while len(key) < TUF_KEY_LEN:
            more = self.sock.recv(TUF_KEY_LEN - len(key))
            if not more:
                raise Lost(errno.ECONNRESET, "the peer closed before it sent its key")
            key += more
        self.frame_rx(Tuf.ALIGN, key)

    def tuf_info(self) -> TufInfo:
        """State and counters."""
        octets = self.sock.getsockopt(SOL_MPA, TUF_INFO, OPTION_MAX)
        fields = list(unpacked(TUF_INFO_LAYOUT, octets))
        del fields[3]       # reserved
        return TufInfo(*fields)
