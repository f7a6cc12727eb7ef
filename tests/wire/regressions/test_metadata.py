"""Topics appear when clients ask for them."""

import pytest
from tests.wire.raw_client import RawClient, batch_of

from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponseTopic


def asked(client: RawClient, name: str, *, version: int = 12, may_create: bool = True) -> MetadataResponseTopic:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=may_create)
    answer: MetadataResponseTopic = client.ask(request, version).topics[0]
    return answer


@pytest.mark.parametrize("version", [0, 1, 4, 9, 12, 13])
def test_a_topic_asked_for_is_there_and_takes_records(client: RawClient, topic: str, version: int) -> None:
    answer = asked(client, topic, version=version)
    assert (answer.error_code, len(answer.partitions)) == (ErrorCode.NONE, 4)
    assert client.produce(topic, batch_of(b"value")).error_code == ErrorCode.NONE


def test_who_forbids_it_creates_nothing(client: RawClient, topic: str) -> None:
    for _ in range(2):
        assert asked(client, topic, may_create=False).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("name", ["a/b", "", ".", "..", "x" * 250, "grüße"])
def test_an_invalid_name_is_17_and_not_unknown(client: RawClient, name: str) -> None:
    assert asked(client, name).error_code == 17
    everything = client.ask(MetadataRequest(topics=None), 12)
    assert name not in [topic.name for topic in everything.topics]
