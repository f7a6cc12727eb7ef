"""A node with an authorizer obeys the access rules in its metadata, from its first client on."""

from __future__ import annotations

import re
from pathlib import Path
from uuid import UUID

import pytest
from tests.unit.node.stopped_node import running

from penstock.client.connection import Connection
from penstock.metadata.configs.protection import STANDARD_AUTHORIZER
from penstock.metadata.security_records import AccessControlEntryRecord
from penstock.node.assembly.start import RunningNode
from penstock.node.serving.access import bits
from penstock.protocol.acls import CLUSTER_NAME, OPERATIONS_ON, Operation, PatternType, Permission, Resource
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from penstock.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from penstock.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest, DeleteAclsResponse
from penstock.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from penstock.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from penstock.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

EVERY = {"resource_name_filter": None, "principal_filter": None, "host_filter": None}
ANY = DescribeAclsRequest(resource_type_filter=1, pattern_type_filter=1, operation=1, permission_type=1, **EVERY)
CREATE = CreateTopicsRequest(topics=[CreatableTopic(name="flights", num_partitions=1, replication_factor=1)])


def allowed(operation: Operation, resource: Resource, name: str, **fields: object) -> AclCreation:
    return AclCreation(
        resource_type=resource,
        resource_name=name,
        resource_pattern_type=PatternType.LITERAL,
        principal="User:ANONYMOUS",
        host="*",
        operation=operation,
        permission_type=Permission.ALLOW,
    ).replace(**fields)


async def create(client: Connection, *rules: AclCreation) -> list[int]:
    answer = await client.request(CreateAclsRequest(creations=list(rules)), CreateAclsResponse)
    return [result.error_code for result in answer.results]


async def created(client: Connection) -> int:
    return (await client.request(CREATE, CreateTopicsResponse)).topics[0].error_code


async def topic(client: Connection) -> tuple[int, set[Operation]]:
    """The error of naming the topic, and what may be done with it."""
    asked = MetadataRequest(topics=[MetadataRequestTopic(name="flights")], include_topic_authorized_operations=True)
    found = (await client.request(asked, MetadataResponse)).topics[0]
    return found.error_code, {it for it in Operation if found.topic_authorized_operations >> it & 1}


async def commit(node: RunningNode, rule: AclCreation) -> None:
    """A record of it, that nobody was asked for."""
    assert node.parts.controller is not None
    record = AccessControlEntryRecord(
        id=UUID(int=1),
        resource_type=rule.resource_type,
        resource_name=rule.resource_name,
        pattern_type=rule.resource_pattern_type,
        principal=rule.principal,
        host=rule.host,
        operation=rule.operation,
        permission_type=rule.permission_type,
    )
    await node.parts.log.append([record], node.parts.controller.epoch)


async def test_rules_hold_from_their_record_on(tmp_path: Path) -> None:
    async with running(tmp_path, authorizer_class_name=STANDARD_AUTHORIZER, super_users="User:root") as (node, client):
        assert await created(client) == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        refused = await client.request(ANY, DescribeAclsResponse)
        assert (refused.error_code, refused.resources) == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, [])
        every = allowed(Operation.ALL, Resource.TOPIC, "*")
        assert await create(client, every) == [ErrorCode.CLUSTER_AUTHORIZATION_FAILED]

        await commit(node, allowed(Operation.ALTER, Resource.CLUSTER, CLUSTER_NAME))
        create_topics = allowed(Operation.CREATE, Resource.CLUSTER, CLUSTER_NAME)
        read = allowed(Operation.READ, Resource.TOPIC, "fl", resource_pattern_type=PatternType.PREFIXED)
        assert await create(client, create_topics, read) == [0, 0]
        assert await created(client) == ErrorCode.NONE
        assert await topic(client) == (ErrorCode.NONE, {Operation.READ, Operation.DESCRIBE})
        asked = DescribeClusterRequest(include_cluster_authorized_operations=True)
        told = await client.request(asked, DescribeClusterResponse)
        may = {Operation.ALTER, Operation.CREATE, Operation.DESCRIBE}
        assert told.cluster_authorized_operations == bits(may)
        rules = await client.request(ANY, DescribeAclsResponse)
        assert [(rule.resource_name, len(rule.acls)) for rule in rules.resources] == [(CLUSTER_NAME, 2), ("fl", 1)]

        network = allowed(Operation.ALL, Resource.TOPIC, "flights", host="127.0.0.0/8", permission_type=Permission.DENY)
        assert await create(client, network) == [0]
        assert (await topic(client))[0] == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        denials = DeleteAclsFilter(
            resource_type_filter=1, pattern_type_filter=1, operation=1, permission_type=Permission.DENY, **EVERY
        )
        gone = await client.request(DeleteAclsRequest(filters=[denials]), DeleteAclsResponse)
        assert [rule.host for rule in gone.filter_results[0].matching_acls] == ["127.0.0.0/8"]
        assert (await topic(client))[0] == ErrorCode.NONE
    async with running(tmp_path, authorizer_class_name=STANDARD_AUTHORIZER) as (_, client):
        assert (await topic(client))[0] == ErrorCode.NONE, "the disk has the rules"
        assert await create(client, allowed(Operation.WRITE, Resource.TOPIC, "flights")) == [0]


