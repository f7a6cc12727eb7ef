"""Nodes whose listeners only nodes can reach agree, follow and hand on; a client needs rights there all the same."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cluster.nodes_in_a_loop import BOTH, nodes

from penstock.client.admin.topics import NewTopic
from penstock.metadata.configs.protection import STANDARD_AUTHORIZER
from penstock.metadata.image import ClusterImage
from penstock.protocol.acls import CLUSTER_NAME, AclBinding, Operation, PatternType, Permission, Resource
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.internal_topics import CONSUMER_OFFSETS
from penstock.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse

SETTINGS = {
    "authorizer_class_name": STANDARD_AUTHORIZER,
    "allow_everyone_if_no_acl_found": "true",
    "penstock_authorizer_node_listeners": "PLAINTEXT,CONTROLLER",
}


def allowed(operation: Operation, resource: Resource, name: str) -> AclBinding:
    return AclBinding(resource, name, PatternType.LITERAL, "User:ANONYMOUS", "*", operation, Permission.ALLOW)


def _are_in_sync(image: ClusterImage) -> bool:
    topic = image.topics.get("flights")
    return topic is not None and {*topic.partitions[0].isr} == {1, 2}


async def test_what_a_client_asks_of_any_broker_is_judged_by_its_own_rights(tmp_path: Path) -> None:
    async with nodes(tmp_path, {1: BOTH, 2: "broker"}, **SETTINGS) as cluster, cluster.admin(2) as admin:
        alter = allowed(Operation.ALTER, Resource.CLUSTER, CLUSTER_NAME)
        flights, group = allowed(Operation.ALL, Resource.TOPIC, "flights"), allowed(Operation.ALL, Resource.GROUP, "g")
        foreign = (allowed(Operation.ALL, Resource.TOPIC, name) for name in ("gates", CONSUMER_OFFSETS))
        rules = [alter, flights, group, *(rule._replace(principal="User:ada") for rule in foreign)]
        await admin.acls.create(rules)
        await cluster.until_everywhere(lambda image: len(image.security.access_rules) == len(rules))
        await admin.topics.create(NewTopic(name="flights", partitions=1, replication_factor=2))
        with pytest.raises(KafkaError) as raised:
            await admin.topics.create(NewTopic(name="gates", partitions=1, replication_factor=2))
        assert raised.value.code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        await cluster.until_everywhere(_are_in_sync)
        asked = FindCoordinatorRequest(key="g", coordinator_keys=["g"])
        await admin.cluster.to_node(2, asked, FindCoordinatorResponse)  # the broker asks for a topic, for itself
        await cluster.until_everywhere(lambda image: CONSUMER_OFFSETS in image.topics)
