"""Moves of replicas for `penstock balance execute`: one batch at a time, with a limit, to be stopped at any moment."""

import asyncio
import sys
from collections.abc import Mapping, Sequence
from typing import Final

import click

from penstock.cli.replicas.move_targets import begin_moves, check_brokers, replicas_now
from penstock.cli.replicas.replication_throttles import NO_LIMIT, limit_until_moved, planned_moves, release_limits
from penstock.cli.terminal.lines import say
from penstock.client.admin import Admin
from penstock.client.values import TopicPartition

LOOK_S: Final = 0.5

Targets = Mapping[TopicPartition, Sequence[int]]


class BalanceMoves:
    """`throttle` is in bytes a second, or NO_LIMIT."""

    def __init__(self, admin: Admin, throttle: int, at_once: int) -> None:
        self._admin = admin
        self._throttle = throttle
        self._at_once = at_once
        self._under_way: list[TopicPartition] = []

    async def run(self, targets: Targets) -> None:
        """Returns when all have moved. Raises click.ClickException; then, and when it is stopped, nothing moves on."""
        check_brokers(self._admin, targets)
        current = await replicas_now(self._admin, targets)
        if await self._admin.partitions.reassignments():
            raise click.ClickException(
                "partitions are on their way to other brokers already: wait until they are there"
            )
        rows = list(targets.items())
        try:
            with click.progressbar(length=len(rows), label="partitions", file=sys.stderr) as bar:
                for start in range(0, len(rows), self._at_once):
                    batch = dict(rows[start : start + self._at_once])
                    await self._move(batch, current)
                    bar.update(len(batch))
        except BaseException:
            await asyncio.shield(self._take_back(targets))
            raise
        await self._clear(targets)
        say(f"{len(rows)} partitions have moved" if len(rows) > 1 else "1 partition has moved")

    async def _move(self, batch: Targets, current: Targets) -> None:
        if self._throttle != NO_LIMIT:
            await limit_until_moved(self._admin, planned_moves({}, batch, current), self._throttle)
        self._under_way = list(batch)
        await begin_moves(self._admin, batch)
        while not self._is_done(await self._admin.partitions.reassignments()):
            await asyncio.sleep(LOOK_S)

    def _is_done(self, moving: Mapping[TopicPartition, object]) -> bool:
        self._under_way = [partition for partition in self._under_way if partition in moving]
        return not self._under_way

    async def _take_back(self, targets: Targets) -> None:
        """Cancels moves that are under way."""
        moving = await self._admin.partitions.reassignments()
        back = [partition for partition in self._under_way if partition in moving]
        if back:
            await self._admin.partitions.reassign(dict.fromkeys(back))
            say("", f"{len(back)} partitions stay where they were", err=True)
        await self._clear(targets)

    async def _clear(self, targets: Targets) -> None:
        if self._throttle != NO_LIMIT:
            await release_limits(self._admin, targets)
