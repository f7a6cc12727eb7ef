"""What a source asks of its cluster for a batch does not grow with the topics that it does not read."""

from uuid import UUID

import pytest
from tests.unit.client.fake_cluster import TOPIC, FakeCluster, served_in_a_thread

from penstock.client.blocking import BlockingCluster
from penstock.pipeline.datasource.cluster_offsets import SourceCluster
from penstock.pipeline.datasource.offset_ranges import OffsetRange
from penstock.pipeline.options.source import source_options
from penstock.pipeline.options.table import read_options
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseTopic
from penstock.protocol.requests.api import ApiKey

OTHER_ID = UUID(int=7)


class TwoTopics(FakeCluster):
    """Topic `t`, and nothing of the name `gone`."""

    def metadata(self) -> MetadataResponse:
        missing = MetadataResponseTopic(name="gone", error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        found = super().metadata()
        return MetadataResponse(
            brokers=found.brokers,
            controller_id=found.controller_id,
            cluster_id=found.cluster_id,
            topics=[*found.topics, missing],
        )


@pytest.mark.parametrize(
    "subscription", [{"subscribe": f"{TOPIC},gone"}, {"assign": f'{{"{TOPIC}": [0], "gone": [0]}}'}]
)
def test_only_the_topics_of_a_source_are_asked_about(subscription: dict[str, str]) -> None:
    fake = TwoTopics()
    with served_in_a_thread(fake) as broker:
        options = {"bootstrap.servers": str(broker.address), "failOnDataLoss": "false"} | subscription
        source = source_options(read_options(options), streaming=True)
        cluster = BlockingCluster(source.settings)
        seen = SourceCluster(cluster, source)
        assert seen.partitions(may_be_missing=True) == [(TOPIC, 0)]
        ranges = [OffsetRange(topic, 0, 0, 1) for topic in (TOPIC, "gone")]
        assert seen.still_there([*ranges, OffsetRange(TOPIC, 0, 1, 2, OTHER_ID)]) == ranges[:1]
        cluster.close()
        asked = [request for request in fake.asked(ApiKey.METADATA) if isinstance(request, MetadataRequest)]
        assert [{topic.name for topic in request.topics or ()} for request in asked] == [{TOPIC, "gone"}] * 2
