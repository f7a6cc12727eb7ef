"""A member of a share group, as the leader of a partition hears it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from tests.unit.node.on_disk import TOPIC_ID, Node

from penstock.metadata.records import ConfigRecord, PartitionChangeRecord
from penstock.metadata.resources import ResourceType
from penstock.node.serving.dispatch import Waiting
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import share_acknowledge, share_fetch
from penstock.protocol.records import iterate_batches, iterate_records
from penstock.sharing.values import Status

EARLIEST = ConfigRecord(
    resource_type=ResourceType.GROUP, resource_name="g", name="share.auto.offset.reset", value="earliest"
)
PEER_TOPIC = UUID(int=55)
"""Of no topic here."""
GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)


def change(*, leader: int, epoch: int) -> PartitionChangeRecord:
    return PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, leader=leader)


def waits(node: Node) -> bool:
    """Whether a request waits for news of a share partition that is loaded."""
    return any(it._waiting and it.machine.status is Status.ACTIVE for it in node.broker.sharing._led.values())


class Member:
    """Asks one thing after the other in its session."""

    def __init__(self, node: Node, member_id: str = "ann") -> None:
        self.node = node
        self.member_id = member_id
        self.epoch = 0

    def fetch_request(
        self, *said: tuple[int, int, list[int]], delays_ms: Sequence[int] = (), **named: Any
    ) -> share_fetch.ShareFetchRequest:
        batches = [
            share_fetch.AcknowledgementBatch(
                first_offset=f, last_offset=t, acknowledge_types=k, release_delays_ms=list(delays_ms)
            )
            for f, t, k in said
        ]
        partition = share_fetch.FetchPartition(partition_index=0, acknowledgement_batches=batches)
        request = share_fetch.ShareFetchRequest(
            group_id="g",
            member_id=self.member_id,
            share_session_epoch=self.epoch,
            max_wait_ms=20_000,
            min_bytes=1,
            max_bytes=1 << 20,
            max_records=500,
            batch_size=500,
            topics=[share_fetch.FetchTopic(topic_id=TOPIC_ID, partitions=[partition])],
        )
        return request.replace(**named)

    async def ask(self, request: Any, version: int = 2) -> Any:
        parts = self.node.dispatch(request, version)
        if isinstance(parts, Waiting):
            answer: Any = await self.node.wait(request, version, parts)
        else:
            answer = self.node.decode(request, version, parts)
        if answer.error_code == ErrorCode.NONE:
            self.epoch = request.share_session_epoch + 1
        return answer

    async def fetch(self, *said: tuple[int, int, list[int]], **named: Any) -> share_fetch.PartitionData | None:
        """What partition 0 brings; None if the answer does not name it."""
        answer = await self.ask(self.fetch_request(*said, **named))
        assert answer.error_code == ErrorCode.NONE, ErrorCode(answer.error_code)
        return answer.responses[0].partitions[0] if answer.responses else None

    async def acquire(self, **named: Any) -> list[tuple[int, int, int]]:
        return acquired(await self.fetch(**named))

    async def acknowledge(
        self, *said: tuple[int, int, list[int]], delays_ms: Sequence[int] = (), **named: Any
    ) -> ErrorCode:
        layout = share_acknowledge
        batches = [
            layout.AcknowledgementBatch(
                first_offset=f, last_offset=t, acknowledge_types=k, release_delays_ms=list(delays_ms)
            )
            for f, t, k in said
        ]
        partition = layout.AcknowledgePartition(partition_index=0, acknowledgement_batches=batches)
        topics = [layout.AcknowledgeTopic(topic_id=TOPIC_ID, partitions=[partition])]
        request = layout.ShareAcknowledgeRequest(
            group_id="g", member_id=self.member_id, share_session_epoch=self.epoch, topics=topics
        ).replace(**named)
        answer = await self.ask(request)
        if answer.error_code:
            return ErrorCode(answer.error_code)
        return ErrorCode(answer.responses[0].partitions[0].error_code) if answer.responses else ErrorCode.NONE


def acquired(data: share_fetch.PartitionData | None) -> list[tuple[int, int, int]]:
    return (
        [] if data is None else [(it.first_offset, it.last_offset, it.delivery_count) for it in data.acquired_records]
    )


def values(data: share_fetch.PartitionData | None) -> list[bytes | None]:
    assert data is not None
    records = data.records or b""
    return [it.value for at, header in iterate_batches(records) for it in iterate_records(records, at, header)]
