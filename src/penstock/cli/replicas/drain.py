"""`penstock cluster drain`: a broker gets no new replicas, all that it has move elsewhere, then it is forgotten.

What is to be done is read from the cluster at each look, so after an interruption the same command goes on.
Some moves are under way at a time; those which an interruption leaves come to their end by themselves. Storage groups
move as any partition does, and what is in them with them.
"""

import asyncio
import sys
from collections.abc import Mapping
from typing import Final

import click

from penstock.cli.replicas.drain_plan import Racks, replacements
from penstock.cli.replicas.move_targets import CORDONED, begin_moves, cordon, cordoned, uncordon
from penstock.cli.replicas.replication_throttles import (
    NO_LIMIT,
    check_limits,
    limit_until_moved,
    planned_moves,
    release_limits,
)
from penstock.cli.terminal.lines import say
from penstock.client.admin import Admin
from penstock.client.admin.partitions import Reassignment
from penstock.client.metadata import TopicMetadata
from penstock.client.values import TopicPartition
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.value import Value

AT_ONCE: Final = 50
"""Partitions on the move at a time."""
LOOK_S: Final = 0.5
STALE_LOOKS: Final = 20
"""A partition that is still where it was, so many looks after its move, was put back by another client."""

Replicas = dict[TopicPartition, list[int]]


class View(Value):
    """Brokers in service, where replicas are or will be, and what of that is under way."""

    racks: Racks
    replicas: Replicas
    moving: Mapping[TopicPartition, Reassignment]
    in_groups: Mapping[str, int]
    """Topics that follow a storage group, with its number."""


class Drain:
    """`throttle` limits the moves, in bytes a second, or is NO_LIMIT."""

    def __init__(self, admin: Admin, node_id: int, throttle: int) -> None:
        self._admin = admin
        self._node_id = node_id
        self._throttle = throttle
        self._closed: set[int] = set()
        self._begun: Replicas = {}
        self._stale_looks: dict[TopicPartition, int] = {}

    async def run(self) -> None:
        """Returns when the broker has no replica any more, and gets none. Raises click.ClickException."""
        view = await self._look()
        self._closed = await cordoned(self._admin, view.racks.keys())
        if self._throttle != NO_LIMIT and view.moving:
            await check_limits(self._admin, view.racks.keys(), self._throttle)
        self._to_begin(view, self._left(view))  # where there are too few others nothing begins, and all stays open
        await self._cordon()
        total = len(self._left(view))
        with click.progressbar(length=total, label=f"replicas of broker {self._node_id}", file=sys.stderr) as bar:
            try:
                while left := self._left(view):
                    await self._begin_some(view, left)
                    await asyncio.sleep(LOOK_S)
                    view = await self._look()
                    bar.update(max(total - len(self._left(view)) - bar.pos, 0))
            except asyncio.CancelledError:
                say("", "what is on the move goes on; the same command again does the rest", self.reopening, err=True)
                raise
        if self._throttle != NO_LIMIT and self._begun:
            await release_limits(self._admin, self._begun)
        say(f"Broker {self._node_id} has no replicas any more; {total} moved.")

    @property
    def reopening(self) -> str:
        way = f"`penstock configs --alter --broker {self._node_id} --delete-config {CORDONED}`"
        return f"Broker {self._node_id} gets no new replicas until {way}."

    async def _cordon(self) -> None:
        """New topics and other moves leave the broker alone (KIP-1066)."""
        try:
            await cordon(self._admin, self._node_id)
        except KafkaError as error:
            if error.code is not ErrorCode.INVALID_CONFIG:
                raise
            say(f"new topics may have replicas on broker {self._node_id}: {error.message}", err=True)

    async def forget(self) -> None:
        is_told = False
        while await self._is_in_service():
            if not is_told:
                say(f"Stop broker {self._node_id} now; when it is out of service it is unregistered.")
                is_told = True
            await asyncio.sleep(LOOK_S)
        if self._left(await self._look()):  # a topic was created meanwhile
            await self.run()
        await uncordon(self._admin, self._node_id)  # another broker may have this number one day
        await self._admin.unregister_broker(self._node_id)
        say(f"Broker {self._node_id} is no longer registered.")

    async def check(self) -> None:
        """Raises click.ClickException if the broker is not known."""
        known = await self._admin.describe_cluster(include_fenced=True)
        if self._node_id not in (broker.node_id for broker in known.brokers):
            raise click.ClickException(f"there is no broker {self._node_id}")

    async def _is_in_service(self) -> bool:
        known = await self._admin.describe_cluster()
        return self._node_id in (broker.node_id for broker in known.brokers)

    # -- what there is to do ------------------------------------------------------------------------------------------

    async def _look(self) -> View:
        moving = await self._admin.partitions.reassignments()  # first: what ends until the next line is seen there
        topics = await self._admin.topics.describe()
        brokers = (await self._admin.describe_cluster()).brokers
        racks = {broker.node_id: broker.rack for broker in brokers if not broker.is_fenced}
        in_groups = await self._admin.storage_groups.members(one.name for one in topics if not one.is_internal)
        view = View(racks, _replicas(topics, moving), moving, in_groups)
        for partition in self._begun:
            if partition not in moving and self._node_id in view.replicas.get(partition, ()):
                self._stale_looks[partition] = self._stale_looks.get(partition, 0) + 1
        return view

    def _left(self, view: View) -> list[TopicPartition]:
        """The partitions that have, or are still about to lose, a replica on the broker."""
        left = []
        for partition, nodes in view.replicas.items():
            move = view.moving.get(partition)
            if move is not None:
                has = self._node_id in move.replicas
            else:
                # One that has just come to its end may not be known to the broker that was asked.
                has_ended = 0 < self._stale_looks.get(partition, 0) <= STALE_LOOKS
                has = self._node_id in nodes and not has_ended
            if has:
                left.append(partition)
        return left

    def _to_begin(self, view: View, left: list[TopicPartition]) -> Replicas:
        """Partitions that are not on their way yet, or on their way to a broker that is out of service."""
        leaving = [self._node_id]
        away = {node for move in view.moving.values() for node in move.adding if node not in view.racks}
        left = [partition for partition in left if partition.topic not in view.in_groups]
        stuck = [partition for partition in left if not away.isdisjoint(view.replicas[partition])]
        movable = {row: nodes for row, nodes in view.replicas.items() if row.topic not in view.in_groups}
        plan = replacements(movable, leaving, view.racks, self._closed)
        if stuck:
            again = {row: view.replicas[row] for row in stuck}
            plan |= replacements(again, [*leaving, *sorted(away)], view.racks, self._closed)
        return {partition: plan[partition] for partition in left if partition in plan}

    async def _begin_some(self, view: View, left: list[TopicPartition]) -> None:
        wanted = self._to_begin(view, left)
        under_way = sum(partition in view.moving for partition in left if partition not in wanted)
        some = dict(list(wanted.items())[: max(AT_ONCE - under_way, 0)])
        if not some:
            return
        if self._throttle != NO_LIMIT:
            await limit_until_moved(self._admin, planned_moves(view.moving, some, view.replicas), self._throttle)
        await begin_moves(self._admin, some)
        self._begun |= some
        for partition in some:
            self._stale_looks.pop(partition, None)


def _replicas(topics: list[TopicMetadata], moving: Mapping[TopicPartition, Reassignment]) -> Replicas:
    """Where all replicas are, or will be when the moves that are under way have ended."""
    return {
        row.topic_partition: list(moving[row.topic_partition].target if row.topic_partition in moving else row.replicas)
        for topic in topics
        for row in topic.partitions.values()
    }
