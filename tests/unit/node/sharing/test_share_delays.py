"""Records of share groups that wait before they come again, and releases with a delay of their own."""

from pathlib import Path

import pytest
from tests.unit.node.on_disk import NOW_MS
from tests.unit.node.sharing.member import ACCEPT, EARLIEST, RELEASE, Member, acquired, change
from tests.unit.node.sharing.stand_in import sharing_node

from penstock.protocol.errors import ErrorCode
from penstock.sharing.values import LONGEST_DELAY_MS

BACKOFF = EARLIEST.replace(name="share.retry.backoff.ms", value="40000")
SOON_MS = 20


@pytest.mark.parametrize("by_fetch", [True, False])
async def test_what_is_released_waits_and_the_time_is_written(tmp_path: Path, by_fetch: bool) -> None:
    async with sharing_node(tmp_path) as (node, stand_in):
        node.commit(EARLIEST, BACKOFF)
        node.produce(b"a", b"b", b"c")
        ann = Member(node)
        await ann.acquire()
        said, delays_ms = ((0, 2, [RELEASE, RELEASE, ACCEPT]),), [-1, 90_000, 0]
        if by_fetch:
            assert acquired(await ann.fetch(*said, delays_ms=delays_ms, max_wait_ms=0)) == []
        else:
            assert await ann.acknowledge(*said, delays_ms=delays_ms) == ErrorCode.NONE
        held_s = {at: round((until_ms - NOW_MS) / 1000) for at, until_ms in stand_in.held_until_ms.items() if until_ms}
        assert held_s == {0: 40, 1: 90}, "by the wall clock, which stands still here"
        assert acquired(await ann.fetch(max_wait_ms=0)) == []


async def test_who_waits_gets_it_when_its_delay_is_over(tmp_path: Path) -> None:
    async with sharing_node(tmp_path) as (node, _):
        node.commit(EARLIEST)
        node.produce(b"a")
        ann = Member(node)
        await ann.acquire()
        data = await ann.fetch((0, 0, [RELEASE]), delays_ms=[SOON_MS])
        assert acquired(data) == [(0, 0, 2)]


@pytest.mark.parametrize(("later_ms", "come"), [(89_000, [(0, 0, 2)]), (90_100, [(0, 0, 2), (1, 1, 2)])])
async def test_the_next_leader_keeps_what_was_written(
    tmp_path: Path, later_ms: int, come: list[tuple[int, int, int]]
) -> None:
    async with sharing_node(tmp_path) as (node, _):
        node.commit(EARLIEST, BACKOFF)
        node.produce(b"a", b"b")
        ann = Member(node)
        await ann.acquire()
        assert await ann.acknowledge((0, 1, [RELEASE]), delays_ms=[-1, 90_000]) == ErrorCode.NONE
        node.now_ms += later_ms
        node.commit(change(leader=8, epoch=4))
        node.commit(change(leader=1, epoch=5))
        ann.epoch = 0
        assert acquired(await ann.fetch()) == come


@pytest.mark.parametrize("delays_ms", [[-2], [LONGEST_DELAY_MS + 1], [0, 0, 0]])
async def test_delays_that_cannot_be(tmp_path: Path, delays_ms: list[int]) -> None:
    async with sharing_node(tmp_path) as (node, _):
        node.commit(EARLIEST)
        node.produce(b"a", b"b")
        ann = Member(node)
        await ann.acquire()
        assert await ann.acknowledge((0, 1, [RELEASE]), delays_ms=delays_ms) == ErrorCode.INVALID_REQUEST
        assert await ann.acknowledge((0, 1, [ACCEPT])) == ErrorCode.NONE
