"""Every method of the admin client tells of every error that an answer can have, wherever in the answer it stands.

Answers are made from their declarations, with one row in each array; each error code in them is set in turn, and again
in older versions whose errors stand elsewhere. A method that is not in the table fails the first test.
"""

import inspect
from collections.abc import Awaitable, Callable, Iterator
from typing import Any
from uuid import UUID

import pytest
from tests.unit.client.fake_broker import Reply, fake_broker
from tests.unit.client.fake_cluster import NODE_ID, FakeCluster

from penstock.client.admin import Admin
from penstock.client.admin.configs import ConfigChange, ConfigOperation, ResourceType
from penstock.client.admin.features import UpgradeType
from penstock.client.admin.partitions import ElectionType
from penstock.client.admin.quorum import QuorumInfo
from penstock.client.admin.share_groups import SharePosition
from penstock.client.admin.topics import NewTopic
from penstock.client.settings import ClientSettings
from penstock.client.values import OffsetAndMetadata, TopicPartition
from penstock.protocol.acls import AclBinding, AclFilter
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.requests.api import AnyApiKey, ApiKey, api_of
from penstock.protocol.requests.framing import RequestHeader
from penstock.protocol.requests.own_apis import BalanceAction
from penstock.protocol.schema import Message
from penstock.protocol.secret import Secret

REFUSED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
"""That passes by itself never."""
SETTINGS = ClientSettings(retry_backoff_ms=1, retry_backoff_max_ms=1)
T0 = TopicPartition("t", 0)
RULE = AclBinding(2, "t", 3, "User:ada", "*", 3, 3)
LED = QuorumInfo(NODE_ID, -1, 0, (), (), {})
OF_THE_CLUSTER = (ApiKey.METADATA, ApiKey.FIND_COORDINATOR, ApiKey.API_VERSIONS)

