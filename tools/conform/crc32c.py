# SPDX-License-Identifier: GPL-2.0
"""CRC32c where Python has no module of that name: what tools/wire reads with works
without a package then."""


def _of(octet):
    for _ in range(8):
        octet = octet >> 1 ^ (0x82F63B78 if octet & 1 else 0)
    return octet


_OF = [_of(octet) for octet in range(256)]


def crc32c(octets):
    crc = 0xFFFFFFFF
    for octet in octets:
        crc = crc >> 8 ^ _OF[(crc ^ octet) & 0xFF]
    return crc ^ 0xFFFFFFFF
