"""A cluster as the console's views are asked about it: of everything there is one of each kind."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, Final, cast
from uuid import UUID

from penstock.client.admin import Admin, BrokerDescription, ClusterDescription, LogDirDescription, ReplicaSize
from penstock.client.admin.configs import ConfigEntry, ConfigSource
from penstock.client.admin.group_history import AwaitedMember, Change, EpochDescription, GroupHistory, MemberTime
from penstock.client.admin.groups import SHARE, GroupDescription, GroupListing, MemberDescription
from penstock.client.admin.partitions import Balance, Reassignment
from penstock.client.admin.quorum import QuorumEndpoint, QuorumInfo, QuorumReplica
from penstock.client.admin.quotas import EntityQuotas
from penstock.client.admin.share_groups import SharePosition
from penstock.client.admin.storage_groups import StorageGroup
from penstock.client.errors import ConnectionFailedError, UnsupportedByBrokerError
from penstock.client.metadata import PartitionMetadata, TopicMetadata
from penstock.client.settings import ClientSettings
from penstock.client.values import EARLIEST, OffsetAndMetadata, TopicPartition
from penstock.console.looks import Looks
from penstock.console.watched import WatchedCluster
from penstock.protocol.acls import AclBinding, Operation, PatternType, Permission, Resource
from penstock.protocol.address import Address
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.requests.own_apis import Metric

Rows = Sequence[tuple[int, list[int], list[int]]]


def _topic(name: str, rows: Rows, *, number: int, is_internal: bool = False) -> TopicMetadata:
    """Leader, replicas and those in sync of each partition."""
    partitions = {
        n: PartitionMetadata(name, n, leader, 5 + n, replicas, isr, [], ErrorCode.NONE)
        for n, (leader, replicas, isr) in enumerate(rows)
    }
    return TopicMetadata(name, UUID(int=number), is_internal, ErrorCode.NONE, partitions)


TOPICS: Final = {
    topic.name: topic
    for topic in (
        _topic("views", [(2, [1, 2], [1, 2])], number=1),
        _topic("clicks", [(1, [1, 2], [1, 2]), (2, [2, 1], [2]), (-1, [1, 2], [])], number=2),
        _topic("Orders", [(3, [3, 1, 2], [3, 1]), (2, [2, 3, 1], [2, 3, 1])], number=3),
        _topic("__offsets", [(1, [1], [1])], number=4, is_internal=True),
        _topic("empty", [(1, [], [])], number=5),
    )
}
CLICKS_0, CLICKS_1, CLICKS_2 = (TopicPartition("clicks", n) for n in range(3))
ORDERS_0, ORDERS_1 = (TopicPartition("Orders", n) for n in range(2))
VIEWS_0 = TopicPartition("views", 0)
ENDS: Final[dict[TopicPartition, int]] = {CLICKS_0: 100, CLICKS_1: 50, ORDERS_0: 70, ORDERS_1: 5, VIEWS_0: 9} | {
    TopicPartition(f"w{n}", 0): n for n in range(7)
}
GROUPS: Final = [
    GroupListing("readers", "consumer", "Stable", "classic"),
    GroupListing("Bills", "consumer", "Empty", "consumer"),
    GroupListing("sharers", SHARE, "Stable", SHARE),
    GroupListing("flows", "streams", "Dead", "streams"),
    GroupListing("old", "connect", "Stable", ""),
    GroupListing("wide", "consumer", "Assigning", "consumer"),
]
COMMITTED: Final = {
    "readers": {CLICKS_0: OffsetAndMetadata(60), CLICKS_1: OffsetAndMetadata(49), ORDERS_0: OffsetAndMetadata(80)},
    "Bills": {ORDERS_1: OffsetAndMetadata(1), CLICKS_2: OffsetAndMetadata(3)},
    "flows": {VIEWS_0: OffsetAndMetadata(2)},
    "wide": {TopicPartition(f"w{n}", 0): OffsetAndMetadata(n) for n in range(7)},
}
SHARED: Final = {
    CLICKS_1: SharePosition(7, 1, 3),
    VIEWS_0: SharePosition(-1, 0, None),
    CLICKS_0: SharePosition(2, 0, 9),
    ORDERS_0: SharePosition(0, 0, 1),
    ORDERS_1: SharePosition(5, 0, 0),
}
MEMBERS: Final = [
    MemberDescription("m1", "i1", "app-1", "/h1", [ORDERS_1, CLICKS_1, ORDERS_0], b"", b""),
    MemberDescription("m2", None, "app-2", "/h2", [CLICKS_0], b"", b""),
]
WIDE: Final = MemberDescription("m3", None, "c", "/h", [TopicPartition(f"w{n:02}", 0) for n in range(22)], b"", b"")
HISTORY: Final = [
    EpochDescription(
        number, "classic", 10 + number, 1000 * number, None, ended_ms, number, cause, changes, 0, moved, [], times
    )
    for number, ended_ms, cause, changes, moved, times in (
        (1, None, "it began", [], None, []),
        (2, 2500, "", [Change("joined", "m1", None)], 3, [MemberTime("m1", 7, 0), MemberTime("m2", 4, 9)]),
        (3, 3001, "", [Change("left", "m2", "i2")], 0, [MemberTime("m2", 5, 4), MemberTime("m1", 9, 1)]),
    )
]
AWAITED: Final = [AwaitedMember("m1", "to join", 5, 6, []), AwaitedMember("m2", "to send a heartbeat", None, None, [])]


def _size(number: int, *, is_future: bool = False) -> ReplicaSize:
    return ReplicaSize(number, 0, is_future)


DIRECTORIES: Final = {
    1: [
        LogDirDescription(1, "/a", ErrorCode.NONE, 900, 300, {CLICKS_0: _size(40), CLICKS_1: _size(11)}),
        LogDirDescription(1, "/b", ErrorCode.NONE, 800, 200, {CLICKS_0: _size(99, is_future=True)}),
        LogDirDescription(1, "/c", ErrorCode.KAFKA_STORAGE_ERROR, -1, -1, {}),
    ],
    2: [
        LogDirDescription(2, "/a", ErrorCode.NONE, 7, 6, {CLICKS_0: _size(38), CLICKS_1: _size(12), VIEWS_0: _size(5)})
    ],
}
CONFIGS: Final = [
    ConfigEntry("b", "2", ConfigSource.DEFAULT_CONFIG, False, False, [], "what b is"),
    ConfigEntry("a", "1", ConfigSource.STATIC_BROKER_CONFIG, True, False, []),
    ConfigEntry("z.password", "x", ConfigSource.DYNAMIC_BROKER_CONFIG, False, True, []),
    ConfigEntry("y", None, ConfigSource.DYNAMIC_TOPIC_CONFIG, False, False, []),
]
RULES: Final = [
    AclBinding(
        Resource.TOPIC, "t", PatternType.PREFIXED, "User:ada", "*", Operation.DESCRIBE_CONFIGS, Permission.ALLOW
    ),
    AclBinding(99, "x", PatternType.LITERAL, "User:bob", "10.0.0.0/8", Operation.ALL, Permission.DENY),
]
QUORUM: Final = QuorumInfo(
    2,
    17,
    500,
    (QuorumReplica(1, UUID(int=1), 480, 0, 0), QuorumReplica(2, UUID(int=2), 505, 0, 0)),
    (QuorumReplica(7, UUID(int=7), 600, 0, 0),),
    {1: (QuorumEndpoint("CONTROLLER", "h1", 9093), QuorumEndpoint("SECURED", "h1", 9094))},
)
METRICS: Final = {
    1: {
        ("BrokerLease", "IsLeaseOver"): "0",
        ("delayed-records", "topic-clicks.waiting"): "4",
        ("BrokerTopicMetrics", "MessagesInPerSec"): "10",
        ("BrokerTopicMetrics", "BytesOutPerSec"): "70",
    },
    2: {
        ("BrokerLease", "IsLeaseOver"): "1",
        ("delayed-records", "topic-clicks.waiting"): "3",
        ("BrokerTopicMetrics", "MessagesInPerSec"): "5",
    },
}


class ShownCluster:
    """`moods`: `kafka` knows nothing of our own, `refusing` refuses what a page can do without, `knows no end` has no
    offsets. Its clock goes on by five seconds at each look.
    """

    def __init__(self, moods: Collection[str] = ()) -> None:
        self.moods = moods
        self.seconds = 0.0
        self.watched = WatchedCluster("127.0.0.1:1", ClientSettings())
        self.watched.looks = Looks(lambda: self.seconds, lambda: 0.0)
        parts = {
            "acls": SimpleNamespace(describe=self._optional([*RULES])),
            "configs": SimpleNamespace(describe=self._configs),
            "groups": SimpleNamespace(
                listings=self._optional(GROUPS, "refusing"),
                offsets_of=self._offsets_of,
                offsets=self._offsets,
                describe=self._group,
                history=self._history,
            ),
            "partitions": SimpleNamespace(reassignments=self._moves, balance_leaders=self._balance),
            "quorum": SimpleNamespace(
                describe=self._optional(QUORUM, "refusing", "kafka"),
                metrics_of=self._metrics_of,
            ),
            "quotas": SimpleNamespace(describe=self._optional(QUOTAS)),
            "share_groups": SimpleNamespace(offsets_of=self._share_offsets_of, offsets=self._share_offsets),
            "storage_groups": SimpleNamespace(describe=self._optional(STORAGE_GROUPS, "refusing", "kafka")),
            "topics": SimpleNamespace(pages=self._pages, first=self._first, describe=self._described),
            "users": SimpleNamespace(describe=self._optional({"bob": {"SCRAM-SHA-512": 1}, "ada": {"b": 1, "a": 2}})),
            "cluster": SimpleNamespace(retrying=self._retrying, refresh=self._refresh),
            "offsets_that_can_be_had": self._offsets_that_can_be_had,
            "describe_log_dirs": self._log_dirs,
            "describe_cluster": self._brokers,
        }
        self.watched.admin = self.watched._of_all = cast("Admin", SimpleNamespace(**parts))

    def _optional(self, found: Any, *moods: str) -> Any:
        async def asked(*_: Any, **__: Any) -> Any:
            for mood in moods or ("refusing", "kafka"):
                self._refuse(mood)
            return found

        return asked

    def _refuse(self, *moods: str) -> None:
        if "refusing" in moods and "refusing" in self.moods:
            raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        if "kafka" in moods and "kafka" in self.moods:
            raise UnsupportedByBrokerError("Apache Kafka has none")

    async def _brokers(self, *, include_fenced: bool) -> ClusterDescription:
        assert include_fenced
        rows = [
            BrokerDescription(node, Address(f"h{node}", 9092), f"r{node}" if node < 3 else None, node == 4)
            for node in (1, 2, 3, 4)
        ]
        return ClusterDescription("the-cluster", 1, rows)

    async def _metrics_of(self, node: int, *, of_the_whole: bool) -> list[Metric]:
        assert of_the_whole
        self._refuse("kafka")
        if node not in METRICS:
            raise ConnectionFailedError("refused")
        grown = 1 + self.seconds
        return [
            Metric(group=group, name=name, value=value if group != "BrokerTopicMetrics" else str(int(value) * grown))
            for (group, name), value in METRICS[node].items()
        ]

    async def _pages(self, _: int) -> AsyncIterator[list[TopicMetadata]]:
        for topic in TOPICS.values():
            yield [topic]

    async def _first(self, _: int) -> tuple[list[TopicMetadata], bool]:
        return list(TOPICS.values()), True

    async def _described(self, names: Sequence[str]) -> list[TopicMetadata]:
        if any(name not in TOPICS for name in names):
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return [TOPICS[name] for name in names]

    async def _refresh(self, names: Sequence[str] | None = None) -> Any:
        return SimpleNamespace(topics={name: TOPICS[name] for name in names or ()})

    async def _retrying(self, attempt: Any) -> Any:
        return await attempt()

    async def _configs(self, kind: Any, name: str) -> list[ConfigEntry]:
        return [ConfigEntry("of", f"{kind.name} {name}", ConfigSource.DEFAULT_CONFIG, True, False, []), *CONFIGS]

    async def _log_dirs(
        self, nodes: Sequence[int], chosen: Mapping[str, Collection[int]] | None, *, with_compaction: bool
    ) -> list[LogDirDescription]:
        (node,) = nodes
        if node not in DIRECTORIES:
            raise ConnectionFailedError("refused")
        assert not with_compaction
        return [
            row.replace(
                partitions={
                    one: size
                    for one, size in row.partitions.items()
                    if chosen is None or one.partition in chosen.get(one.topic, ())
                }
            )
            for row in DIRECTORIES[node]
        ]

    async def _offsets_that_can_be_had(self, asked: Mapping[TopicPartition, int]) -> tuple[dict[Any, Any], Any]:
        ends = {} if "knows no end" in self.moods else {one: ENDS[one] for one in asked if one in ENDS}
        found = {one: end // 10 if asked[one] == EARLIEST else end for one, end in ends.items()}
        failures = {one: KafkaError(ErrorCode.LEADER_NOT_AVAILABLE) for one in asked if one not in found}
        return {one: SimpleNamespace(offset=offset) for one, offset in found.items()}, failures

    async def _offsets_of(self, names: Sequence[str]) -> tuple[dict[str, Any], dict[str, Any]]:
        found = {name: COMMITTED[name] for name in names if name in COMMITTED}
        return found, {name: KafkaError(ErrorCode.NOT_COORDINATOR, "moved") for name in names if name not in found}

    async def _offsets(self, name: str) -> Mapping[TopicPartition, OffsetAndMetadata]:
        return COMMITTED.get(name, {})

    async def _share_offsets_of(self, names: Sequence[str]) -> tuple[dict[str, Any], dict[str, Any]]:
        return dict.fromkeys(names, SHARED), {}

    async def _share_offsets(self, name: str) -> Mapping[TopicPartition, SharePosition]:
        assert name == "sharers"
        return SHARED

    async def _group(self, name: str) -> GroupDescription:
        if name == "readers":
            return GroupDescription(name, "Stable", "consumer", "range", 2, MEMBERS)
        if name == "sharers":
            return GroupDescription(name, "Stable", SHARE, "simple", 1, MEMBERS[1:])
        if name == "wide":
            return GroupDescription(name, "Assigning", "consumer", "uniform", 2, [WIDE])
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, "not of this kind")

    async def _history(self, name: str) -> GroupHistory:
        self._refuse("refusing", "kafka")
        return GroupHistory(name, 9999, HISTORY, AWAITED)

    async def _moves(self) -> dict[TopicPartition, Reassignment]:
        if "resting" in self.moods:
            return {}
        return {
            VIEWS_0: Reassignment((1, 2), (2,), ()),
            CLICKS_0: Reassignment((1, 2, 3), (2, 3), (1,)),
            ORDERS_0: Reassignment((3, 1), (), (2,)),
        }

    async def _balance(self, action: Any) -> Balance:
        self._refuse("refusing", "kafka")
        under_way = None if "resting" in self.moods else CLICKS_0
        return Balance(True, int(action) + 4, under_way, 1, 2, 3, ())


QUOTAS: Final = [
    EntityQuotas({"user": None, "client-id": "app"}, {"producer_byte_rate": 1.5}),
    EntityQuotas({"ip": "10.0.0.1"}, {"connection_creation_rate": 2.0}),
]
STORAGE_GROUPS: Final = [
    StorageGroup(TOPICS["views"].partitions[0], {f"t{n:02}": n for n in range(22)}),
    StorageGroup(TOPICS["clicks"].partitions[2], {}),
]