CALLS: dict[str, Callable[[Admin], Awaitable[object]]] = {
    "offsets": lambda admin: admin.offsets({T0: -1}),
    "offsets_that_can_be_had": lambda admin: admin.offsets_that_can_be_had({T0: -1}),
    "describe_cluster": lambda admin: admin.describe_cluster(),
    "unregister_broker": lambda admin: admin.unregister_broker(1),
    "unregister_controller": lambda admin: admin.unregister_controller(1),
    "describe_log_dirs": lambda admin: admin.describe_log_dirs(),
    "move_replicas": lambda admin: admin.move_replicas({(T0, NODE_ID): "/d"}),
    "topics.create": lambda admin: admin.topics.create(NewTopic(name="t")),
    "topics.create_unless_there": lambda admin: admin.topics.create_unless_there(NewTopic(name="t")),
    "topics.delete": lambda admin: admin.topics.delete("t"),
    "topics.create_partitions": lambda admin: admin.topics.create_partitions("t", 2),
    "topics.eligible_leaders": lambda admin: admin.topics.eligible_leaders(["t"]),
    "topics.delete_records": lambda admin: admin.topics.delete_records({T0: 1}),
    "topics.delete_records_that_can_be": lambda admin: admin.topics.delete_records_that_can_be({T0: 1}),
    "configs.describe": lambda admin: admin.configs.describe(ResourceType.TOPIC, "t"),
    "configs.alter": lambda admin: admin.configs.alter(
        ResourceType.TOPIC, "t", [ConfigChange("retention.ms", ConfigOperation.DELETE)]
    ),
    "quotas.describe": lambda admin: admin.quotas.describe(),
    "quotas.alter": lambda admin: admin.quotas.alter({"user": "ada"}, {"producer_byte_rate": 1.0}),
    "configs.resources": lambda admin: admin.configs.resources(ResourceType.GROUP),
    "groups.listings": lambda admin: admin.groups.listings(),
    "groups.describe": lambda admin: admin.groups.describe("g"),
    "groups.history": lambda admin: admin.groups.history("g"),
    "groups.delete": lambda admin: admin.groups.delete("g"),
    "groups.remove_members": lambda admin: admin.groups.remove_members("g", "why"),
    "groups.offsets": lambda admin: admin.groups.offsets("g", [T0]),
    "groups.set_offsets": lambda admin: admin.groups.set_offsets("g", {T0: OffsetAndMetadata(1)}),
    "groups.holders": lambda admin: admin.groups.holders("t"),
    "groups.delete_offsets": lambda admin: admin.groups.delete_offsets("g", [T0]),
    "share_groups.describe": lambda admin: admin.share_groups.describe("g"),
    "share_groups.offsets": lambda admin: admin.share_groups.offsets("g", [T0]),
    "share_groups.offsets_of": lambda admin: admin.share_groups.offsets_of(["g"]),
    "share_groups.progress": lambda admin: admin.share_groups.progress("g", {T0: SharePosition(0, 0, 0)}),
    "share_groups.set_offsets": lambda admin: admin.share_groups.set_offsets("g", {T0: OffsetAndMetadata(1)}),
    "share_groups.delete_offsets": lambda admin: admin.share_groups.delete_offsets("g", ["t"]),
    "streams_groups.describe": lambda admin: admin.streams_groups.describe("g"),
    "partitions.elect_leaders": lambda admin: admin.partitions.elect_leaders(ElectionType.PREFERRED, [T0]),
    "partitions.balance_leaders": lambda admin: admin.partitions.balance_leaders(BalanceAction.TELL),
    "partitions.reassign": lambda admin: admin.partitions.reassign({T0: [NODE_ID]}),
    "partitions.reassignments": lambda admin: admin.partitions.reassignments(),
    "features.describe": lambda admin: admin.features.describe(),
    "features.update": lambda admin: admin.features.update({"f": 1}, UpgradeType.UPGRADE),
    "quorum.describe": lambda admin: admin.quorum.describe(),
    "quorum.add_voter": lambda admin: admin.quorum.add_voter(1, UUID(int=1), []),
    "quorum.remove_voter": lambda admin: admin.quorum.remove_voter(1, UUID(int=1)),
    "quorum.resign": lambda admin: admin.quorum.resign(LED),
    "quorum.metadata_of": lambda admin: admin.quorum.metadata_of(NODE_ID),
    "quorum.metrics_of": lambda admin: admin.quorum.metrics_of(NODE_ID),
    "acls.describe": lambda admin: admin.acls.describe(),
    "acls.create": lambda admin: admin.acls.create([RULE]),
    "acls.delete": lambda admin: admin.acls.delete([AclFilter()]),
    "users.describe": lambda admin: admin.users.describe(),
    "users.set_password": lambda admin: admin.users.set_password("ada", Secret("hush"), "SCRAM-SHA-256"),
    "users.remove": lambda admin: admin.users.remove("ada", "SCRAM-SHA-256"),
    "storage_groups.create": lambda admin: admin.storage_groups.create(),
    "transactions.listings": lambda admin: admin.transactions.listings(),
    "transactions.describe": lambda admin: admin.transactions.describe("a"),
    "transactions.terminate": lambda admin: admin.transactions.terminate("a"),
    "transactions.prepared": lambda admin: admin.transactions.prepared(),
    "delegation_tokens.create": lambda admin: admin.delegation_tokens.create(),
    "delegation_tokens.renew": lambda admin: admin.delegation_tokens.renew(b"h"),
    "delegation_tokens.expire": lambda admin: admin.delegation_tokens.expire(b"h"),
    "delegation_tokens.describe": lambda admin: admin.delegation_tokens.describe(),
    "transactions.complete": lambda admin: admin.transactions.complete("a", commits=True),
    "transactions.producers": lambda admin: admin.transactions.producers([T0]),
    "transactions.abort": lambda admin: admin.transactions.abort(T0, 1, 2, 3),
    "transactions.hanging": lambda admin: admin.transactions.hanging([T0], 0),
}
FROM_METADATA = {
    "topics.names",
    "topics.describe",
    "topics.first",
    "topics.is_there",
    "topics.wait_until_led",
    "storage_groups.describe",
    "storage_groups.members",
}
"""They make something of the answer of Metadata, or its pages, whose errors are each topic's own."""
LEFT_OUT = {"groups.offsets_of"}
"""What one of many refuses is not told (`test_committed_of_many.py`)."""
PASSED_OVER = (ApiKey.DESCRIBE_TOPIC_PARTITIONS,)
"""Asked for what is known besides of topics that Metadata has told of: rows with an error know nothing more."""


