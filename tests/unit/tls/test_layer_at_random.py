"""Both ends of a connection, driven at random: all arrives in order, and nobody gets what it does not take."""

import asyncio
from collections.abc import Callable
from random import Random

import pytest
from tests.certificates import Authority, Holder
from tests.unit.tls.ends import End, Ends, Pair

from penstock.testing.simulator.stand_in_tls import MixedUpError, StandInContext
from penstock.tls.layer import RECEIVED_BYTES, TlsBuffers

SIZES = (1, 90, 5_000, 16_384, 70_000, 270_000)
PIECES = (1, 4, 5, 6, 600, 16_411, RECEIVED_BYTES)
ROOMS = (100, 16_384, 256 * 1024)
STEPS = 40


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def server(authority: Authority) -> Holder:
    return authority.signs("server")


class Driver:
    """A pair of ends, and what each of them has written."""

    def __init__(self, make: Callable[[TlsBuffers], Ends], random: Random) -> None:
        self.random = random
        self._now_s = 0.0
        self.buffers = TlsBuffers(self._clock_s)
        self.pair = make(self.buffers)
        self.ends = (self.pair.client, self.pair.server)
        for end in self.ends:
            end.inner._buffer = bytearray(random.choice(ROOMS))
        self.written = {id(end): bytearray() for end in self.ends}
        self.steps = (self.write, self.carry, self.carry, self.come_late, self.hold, self.go_on, self.turn)

    def _clock_s(self) -> float:
        """Now and then a turn is over."""
        self._now_s += self.random.choice((0.0, 0.0, 0.0, 0.01))
        return self._now_s

    def of(self, end: End) -> tuple[End, End]:
        """An end and its peer."""
        return end, self.ends[1] if end is self.ends[0] else self.ends[0]

    async def write(self, end: End) -> None:
        begin, size = len(self.written[id(end)]), self.random.choice(SIZES)
        data = bytes(position * position % 251 for position in range(begin, begin + min(size, 500)))
        data = (data * (size // len(data) + 1))[:size]
        end.layer.write(data if self.random.random() < 0.5 else memoryview(data))
        self.written[id(end)] += data

    async def carry(self, end: End) -> None:
        source, target = self.of(end)
        part = bytes(source.wire.sent[: self.random.choice((*PIECES, 1 << 30))])
        left = target.take(part, self.random.choice(PIECES) if len(part) < 700 else RECEIVED_BYTES)
        del source.wire.sent[: len(part) - len(left)]

    async def come_late(self, end: End) -> None:
        """What the transport had received before it stopped reading: nothing of it is given on."""
        source, target = self.of(end)
        if target.wire.is_paused and source.wire.sent:
            part = bytes(source.wire.sent[: self.random.choice(PIECES)])
            before = len(target.inner.received)
            target.layer.get_buffer(-1)[: len(part)] = part
            target.layer.buffer_updated(len(part))
            del source.wire.sent[: len(part)]
            assert len(target.inner.received) == before

    async def hold(self, end: End) -> None:
        """At once, or from within when so much has come."""
        if self.random.random() < 0.5:
            end.layer.pause_reading()
        else:
            end.inner.most = len(end.inner.received) + self.random.choice(SIZES)

    async def go_on(self, end: End) -> None:
        end.inner.most = 1 << 40
        end.layer.resume_reading()

    async def turn(self, end: End) -> None:
        await asyncio.sleep(0)

    async def step(self) -> None:
        end = self.random.choice(self.ends)
        step = self.random.choice(self.steps)
        held = [(one, len(one.inner.received)) for one in self.ends if not one.layer.is_reading()]
        await step(end)
        for one, size in held:
            assert one.layer.is_reading() or len(one.inner.received) == size, "it has stopped reading"
        self.check()

    def check(self) -> None:
        assert not self.buffers.incoming.pending + self.buffers.outgoing.pending, "others have them next"
        for end in self.ends:
            one, peer = self.of(end)
            assert self.written[id(peer)].startswith(one.inner.received)
            assert one.layer.is_reading() or one.wire.is_paused
            assert not one.fault
            assert not one.layer.is_closing()

    async def end(self) -> None:
        """All go on, until nothing is left."""
        self.pair.at_once = RECEIVED_BYTES
        for end in self.ends:
            await self.go_on(end)
        for _ in range(60):
            self.pair.exchange()
            await asyncio.sleep(0)
            self.check()
        for end in self.ends:
            one, peer = self.of(end)
            assert one.inner.received == self.written[id(peer)]
            assert not one.wire.is_paused


@pytest.mark.parametrize("seed", range(12))
async def test_all_arrives_whatever_comes_when(authority: Authority, server: Holder, seed: int) -> None:
    await drive(lambda buffers: Pair(authority, server, buffers=buffers), seed)


@pytest.mark.parametrize("seed", range(5))
async def test_the_simulators_engine_does_the_same(seed: int) -> None:
    """It mixes nothing up by itself."""

    def make(buffers: TlsBuffers) -> Ends:
        serving, asking = StandInContext({}, None), StandInContext({}, None)
        serving.certificate = b"of the server" * 50
        return Ends(serving, asking, buffers)

    driver = await drive(make, seed)
    assert driver.pair.client.layer.peer_certificate == b"of the server" * 50
    assert driver.pair.server.layer.peer_certificate is None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda records: [records[1]], "the record 3 came in place of 2"),
        (lambda records: [records[0], records[0]], "the record 2 came in place of 3"),
        (lambda records: [b"\x16" + records[0][1:]], "a record of kind 22 came in place of one of 23"),
    ],
)
async def test_what_is_mixed_up_ends_a_simulation(change: Callable[[list[bytes]], list[bytes]], words: str) -> None:
    pair = Ends(StandInContext({}, None), StandInContext({}, None), TlsBuffers(lambda: 0.0))
    pair.exchange()
    records = []
    for text in (b"one", b"two"):
        pair.client.layer.write(text)
        records.append(bytes(pair.client.wire.sent))
        pair.client.wire.sent.clear()
    *before, mixed_up = change(records)
    for record in before:
        pair.server.take(record)
    with pytest.raises(MixedUpError) as raised:
        pair.server.take(mixed_up)
    assert str(raised.value) == words


async def drive(make: Callable[[TlsBuffers], Ends], seed: int) -> Driver:
    driver = Driver(make, Random(seed))
    driver.pair.at_once = driver.random.choice(PIECES)
    for _ in range(20):
        driver.pair.exchange()
        await asyncio.sleep(0)
    assert driver.pair.client.is_secured
    assert driver.pair.server.is_secured
    for _ in range(STEPS):
        await driver.step()
    await driver.end()
    closes, hears = driver.of(driver.random.choice(driver.ends))
    closes.layer.close()
    driver.pair.exchange()
    assert closes.wire.is_closed
    assert hears.wire.is_closed
    assert hears.layer.is_closing()
    assert not closes.fault + hears.fault
    return driver
