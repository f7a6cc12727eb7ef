"""A node that keeps storage groups, and a controller that notes what it is told."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

from tests.unit.node.contexts import broker_context, node_context
from tests.unit.node.lone_group import CONFIG
from tests.unit.node.turns import until

from penstock.log.directories.directory import LogDirectories
from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.metadata.image import ClusterImage
from penstock.metadata.records import (
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
)
from penstock.node.quorum.no_peers import NoPeers
from penstock.node.storage_groups.keeper import GroupKeeper
from penstock.node.storage_groups.links import GroupLinks
from penstock.node.storage_groups.replica import GroupReplica
from penstock.node.storage_groups.storage_groups import StorageGroups
from penstock.protocol.errors import ErrorCode
from penstock.protocol.internal_topics import STORAGE_GROUPS
from penstock.protocol.requests.own_apis import ClaimStorageGroupRequest, ClaimStorageGroupResponse

ME, OTHER = 1, 2


GROUPS_ID, ORDERS_ID = UUID(int=1), UUID(int=2)


GROUP = 0


SOON = {f"controller.quorum.{name}.timeout.ms": "10" for name in ("election", "fetch")}
"""So long a group waits for another leader."""


class NoOthers(GroupLinks):
    """This node is the only one that can be reached."""

    def __init__(self) -> None:
        pass

    def peers(self, *_: object) -> Any:
        return NoPeers()

    async def close(self) -> None:
        pass


class Controller:
    """Notes which claims it is asked for; a test answers them."""

    def __init__(self) -> None:
        self.claims: asyncio.Queue[tuple[ClaimStorageGroupRequest, asyncio.Future[Any]]] = asyncio.Queue()

    def submit(self, request: ClaimStorageGroupRequest, _: object) -> asyncio.Future[Any]:
        done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.claims.put_nowait((request, done))
        return done


class KeepingNode:
    """Node 1 of two, on real files, with the metadata that a test says. `path` is its first log directory."""

    def __init__(self, path: Path, *more: Path) -> None:
        paths = [str(one) for one in (path, *more)]
        config = BrokerConfig.embedded({"node.id": str(ME), "log.dirs": ",".join(paths), **SOON})
        self.directories = LogDirectories(paths, node_id=ME, random=Random(1), cluster_id="test")
        self.directories.open_all(lambda _: CONFIG)
        self.directories.begin()
        self.image = ClusterImage("test")
        node = node_context(config, self.image, self.directories)
        self.controller = Controller()
        self.context = broker_context(node, self.controller)
        self.groups = StorageGroups()
        self.on_groups: list[tuple[UUID, int]] = []
        self.keeper = GroupKeeper(self.context, self.groups, self)

    # `GroupHost`.

    def config_of(self, topic: str) -> Any:
        return CONFIG

    def links(self) -> GroupLinks:
        return NoOthers()

    async def hand_over_group(self, group: object, successor: int) -> bool:
        raise AssertionError("nobody can take it")

    def on_group(self, topic_id: UUID, index: int) -> None:
        self.on_groups.append((topic_id, index))

    # What a test does.

    @property
    def directory_id(self) -> UUID:
        """Of the first that is online."""
        return next(iter(self.directories.roots.online_ids))

    def begin(self) -> list[MetadataRecord]:
        """Two brokers, and a group that this one replicates alone."""
        return [
            RegisterBrokerRecord(broker_id=ME, broker_epoch=5, fenced=False, log_dirs=[self.directory_id]),
            RegisterBrokerRecord(broker_id=OTHER, broker_epoch=6, fenced=False),
            TopicRecord(name=STORAGE_GROUPS, topic_id=GROUPS_ID),
            PartitionRecord(
                partition_id=GROUP, topic_id=GROUPS_ID, replicas=[ME], isr=[ME], leader=-1, leader_epoch=0,
                partition_epoch=3, directories=[self.directory_id],
            ),
        ]  # fmt: skip

    def commit(self, *records: MetadataRecord) -> None:
        for record in records:
            self.image.apply(record)
        self.keeper.on_metadata(records)

    def change(self, **fields: Any) -> PartitionChangeRecord:
        return PartitionChangeRecord(partition_id=GROUP, topic_id=GROUPS_ID, **fields)

    async def replica(self) -> GroupReplica:
        """The group's replica, when it leads."""
        await until(lambda: (found := self.groups.by_number.get(GROUP)) is not None and found.leads)
        return self.groups.by_number[GROUP]

    async def claim(self, code: ErrorCode = ErrorCode.NONE) -> ClaimStorageGroupRequest:
        """The next claim, which is answered."""
        done: asyncio.Future[Any] | None = None
        while done is None or done.cancelled():  # it was about another lead
            await until(lambda: not self.controller.claims.empty())
            request, done = self.controller.claims.get_nowait()
        done.set_result(ClaimStorageGroupResponse(error_code=code))
        return request


@asynccontextmanager
async def keeping(
    path: Path, *more: MetadataRecord, is_heard: bool = True, others: Iterable[Path] = ()
) -> AsyncIterator[KeepingNode]:
    """`more` is committed before it starts. `others` are further log directories."""
    node = KeepingNode(path, *others)
    for record in (*node.begin(), *more):
        node.image.apply(record)
    if is_heard:
        node.context.lease.is_renewed(0.0)
    await node.keeper.start()
    try:
        yield node
    finally:
        await node.keeper.stop()
        node.directories.close()
