"""A broker tells the controller in which directory a replica lies, where the metadata says another one (KIP-858).

So it is after a disk was replaced or emptied: the replica was made anew, in a directory with a new id, and leads
nothing until the controller knows. It is also so where a node has several directories and the metadata leaves open
which one: the controller has to know what it costs when one of them fails.
"""

import asyncio
import logging
from collections.abc import Mapping, MutableMapping
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
    """`misplaced` is what to tell: a replica leaves it when the controller has taken that, or the metadata says where
    it lies.
    """

    def __init__(self, context: BrokerContext, misplaced: MutableMapping[Replica, UUID]) -> None:
        self._context = context
        self._misplaced = misplaced
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
            while untold := dict(islice(self._misplaced.items(), MOST_AT_ONCE)):
                refused = await self._ask(untold)
                for replica, directory in untold.items():
                    if self._misplaced.get(replica) == directory:
                        del self._misplaced[replica]
                        if replica in refused:  # after those of which the controller has not heard
                            self._misplaced[replica] = directory
                if refused:
                    codes = ", ".join(sorted({code.name for code in refused.values()}))
                    logger.info("the controller could not be told where %d replicas lie: %s", len(refused), codes)
                    await asyncio.sleep(RETRY_S)
            await self._changed.wait()

    async def _ask(self, untold: Mapping[Replica, UUID]) -> dict[Replica, ErrorCode]:
        """Those of which the controller has taken nothing, and why."""
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
            code = ErrorCode(reply.error_code)
        except KafkaError as error:
            code = error.code
        if code != ErrorCode.NONE:
            return dict.fromkeys(untold, code)
        return {
            (topic.topic_id, partition.partition_index): ErrorCode(partition.error_code)
            for of_directory in reply.directories
            for topic in of_directory.topics
            for partition in topic.partitions
            if partition.error_code != ErrorCode.NONE
        }


def _topic(topic_id: UUID, indexes: list[int]) -> AssignReplicasToDirsRequestTopicData:
    partitions = [AssignReplicasToDirsRequestPartitionData(partition_index=index) for index in indexes]
    return AssignReplicasToDirsRequestTopicData(topic_id=topic_id, partitions=partitions)
