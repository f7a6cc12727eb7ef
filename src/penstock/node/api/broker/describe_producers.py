"""DescribeProducers 0: which producers wrote to a partition, their epochs and last sequences (KIP-664).

Any replica answers for its own log, also since which offset a transaction is open: so one is found that nobody ends.
"""

from typing import Final

from penstock.metadata.topic_names import topic_name_error
from penstock.node.roles.broker import Broker
from penstock.node.serving.access import READ_TOPIC
from penstock.node.serving.handler import RequestContext, handles
from penstock.node.serving.parts import NAMES_A_STEP, named_once
from penstock.node.serving.rules import Each
from penstock.node.serving.slices import Pace, Steps
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from penstock.protocol.requests.api import ApiKey

PRODUCERS_A_STEP: Final = 100
A_PARTITION: Final = 10
"""As much as so many producers: its log may have to be read in."""


@handles(ApiKey.DESCRIBE_PRODUCERS, versions=(0, 0), rule=(Each(READ_TOPIC, ("topics",), "topics"),))
def describe_producers(
    broker: Broker, context: RequestContext, request: DescribeProducersRequest
) -> Steps[DescribeProducersResponse]:
    answer, pace = DescribeProducersResponse(), Pace(PRODUCERS_A_STEP)
    asked: dict[str, dict[int, None]] = {}
    names = Pace(NAMES_A_STEP)
    yield from named_once(request.topics, lambda topic: topic.name, lambda topic: topic.partition_indexes, asked, names)
    for name, indexes in asked.items():
        topic = TopicResponse(name=name)
        answer.topics.append(topic)
        for index in indexes:
            topic.partitions.append((yield from _described(broker, name, index, pace)))
        if pace.is_due():
            yield None
    return answer


def _described(broker: Broker, topic: str, index: int, pace: Pace) -> Steps[PartitionResponse]:
    if pace.is_due(A_PARTITION):
        yield None
    try:
        problem = topic_name_error(topic)
        if problem is not None:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)
        producers = list(broker.partition(topic, index).log.producers)
    except KafkaError as error:
        return PartitionResponse(partition_index=index, error_code=error.code, error_message=error.message)
    told = PartitionResponse(partition_index=index)
    for producer in producers:
        told.active_producers.append(
            ProducerState(
                producer_id=producer.producer_id,
                producer_epoch=producer.epoch,
                last_sequence=producer.last_sequence,
                last_timestamp=producer.timestamp_ms,
                coordinator_epoch=producer.coordinator_epoch,
                current_txn_start_offset=producer.transaction_first_offset,
            )
        )
        if pace.is_due():
            yield None
    return told
