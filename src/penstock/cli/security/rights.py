"""What a client that has come in may do, as the cluster itself says it."""

from __future__ import annotations

from typing import Final, TypeVar

from penstock.cli.security.examination import EndError
from penstock.client.blocking import Pauses
from penstock.client.blocking.connection import BlockingConnection
from penstock.protocol.acls import Operation
from penstock.protocol.address import Address
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from penstock.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from penstock.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from penstock.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from penstock.protocol.requests.api import ApiKey, api_of
from penstock.protocol.schema import Message

Answer = TypeVar("Answer", bound=Message)
STAGE: Final = "RIGHTS"
UNKNOWN: Final = -1
ATTEMPTS: Final = 8
NOT_YET: Final = (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
_IN_COORDINATOR: Final = 3
"""FindCoordinator asks about one key up to this version."""


def asked(connection: BlockingConnection, key: ApiKey, message: Message, answer: type[Answer], newest: int) -> Answer:
    version = connection.version_of(key, min(newest, api_of(key).versions[-1]))
    connection.send(key, message, version)
    return connection.receive(answer)


def on_cluster(connection: BlockingConnection) -> tuple[str, dict[int, Address]]:
    """What may be done with the cluster, in words, and where its brokers say that they listen."""
    request = DescribeClusterRequest(include_cluster_authorized_operations=True)
    answer = asked(connection, ApiKey.DESCRIBE_CLUSTER, request, DescribeClusterResponse, 0)
    if answer.error_code:
        raise EndError(STAGE, f"the cluster does not describe itself: {ErrorCode(answer.error_code).name}")
    brokers = {broker.broker_id: Address(broker.host, broker.port) for broker in answer.brokers}
    return f"on the cluster: {words(answer.cluster_authorized_operations)}", brokers


def on_topic(connection: BlockingConnection, who: str, topic: str, wanted: tuple[Operation, ...]) -> str:
    """Raises EndError where something wanted may not be done."""
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=topic)],
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=True,
    )
    (answer,) = asked(connection, ApiKey.METADATA, request, MetadataResponse, 12).topics
    if answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        raise EndError(STAGE, f"there is no topic {topic}: make it with `penstock topics --create --topic {topic}`")
    operations = answer.topic_authorized_operations
    if answer.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        operations = 0
    elif answer.error_code:
        raise EndError(STAGE, f"topic {topic}: {ErrorCode(answer.error_code).name}")
    _check(who, f"topic {topic}", f"--topic {topic}", operations, wanted or (Operation.DESCRIBE,))
    return f"on topic {topic}: {words(operations)}"


def on_group(connection: BlockingConnection, who: str, group: str) -> str:
    """Raises EndError. The first question about a group lets the cluster make the topic of groups, which takes time."""
    pauses = Pauses()
    for _ in range(ATTEMPTS):
        code, operations = _of_group(connection, group)
        if code not in NOT_YET:
            break
        pauses.take()
    if code in (*NOT_YET, ErrorCode.NOT_COORDINATOR):
        return f"on group {group}: {ErrorCode(code).name}, {words(operations)}"
    _check(who, f"group {group}", f"--group {group}", operations, (Operation.READ,))
    return f"on group {group}: {words(operations)}"


def _of_group(connection: BlockingConnection, group: str) -> tuple[int, int]:
    """A code, and what may be done: another broker than the coordinator does not know that."""
    request = FindCoordinatorRequest(key=group)
    found = asked(connection, ApiKey.FIND_COORDINATOR, request, FindCoordinatorResponse, _IN_COORDINATOR)
    if found.error_code:
        return found.error_code, 0 if found.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED else UNKNOWN
    message = DescribeGroupsRequest(groups=[group], include_authorized_operations=True)
    (answer,) = asked(connection, ApiKey.DESCRIBE_GROUPS, message, DescribeGroupsResponse, 5).groups
    return answer.error_code, answer.authorized_operations


def words(operations: int) -> str:
    """Of a field of bits, as the cluster answers it."""
    if operations < 0:
        return "the cluster does not say"
    return ", ".join(one.name for one in Operation if one > Operation.ALL and operations >> one & 1) or "nothing"


def _check(who: str, what: str, option: str, operations: int, wanted: tuple[Operation, ...]) -> None:
    missing = [one for one in wanted if operations >= 0 and not operations >> one & 1]
    if missing:
        options = " ".join(f"--operation {one.name}" for one in missing)
        cure = f"`penstock acls --add --allow-principal {who} {options} {option}`, by somebody who may"
        raise EndError(STAGE, f"{who} may not {' nor '.join(one.name for one in missing)} on {what}: {cure}")
