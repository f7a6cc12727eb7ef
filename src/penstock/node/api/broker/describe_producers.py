"""DescribeProducers 0: which producers wrote to a partition, their epochs and last sequences (KIP-664).

Any replica answers for its own log, also since which offset a transaction is open: so one is found that nobody ends.
"""

from penstock.metadata.topic_names import topic_name_error
from penstock.node.roles.broker import Broker
from penstock.node.serving.access import READ_TOPIC
from penstock.node.serving.handler import RequestContext, handles
from penstock.node.serving.rules import Each
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from penstock.protocol.requests.api import ApiKey


@handles(
    ApiKey.DESCRIBE_PRODUCERS,
    versions=(0, 0),
    rule=(Each(READ_TOPIC, ("topics",), "topics"),),
    parts=(("topics", "topics"),),
)
def describe_producers(
    broker: Broker, context: RequestContext, request: DescribeProducersRequest
) -> DescribeProducersResponse:
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                name=topic.name, partitions=[_producers(broker, topic.name, index) for index in topic.partition_indexes]
            )
            for topic in request.topics
        ]
    )


def _producers(broker: Broker, topic: str, index: int) -> PartitionResponse:
    try:
        problem = topic_name_error(topic)
        if problem is not None:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)
        producers = broker.partition(topic, index).log.producers
    except KafkaError as error:
        return PartitionResponse(partition_index=index, error_code=error.code, error_message=error.message)
    return PartitionResponse(
        partition_index=index,
        active_producers=[
            ProducerState(
                producer_id=producer.producer_id,
                producer_epoch=producer.epoch,
                last_sequence=producer.last_sequence,
                last_timestamp=producer.timestamp_ms,
                coordinator_epoch=producer.coordinator_epoch,
                current_txn_start_offset=producer.transaction_first_offset,
            )
            for producer in producers
        ],
    )
