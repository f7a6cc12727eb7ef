"""What a node lets go of leaves no circle: it is free at once, where the collector does not look as well (`memory`)."""

from __future__ import annotations

import pytest
from tests.wire.raw_client import RawClient, batch_of
from tests.wire.test_every_version import GROUP, NEWEST, REQUESTS, TOPIC, Asker
from tests.wire.unreachable import without_collector

from penstock.protocol.messages.delete_groups import DeleteGroupsRequest
from penstock.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from penstock.protocol.messages.list_groups import ListGroupsRequest
from penstock.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from penstock.protocol.requests.api import api_of
from penstock.testing import Cluster


@pytest.fixture(scope="module")
def shown() -> dict[str, list[str]]:
    """By what was done: what only the collector would have freed."""
    found: dict[str, list[str]] = {}
    with Cluster() as cluster, without_collector() as find:
        address = cluster.bootstrap_servers
        with RawClient(address) as client:
            client.create_topic(TOPIC)
            client.find_coordinator(GROUP)
            client.produce(TOPIC, batch_of(b"1", b"2"))
            asked = MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)])
            topic_id = client.ask(asked).topics[0].topic_id
        find()  # of its start
        for key, request in REQUESTS.items():
            version = NEWEST.get(key, api_of(key).versions[-1])
            with RawClient(address) as client:
                client.ask(request(Asker(client, topic_id, version, f"{TOPIC}-{key.name}")), version)
                client.end()
            with RawClient(address) as client:
                assert client.lives(), "the end of the other one is over"
            found[key.name] = find()
        with RawClient(address) as client:
            groups = [group.group_id for group in client.ask(ListGroupsRequest()).groups]
            deleted = client.ask(DeleteGroupsRequest(groups_names=groups)).results
            assert sum(not row.error_code for row in deleted) > 2
            found["groups deleted"] = find()
            names = [topic.name for topic in client.ask(MetadataRequest(topics=None)).topics if not topic.is_internal]
            topics = [DeleteTopicState(name=name) for name in names]
            answer = client.ask(DeleteTopicsRequest(topics=topics, timeout_ms=20_000))
            assert {row.error_code for row in answer.responses} == {0}
            assert client.lives()
        found["topics deleted"] = find()
    return found


@pytest.mark.parametrize("what", [*(key.name for key in REQUESTS), "groups deleted", "topics deleted"])
def test_nothing_is_left_to_the_collector(shown: dict[str, list[str]], what: str) -> None:
    assert shown[what] == []
