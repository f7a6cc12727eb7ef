"""Groups that lie here in a partition of an earlier version's choice, while another node leads the one they belong to.

Their offsets are committed at their coordinator as any client would do it, where it has none of its own, and only then
taken away here. That goes on beside all else, and again at the next start if this node is stopped before.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable

from penstock.client.cluster import ClusterClient
from penstock.client.committed_offsets import commit, fetch_committed
from penstock.client.errors import ClientError
from penstock.client.values import OffsetAndMetadata, TopicPartition
from penstock.coordinator.group.shard import GroupShard
from penstock.metadata.image import ClusterImage
from penstock.node.coordinators.hosted import Hosted
from penstock.protocol.errors import ErrorCode, KafkaError

logger = logging.getLogger(__name__)

RETRY_S = 1.0
"""How long a coordinator that does not answer is left alone."""


async def send_groups(
    source: Hosted[GroupShard], group_ids: Iterable[str], connect: Callable[[], ClusterClient], image: ClusterImage
) -> None:
    """Hand groups over to their coordinators, one after the other, until none is left or `source` is over.

    `connect` makes a client of this node's cluster.
    """
    waiting = deque(group_ids)
    while waiting and not source.is_over:
        try:
            async with connect() as client:
                while waiting and not source.is_over:
                    await _send(waiting[0], source, client, image)
                    waiting.popleft()
        except (ClientError, KafkaError, OSError) as error:
            logger.info("group %s cannot be handed over yet: %s", waiting[0], error)
            waiting.rotate(-1)
            await asyncio.sleep(RETRY_S)


async def _send(group_id: str, source: Hosted[GroupShard], client: ClusterClient, image: ClusterImage) -> None:
    known = await fetch_committed(client, group_id)
    missing = {
        TopicPartition(topic, index): OffsetAndMetadata(committed.offset, committed.metadata, committed.leader_epoch)
        for topic, partitions in source.machine.offsets(group_id).items()
        for index, committed in partitions.items()
        if topic in image.topics
        and index in image.topics[topic].partitions
        and TopicPartition(topic, index) not in known
    }
    if missing:
        try:
            await commit(client, group_id, missing)
        except KafkaError as error:
            if error.code is not ErrorCode.UNKNOWN_MEMBER_ID:
                raise
            logger.warning("group %s has begun anew elsewhere; its former offsets stay in %s", group_id, source)
            return
    if not source.is_over and group_id in source.machine.group_ids():
        answer = source.ask(source.machine.remove_group, group_id)
        error_code = answer if isinstance(answer, ErrorCode) else await answer
        if error_code is not ErrorCode.NONE:
            raise KafkaError(error_code)
    logger.warning("group %s moved from %s to its coordinator on another node", group_id, source)
