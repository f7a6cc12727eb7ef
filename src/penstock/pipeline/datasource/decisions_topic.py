"""Where decisions are kept: a compacted topic of the cluster that is written to, by the name of the query.

The last record of a query's key counts. It is looked for from the end backwards: a query that runs has it near there.
Where its partition has none, it may have been written while the topic had fewer partitions, into another one.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Final

from penstock.client.blocking import BlockingCluster, Pauses, TopicPartition, now_ms
from penstock.client.blocking.fetch import FetchedRecords
from penstock.client.blocking.offsets import list_offsets
from penstock.client.blocking.produce import BlockingProducer, ProducerIdentity
from penstock.client.blocking.transactions import TransactionCoordinators
from penstock.client.errors import raise_for
from penstock.client.settings import wall_clock_ms
from penstock.client.values import EARLIEST, LATEST, IsolationLevel
from penstock.pipeline.arrow.record_spans import AbortedFilter, LocatedBatch
from penstock.pipeline.datasource.offset_ranges import OffsetRange
from penstock.pipeline.datasource.range_reader import RangeFetcher
from penstock.pipeline.errors import PipelineError
from penstock.pipeline.once.decision import Decision, decode_decision
from penstock.pipeline.options.source import SourceOptions, source_options
from penstock.pipeline.options.table import read_options
from penstock.protocol.compression import Compression
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.hashing import partition_for_key
from penstock.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from penstock.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from penstock.protocol.records import Record, decode_batch, encode_batch
from penstock.protocol.requests.api import ApiKey

PARTITIONS: Final = 8
FIRST_LOOK, GROWTH = 500, 8
"""Offsets that are looked through first, and how many times as many come next."""
MOST_REPLICAS: Final = 3
"""As many as there are brokers, if these are fewer: a decision that is lost makes a batch come twice."""
POLICY, COMPACT = "cleanup.policy", "compact"
CONFIGS: Final = {
    POLICY: COMPACT,
    "segment.bytes": "16777216",
    "max.message.bytes": "8388608",
    "min.cleanable.dirty.ratio": "0.1",
    "unclean.leader.election.enable": "false",
}
FORGOTTEN: Final = b""
DECIDING_TIMEOUT_MS: Final = 60_000
"""What a decider has left that died before it had decided, is aborted then, if no other one comes first."""
DELIVERY_TIMEOUT_MS: Final = DECIDING_TIMEOUT_MS // 2
"""What is tried for longer ends with its transaction, and looks as if another process had ended it."""
LONGEST_WAIT_MS: Final = DECIDING_TIMEOUT_MS + 30_000
"""Brokers look for what is to be aborted at intervals (transaction.abort.timed.out.transaction.cleanup.interval.ms)."""
TOPIC: Final = 2
"""The kind of resource whose configs are asked for."""
logger = logging.getLogger(__name__)


def new_topic(name: str, brokers: int) -> CreatableTopic:
    """For a cluster of so many brokers: one of three may fail, and decisions are made still."""
    replicas = max(1, min(MOST_REPLICAS, brokers))
    configs = {**CONFIGS, "min.insync.replicas": str(2 if replicas == MOST_REPLICAS else 1)}
    return CreatableTopic(
        name=name,
        num_partitions=PARTITIONS,
        replication_factor=replicas,
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
    )


def check_configs(name: str, configs: Mapping[str, str | None]) -> None:
    """Of a topic that was there before. KafkaError where it would forget decisions.

    It is not altered: a topic that was named by mistake has records that compaction would take.
    """
    policy = configs.get(POLICY, COMPACT)
    if policy != COMPACT:
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION,
            f"the topic {name!r} is for decisions, and has {POLICY}={policy}: what was decided is deleted there with "
            "time, and a batch that runs again then comes twice. If it has nothing else, `penstock configs --alter "
            f"--topic {name} --add-config {POLICY}={COMPACT}` makes it fit; else name another topic "
            "(penstock.sink.decisions.topic)",
        )


class DecisionsTopic:
    def __init__(
        self, cluster: BlockingCluster, name: str, query: str, partition: TopicPartition | None = None
    ) -> None:
        """Made, if it is not there; with a partition it was before. KafkaError where that is not allowed."""
        self._cluster, self._key = cluster, query.encode()
        self.partition: Final = partition or self._partition_in(name)
        options = {"bootstrap.servers": "of.the.cluster:1", "subscribe": name, "isolation.level": "read_committed"}
        source = source_options(read_options(options), streaming=False)
        self._source: SourceOptions = source.replace(settings=cluster.settings)

    def _partition_in(self, name: str) -> TopicPartition:
        """The same, should the topic get more partitions. KafkaError for one that has fewer: who does not know yet that
        it has got more would write where nobody looks who has found something in the right one.
        """
        if not self._cluster.partitions_there([name]):
            self._create(name)
        check_configs(name, self._configs_of(name))
        count = len(self._cluster.partitions_of([name])[name])
        if count < PARTITIONS:
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION,
                f"the topic {name!r} is for decisions, and has fewer than {PARTITIONS} partitions: once it gets more, "
                "what is decided belongs into another one, and who does not know that yet decides where nobody looks. "
                f"End its queries, and `penstock topics --alter --topic {name} --partitions {PARTITIONS}` makes it "
                "fit: what was decided is found then. A query that has decided nothing yet may have another topic "
                "(penstock.sink.decisions.topic)",
            )
        return name, partition_for_key(self._key, PARTITIONS)

    def _create(self, name: str) -> None:
        topic = new_topic(name, len(self._cluster.metadata.brokers))
        request = CreateTopicsRequest(topics=[topic], timeout_ms=self._cluster.settings.request_timeout_ms)

        def attempt() -> None:
            response = self._cluster.any_broker().request(ApiKey.CREATE_TOPICS, request, CreateTopicsResponse)
            result = response.topics[0]
            if result.error_code != ErrorCode.TOPIC_ALREADY_EXISTS:
                raise_for(result.error_code, result.error_message, f"making the topic {name!r} for decisions")

        self._cluster.retried(attempt)

    def _configs_of(self, name: str) -> dict[str, str | None]:
        """Those that are looked at; none where the user may not see them."""
        resource = DescribeConfigsResource(resource_type=TOPIC, resource_name=name, configuration_keys=[POLICY])
        request = DescribeConfigsRequest(resources=[resource])

        def attempt() -> dict[str, str | None]:
            broker = self._cluster.any_broker()
            result = broker.request(ApiKey.DESCRIBE_CONFIGS, request, DescribeConfigsResponse).results[0]
            if result.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                logger.info("whether the topic %r keeps decisions is not known: DESCRIBE_CONFIGS is not allowed", name)
                return {}
            raise_for(result.error_code, result.error_message, f"the configs of the topic {name!r}")
            return {config.name: config.value for config in result.configs}

        return self._cluster.retried(attempt)

    def last(self) -> Decision | None:
        """Of the query, of those that are committed. KafkaError where it cannot be known."""
        found = self._last_at(self.partition)
        if found is not None:
            return decode_decision(found) if found else None
        earlier = [decode_decision(one) for one in map(self._last_at, self._earlier_places()) if one]
        return max(earlier, key=lambda decision: decision.batch, default=None)

    def _earlier_places(self) -> list[TopicPartition]:
        """Where its decisions were while the topic had fewer partitions, by the hash of its key."""
        numbers = sorted({partition_for_key(self._key, count) for count in range(1, PARTITIONS)})
        return [(self.partition[0], number) for number in numbers if number != self.partition[1]]

    def _last_at(self, partition: TopicPartition) -> bytes | None:
        end = self._settled_end(partition)
        begin = list_offsets(self._cluster, {partition: EARLIEST})[partition].offset
        size = FIRST_LOOK
        while end > begin:
            start = max(begin, end - size)
            found = self._last_in(OffsetRange(*partition, start, end))
            if found is not None:
                return found
            end, size = start, size * GROWTH
        return None

    def _settled_end(self, partition: TopicPartition) -> int:
        """What other queries decide at this moment lies before later records, and keeps them from readers of committed
        ones: a decision among those must not be missed.
        """
        until_ms, pauses = now_ms() + LONGEST_WAIT_MS, Pauses()
        end = list_offsets(self._cluster, {partition: LATEST})[partition].offset
        while list_offsets(self._cluster, {partition: LATEST}, IsolationLevel.READ_COMMITTED)[partition].offset < end:
            if now_ms() > until_ms:
                raise KafkaError(
                    ErrorCode.REQUEST_TIMED_OUT,
                    f"a transaction is open in {partition[0]}-{partition[1]}, so what was decided last is not known: "
                    "`penstock transactions find-hanging` finds it",
                )
            pauses.take()
        return end

    def _last_in(self, wanted: OffsetRange) -> bytes | None:
        """In plain Python: a process that commits a batch is new, and would load compiled code for a few records."""
        found: bytes | None = None
        for fetched, batches in self._fetched(wanted):
            aborted = AbortedFilter(fetched.aborted)
            for batch in batches:
                if not aborted.hides(batch, fetched.records):
                    for record in decode_batch(fetched.records, batch.position):
                        found = record.value or FORGOTTEN if record.key == self._key else found
        return found

    def _fetched(self, wanted: OffsetRange) -> Iterator[tuple[FetchedRecords, list[LocatedBatch]]]:
        """PipelineError where some do not come: what was decided may be among them. The batch runs again then."""
        try:
            yield from RangeFetcher(self._cluster, self._source, wanted)
        except PipelineError as error:
            raise PipelineError(f"What was decided last is not known: {wanted} did not come, or are gone.") from error

    def forget(self) -> None:
        """The query is over, and nobody comes again to look."""
        self._send(encode_batch([Record(timestamp_ms=wall_clock_ms(), key=self._key, value=None)]), None)

    def write(self, identity: ProducerIdentity, decision: Decision) -> None:
        """Within the transaction of the decider, which is open then. KafkaError where another one has come.

        Compressed: a decision is one record, and names of ten thousand tasks would be larger than brokers take.
        """
        TransactionCoordinators(self._cluster).add(identity, [self.partition])
        batch = encode_batch(
            [Record(timestamp_ms=wall_clock_ms(), key=self._key, value=decision.encode())],
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            base_sequence=identity.take_sequences(self.partition, 1),
            is_transactional=True,
            compression=Compression.GZIP,
        )
        self._send(batch, identity.transactional_id)

    def _send(self, batch: bytearray, transactional_id: str | None) -> None:
        producer = BlockingProducer(
            self._cluster, delivery_timeout_ms=DELIVERY_TIMEOUT_MS, transactional_id=transactional_id
        )
        try:
            producer.send({self.partition: batch})
            producer.flush()
        finally:
            producer.close()
