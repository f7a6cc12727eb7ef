"""A change in the cluster is heard of within two seconds, whenever it comes: counted on a clock of its own."""

import asyncio
import json
from collections.abc import Callable, Mapping
from random import Random
from types import SimpleNamespace
from typing import Any, Final, cast
from uuid import UUID

import pytest

from penstock.client.admin import Admin, ClusterDescription
from penstock.client.admin.groups import GroupDescription, GroupListing, MemberDescription
from penstock.client.metadata import PartitionMetadata, TopicMetadata
from penstock.client.settings import ClientSettings
from penstock.client.values import OffsetAndMetadata, TopicPartition
from penstock.console.looks import Looks
from penstock.console.serving.live import Live
from penstock.console.views.groups import group
from penstock.console.views.topics import consumers, topic
from penstock.console.watched import WatchedCluster
from penstock.protocol.errors import ErrorCode
from penstock.testing.simulator.loop import VirtualLoop

WHERE: Final = TopicPartition("t", 0)
ANSWERS_S: Final = 0.01
"""What a broker needs for each question."""
WITHIN_S: Final = 1.8
"""The rest of two seconds is for the page, which fetches and draws what it has heard of."""
STEPS: Final = 21
STEP_S: Final = 0.1


class World:
    def __init__(self) -> None:
        self.leader, self.isr, self.end, self.members = 1, [1, 2], 10, 1

    async def topics(self, _: Any) -> list[TopicMetadata]:
        await asyncio.sleep(ANSWERS_S)
        row = PartitionMetadata("t", 0, self.leader, 5, [1, 2], list(self.isr), [], ErrorCode.NONE)
        return [TopicMetadata("t", UUID(int=1), False, ErrorCode.NONE, {0: row})]

    async def ends(self, asked: Mapping[TopicPartition, int]) -> tuple[dict[TopicPartition, Any], dict[Any, Any]]:
        await asyncio.sleep(ANSWERS_S)
        return {one: SimpleNamespace(offset=self.end) for one in asked}, {}

    async def group(self, name: str) -> GroupDescription:
        await asyncio.sleep(ANSWERS_S)
        members = [MemberDescription(f"m-{n}", None, "c", "/h", [WHERE], b"", b"") for n in range(self.members)]
        return GroupDescription(name, "Stable", "consumer", "range", 1, members)

    async def groups(self) -> list[GroupListing]:
        await asyncio.sleep(ANSWERS_S)
        return [GroupListing("g", "consumer", "Stable", "consumer")]

    async def offsets(self, _: str) -> dict[TopicPartition, OffsetAndMetadata]:
        await asyncio.sleep(ANSWERS_S)
        return {WHERE: OffsetAndMetadata(3)}

    async def offsets_of(
        self, names: list[str]
    ) -> tuple[dict[str, dict[TopicPartition, OffsetAndMetadata]], dict[str, Any]]:
        return {name: await self.offsets(name) for name in names}, {}

    async def nothing(self, *_: Any, **__: Any) -> Any:
        await asyncio.sleep(ANSWERS_S)
        return None

    async def no_brokers(self, **_: Any) -> ClusterDescription:
        return ClusterDescription("c", 1, [])

    def watched(self, now_s: Callable[[], float]) -> WatchedCluster:
        found = WatchedCluster("127.0.0.1:1", ClientSettings())
        found.looks = Looks(now_s, lambda: 0.0)
        found.admin = cast(
            "Admin",
            SimpleNamespace(
                topics=SimpleNamespace(describe=self.topics),
                groups=SimpleNamespace(
                    describe=self.group,
                    listings=self.groups,
                    offsets=self.offsets,
                    offsets_of=self.offsets_of,
                    history=self.nothing,
                ),
                share_groups=SimpleNamespace(offsets_of=self.offsets_of),
                cluster=SimpleNamespace(refresh=self.nothing),
                describe_cluster=self.no_brokers,
                offsets_that_can_be_had=self.ends,
            ),
        )
        return found


async def hears_after(view: str, change: Callable[[World], None], begins_s: float) -> float:
    """Seconds from a change to the moment at which a page has it."""
    world, loop = World(), asyncio.get_running_loop()
    live = Live(world.watched(loop.time), {"topic": topic, "group": group, "consumers": consumers})
    running, stream = asyncio.create_task(live.run()), live.open()
    query = {"name": "g" if view == "group" else "t"}
    before = (await live.ask("/api/it", view, query)).data
    await asyncio.sleep(begins_s)
    assert not stream.due, "nothing has changed"
    change(world)
    changed_s = loop.time()
    assert await stream.next(60) == ["/api/it"]
    assert json.loads((await live.ask("/api/it", view, query)).data) != json.loads(before)
    running.cancel()
    return loop.time() - changed_s


@pytest.mark.parametrize(
    ("view", "change"),
    [
        pytest.param("topic", lambda world: setattr(world, "leader", 2), id="leader"),
        pytest.param("topic", lambda world: setattr(world, "isr", [1]), id="isr"),
        pytest.param("group", lambda world: setattr(world, "end", 11), id="lag"),
        pytest.param("consumers", lambda world: setattr(world, "end", 11), id="lag-beside-a-topic"),
        pytest.param("group", lambda world: setattr(world, "members", 2), id="member"),
    ],
)
def test_a_change_is_heard_of_within_two_seconds(view: str, change: Callable[[World], None]) -> None:
    took_s = []
    for step in range(STEPS):
        scene = hears_after(view, change, 5 + step * STEP_S)
        took_s.append(VirtualLoop(Random(step)).run_until_complete(scene))
    assert max(took_s) <= WITHIN_S
