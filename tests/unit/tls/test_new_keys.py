"""Peers over TLS 1.3 that change their keys, or begin to and do not end that, which OpenSSL as a peer never does."""

from __future__ import annotations

import asyncio
import itertools
import ssl
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA384
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand
from tests.certificates import Authority, Holder
from tests.unit.tls.ends import Pair

from penstock.tls.layer import ANSWERS_BYTES, FED_RECORDS, HALF_KEY, ONLY_KEYS

HANDSHAKE, DATA = 22, 23
UPDATE = b"\x18\0\0\x01\0"
"""Of the key, and the peer need not do the same."""


class Sealing:
    """Records of a client whose engine has told its secret (TLS_AES_256_GCM_SHA384)."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        self._key, self._start = AESGCM(self._expanded(b"key", 32)), int.from_bytes(self._expanded(b"iv", 12), "big")
        self._count = 0

    def record(self, data: bytes, kind: int) -> bytes:
        head = b"\x17\x03\x03" + (len(data) + 17).to_bytes(2, "big")
        nonce = (self._start ^ self._count).to_bytes(12, "big")
        self._count += 1
        return head + self._key.encrypt(nonce, data + bytes([kind]), head)

    def updated(self) -> Sealing:
        return Sealing(self._expanded(b"traffic upd", 48))

    def _expanded(self, label: bytes, size: int) -> bytes:
        info = size.to_bytes(2, "big") + bytes([6 + len(label)]) + b"tls13 " + label + b"\0"
        return HKDFExpand(SHA384(), size, info).derive(self._secret)


class Told(Pair):
    """A pair whose client's secret is known."""

    def __init__(self, authority: Authority, folder: Path) -> None:
        super().__init__(authority, authority.signs("server"))
        (folder / "secrets").unlink(missing_ok=True)
        self.client.layer._tls.context.keylog_filename = str(folder / "secrets")
        self.exchange()
        lines = [line.split() for line in (folder / "secrets").read_text().splitlines()]
        self.sealing = Sealing(next(bytes.fromhex(line[2]) for line in lines if line[0] == "CLIENT_TRAFFIC_SECRET_0"))


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def server(authority: Authority) -> Holder:
    return authority.signs("server")


async def test_a_key_that_is_changed_in_two_records_is_changed(authority: Authority, tmp_path: Path) -> None:
    pair = Told(authority, tmp_path)
    for part in (UPDATE[:4], UPDATE[4:]):
        pair.server.take(pair.sealing.record(part, HANDSHAKE))
    pair.server.take(pair.sealing.updated().record(b"more", DATA))
    pair.server.layer.write(b"answer")
    pair.exchange()
    assert pair.server.inner.received == b"more"
    assert pair.client.inner.received == b"answer"
    assert not pair.server.fault


async def test_who_writes_to_a_peer_with_half_a_message_goes_on(authority: Authority, tmp_path: Path) -> None:
    pair = Told(authority, tmp_path)
    pair.server.take(pair.sealing.record(UPDATE[:4], HANDSHAKE))
    pair.server.layer.write(b"answer")
    assert pair.server.wire.is_aborted
    assert pair.server.fault == HALF_KEY


async def test_half_a_message_takes_nothing_of_what_comes_for_others(authority: Authority, tmp_path: Path) -> None:
    """As a fetch that waits is answered while a producer's next records are in the buffer that all share."""
    waits = Told(authority, tmp_path)
    produces = Pair(authority, authority.signs("server"), buffers=waits.buffers)
    produces.exchange()
    waits.server.take(waits.sealing.record(UPDATE[:4], HANDSHAKE))
    taken = produces.server.inner.buffer_updated

    def passes_on(nbytes: int) -> None:
        taken(nbytes)
        waits.server.layer.write(b"from within")

    produces.server.inner.buffer_updated = passes_on  # type: ignore[method-assign]
    produces.server.inner._buffer = bytearray(64)
    for _ in range(2):
        produces.client.layer.write(b"a" * 500)
    produces.exchange()
    assert produces.server.inner.received == b"a" * 1000
    assert (produces.server.fault, waits.server.fault) == ("", HALF_KEY)


def updates(pair: Told, count: int) -> bytes:
    """So many changes of the key, and something that is sealed with the last one."""
    sealing, sent = pair.sealing, bytearray()
    for _ in range(count):
        sent += sealing.record(UPDATE, HANDSHAKE)
        sealing = sealing.updated()
    return bytes(sent + sealing.record(b"more", DATA))


async def test_who_changes_its_key_without_end_lets_others_come_first(authority: Authority, tmp_path: Path) -> None:
    pair = Told(authority, tmp_path)
    pair.buffers.clock_s = itertools.count().__next__  # a turn is over each time somebody looks
    sent = updates(pair, 300)
    pair.server.take(sent)
    left = [len(sent), len(pair.server.layer._rest)]
    while left[-1]:
        await asyncio.sleep(0)
        left.append(len(pair.server.layer._rest))
    assert pair.server.inner.received == b"more"
    assert max(before - after for before, after in pairwise(left)) <= FED_RECORDS * (len(sent) // 300)


async def test_records_are_heard_however_they_are_cut(authority: Authority, tmp_path: Path) -> None:
    for at_once in (1, 3, 4, 29, 1_001):
        pair = Told(authority, tmp_path)
        assert not pair.server.take(updates(pair, 150), at_once)
        assert pair.server.inner.received == b"more"
        assert not pair.server.fault


class Rekeyed:
    """An engine whose peer asks for a new key with each record, and is answered, as by OpenSSL, with 27 bytes."""

    def __init__(self, engine: ssl.SSLObject, outgoing: ssl.MemoryBIO) -> None:
        self._engine = engine
        self._outgoing = outgoing

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def read(self, size: int, room: memoryview) -> Any:
        self._outgoing.write(bytes(27))
        return self._engine.read(size, room)


@pytest.mark.parametrize("reads", [True, False])
async def test_who_asks_for_new_keys_has_to_read_them(authority: Authority, server: Holder, reads: bool) -> None:
    pair = Pair(authority, server)
    pair.exchange()
    layer = pair.server.layer
    layer._tls = cast("ssl.SSLObject", Rekeyed(layer._tls, pair.buffers.outgoing))
    layer.pause_writing()
    before = len(pair.server.wire.sent)
    for _ in range(2 * ANSWERS_BYTES // 27):
        pair.client.layer.write(b"x")
        pair.server.take(bytes(pair.client.wire.sent))
        pair.client.wire.sent.clear()
        if reads:
            layer.resume_writing()
            layer.pause_writing()
    assert pair.server.wire.is_aborted is not reads
    assert pair.server.fault == ("" if reads else ONLY_KEYS)
    if not reads:
        assert len(pair.server.wire.sent) - before <= ANSWERS_BYTES + 2 * 27
    assert pair.server.inner.calls[0] == "pause"
