"""Read what `penstock metadata-shell` shows of a running cluster: the newest snapshot and the committed log behind it.

The active controller is asked as its replicas ask it, with Fetch and FetchSnapshot, but without a replica's id.
Kafka's controllers answer as ours do.
"""

from typing import Final

import click

from penstock.cli.cluster.controller import check_successor, hand_over
from penstock.cli.metadata_shell.source import MetadataView, read_batch
from penstock.cli.terminal.session import QUORUM_PATIENCE_MS, NodeSession
from penstock.client.admin import Admin
from penstock.client.admin.quorum import QuorumInfo
from penstock.client.connection import Connection, connect
from penstock.protocol.address import Address
from penstock.protocol.errors import DecodeError, ErrorCode, KafkaError
from penstock.protocol.messages.fetch import FetchResponse
from penstock.protocol.messages.fetch_snapshot import FetchSnapshotResponse
from penstock.protocol.records import decode_batch, iterate_batches
from penstock.raft.kafka_answers import read_fetch_answer, read_fetch_snapshot_answer
from penstock.raft.kafka_requests import write_fetch, write_fetch_snapshot
from penstock.raft.ports import SnapshotId
from penstock.raft.requests import Fetch, FetchSnapshot
from penstock.raft.voters import ReplicaKey

READER: Final = ReplicaKey(-1)
MAX_BYTES: Final = 8 << 20
LOOK_AGAIN: Final = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.SNAPSHOT_NOT_FOUND,
)
"""The answers when there is another leader, or a newer snapshot, than a moment ago."""


class ClusterSource:
    """`view` grows with what `has_news` finds."""

    def __init__(self, session: NodeSession) -> None:
        self.view = MetadataView()
        self._session = session
        self._offset = 0
        self._last_epoch = 0
        self._leader = (-1, -1)

    def has_news(self) -> bool:
        """Whether anything has changed. Raises click.ClickException if the cluster cannot be asked."""
        before = self._leader, self._offset
        self._session.run(self._read_on, patience_ms=QUORUM_PATIENCE_MS)
        return before != (self._leader, self._offset)

    def hand_over(self, successor_id: int | None) -> None:
        """Waits for the next controller, the successor if it can be elected. Raises click.ClickException."""

        async def work(admin: Admin) -> None:
            _, after = await hand_over(admin, successor_id)
            check_successor(after, successor_id)

        self._session.run(work, patience_ms=QUORUM_PATIENCE_MS)

    async def _read_on(self, admin: Admin) -> None:
        async def attempt() -> None:
            info = await admin.quorum.describe()
            if info.high_watermark < 0:  # the record that tells of its election is not committed
                raise KafkaError(ErrorCode.NOT_CONTROLLER, "the active controller has just been elected")
            connection = await connect(_controller_address(info), admin.cluster.settings)
            try:
                await self._read_from(connection, info, admin.cluster.metadata.cluster_id or "")
            finally:
                await connection.close()

        await admin.cluster.retrying(attempt)

    async def _read_from(self, connection: Connection, info: QuorumInfo, cluster_id: str) -> None:
        """Reads all that was committed when this began."""
        target = None
        while target is None or self._offset < target:
            request = Fetch(info.leader_epoch, READER, self._offset, self._last_epoch, -1, 0, MAX_BYTES)
            answer = read_fetch_answer(await connection.request(write_fetch(request, cluster_id), FetchResponse))
            _check(answer.error)
            target = answer.high_watermark if target is None else target
            if answer.snapshot is not None:
                await self._take_snapshot(connection, info, answer.snapshot, cluster_id)
            elif answer.diverging is not None:
                if not self._offset:
                    raise DecodeError("the active controller does not know where its own log begins")
                self._forget()
            elif not answer.records:
                break
            else:
                self._take_log(answer.records, target)
        self.view.image.cluster_id = cluster_id
        if self.view.image.controller_epoch != info.leader_epoch:
            self.view.elected_ms = -1
        self.view.image.elected(info.leader_id, info.leader_epoch)
        self._leader = info.leader_id, info.leader_epoch

    async def _take_snapshot(
        self, connection: Connection, info: QuorumInfo, snapshot: SnapshotId, cluster_id: str
    ) -> None:
        content, size = bytearray(), 1
        while len(content) < size:
            request = FetchSnapshot(info.leader_epoch, READER, snapshot, len(content), MAX_BYTES)
            message = write_fetch_snapshot(request, cluster_id)
            answer = read_fetch_snapshot_answer(await connection.request(message, FetchSnapshotResponse))
            _check(answer.error)
            if not answer.piece:
                raise DecodeError(f"snapshot {snapshot} ends after {len(content)} of {answer.size} bytes")
            content += answer.piece
            size = answer.size
        self._forget()
        for position, header in iterate_batches(content):
            read_batch(self.view, header, decode_batch(content, position), is_snapshot=True)
        self.view.image.applied_to(snapshot.end_offset - 1)
        self._offset, self._last_epoch = snapshot.end_offset, snapshot.epoch

    def _take_log(self, records: bytes, high_watermark: int) -> None:
        """Takes only committed batches; the next fetch begins behind them."""
        for position, header in iterate_batches(records):
            if header.last_offset >= high_watermark:
                break
            if header.last_offset >= self._offset:
                read_batch(self.view, header, decode_batch(records, position), is_snapshot=False)
                self._offset, self._last_epoch = header.last_offset + 1, header.partition_leader_epoch

    def _forget(self) -> None:
        self.view = MetadataView()
        self._offset, self._last_epoch = 0, 0


def _controller_address(info: QuorumInfo) -> Address:
    for endpoint in info.endpoints.get(info.leader_id, ()):
        return Address(endpoint.host, endpoint.port)
    raise click.ClickException(
        f"node {info.leader_id} has no listener for controllers (it is alone): look into its files with --directory"
    )


def _check(error: ErrorCode) -> None:
    if error in LOOK_AGAIN:
        raise KafkaError(ErrorCode.NOT_CONTROLLER, "another controller is active now")
    if error:
        raise KafkaError(error, "the active controller refuses to tell")
