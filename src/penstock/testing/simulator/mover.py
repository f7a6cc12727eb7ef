"""Moves things in a simulation: replicas to other brokers and log directories, leaders to where they belong."""

from collections.abc import Mapping, Sequence
from random import Random

from penstock.client.admin import Admin
from penstock.client.admin.configs import ConfigChange, ConfigOperation, ResourceType
from penstock.client.admin.partitions import ElectionType, Outcome
from penstock.client.values import TopicPartition
from penstock.metadata.topics import TopicImage
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.internal_topics import STORAGE_GROUPS
from penstock.testing.simulator.admin_client import AdminClient
from penstock.testing.simulator.clients import World
from penstock.testing.simulator.plan import Plan

MEAN_PAUSE_S = 1.5
MOST_REPLICAS = 3
LEADERS = "leader.replication.throttled.replicas"
FOLLOWERS = "follower.replication.throttled.replicas"
RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
BYTES_PER_S = (200, 5_000)
"""Limits for moves, low enough to hold them back."""
UNLIMITED = 0.5
"""The share of moves that leave limits as they are."""
CLEARED = 0.2
GROUPS = 0.4
"""The share of moves of storage groups, where there are any."""
CANCELLED = 0.25
SMALLER = 0.1
"""The share of moves that take all limits away."""


class MovingClient(AdminClient):
    """Moves until all is healed; then a move under way ends by itself, or never."""

    def __init__(self, world: World, name: str, random: Random, plan: Plan) -> None:
        super().__init__(world, name, random, MEAN_PAUSE_S)
        self._brokers = [node.node_id for node in plan.nodes if node.is_broker]
        self._directories = plan.settings.get("log.dirs", "/data").split(",")
        self._may_reassign = plan.replicas > 1
        self._has_limited = self._has_ended = False

    @property
    def _is_done(self) -> bool:
        return self._has_ended

    @property
    def _has_enough(self) -> bool:
        return self._world.is_over

    def _failed(self, error: Exception) -> None:
        super()._failed(error)
        if isinstance(error, KafkaError):
            self._check(error.code, repr(error))

    async def _act(self, admin: Admin) -> None:
        image = self._world.ledger.agreement.newest
        if image is None or not image.topics:
            return
        groups = image.topics.get(STORAGE_GROUPS)
        if groups is not None and self._random.random() < GROUPS:
            await self._move_group(admin, groups)
            return
        topic = image.topics[self._random.choice(list(image.topics))]
        where = TopicPartition(topic.name, self._random.choice(list(topic.partitions)))
        lot = self._random.random()
        if lot < 0.3 and len(self._directories) > 1:
            node = self._random.choice(topic.partitions[where.partition].replicas)
            path = self._random.choice(self._directories)
            self._note(f"{where} of node {node} shall move to {path}")
            found = await admin.move_replicas({(where, node): path})
            for code in found.values():
                self._check(code, f"a move of {where} to {path}")
        elif lot < 0.5:
            self._note("preferred leaders shall lead")
            self._look_at(await admin.partitions.elect_leaders(ElectionType.PREFERRED, None))
        elif lot < 0.6 and self._may_reassign:
            self._note(f"{where} shall stay")
            self._look_at(await admin.partitions.reassign({where: None}))
        elif self._may_reassign:
            count = self._random.randrange(1, min(MOST_REPLICAS, len(self._brokers)) + 1)
            targets = self._random.sample(self._brokers, count)
            await self._limit(admin, where, topic.partitions[where.partition].replicas, targets)
            self._note(f"{where} shall have replicas {targets}")
            self._look_at(await admin.partitions.reassign({where: targets}))

    async def _move_group(self, admin: Admin, groups: TopicImage) -> None:
        """A storage group gets other voters, one or all of them; or its move is cancelled."""
        where = TopicPartition(groups.name, self._random.choice(list(groups.partitions)))
        if self._random.random() < CANCELLED:
            self._note(f"{where} shall stay")
            self._look_at(await admin.partitions.reassign({where: None}))
            return
        targets = self._random.sample(self._brokers, min(MOST_REPLICAS, len(self._brokers)))
        if self._random.random() < SMALLER:
            targets = targets[:-1]
        self._note(f"{where} shall have replicas {targets}")
        self._look_at(await admin.partitions.reassign({where: targets}))

    async def _limit(self, admin: Admin, where: TopicPartition, now: Sequence[int], then: Sequence[int]) -> None:
        """Perhaps limits the bandwidth of this move, or of none any more (KIP-73)."""
        lot = self._random.random()
        if lot < UNLIMITED:
            return
        rate = None if lot < UNLIMITED + CLEARED else self._random.randrange(*BYTES_PER_S)
        self._note(f"moves are limited to {rate or 'nothing'}")
        new = [node for node in then if node not in now]
        throttled = {LEADERS: now, FOLLOWERS: new} if rate else {}
        await self._alter(
            admin,
            ResourceType.TOPIC,
            where.topic,
            {
                key: ",".join(f"{where.partition}:{node}" for node in throttled.get(key, ())) or None
                for key in (LEADERS, FOLLOWERS)
            },
        )
        self._has_limited |= rate is not None
        await self._alter_brokers(admin, None if rate is None else str(rate))

    async def _end(self, admin: Admin) -> None:
        """Lifts limits, as an administrator does when the moves are over."""
        if self._has_limited:
            await self._alter_brokers(admin, None)
        self._has_ended = True

    async def _alter_brokers(self, admin: Admin, rate: str | None) -> None:
        for node in self._brokers:
            await self._alter(admin, ResourceType.BROKER, str(node), dict.fromkeys(RATES, rate))

    async def _alter(self, admin: Admin, kind: ResourceType, name: str, values: Mapping[str, str | None]) -> None:
        changes = [
            ConfigChange(key, ConfigOperation.DELETE)
            if value is None
            else ConfigChange(key, ConfigOperation.SET, value)
            for key, value in values.items()
        ]
        await admin.configs.alter(kind, name, changes)

    def _look_at(self, outcomes: Mapping[TopicPartition, Outcome]) -> None:
        for where, outcome in outcomes.items():
            self._check(outcome.error, f"{where}: {outcome.message}")

    def _check(self, code: ErrorCode, what: str) -> None:
        if code == ErrorCode.UNKNOWN_SERVER_ERROR:
            self._world.ledger.violated(f"{self.name}: {what}")
