"""A broker as far as one partition goes: the machines of its role, what it knows of the metadata, and its log.

It glues them together as the node does, in `node/partitions`: what is more than glue there is used here as well.
"""

from collections.abc import Callable, Coroutine
from typing import Any
from uuid import UUID

from tests.simulation.replication_log import MemoryLog
from tests.unit.node.contexts import broker_context, embedded, node_context

from penstock.metadata.image import ClusterImage
from penstock.metadata.records import MetadataRecord
from penstock.node.api.fetching import _divergence
from penstock.node.partitions.in_sync_replicas import InSyncReplicas
from penstock.node.partitions.isr_partition import IsrPartition
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from penstock.protocol.messages.broker_registration import BrokerRegistrationRequest, Feature, Listener
from penstock.protocol.schema import Message
from penstock.protocol.value import Value
from penstock.replication.truncation import truncation_offset

UNKNOWN = -1
TOPIC = "t"
MAX_LAG_MS = 600


class Fetch(Value):
    """What a follower asks its leader for; the answer has the same number."""

    number: int
    replica: int
    broker_epoch: int
    leader_epoch: int
    offset: int
    last_epoch: int


class Fetched(Value):
    """What it is answered."""

    number: int
    error: ErrorCode = ErrorCode.NONE
    records: bytes = b""
    high_watermark: int = -1
    diverging: tuple[int, int] | None = None


class Asking:
    """The way to the controller: what is asked waits until somebody sends the answer into the coroutine."""

    def submit(self, request: Message, answer: object) -> "Asking":
        self.request = request
        return self

    def __await__(self) -> Any:
        return (yield self.request)