PREPARED = {
    "transaction_state": "Ongoing",
    "transaction_timeout_ms": 2**31 - 1,
    "ongoing_txn_producer_id": 0,
    "ongoing_txn_producer_epoch": 0,
}
"""What is told of a transaction."""


def sample(cls: type[Message]) -> Message:
    """An answer with one row in each array, about partition 0 of topic `t`."""
    values: dict[str, Any] = {}
    for name, item in cls.__fields__.items():
        if not isinstance(item.kind, str):
            values[name] = [sample(item.kind)] if item.is_array else item.new_default()
        elif item.kind == "string" and not item.is_array and name in ("name", "topic", "topic_name"):
            values[name] = "t"
        elif name in PREPARED:
            values[name] = PREPARED[name]
    return cls(**values)


def places(cls: type[Message], version: int, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Where in an answer an error code stands."""
    for name, item in cls.__fields__.items():
        if not item.is_in(version):
            continue
        if name == "error_code":
            yield (*path, name)
        elif not isinstance(item.kind, str) and item.is_array:
            yield from places(item.kind, version, (*path, name))


def refused_at(message: Message, path: tuple[str, ...]) -> Message:
    row = message
    for name in path[:-1]:
        row = getattr(row, name)[0]
    setattr(row, path[-1], REFUSED)
    return message


class Answering:
    """Answers all APIs with samples; one of them with an error somewhere."""

    def __init__(self) -> None:
        self.cluster = FakeCluster()
        self.asked: dict[AnyApiKey, int] = {}
        """APIs with the version in which they were asked."""
        self.refused: tuple[AnyApiKey, tuple[str, ...]] | None = None

    def __call__(self, header: RequestHeader, request: Message) -> Reply:
        if header.api_key in OF_THE_CLUSTER:
            return self.cluster(header, request)
        key = api_of(header.api_key).key
        self.asked[key] = header.api_version
        answer = sample(api_of(key).response_class)
        return refused_at(answer, self.refused[1]) if self.refused is not None and self.refused[0] == key else answer


def methods(part: object) -> Iterator[str]:
    return (name for name, it in inspect.getmembers(part, inspect.iscoroutinefunction) if not name.startswith("_"))


def test_every_method_is_here() -> None:
    admin = Admin("127.0.0.1:1")
    parts = {name: part for name, part in vars(admin).items() if type(part).__name__.endswith("Admin")}
    assert len(parts) == 14
    known = {*methods(admin), *(f"{part}.{name}" for part, it in parts.items() for name in methods(it))}
    assert known == CALLS.keys() | FROM_METADATA | LEFT_OUT


@pytest.mark.parametrize("name", CALLS)
async def test_no_error_is_passed_over(name: str) -> None:
    asked = await asked_and_refused(name, {})
    for key, newest in asked.items():
        for version in older_forms(key, newest):
            assert (await asked_and_refused(name, {key: (0, version)}))[key] == version


def older_forms(key: AnyApiKey, newest: int) -> Iterator[int]:
    """The newest version of each older form of an answer, by where errors stand in it."""
    seen = [sorted(places(api_of(key).response_class, newest))]
    for version in range(newest - 1, api_of(key).versions[0] - 1, -1):
        form = sorted(places(api_of(key).response_class, version))
        if form not in seen:
            seen.append(form)
            yield version


async def asked_and_refused(name: str, versions: dict[AnyApiKey, tuple[int, int]]) -> dict[AnyApiKey, int]:
    """What the method asks, and in which versions, of a broker that is no newer than `versions`."""
    call, answering = CALLS[name], Answering()
    async with fake_broker(answering, versions) as broker:
        answering.cluster.broker = broker
        async with Admin([broker.address], SETTINGS) as admin:
            assert REFUSED.name not in repr(await call(admin))
            asked = dict(answering.asked)
            for key, version in asked.items():
                for path in places(api_of(key).response_class, version):
                    answering.refused = key, path
                    is_told = key not in PASSED_OVER or len(path) == 1
                    told = await _is_told(call(admin))
                    assert told is is_told, f"{key.name} {version}: {'.'.join(path)}"
    return asked


async def _is_told(call: Awaitable[object]) -> bool:
    try:
        return REFUSED.name in repr(await call)
    except KafkaError as error:
        return error.code is REFUSED
