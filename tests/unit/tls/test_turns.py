"""How far a layer decrypts at a time, when others have their turn, and how a connection ends that nobody reads."""

from __future__ import annotations

import asyncio
import itertools
from random import Random
from unittest.mock import Mock

import pytest
from tests.certificates import Authority, Holder
from tests.unit.tls.ends import Pair

from penstock.tls import layer as layers
from penstock.tls.layer import FED_BYTES, FED_RECORDS, RECEIVED_BYTES, TlsLayer

HEAD = 5


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("turns"))


@pytest.fixture(scope="module")
def server(authority: Authority) -> Holder:
    return authority.signs("server")


def records(chance: Random) -> bytes:
    """Of all sizes; some are as long as those that chance cuts off."""
    sizes = (0, 1, 2, 255, 256, 257, 258, 514, 5_000, 16_000)
    return b"".join(
        b"\x17\x03\x03" + size.to_bytes(2, "big") + bytes([3]) * size for size in chance.choices(sizes, k=200)
    )


def heads_of(whole: bytes) -> list[int]:
    """Where each record begins, and where the last one ends."""
    heads = [0]
    while heads[-1] < len(whole):
        heads.append(heads[-1] + HEAD + int.from_bytes(whole[heads[-1] + 3 : heads[-1] + HEAD], "big"))
    return heads


def plainly(heads: list[int], begin: int, upto: int) -> int:
    """Where to stop of what has come up to there: after so many bytes or records, and in no record's head."""
    ahead = [one for one in heads if one >= begin]
    end = min(upto, begin + FED_BYTES, *ahead[FED_RECORDS : FED_RECORDS + 1])
    return next((one for one in ahead if one < end < one + HEAD), end)


@pytest.mark.parametrize("seed", range(6))
async def test_it_ends_in_no_head_of_a_record(seed: int, authority: Authority, server: Holder) -> None:
    chance = Random(seed)
    layer = Pair(authority, server).server.layer
    whole, begin, steps = records(chance), 0, 0
    heads = heads_of(whole)
    while begin < len(whole):
        upto = min(len(whole), begin + chance.choice((1, 4, 5, 6, 7, 263, 300, 519, 776, 4_000, 40_000, 200_000)))
        received, fed, before = whole[begin:upto], 0, -1
        while before < fed < len(received):
            before, fed = fed, layer._end_of_feed(received, fed)
            assert begin + fed == plainly(heads, begin + before, upto)
            assert begin + fed + layer._left == min(one for one in heads if one >= begin + fed)
            steps += 1
        begin += fed
    assert steps > 40


async def test_what_follows_a_small_record_is_measured_too(authority: Authority, server: Holder) -> None:
    """However long the two are together."""
    layer = Pair(authority, server).server.layer
    for content in range(256):
        for length in (1, 4, 258):
            whole = b"\x17\x03\x03" + length.to_bytes(2, "big") + bytes([content]) * length
            whole += b"\x17\x03\x03\x01\x40" + bytes(320)
            for more in (0, 6, content, 256):
                layer._left = 0
                cut = HEAD + length + more
                end = layer._end_of_feed(whole[:cut], 0)
                assert end == plainly(heads_of(whole), 0, min(cut, len(whole)))
                assert end + layer._left == min(one for one in heads_of(whole) if one >= end)


async def test_whoever_goes_on_twice_goes_on_once(authority: Authority, server: Holder) -> None:
    """Others have their turn after as much as anybody may have at a time."""
    pair = Pair(authority, server)
    pair.exchange()
    end = pair.server
    end.layer.pause_reading()
    pair.client.layer.write(b"x" * 6 * FED_BYTES)
    sent = bytes(pair.client.wire.sent)
    end.layer.get_buffer(-1)[: len(sent)] = sent
    end.layer.buffer_updated(len(sent))
    assert not end.inner.received
    pair.buffers.clock_s = itertools.count().__next__  # a turn is over each time somebody looks
    for _ in range(3):
        end.layer.resume_reading()
    got = [0]
    while got[-1] < 6 * FED_BYTES:
        await asyncio.sleep(0)
        got.append(len(end.inner.received))
        assert len(got) < 20
    assert max(after - before for before, after in itertools.pairwise(got)) <= FED_BYTES


async def test_a_wire_that_closes_is_neither_held_nor_let_go(authority: Authority, server: Holder) -> None:
    pair = Pair(authority, server)
    pair.exchange()
    layer, wire = pair.server.layer, pair.server.wire
    wire.close()
    layer.pause_reading()
    layer.resume_reading()
    await asyncio.sleep(0)
    assert not wire.is_paused
    assert layer.is_closing()


async def test_an_alert_has_a_moment_to_leave(
    authority: Authority, server: Holder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layers, "GOODBYE_S", 0.0)
    pair = Pair(authority, server)
    pair.exchange()
    end = pair.server
    end.take(b"\x17\x03\x03\x00\x20" + bytes(32))
    assert (end.wire.is_closed, end.wire.is_aborted, len(end.wire.sent) > 0) == (True, False, True)
    end.layer.abort()
    assert not end.wire.is_aborted, "what is said last still leaves"
    while not end.wire.is_aborted:
        await asyncio.sleep(0)


async def test_whoever_aborts_says_nothing(authority: Authority, server: Holder) -> None:
    for has_begun in (True, False):
        pair = Pair(authority, server)
        if has_begun:
            pair.exchange()
        for end in (pair.server, pair.client):
            end.wire.sent.clear()
            assert (end.layer.is_closing(), end.layer.is_reading()) == (False, True)
            end.layer.abort()
            assert (end.wire.is_aborted, bytes(end.wire.sent), end.fault) == (True, b"", "")
            assert end.layer.is_closing()
            end.take(b"more")
            assert not end.inner.received
            end.layer.write(b"late")
            end.layer.close()
            assert not end.wire.sent


async def test_a_full_read_is_the_last_one_for_now(authority: Authority, server: Holder) -> None:
    pair = Pair(authority, server)
    pair.exchange()
    end = pair.server
    pair.client.layer.write(b"x" * 2 * RECEIVED_BYTES)
    sent = bytes(pair.client.wire.sent)
    for size, is_paused in ((RECEIVED_BYTES - 1, False), (RECEIVED_BYTES, True)):
        end.layer.get_buffer(-1)[:size] = sent[:size]
        end.layer.buffer_updated(size)
        sent = sent[size:]
        assert end.wire.is_paused is is_paused
    await asyncio.sleep(0)
    assert not end.wire.is_paused
    assert not end.fault


async def test_a_layer_tells_what_it_knows(authority: Authority, server: Holder) -> None:
    pair = Pair(authority, server)
    pair.exchange()
    layer: TlsLayer = pair.server.layer
    assert layer.get_extra_info("ssl_object") is layer._tls
    assert layer.get_extra_info("sslcontext") is layer._tls.context
    pair.server.wire.get_extra_info = Mock(return_value="raw")  # type: ignore[method-assign]
    assert layer.get_extra_info("peername", 7) == "raw"
    pair.server.wire.get_extra_info.assert_called_once_with("peername", 7)
    layer.write(b"x" * 100)
    assert layer.get_write_buffer_size() == len(pair.server.wire.sent) > 100
