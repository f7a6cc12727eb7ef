"""Members of a group of the consumer protocol (KIP-848) that do nothing but take part: a connection each, one loop.

A member takes at once what it is given, gives up at once what it is to give up, and says so with its next heartbeat,
which follows at once as well; else it sends one as often as the coordinator wants it.
"""

import asyncio
import struct
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from uuid import UUID

from bench.process import cpu_of
from bench.wire import Wire
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
    ConsumerGroupHeartbeatResponse,
)
from penstock.protocol.messages.find_coordinator import FindCoordinatorRequest
from penstock.protocol.requests.framing import api_of_request, decode_response, encode_request
from penstock.testing.quorum_view import wait_until

VERSION = 1
LIMIT_S, SETTLES_S = 120.0, 15.0
Place = tuple[UUID, int]
TRY_AGAIN = (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)


class Group:
    """Of members that are added one by one; `partitions` are all there are."""

    def __init__(self, address: str, topic: str, name: str, partitions: int) -> None:
        self.host, _, port = address.rpartition(":")
        self.port, self.topic, self.name, self._partitions = int(port), topic, name, partitions
        self.members: list[Member] = []
        self.owners: Counter[Place] = Counter()
        self.changed = asyncio.Event()

    async def add(self) -> "Member":
        member = Member(self, f"member-{len(self.members)}")
        self.members.append(member)
        await member.begin()
        return member

    async def stable(self) -> float:
        """The moment (perf_counter) at which each partition has an owner, no member anything left to say, and none of
        them two partitions more than another.
        """
        while len(self.owners) < self._partitions or not self._is_even():
            self.changed.clear()
            async with asyncio.timeout(LIMIT_S):
                await self.changed.wait()
        return time.perf_counter()

    def close(self) -> None:
        for member in self.members:
            member.close()

    def _is_even(self) -> bool:
        counts = [one.count for one in self.members]
        return max(counts) - min(counts) <= 1 and not any(one.has_news for one in self.members)


class Member:
    def __init__(self, group: Group, member_id: str) -> None:
        self.group, self.member_id = group, member_id
        self.has_news = True
        self._epoch, self._interval_s = 0, 5.0
        self._owned: frozenset[Place] = frozenset()

    async def begin(self) -> None:
        self._reader, self._writer = await asyncio.open_connection(self.group.host, self.group.port)
        self._task = asyncio.create_task(self._take_part())

    @property
    def count(self) -> int:
        return len(self._owned)

    async def leave(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self.group.members.remove(self)
        self._own(frozenset())
        self._writer.close()  # its answers may be under way here
        self._reader, self._writer = await asyncio.open_connection(self.group.host, self.group.port)
        await self._beat(-1)
        self.close()

    def close(self) -> None:
        self._task.cancel()
        self._writer.close()

    async def _take_part(self) -> None:
        while True:
            await self._beat(self._epoch)
            if not self.has_news:
                await asyncio.sleep(self._interval_s)

    async def _beat(self, epoch: int) -> None:
        had_news, self.has_news = self.has_news, False
        answer = await self._ask(self._request(epoch, had_news))
        if answer.error_code in TRY_AGAIN:
            self.has_news = True
            await asyncio.sleep(0.1)
        elif answer.error_code:
            raise RuntimeError(f"{self.member_id}: {ErrorCode(answer.error_code).name} {answer.error_message}")
        elif epoch >= 0:
            self._epoch, self._interval_s = answer.member_epoch, answer.heartbeat_interval_ms / 1000
            if answer.assignment is not None:
                given = answer.assignment.topic_partitions
                owned = frozenset((one.topic_id, index) for one in given for index in one.partitions)
                self.has_news = owned != self._owned
                self._own(owned)
        self.group.changed.set()

    def _own(self, owned: frozenset[Place]) -> None:
        self.group.owners.subtract(self._owned - owned)
        self.group.owners.update(owned - self._owned)
        self.group.owners += Counter()  # drops what nobody has
        self._owned = owned

    def _request(self, epoch: int, says_all: bool) -> ConsumerGroupHeartbeatRequest:
        owned: dict[UUID, list[int]] = {}
        for topic_id, index in self._owned:
            owned.setdefault(topic_id, []).append(index)
        parts = ConsumerGroupHeartbeatRequestTopicPartitions
        return ConsumerGroupHeartbeatRequest(
            group_id=self.group.name,
            member_id=self.member_id,
            member_epoch=epoch,
            rebalance_timeout_ms=300_000 if epoch == 0 else -1,
            subscribed_topic_names=[self.group.topic] if epoch == 0 else None,
            topic_partitions=[parts(topic_id=one, partitions=its) for one, its in owned.items()] if says_all else None,
        )

    async def _ask(self, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
        self._writer.write(encode_request(request, VERSION, 1, self.member_id))
        (length,) = struct.unpack(">i", await self._reader.readexactly(4))
        frame = await self._reader.readexactly(length)
        answer = decode_response(api_of_request(request).key, VERSION, frame)[1]
        assert isinstance(answer, ConsumerGroupHeartbeatResponse)
        return answer


def life(
    address: str, pid: int, topic: str, group: str, members: int, partitions: int, still_s: float
) -> Sequence[float]:
    """Seconds from the first join until all is stable, when one more comes, and when it goes; then the percent of a
    processor that the broker uses for `still_s` of heartbeats at rest.
    """
    return asyncio.run(_life(address, pid, topic, group, members, partitions, still_s))


async def _life(
    address: str, pid: int, topic: str, name: str, members: int, partitions: int, still_s: float
) -> tuple[float, float, float, float]:
    group, begun, formed, more, less = await changes(address, topic, name, members, partitions)
    await asyncio.sleep(SETTLES_S)  # members come more often after an assignment
    before, rests_since = cpu_of(pid), time.perf_counter()
    await asyncio.sleep(still_s)
    used = (cpu_of(pid) - before).total / (time.perf_counter() - rests_since)
    group.close()
    return formed - begun, more, less, used * 100


async def changes(
    address: str, topic: str, name: str, members: int, partitions: int
) -> tuple[Group, float, float, float, float]:
    """The group; the moments (perf_counter) of its first join, and at which it is stable; the seconds until it is so
    again when one more comes, and when that one goes.
    """
    wait_until(lambda: _has_coordinator(address, name) or None, LIMIT_S, "a coordinator")
    group = Group(address, topic, name, partitions)

    async def timed(event: Callable[[], Awaitable[object]]) -> float:
        begun = time.perf_counter()
        await event()
        return await group.stable() - begun

    begun = time.perf_counter()
    await asyncio.gather(*(group.add() for _ in range(members)))
    return group, begun, await group.stable(), await timed(group.add), await timed(group.members[-1].leave)


def _has_coordinator(address: str, group: str) -> bool:
    """Asking for one has its topic made."""
    with Wire(address, LIMIT_S) as wire:
        (found,) = wire.ask(FindCoordinatorRequest(coordinator_keys=[group]), 4).coordinators
        return bool(found.error_code == ErrorCode.NONE)
