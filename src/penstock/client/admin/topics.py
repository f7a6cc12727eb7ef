"""Topics from outside: create, list, describe, enlarge, delete, cut off their beginnings."""

from collections.abc import AsyncIterator, Mapping, Sequence

from penstock.client.at_leaders import Failures, ask_leaders, ask_leaders_that_answer
from penstock.client.cluster import ClusterClient
from penstock.client.errors import ConnectionFailedError, ProtocolViolationError, UnsupportedByBrokerError, raise_for
from penstock.client.messages import Refused
from penstock.client.metadata import TopicMetadata, topic_from
from penstock.client.values import TopicPartition, by_topic
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from penstock.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from penstock.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from penstock.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from penstock.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)
from penstock.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequestCursor as Cursor
from penstock.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsResponseCursor as NextCursor
from penstock.protocol.schema import Message
from penstock.protocol.value import Value, fresh

BROKER_DEFAULT = -1


class NewTopic(Value, kw_only=True):
    """What to create. -1 is the broker's default; `assignments` (partition to nodes) stands instead of both numbers."""

    name: str
    partitions: int = BROKER_DEFAULT
    replication_factor: int = BROKER_DEFAULT
    configs: Mapping[str, str] = fresh(dict)
    assignments: Mapping[int, Sequence[int]] = fresh(dict)


class EligibleLeaders(Value):
    """The replicas that may lead while none in sync can, and the last leaders if there are none (KIP-966)."""

    replicas: list[int]
    last_known: list[int]


