"""The cluster as the console sees it: what its pages need, each thing asked for as seldom as will do."""

import asyncio
import time
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from math import inf
from typing import Any, Final, TypeVar, cast

from penstock.client.admin import Admin, ClusterDescription, LogDirDescription
from penstock.client.admin.configs import ConfigEntry, ResourceType
from penstock.client.admin.group_history import GroupHistory
from penstock.client.admin.groups import SHARE, GroupDescription, GroupListing
from penstock.client.admin.partitions import Balance, Reassignment
from penstock.client.admin.quorum import QuorumInfo
from penstock.client.admin.share_groups import SharePosition
from penstock.client.admin.storage_groups import StorageGroup
from penstock.client.at_leaders import Failures
from penstock.client.errors import AnswerTooLargeError, ClientError, UnsupportedByBrokerError
from penstock.client.metadata import TopicMetadata
from penstock.client.settings import ClientSettings
from penstock.client.values import LATEST, OffsetAndMetadata, TopicPartition
from penstock.console.looks import FRESH_S, Looks
from penstock.console.samples import Samples
from penstock.protocol.errors import KafkaError
from penstock.protocol.requests.own_apis import BalanceAction
from penstock.protocol.value import Value

SIZES_S: Final = 10.0
"""Sizes of logs are looked up no more often."""
PARTITIONS_AT_ONCE: Final = 2_000
"""Are asked about: more would keep others waiting, at the broker and here. Topics with so many are shown before all
are known.
"""
FIGURES_S: Final = 5.0
"""Nor figures of brokers,"""
LARGE_S: Final = 5.0
"""nor lists of a cluster so large that it takes a while to look at all of it."""
METRICS_S: Final = 2.0
"""A broker that tells nothing for so long is silent."""
MAX_GROUPS: Final = 2_000
"""Of so many groups the lag is reckoned."""
COUNTED: Final = {
    "records in": ("BrokerTopicMetrics", "MessagesInPerSec"),
    "bytes in": ("BrokerTopicMetrics", "BytesInPerSec"),
    "bytes out": ("BrokerTopicMetrics", "BytesOutPerSec"),
}
"""What is remembered of brokers, by the names of Kafka's metrics: counts, whose growth is the rate."""
MOST_PARTITIONS: Final = 200_000
"""Of all topics, of which each counts as one more."""
ALL_TOPICS_BYTES: Final = 10 * 1024 * 1024
"""About as many, in the one answer of a broker that does not tell of them by pages."""
TOO_MANY: Final = "the cluster has more topics than are listed here; of each there is a page: #/topic?name=…"
TOO_MANY_S: Final = 60.0
LAGS: Final = "lags"
REFUSALS: Final = (KafkaError, ClientError, TimeoutError)

OLD_S: Final = 15.0
"""What was so long ago says when that was."""

Lag = int
Lags = Mapping[TopicPartition, Lag]
Metrics = Mapping[tuple[str, str], str]
Result = TypeVar("Result")


def count_name(what: str, node_id: int) -> str:
    """Of the samples."""
    return f"{what} of {node_id}"


class TooManyTopicsError(ClientError):
    """All topics of the cluster would take too much memory."""


class GroupLags(Value):
    """The lag of each group, by the partitions of which it has an offset. `refused` has why it is not known of a group,
    or not of all its partitions.
    """

    lags: Mapping[str, Lags]
    refused: Mapping[str, str]


class GroupLag(Value):
    """Of one group; `lags` is None where it is not known. `was_so_ms` says since 1970 when it was so, if that is long
    ago, and `why` why it is not known, old, or not of all partitions.
    """

    lags: Lags | None
    was_so_ms: int | None
    why: str | None