async def test_without_an_authorizer_there_are_neither_rules_nor_limits(tmp_path: Path) -> None:
    async with running(tmp_path) as (_, client):
        assert await create(client, allowed(Operation.ALL, Resource.TOPIC, "*")) == [ErrorCode.SECURITY_DISABLED]
        assert (await client.request(ANY, DescribeAclsResponse)).error_code == ErrorCode.SECURITY_DISABLED
        assert await created(client) == ErrorCode.NONE
        assert await topic(client) == (ErrorCode.NONE, {*OPERATIONS_ON[Resource.TOPIC]})


def audit(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What the audit log has got, without who and from where."""
    lines = [record.getMessage() for record in caplog.records if record.name == "kafka.authorizer.logger"]
    caplog.clear()
    assert all(line.startswith("Principal = User:ANONYMOUS ") and " from host = 127.0.0.1 " in line for line in lines)
    return [re.sub(r"^Principal = \S+ | from host = 127.0.0.1", "", line) for line in lines]


async def test_refusals_and_changes_are_in_the_audit_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    settings = {"authorizer_class_name": STANDARD_AUTHORIZER, "super_users": "User:root"}
    async with running(tmp_path, **settings) as (node, client):
        everything = MetadataRequest(topics=None, include_topic_authorized_operations=True)
        await client.request(everything, MetadataResponse)
        assert audit(caplog) == [], "what is left out of an answer was not refused"
        assert await created(client) == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert await created(client) == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert audit(caplog) == [
            "is Denied operation = CREATE on resource = Topic:LITERAL:flights for request = CreateTopics with"
            " resourceRefCount = 1 based on rule DefaultDeny"
        ], "told once"
        await commit(node, allowed(Operation.ALTER, Resource.CLUSTER, CLUSTER_NAME))
        assert await create(client, allowed(Operation.READ, Resource.TOPIC, "flights")) == [0]
        assert audit(caplog) == [
            "changed for request = CreateAcls: made StandardAcl[resourceType=TOPIC, resourceName=flights,"
            " patternType=LITERAL, principal=User:ANONYMOUS, host=*, operation=READ, permissionType=ALLOW]"
        ]


async def test_a_node_that_watches_refuses_nothing_and_says_what_it_would(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = {"authorizer_class_name": STANDARD_AUTHORIZER, "penstock_authorizer_mode": "watch"}
    async with running(tmp_path, **settings) as (_, client):
        assert await created(client) == ErrorCode.NONE
        assert (await topic(client))[0] == ErrorCode.NONE
        everything = await client.request(MetadataRequest(topics=None), MetadataResponse)
        assert [it.name for it in everything.topics] == ["flights"]
        assert [line.split(" on ")[0] for line in audit(caplog)] == [
            "is Denied operation = CREATE",
            "is Denied operation = DESCRIBE",
        ]