class TopicAdmin:
    """Refusals are KafkaErrors with the broker's own words."""

    def __init__(self, cluster: ClusterClient) -> None:
        self._cluster = cluster

    async def create(self, topic: NewTopic, *, validate_only: bool = False) -> None:
        """`validate_only`: only ask whether it could be created."""
        request = CreateTopicsRequest(
            topics=[
                CreatableTopic(
                    name=topic.name,
                    num_partitions=BROKER_DEFAULT if topic.assignments else topic.partitions,
                    replication_factor=BROKER_DEFAULT if topic.assignments else topic.replication_factor,
                    assignments=[
                        CreatableReplicaAssignment(partition_index=number, broker_ids=list(nodes))
                        for number, nodes in topic.assignments.items()
                    ],
                    configs=[CreatableTopicConfig(name=name, value=value) for name, value in topic.configs.items()],
                )
            ],
            timeout_ms=self._cluster.settings.request_timeout_ms,
            validate_only=validate_only,
        )
        await self._change(request, CreateTopicsResponse, "topics", topic.name)

    async def is_there(self, name: str) -> bool:
        try:
            await self.describe([name])
        except KafkaError as error:
            if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
            return False
        return True

    async def create_unless_there(self, topic: NewTopic) -> None:
        try:
            await self.create(topic)
        except KafkaError as error:
            if error.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                raise

    async def delete(self, name: str) -> None:
        request = DeleteTopicsRequest(
            topics=[DeleteTopicState(name=name)],
            topic_names=[name],
            timeout_ms=self._cluster.settings.request_timeout_ms,
        )
        await self._change(request, DeleteTopicsResponse, "responses", name)

    async def create_partitions(
        self, name: str, count: int, *, assignments: Sequence[Sequence[int]] | None = None, validate_only: bool = False
    ) -> None:
        """`count` is the new total; `assignments` names the nodes of each new partition."""
        request = CreatePartitionsRequest(
            topics=[
                CreatePartitionsTopic(
                    name=name,
                    count=count,
                    assignments=None
                    if assignments is None
                    else [CreatePartitionsAssignment(broker_ids=list(nodes)) for nodes in assignments],
                )
            ],
            timeout_ms=self._cluster.settings.request_timeout_ms,
            validate_only=validate_only,
        )
        await self._change(request, CreatePartitionsResponse, "results", name)

    async def _change(self, request: Message, answer: type[Message], rows: str, name: str) -> None:
        """`rows` is the field of the answer that has a row for the topic."""

        async def attempt() -> None:
            result = getattr(await self._cluster.to_controller(request, answer), rows)[0]
            _raise_for(result.error_code, result.error_message, f"topic {name!r}")

        await self._cluster.retrying(attempt)

    async def names(self, *, include_internal: bool = True) -> list[str]:
        """Sorted."""
        topics = (await self._cluster.retrying(self._cluster.refresh)).topics.values()
        return sorted(topic.name for topic in topics if include_internal or not topic.is_internal)

    async def describe(self, names: Sequence[str] | None = None) -> list[TopicMetadata]:
        """In the order of their names; all topics for None."""
        metadata = await self._cluster.retrying(lambda: self._cluster.refresh(names))
        topics = [metadata.topics[name] for name in sorted(metadata.topics if names is None else names)]
        for topic in topics:
            _raise_for(topic.error, None, f"topic {topic.name!r}")
        return topics

    async def first(self, partitions: int) -> tuple[list[TopicMetadata], bool]:
        """The first topics in the order of their names, and whether those are all: what would be
        more than so many partitions is left out. UnsupportedByBrokerError where only all topics can be asked for.
        """
        page, rest = await self._page(partitions, None)
        return [topic for topic in page if not (rest and _goes_on(topic, rest))], rest is None

    async def pages(self, partitions: int) -> AsyncIterator[list[TopicMetadata]]:
        """All topics in the order of their names, a few at a time: the ones with about so many partitions.

        UnsupportedByBrokerError where only all topics can be asked for at once.
        """
        begun: TopicMetadata | None = None
        cursor: Cursor | None = None
        while True:
            page, rest = await self._page(partitions, cursor)
            if cursor is not None and cursor.partition_index > 0 and page and page[0].name == cursor.topic_name:
                if begun is not None and begun.topic_id == page[0].topic_id:
                    page[0] = page[0].replace(partitions=begun.partitions | page[0].partitions)
                else:  # another topic of that name: its first partitions were not told
                    del page[0]
            begun = page.pop() if rest is not None and page and _goes_on(page[-1], rest) else None
            yield page
            if rest is None:
                return
            if cursor is not None and _place(rest) <= _place(cursor):
                raise ProtocolViolationError(f"the topics behind {cursor.topic_name!r} have no end")
            cursor = Cursor(topic_name=rest.topic_name, partition_index=rest.partition_index)

    async def _page(self, partitions: int, cursor: Cursor | None) -> tuple[list[TopicMetadata], NextCursor | None]:
        """Of topics that can be told of; and where the next page begins."""
        request = DescribeTopicPartitionsRequest(response_partition_limit=partitions, cursor=cursor)
        answer = await self._cluster.to_any(request, DescribeTopicPartitionsResponse)
        topics = (topic_from(row) for row in answer.topics if not row.error_code)
        return [topic for topic in topics if topic is not None], answer.next_cursor

    async def eligible_leaders(self, names: Sequence[str]) -> dict[TopicPartition, EligibleLeaders]:
        """As far as the cluster knows; empty if it cannot tell."""
        known: dict[TopicPartition, EligibleLeaders] = {}
        request = DescribeTopicPartitionsRequest(topics=[TopicRequest(name=name) for name in names])
        while True:
            try:
                answer = await self._cluster.to_any(request, DescribeTopicPartitionsResponse)
            except UnsupportedByBrokerError:
                return {}
            for topic in answer.topics:
                for row in topic.partitions:
                    partition = TopicPartition(topic.name or "", row.partition_index)
                    known[partition] = EligibleLeaders(row.eligible_leader_replicas or [], row.last_known_elr or [])
            if answer.next_cursor is None:
                return known
            rest = answer.next_cursor
            request.cursor = Cursor(topic_name=rest.topic_name, partition_index=rest.partition_index)

    async def delete_records(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Cut off what lies before these offsets (-1: everything); each partition's new first offset."""
        return await ask_leaders(self._cluster, offsets, self._delete_at)

    async def delete_records_that_can_be(
        self, offsets: Mapping[TopicPartition, int]
    ) -> tuple[dict[TopicPartition, int], Failures]:
        """The same; with the errors of partitions where it could not be done."""
        return await ask_leaders_that_answer(self._cluster, offsets, self._delete_at)

    async def _delete_at(
        self, node_id: int, offsets: Mapping[TopicPartition, int]
    ) -> tuple[dict[TopicPartition, int], Refused]:
        request = DeleteRecordsRequest(
            topics=[
                DeleteRecordsTopic(
                    name=topic,
                    partitions=[DeleteRecordsPartition(partition_index=n, offset=offset) for n, offset in rows.items()],
                )
                for topic, rows in by_topic(offsets).items()
            ],
            timeout_ms=self._cluster.settings.request_timeout_ms,
        )
        response = await self._cluster.to_node(node_id, request, DeleteRecordsResponse)
        first_offsets: dict[TopicPartition, int] = {}
        refused: Refused = {}
        for answered in response.topics:
            for row in answered.partitions:
                partition = TopicPartition(answered.name, row.partition_index)
                if row.error_code:
                    refused[partition] = KafkaError(ErrorCode(row.error_code), f"records of {partition}")
                else:
                    first_offsets[partition] = row.low_watermark
        return first_offsets, refused

    async def wait_until_led(self, name: str) -> TopicMetadata:
        """Wait until every partition of a topic that was just created has a leader."""

        async def attempt() -> TopicMetadata:
            topic = (await self._cluster.refresh([name])).topics.get(name)
            if topic is None or topic.error or any(row.leader < 0 for row in topic.partitions.values()):
                raise ConnectionFailedError(f"topic {name!r} has no leaders yet")
            return topic

        return await self._cluster.retrying(attempt)


def _raise_for(code: int, message: str | None, subject: str) -> None:
    if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        message = f"{subject} does not exist"
    raise_for(code, message, subject)


def _goes_on(topic: TopicMetadata, rest: NextCursor) -> bool:
    """Whether the next page has more of a topic's partitions."""
    return rest.partition_index > 0 and rest.topic_name == topic.name


def _place(cursor: Cursor | NextCursor) -> tuple[str, int]:
    return cursor.topic_name, cursor.partition_index
