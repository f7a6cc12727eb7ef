"""Deliveries that are written before the records go out (share.delivery.count.durable)."""

import asyncio
from pathlib import Path

import pytest
from tests.unit.node.sharing.member import ACCEPT, EARLIEST, Member, acquired, change
from tests.unit.node.sharing.stand_in import sharing_node
from tests.unit.node.turns import until

from penstock.protocol.errors import ErrorCode

DURABLE = EARLIEST.replace(name="share.delivery.count.durable", value="true")


@pytest.mark.parametrize("max_wait_ms", [0, 20_000])
async def test_nobody_has_a_record_before_its_delivery_is_written(tmp_path: Path, max_wait_ms: int) -> None:
    async with sharing_node(tmp_path) as (node, stand_in):
        node.commit(EARLIEST, DURABLE)
        node.produce(b"a", b"b")
        ann = Member(node)
        await ann.fetch(max_wait_ms=0)
        await until(lambda: all(it.machine.status.value == "active" for it in node.broker.sharing._led.values()))
        stand_in.held.clear()
        fetching = asyncio.ensure_future(ann.fetch(max_wait_ms=max_wait_ms))
        await until(lambda: bool(stand_in.written))
        assert not fetching.done()
        stand_in.held.set()
        assert acquired(await fetching) == [(0, 1, 1)]
        assert stand_in.batches == {0: (0, 1), 1: (0, 1)}
        assert await ann.acknowledge((0, 0, [ACCEPT])) == ErrorCode.NONE
        node.commit(change(leader=8, epoch=4))
        node.commit(change(leader=1, epoch=5))
        ann.epoch = 0
        assert await ann.acquire() == [(1, 1, 2)], "the leader before has written it down"


async def test_what_could_not_be_written_was_not_delivered(tmp_path: Path) -> None:
    async with sharing_node(tmp_path) as (node, stand_in):
        node.commit(EARLIEST, DURABLE)
        node.produce(b"a")
        stand_in.refusals.extend([ErrorCode.NONE, ErrorCode.NONE, ErrorCode.INVALID_REQUEST])
        ann = Member(node)
        data = await ann.fetch()
        assert data is not None
        assert (data.error_code, data.acquired_records) == (ErrorCode.UNKNOWN_SERVER_ERROR, [])
        assert await ann.acquire() == [(0, 0, 1)]


async def test_a_member_that_goes_meanwhile_gets_nothing(tmp_path: Path) -> None:
    async with sharing_node(tmp_path) as (node, stand_in):
        node.commit(EARLIEST, DURABLE)
        node.produce(b"a")
        ann = Member(node)
        fetching = asyncio.ensure_future(ann.fetch())
        await until(lambda: bool(stand_in.begun))
        stand_in.held.clear()
        await until(lambda: bool(stand_in.written))
        node.broker.sharing.close(next(iter(node.broker.sharing.sessions._sessions)))
        stand_in.held.set()
        assert acquired(await fetching) == []
        assert await Member(node, "bob").acquire() == [(0, 0, 2)]