class Host:
    """The log outlives its processes, which `lives` counts."""

    def __init__(self, broker_id: int, now_ms: Callable[[], int], min_in_sync: int) -> None:
        self.id = broker_id
        self.log = MemoryLog()
        self.flush: Callable[[IsrPartition], None] | None = None
        """Where `flush.messages` wants its log flushed."""
        self.kept_high_watermark = 0
        self.lives = 0
        self.is_up = False
        self._now_ms = now_ms
        self._min_in_sync = min_in_sync

    def boot(self, incarnation: UUID) -> None:
        self.lives += 1
        self.is_up = True
        self.incarnation = incarnation
        self.applied = 0
        self.is_open = False
        self.fetches = 0
        self.under_way: Fetch | None = None
        self.may_rest = False
        """A limit may hold it back before its next fetch."""
        self.missed_an_answer = False
        """In this leader epoch."""
        self.telling: Coroutine[Any, Any, bool] | None = None
        self.image = ClusterImage("penstock")
        self.partition: IsrPartition | None = None
        config = embedded(self.id, replica_lag_time_max_ms=str(MAX_LAG_MS))
        node = node_context(config, self.image, now_ms=self._now_ms)
        self.context = broker_context(node, Asking(), UNKNOWN)  # it is awaited here and nowhere else
        self.in_sync = InSyncReplicas(self.context)

    @property
    def epoch(self) -> int:
        return self.context.broker_epoch

    def die(self) -> None:
        self.is_up = False
        if self.telling is not None:
            self.telling.close()

    def beat(self) -> Message:
        """What it says to the controller when it is time."""
        if self.epoch == UNKNOWN:
            return BrokerRegistrationRequest(
                broker_id=self.id,
                cluster_id="penstock",
                incarnation_id=self.incarnation,
                listeners=[Listener(name="PLAINTEXT", host=f"h{self.id}", port=9092)],
                features=[Feature(name="metadata.version", min_supported_version=7, max_supported_version=33)],
                log_dirs=[UUID(int=self.id + 1000)],
            )
        return BrokerHeartbeatRequest(
            broker_id=self.id, broker_epoch=self.epoch, current_metadata_offset=self.image.offset
        )

    # What the metadata say

    def apply(self, records: list[MetadataRecord]) -> None:
        """What was decided next."""
        for record in records:
            self.image.apply(record)
        self.image.applied_to(self.image.offset + len(records))
        self.applied += 1
        if self.is_open:
            self._obey()

    def open(self) -> None:
        """It is registered and knows the metadata of that moment: it holds what is its own."""
        self.is_open = True
        self._obey()

    def _obey(self) -> None:
        topic = self.image.topics.get(TOPIC)
        partition = None if topic is None else topic.partitions.get(0)
        if topic is None or partition is None:
            return
        if self.id not in partition.replicas:
            self._give_up()
            return
        if self.partition is None:
            self.partition = IsrPartition(
                self.log,  # type: ignore[arg-type]  # as much of it as is used here
                topic.topic_id,
                high_watermark=min(self.kept_high_watermark, self.log.log_end_offset),
                in_sync=self.in_sync,
                flush=self.flush,
            )
            self.partition.min_insync_replicas = self._min_in_sync
        epoch = self.partition.leader_epoch
        self.partition.obey(self.id, partition, self._now_ms())
        if self.partition.leader_epoch != epoch:
            self.missed_an_answer = False
            self._look_at_limit()

    def _give_up(self) -> None:
        if self.partition is not None:
            self.partition.resign()
        self.partition = None
        self.log.truncate_to(0)
        self.kept_high_watermark = 0

    # As a follower

    def fetch(self) -> Fetch | None:
        """The next request to the leader; None if there is nobody to ask."""
        partition = self.partition
        if partition is None or partition.follower is None or partition.follower.leader_id < 0:
            return None
        if not partition.is_kept():
            return None
        self.fetches += 1
        self.missed_an_answer |= self.under_way is not None
        self.under_way = Fetch(
            self.fetches, self.id, self.epoch, partition.leader_epoch, self.log.log_end_offset, self.log.latest
        )
        return self.under_way

    def take(self, fetched: Fetched) -> None:
        """An answer, as `ReplicaFetcher` takes it."""
        asked, partition = self.under_way, self.partition
        if asked is None or asked.number != fetched.number:
            return
        self.under_way = None
        if partition is None or partition.follower is None or asked.leader_epoch != partition.leader_epoch:
            return
        if fetched.error or asked.offset != self.log.log_end_offset:
            return
        if fetched.diverging is not None:
            self.log.truncate_to(
                truncation_offset(
                    *fetched.diverging,
                    own_end_for=self.log.end_offset_for_epoch,
                    log_end_offset=self.log.log_end_offset,
                    high_watermark=partition.high_watermark,
                )
            )
            partition.was_cut()
        else:
            partition.append_fetched(fetched.records, fetched.high_watermark, 0)

        self._look_at_limit()

    def _look_at_limit(self) -> None:
        follower = None if self.partition is None else self.partition.follower
        self.may_rest = follower is not None and follower.may_be_held_back

    # As a leader

    def serve(self, asked: Fetch, most: int) -> Fetched:
        """The answer to a follower, as `FetchReader` reads it."""
        try:
            if self.partition is None:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            partition = self.partition
            leader = partition.check_leader(asked.leader_epoch)
            diverging = _divergence(partition, asked.last_epoch, asked.offset) if asked.last_epoch >= 0 else None
            if diverging is not None:
                return Fetched(asked.number, high_watermark=leader.high_watermark, diverging=diverging)
            if asked.offset > self.log.log_end_offset:
                raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
            partition.on_fetched(asked.replica, asked.offset, asked.broker_epoch, self._now_ms())
            records = self.log.read(asked.offset, most)
            return Fetched(asked.number, records=records, high_watermark=leader.high_watermark)
        except KafkaError as error:
            return Fetched(asked.number, error=error.code)

    def tell(self) -> Message | None:
        """What it has to say to the controller about who is in sync; one request at a time."""
        if self.telling is not None or not self.in_sync._proposed:
            return None
        asked, self.in_sync._proposed = self.in_sync._proposed, {}
        self.telling = self.in_sync._tell_of(asked)
        request: Message = self.telling.send(None)
        return request

    def told(self, reply: Any) -> None:
        """The answer to `tell`, or the KafkaError that stands for none."""
        telling, self.telling = self.telling, None
        assert telling is not None
        try:
            if isinstance(reply, KafkaError):
                telling.throw(reply)
            else:
                telling.send(reply)
        except StopIteration:
            pass

    def look(self) -> None:
        """Look at those who lag, and at those who come in sync, as it does from time to time."""
        if self.partition is not None:
            self.in_sync._look_at(self.partition)
        self.in_sync.look_at_joining()
