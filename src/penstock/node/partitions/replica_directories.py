"""A broker tells the controller in which directory a replica lies, where the metadata says another one (KIP-858).

So it is after a disk was replaced or emptied: the replica was made anew, in a directory with a new id, and leads
nothing until the controller knows. It is also so where a node has several directories and the metadata leaves open
which one: the controller has to know what it costs when one of them fails.
"""

import asyncio
import logging
from collections.abc import Mapping
from itertools import islice
from typing import Final
from uuid import UUID

from penstock.node.controlling.broker_context import BrokerContext
from penstock.node.environment.tasks import Tasks
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsRequestDirectoryData,
    AssignReplicasToDirsRequestPartitionData,
    AssignReplicasToDirsRequestTopicData,
    AssignReplicasToDirsResponse,
)

RETRY_S: Final = 1.0
MOST_AT_ONCE: Final = 2_000
"""Replicas in one request, as for Kafka's brokers."""

logger = logging.getLogger(__name__)

Replica = tuple[UUID, int]


class ReplicaDirectories:
    """`misplaced` is what to tell: a replica leaves it when the metadata says where it lies."""

    def __init__(self, context: BrokerContext, misplaced: Mapping[Replica, UUID]) -> None:
        self._context = context
        self._misplaced = misplaced
        self._told: dict[Replica, UUID] = {}
        self._changed = asyncio.Event()
        self._tasks = Tasks()

    def start(self) -> None:
        self._tasks.keep(self._tell, "directories of replicas")

    def wake(self) -> None:
        self._changed.set()

    async def stop(self) -> None:
        await self._tasks.stop()

    async def _tell(self) -> None:
        while True:
            self._changed.clear()
            self._told = {replica: told for replica, told in self._told.items() if replica in self._misplaced}
            while untold := self._untold():
                code = await self._ask(untold)
                if code == ErrorCode.NONE:
                    self._told |= untold
                else:
                    logger.info("the controller could not be told where %d replicas lie: %s", len(untold), code.name)
                    await asyncio.sleep(RETRY_S)
            await self._changed.wait()

    def _untold(self) -> dict[Replica, UUID]:
        untold = (item for item in self._misplaced.items() if self._told.get(item[0]) != item[1])
        return dict(islice(untold, MOST_AT_ONCE))

    async def _ask(self, untold: Mapping[Replica, UUID]) -> ErrorCode:
        directories: dict[UUID, dict[UUID, list[int]]] = {}
        for (topic_id, index), directory in untold.items():
            directories.setdefault(directory, {}).setdefault(topic_id, []).append(index)
        command = AssignReplicasToDirsRequest(
            broker_id=self._context.node_id,
            broker_epoch=self._context.broker_epoch,
            directories=[
                AssignReplicasToDirsRequestDirectoryData(
                    id=directory, topics=[_topic(topic_id, indexes) for topic_id, indexes in topics.items()]
                )
                for directory, topics in directories.items()
            ],
        )
        try:
            reply = await self._context.controller.submit(command, AssignReplicasToDirsResponse)
        except KafkaError as error:
            return error.code
        return ErrorCode(reply.error_code)


def _topic(topic_id: UUID, indexes: list[int]) -> AssignReplicasToDirsRequestTopicData:
    partitions = [AssignReplicasToDirsRequestPartitionData(partition_index=index) for index in indexes]
    return AssignReplicasToDirsRequestTopicData(topic_id=topic_id, partitions=partitions)
