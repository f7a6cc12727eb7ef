"""Where decisions are kept: a compacted topic of the cluster that is written to, by the name of the query.

The last record of a query's key counts. It is looked for from the end backwards: a query that runs has it near there.
"""

from typing import Final

from penstock.client.blocking import BlockingCluster, Pauses, now_ms
from penstock.client.blocking.offsets import list_offsets
from penstock.client.blocking.produce import BlockingProducer, ProducerIdentity
from penstock.client.blocking.transactions import TransactionCoordinators
from penstock.client.errors import raise_for
from penstock.client.settings import wall_clock_ms
from penstock.client.values import EARLIEST, LATEST, IsolationLevel
from penstock.pipeline.arrow.record_spans import AbortedFilter
from penstock.pipeline.datasource.offset_ranges import OffsetRange
from penstock.pipeline.datasource.range_reader import RangeFetcher
from penstock.pipeline.once.decision import Decision, decode_decision
from penstock.pipeline.options.source import SourceOptions, source_options
from penstock.pipeline.options.table import read_options
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.hashing import partition_for_key
from penstock.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from penstock.protocol.records import Record, decode_batch, encode_batch
from penstock.protocol.requests.api import ApiKey

PARTITIONS: Final = 8
FIRST_LOOK, GROWTH = 500, 8
"""Offsets that are looked through first, and how many times as many come next."""
CONFIGS: Final = {"cleanup.policy": "compact", "segment.bytes": "16777216", "min.cleanable.dirty.ratio": "0.1"}
FORGOTTEN: Final = b""
DECIDING_TIMEOUT_MS: Final = 60_000
"""What a decider has left that died before it had decided, is aborted then, if no other one comes first."""
LONGEST_WAIT_MS: Final = DECIDING_TIMEOUT_MS + 30_000
"""Brokers look for what is to be aborted at intervals (transaction.abort.timed.out.transaction.cleanup.interval.ms)."""
BROKERS_OWN: Final = -1
"""As many replicas as the brokers' default.replication.factor says."""


class DecisionsTopic:
    def __init__(self, cluster: BlockingCluster, name: str, query: str) -> None:
        """Made, if it is not there. KafkaError where that is not allowed."""
        self._cluster, self._key = cluster, query.encode()
        if not cluster.partitions_there([name]):
            self._create(name)
        count = len(cluster.partitions_of([name])[name])
        self._partition = name, partition_for_key(self._key, min(count, PARTITIONS))  # the same, should it get more
        options = {"bootstrap.servers": "of.the.cluster:1", "subscribe": name, "isolation.level": "read_committed"}
        source = source_options(read_options({**options, "failOnDataLoss": "false"}), streaming=False)
        self._source: SourceOptions = source.replace(settings=cluster.settings)

    def _create(self, name: str) -> None:
        topic = CreatableTopic(
            name=name,
            num_partitions=PARTITIONS,
            replication_factor=BROKERS_OWN,
            configs=[CreatableTopicConfig(name=key, value=value) for key, value in CONFIGS.items()],
        )
        request = CreateTopicsRequest(topics=[topic], timeout_ms=self._cluster.settings.request_timeout_ms)

        def attempt() -> None:
            response = self._cluster.any_broker().request(ApiKey.CREATE_TOPICS, request, CreateTopicsResponse)
            result = response.topics[0]
            if result.error_code != ErrorCode.TOPIC_ALREADY_EXISTS:
                raise_for(result.error_code, result.error_message, f"making the topic {name!r} for decisions")

        self._cluster.retried(attempt)

    def last(self) -> Decision | None:
        """Of the query, of those that are committed. KafkaError where it cannot be known."""
        partition, end = self._partition, self._settled_end()
        begin = list_offsets(self._cluster, {partition: EARLIEST})[partition].offset
        size = FIRST_LOOK
        while end > begin:
            start = max(begin, end - size)
            found = self._last_in(start, end)
            if found is not None:
                return decode_decision(found) if found else None
            end, size = start, size * GROWTH
        return None

    def _settled_end(self) -> int:
        """What other queries decide at this moment lies before later records, and keeps them from readers of committed
        ones: a decision among those must not be missed.
        """
        partition, until_ms, pauses = self._partition, now_ms() + LONGEST_WAIT_MS, Pauses()
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

    def _last_in(self, start: int, end: int) -> bytes | None:
        """In plain Python: a process that commits a batch is new, and would load compiled code for a few records."""
        found: bytes | None = None
        for fetched, batches in RangeFetcher(self._cluster, self._source, OffsetRange(*self._partition, start, end)):
            aborted = AbortedFilter(fetched.aborted)
            for batch in batches:
                if not aborted.hides(batch, fetched.records):
                    for record in decode_batch(fetched.records, batch.position):
                        found = record.value or FORGOTTEN if record.key == self._key else found
        return found

    def forget(self) -> None:
        """The query is over, and nobody comes again to look."""
        self._send(encode_batch([Record(timestamp_ms=wall_clock_ms(), key=self._key, value=None)]), None)

    def write(self, identity: ProducerIdentity, decision: Decision) -> None:
        """Within the transaction of the decider, which is open then. KafkaError where another one has come."""
        TransactionCoordinators(self._cluster).add(identity, [self._partition])
        batch = encode_batch(
            [Record(timestamp_ms=wall_clock_ms(), key=self._key, value=decision.encode())],
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            base_sequence=identity.take_sequences(self._partition, 1),
            is_transactional=True,
        )
        self._send(batch, identity.transactional_id)

    def _send(self, batch: bytearray, transactional_id: str | None) -> None:
        producer = BlockingProducer(self._cluster, transactional_id=transactional_id)
        try:
            producer.send({self._partition: batch})
            producer.flush()
        finally:
            producer.close()