class WatchedCluster:
    def __init__(self, bootstrap_servers: str, settings: ClientSettings) -> None:
        """Connects at the first question."""
        self.bootstrap_servers = bootstrap_servers
        self.settings = settings
        self.admin = Admin(bootstrap_servers, settings)
        self._of_all = Admin(bootstrap_servers, settings.replace(max_answer_bytes=ALL_TOPICS_BYTES))
        """Asks for all topics: other questions need not wait behind a large answer on the same connection."""
        self._all_topics: Mapping[str, TopicMetadata] = {}
        self._too_many_until_s = -inf
        self.looks = Looks(time.monotonic)
        self.epoch_s = time.time() - time.monotonic()
        """Since 1970, when the clock of the looks was 0."""
        self.counts = Samples()
        """Of `COUNTED`, by `count_name`."""
        self.total_lags = Samples()
        """By group."""
        self._reckoned: dict[str, tuple[object, object, Any]] = {}

    async def close(self) -> None:
        await self.looks.close()
        await self.admin.cluster.close()
        await self._of_all.cluster.close()

    async def brokers(self) -> ClusterDescription:
        return await self.looks.at("brokers", self._brokers)

    async def _brokers(self) -> ClusterDescription:
        await self.admin.cluster.refresh([])
        return await self.admin.describe_cluster(include_fenced=True)

    async def quorum(self) -> QuorumInfo:
        return await self.looks.at("quorum", self.admin.quorum.describe)

    async def metrics(self) -> dict[int, Metrics | None]:
        """Of each broker in service; None for one that does not answer. Empty for one of Apache Kafka's."""
        return await self.looks.at("metrics", self._metrics, FIGURES_S)

    async def waiting(self, topic: str) -> int | None:
        """How many records of a topic wait until they are due, as far as brokers tell soon; None where nobody does."""
        found = await self.looks.soon("metrics", self._metrics, FIGURES_S) or {}
        told = [(metrics or {}).get(("delayed-records", f"topic-{topic}.waiting")) for metrics in found.values()]
        counts = [int(count) for count in told if count is not None]
        return sum(counts) if counts else None

    async def _metrics(self) -> dict[int, Metrics | None]:
        nodes = [row.node_id for row in (await self.brokers()).brokers if not row.is_fenced]
        found = dict(zip(nodes, await asyncio.gather(*map(self._metrics_of, nodes)), strict=True))
        counts = {
            count_name(what, node): float(metrics[key])
            for node, metrics in found.items()
            for what, key in COUNTED.items()
            if metrics and key in metrics
        }
        self.counts.take(time.time(), counts)
        return found

    async def _metrics_of(self, node_id: int) -> Metrics | None:
        try:
            async with asyncio.timeout(METRICS_S):
                found = await self.admin.quorum.metrics_of(node_id, of_the_whole=True)
        except (KafkaError, UnsupportedByBrokerError):
            return {}
        except (ClientError, TimeoutError):
            return None
        return {(row.group, row.name): row.value for row in found}

    async def topics(self) -> Mapping[str, TopicMetadata]:
        """All of them."""
        return await self.looks.at("topics", self._topics)

    def reckoned(self, name: str, of: object, also: object, reckon: Callable[[], Result]) -> Result:
        """What is reckoned of a large thing is kept until there is another one, or something else besides it."""
        known = self._reckoned.get(name)
        if known is None or known[0] is not of or known[1] != also:
            known = self._reckoned[name] = of, also, reckon()
        return cast("Result", known[2])

    async def topics_soon(self) -> Mapping[str, TopicMetadata] | None:
        """All of them; None while they are not known yet."""
        return await self.looks.soon("topics", self._topics)

    async def _topics(self) -> Mapping[str, TopicMetadata]:
        """A cluster that has too many for this process is not asked for them again at once."""
        if time.monotonic() < self._too_many_until_s:
            raise TooManyTopicsError(TOO_MANY)
        cluster = self._of_all.cluster
        try:
            with suppress(UnsupportedByBrokerError):
                self._all_topics = await cluster.retrying(self._topics_by_pages)
                return self._all_topics
            return (await cluster.retrying(cluster.refresh)).topics
        except AnswerTooLargeError:
            self._too_many_until_s = time.monotonic() + TOO_MANY_S
            raise TooManyTopicsError(TOO_MANY) from None

    async def _topics_by_pages(self) -> Mapping[str, TopicMetadata]:
        """Neither the brokers nor other pages of this process wait for all of them. What is known of a later epoch than
        a broker tells, as one that is cut off, stays.
        """
        found: dict[str, TopicMetadata] = {}
        partitions = 0
        async for page in self._of_all.topics.pages(PARTITIONS_AT_ONCE):
            found |= {topic.name: topic.at_least(self._all_topics.get(topic.name)) for topic in page}
            partitions += sum(1 + len(topic.partitions) for topic in page)
            if partitions > MOST_PARTITIONS:
                raise AnswerTooLargeError(TOO_MANY)
        return found

    async def topics_now(self, shown: Sequence[TopicMetadata]) -> Sequence[TopicMetadata]:
        """Some of all topics, as they are now also where it takes long to look at all. One that has gone stays until
        then.
        """
        if not self.looks.is_slow("topics"):
            return shown
        names = tuple(topic.name for topic in shown)
        cluster = self._of_all.cluster
        look = partial(cluster.retrying, partial(cluster.refresh, names))
        found = await self.looks.soon(("topics", names), look, self._list_s)
        known = {name: topic for name, topic in found.topics.items() if not topic.error} if found else {}
        return [known.get(topic.name, topic) for topic in shown]

    async def first_topics(self) -> tuple[Mapping[str, TopicMetadata], bool]:
        """All topics, or where they take long the first ones by their names; and whether that is all."""
        if not self.looks.knows("topics"):
            with suppress(*REFUSALS):
                found, is_all = await self.looks.at("first topics", self._first_topics)
                shows = any(not topic.is_internal for topic in found)
                if is_all or (shows and await self.topics_soon() is None):
                    return {topic.name: topic for topic in found}, is_all
        return await self.topics(), True

    async def _first_topics(self) -> tuple[Sequence[TopicMetadata], bool]:
        return await self.admin.cluster.retrying(lambda: self.admin.topics.first(PARTITIONS_AT_ONCE))

    async def topic(self, name: str) -> TopicMetadata:
        """A KafkaError if there is none."""
        return (await self.looks.at(("topic", name), lambda: self.admin.topics.describe([name])))[0]

    async def configs(self, kind: ResourceType, name: str) -> Sequence[ConfigEntry]:
        return await self.looks.at(("configs", kind, name), lambda: self.admin.configs.describe(kind, name))

    async def log_dirs(self, topics: Sequence[TopicMetadata] | None = None) -> Sequence[LogDirDescription]:
        """Of the nodes that answer, with the partitions of all topics or of these."""
        return await self.looks.at(dirs_key(topics), lambda: self._log_dirs(topics), SIZES_S)

    async def log_dirs_soon(self, topics: Sequence[TopicMetadata]) -> Sequence[LogDirDescription]:
        """All that is known of them by now."""
        return await self.looks.soon(dirs_key(topics), lambda: self._log_dirs(topics), SIZES_S) or []

    async def _log_dirs(self, topics: Sequence[TopicMetadata] | None) -> Sequence[LogDirDescription]:
        chosen = None if topics is None else {topic.name: list(topic.partitions) for topic in topics}
        nodes = [row.node_id for row in (await self.brokers()).brokers if not row.is_fenced]
        parts = await asyncio.gather(*(self._log_dirs_of(node, chosen) for node in nodes))
        return [row for part in parts for row in part]

    async def _log_dirs_of(
        self, node: int, chosen: Mapping[str, Collection[int]] | None
    ) -> Sequence[LogDirDescription]:
        with suppress(*REFUSALS):
            return await self.admin.describe_log_dirs([node], chosen, with_compaction=False)
        return []

    async def offsets(self, partitions: Collection[TopicPartition], timestamp_ms: int) -> Mapping[TopicPartition, int]:
        """Of those that can be had."""
        if not partitions:
            return {}
        key = ("offsets", timestamp_ms, tuple(sorted(partitions)))
        asked = dict.fromkeys(partitions, timestamp_ms)
        found, _ = await self.looks.at(key, lambda: self.admin.offsets_that_can_be_had(asked))
        return {partition: value.offset for partition, value in found.items()}

    async def groups(self) -> Sequence[GroupListing]:
        return await self.looks.at("groups", self.admin.groups.listings, self._list_s)

    @property
    def _list_s(self) -> float:
        """How long lists are good for."""
        return LARGE_S if self.looks.is_slow("topics") or self.looks.is_slow(LAGS) else FRESH_S

    async def group(self, name: str) -> GroupDescription:
        return await self.looks.at(("group", name), lambda: self.admin.groups.describe(name))

    async def history(self, name: str) -> GroupHistory | None:
        """None where the brokers do not tell."""
        return await self.looks.at(("history", name), lambda: self._history(name))

    async def _history(self, name: str) -> GroupHistory | None:
        with suppress(KafkaError, UnsupportedByBrokerError):
            return await self.admin.groups.history(name)
        return None

    async def share_positions(self, name: str) -> Mapping[TopicPartition, SharePosition]:
        return await self.looks.at(("share positions", name), lambda: self.admin.share_groups.offsets(name))

    async def committed(self, name: str) -> Mapping[TopicPartition, OffsetAndMetadata]:
        return await self.looks.at(("committed", name), lambda: self.admin.groups.offsets(name))

    def was_so_ms(self, key: Hashable) -> int | None:
        """Since 1970, when what is known was looked at; None where it is as good as now."""
        if self.looks.age_s(key) < OLD_S:
            return None
        began_s = self.looks.began_s(key)
        assert began_s is not None, "what was never looked at has no age"
        return int((self.epoch_s + began_s) * 1000)

    async def lags(self) -> GroupLags:
        return await self.looks.at(LAGS, self._lags)

    async def lags_soon(self) -> GroupLags:
        """All that is known of them by now."""
        return await self.looks.soon(LAGS, self._lags) or GroupLags({}, {})

    async def lags_in_sight(self, shown: Sequence[GroupListing], known: GroupLags) -> Mapping[str, GroupLag]:
        """Of some groups: where it takes long to look at all, as they are now, as far as that is told soon."""
        names = tuple(row.group_id for row in shown)
        now, key = GroupLags({}, {}), (LAGS, names)
        if not self.looks.knows(LAGS) or self.looks.is_slow(LAGS):
            now = await self.looks.soon(key, lambda: self._lags_of(shown), self._list_s) or now
        refused = {**known.refused, **dict.fromkeys(now.lags), **now.refused}
        return {
            name: GroupLag(now.lags[name], self.was_so_ms(key), refused.get(name))
            if name in now.lags
            else GroupLag(known.lags.get(name), self.was_so_ms(LAGS) if name in known.lags else None, refused.get(name))
            for name in names
        }

    async def _lags(self) -> GroupLags:
        found = await self._lags_of((await self.groups())[:MAX_GROUPS])
        self.total_lags.take(time.time(), {name: float(sum(rows.values())) for name, rows in found.lags.items()})
        return found

    async def _lags_of(self, listings: Sequence[GroupListing]) -> GroupLags:
        admin, shared = self.admin, [row.group_id for row in listings if row.type == SHARE]
        (positions, failures), (begun, others) = await asyncio.gather(
            admin.groups.offsets_of([row.group_id for row in listings if row.type != SHARE]),
            admin.share_groups.offsets_of(shared),
        )
        refused = {name: str(error) for name, error in (failures | others).items()}
        ends, endless = await self._ends(list({partition: None for rows in positions.values() for partition in rows}))
        lags: dict[str, Lags] = {
            name: {place: one.lag for place, one in rows.items() if one.lag is not None} for name, rows in begun.items()
        }
        for name, rows in positions.items():
            known = {one: max(ends[one] - row.offset, 0) for one, row in rows.items() if one in ends}
            missing = [one for one in rows if one in endless]
            if missing:
                refused[name] = f"{len(missing)} of {len(rows)} partitions do not count: {endless[missing[0]]}"
            if known or not rows:
                lags[name] = known
        return GroupLags(lags, refused)

    async def _ends(self, partitions: Sequence[TopicPartition]) -> tuple[dict[TopicPartition, int], Failures]:
        """And why others cannot be had."""
        ends: dict[TopicPartition, int] = {}
        failures: Failures = {}
        for first in range(0, len(partitions), PARTITIONS_AT_ONCE):
            asked = dict.fromkeys(partitions[first : first + PARTITIONS_AT_ONCE], LATEST)
            found, others = await self.admin.offsets_that_can_be_had(asked)
            ends |= {one: end.offset for one, end in found.items()}
            failures |= others
        return ends, failures

    async def moves(self) -> Mapping[TopicPartition, Reassignment]:
        return await self.looks.at("moves", self.admin.partitions.reassignments)

    async def balance(self) -> Balance | None:
        """None where nobody balances leaders, as in Apache Kafka."""
        return await self.looks.at("balance", self._balance)

    async def _balance(self) -> Balance | None:
        with suppress(*REFUSALS):
            return await self.admin.partitions.balance_leaders(BalanceAction.TELL)
        return None

    async def storage_groups(self) -> Sequence[StorageGroup]:
        return await self.looks.at("storage groups", self.admin.storage_groups.describe)


def dirs_key(topics: Sequence[TopicMetadata] | None) -> tuple[str, tuple[str, ...] | None]:
    return "log dirs", None if topics is None else tuple(topic.name for topic in topics)
