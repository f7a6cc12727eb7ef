"""What a leader does for a ShareFetch: batches that it looks at, bytes that it reads, members that it wakes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.node.sharing.member import ACCEPT, EARLIEST, Member, values, waits
from tests.unit.node.sharing.stand_in import sharing_node
from tests.unit.node.turns import until

from penstock.log.disk import OpenFile
from penstock.log.log_slice import LogSlice
from penstock.log.partition_log import PartitionLog
from penstock.log.scan import BLOCK_BYTES
from penstock.node.sharing.fetching import ShareFetch
from penstock.protocol.errors import ErrorCode


async def test_no_more_batches_are_looked_at_than_may_be_locked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at: list[int] = []
    headers_of = PartitionLog.headers_of

    def looking(log: PartitionLog, found: LogSlice) -> Iterator[Any]:
        for position, header in headers_of(log, found):
            looked_at.append(header.base_offset)
            yield position, header

    monkeypatch.setattr(PartitionLog, "headers_of", looking)
    async with sharing_node(tmp_path) as (node, _):
        node.commit(EARLIEST.replace(name="share.partition.max.record.locks", value="100"))
        node.commit(EARLIEST)
        for _ in range(300):
            node.produce(b"x")
        answer = await Member(node).acquire(max_records=2**31 - 1, batch_size=1)
        assert answer == [(at, at, 1) for at in range(100)]
        assert len(looked_at) <= 201


async def test_of_batches_that_nobody_gets_hardly_anything_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And those that a member gets go from the file to the socket."""
    async with sharing_node(tmp_path) as (node, _):
        node.commit(EARLIEST)
        for letter in "abcdefgh":
            node.produce(letter.encode() * 50_000)
        ann, read_bytes, read_at = Member(node), 0, OpenFile.read_at
        await ann.acquire(max_records=1)

        def reading(file: OpenFile, length: int, position: int) -> bytes:
            nonlocal read_bytes
            data = read_at(file, length, position)
            read_bytes += len(data)
            return data

        monkeypatch.setattr(OpenFile, "read_at", reading)
        request = ann.fetch_request(max_records=2)
        parts = node.dispatch(request, 2)
        assert isinstance(parts, list)
        assert read_bytes <= 8 * BLOCK_BYTES
        (records,) = (part for part in parts if isinstance(part, LogSlice))
        assert len(records) > 100_000
        answer: Any = node.decode(request, 2, parts)
        data = answer.responses[0].partitions[0]
        assert values(data) == [b"b" * 50_000, b"c" * 50_000]


async def test_members_are_not_woken_where_nobody_gets_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One works off a batch that is as large as what may be locked."""
    looks = 0
    look_at = ShareFetch._look_at

    def looking(fetch: ShareFetch, *place: Any) -> Any:
        nonlocal looks
        looks += 1
        return look_at(fetch, *place)

    async with sharing_node(tmp_path) as (node, _):
        node.commit(EARLIEST.replace(name="share.partition.max.record.locks", value="100"))
        node.commit(EARLIEST)
        node.produce(*[b"x"] * 300)
        node.produce(b"y")
        ann, bob = Member(node), Member(node, "bob")
        assert await ann.acquire() == [(0, 299, 1)]
        monkeypatch.setattr(ShareFetch, "_look_at", looking)
        waiting = asyncio.ensure_future(bob.acquire())
        await until(lambda: waits(node))
        looks = 0
        for at in range(199):
            assert await ann.acknowledge((at, at, [ACCEPT])) == ErrorCode.NONE
        assert looks == 0
        for at in range(199, 300):
            assert await ann.acknowledge((at, at, [ACCEPT])) == ErrorCode.NONE
        assert await waiting == [(300, 300, 1)]
