"""Records that come in any pieces, to a protocol that stops and goes on at any time: each byte is heard, in order."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random

import pytest
from tests.certificates import Authority, Holder
from tests.unit.tls.ends import End, Inner, Pair
from tests.unit.tls.test_new_keys import DATA, HANDSHAKE, UPDATE, Told

from penstock.tls.layer import FED_RECORDS, RECEIVED_BYTES


class Fickle(Inner):
    """Takes a little or much, stops reading when chance has it, and writes to somebody else's layer as it listens."""

    def __init__(self, chance: Random, others: list[End]) -> None:
        super().__init__()
        self._chance = chance
        self._others = others
        self._room = memoryview(bytearray(RECEIVED_BYTES))
        self._given = self._room
        self.is_stopping = True

    def get_buffer(self, sizehint: int) -> memoryview:
        self._given = self._room[: self._chance.choice((50, 5_000, RECEIVED_BYTES))]
        return self._given

    def buffer_updated(self, nbytes: int) -> None:
        self.received += self._given[:nbytes]
        if self._chance.random() < 0.1:
            self._chance.choice(self._others).layer.write(b"from within")
        if self.is_stopping and self._chance.random() < 0.3:
            self.transport.pause_reading()
            if self._chance.random() < 0.3:
                self.transport.resume_reading()


class Cut:
    """One connection, whose server's end is given in pieces what its client has sent."""

    def __init__(self, pair: Pair, sent: bytes, said: bytes, chance: Random, others: list[End]) -> None:
        self.end, self._sent, self._said, self._chance = pair.server, sent, said, chance
        self.inner = Fickle(chance, others)
        self.inner.transport = self.end.layer
        self.end.layer.protocol = self.inner

    def goes_on(self) -> bool:
        """A piece more, also one that was received already when reading was stopped. Whether there are others."""
        layer, wire = self.end.layer, self.end.wire
        if self._sent and not (wire.is_paused and self._chance.random() < 0.9):
            like_a_record = 5 + int.from_bytes(self._sent[3:5])
            size = self._chance.choice((1, 2, 3, 4, 5, 6, 22, 64, 300, 1_000, 5_000, 70_000, like_a_record))
            piece, self._sent = self._sent[:size], self._sent[size:]
            layer.get_buffer(-1)[: len(piece)] = piece
            layer.buffer_updated(len(piece))
        if self._sent and not layer.is_reading() and self._chance.random() < 0.3:
            layer.resume_reading()
        return bool(self._sent)

    def looks(self) -> None:
        """Nothing comes any more: all must have been heard."""
        assert not self.end.fault
        assert self.inner.received == self._said
        assert not self.end.wire.is_paused
        assert (self.end.layer._rest, self.end.layer._left) == (b"", 0)


def sealed(pair: Told, chance: Random) -> tuple[bytes, bytes]:
    """Records of any size, some without content, some that change the key or ask for another one; and what they say."""
    sealing, sent, said = pair.sealing, bytearray(), bytearray()
    for number in range(FED_RECORDS * chance.choice((1, 2, 3)) + chance.choice((-1, 0, 1))):
        if chance.random() < 0.3:
            sent += sealing.record(UPDATE[:-1] + chance.choice((b"\0", b"\1")), HANDSHAKE)
            sealing = sealing.updated()
            continue
        content = chance.randbytes(chance.choice((0, 1, 1, 9, 100, 300)) if number % 20 else 16_000)
        sent += sealing.record(content, DATA)
        said += content
    content = chance.randbytes(5_000)
    return bytes(sent) + sealing.record(content, DATA), bytes(said) + content


def written(pair: Pair, chance: Random) -> tuple[bytes, bytes]:
    said = bytearray()
    for size in (*chance.choices((1, 2, 300, 300, 20_000), k=2 * FED_RECORDS), 5_000):
        content = chance.randbytes(size)
        pair.client.layer.write(content)
        said += content
    sent = bytes(pair.client.wire.sent)
    pair.client.wire.sent.clear()
    return sent, bytes(said)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("cuts"))


@pytest.fixture(scope="module")
def server(authority: Authority) -> Holder:
    return authority.signs("server")


@pytest.mark.parametrize("seed", range(12))
async def test_what_is_cut_anyhow_is_heard_whole(
    seed: int, authority: Authority, server: Holder, tmp_path: Path
) -> None:
    chance = Random(seed)
    new = Told(authority, tmp_path)
    new.buffers.clock_s = lambda: chance.choice((0.0, 0.0, 1.0))  # turns end here and there
    old = Pair(authority, server, buffers=new.buffers, ssl_enabled_protocols="TLSv1.2")
    bystander = Pair(authority, server, buffers=new.buffers)
    old.exchange()
    bystander.exchange()
    others = [bystander.server, new.server, old.server]
    cuts = [
        Cut(new, *sealed(new, chance), chance, others),
        Cut(old, *written(old, chance), chance, others),
    ]
    while sum(cut.goes_on() for cut in cuts):
        if chance.random() < 0.3:
            await asyncio.sleep(0)
    for cut in cuts:
        cut.inner.is_stopping = False
        cut.end.layer.resume_reading()
    for _ in range(1_000):
        await asyncio.sleep(0)
    for cut in cuts:
        cut.looks()
    for pair in (new, old, bystander):
        pair.exchange()
        assert not pair.client.fault
        assert pair.client.inner.received == b"from within" * (len(pair.client.inner.received) // 11)
