"""Who leads what, who should, and at which rate partitions grow: what `leaders` and `balance` look at."""

import asyncio
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

import click

from penstock.cli.terminal.failures import in_words, wrong_usage
from penstock.cli.terminal.options import option
from penstock.client.admin import Admin
from penstock.client.admin.configs import ResourceType
from penstock.client.metadata import NO_NODE, PartitionMetadata
from penstock.client.values import TopicPartition
from penstock.leadership.plan import Racks
from penstock.metadata.configs.definitions import ConfigError
from penstock.metadata.configs.pairs import PINNED_LEADERS_KEY, parse_pinned_leaders
from penstock.protocol.internal_topics import STORAGE_GROUPS
from penstock.protocol.value import Value

TOPIC: Final = option("Only topics whose whole name matches.", "--topic", metavar="REGEX")
Rates = Mapping[TopicPartition, float]
"""Bytes a second."""


class Traffic(Value):
    sizes: Mapping[TopicPartition, int]
    """Bytes of the leaders' logs."""
    written: Rates
    read: Mapping[TopicPartition, tuple[float, ...]]
    """Bytes a second that consumers and followers were sent, of each replica, by its place."""


class _Logs(Value):
    sizes: Counter[TopicPartition]
    read: Counter[tuple[TopicPartition, int]]
    """By replica, since it is there."""


class Leadership(Value):
    """Has storage groups but not what is in them, and brokers that are down."""

    racks: Racks
    away: tuple[int, ...]
    partitions: dict[TopicPartition, PartitionMetadata]
    pinned: dict[TopicPartition, int]
    members: dict[TopicPartition, list[TopicPartition]]
    """The partitions of each storage group that has any."""

    @property
    def preferred(self) -> dict[TopicPartition, int]:
        return {partition: row.replicas[0] for partition, row in self.partitions.items()}

    @property
    def leaders(self) -> dict[TopicPartition, int]:
        return {partition: row.leader for partition, row in self.partitions.items()}

    @property
    def moved(self) -> list[TopicPartition]:
        """Partitions with another than their preferred leader, in the order in which they will move."""
        rows = sorted(self.partitions.items())
        return [partition for partition, row in rows if row.leader not in (NO_NODE, row.replicas[0])]

    @property
    def catching_up(self) -> int:
        """Partitions that keep all others waiting. A replica that is out does not, nor does one of a storage group."""
        return sum(
            not {*row.replicas} <= {*row.isr, *row.offline_replicas}
            for one, row in self.partitions.items()
            if one.topic != STORAGE_GROUPS
        )

    @property
    def counts(self) -> dict[TopicPartition, int]:
        """How many partitions move together: all that are in a storage group."""
        return {partition: max(len(self.members.get(partition, ())), 1) for partition in self.partitions}

    def without_leaderless_groups(self) -> "Leadership":
        """Storage groups without a leader cannot be told anything."""
        rows = self.partitions.items()
        return self.replace(
            partitions={one: row for one, row in rows if one.topic != STORAGE_GROUPS or row.leader != NO_NODE}
        )

    def limited_to(self, pattern: str | None) -> "Leadership":
        """Raises click.UsageError, and click.ClickException if there is no such topic."""
        if pattern is None:
            return self
        with wrong_usage(re.error, of=f"--topic: {pattern!r} is no regular expression"):
            name = re.compile(pattern)
        partitions = {one: row for one, row in self.partitions.items() if name.fullmatch(one.topic)}
        if not partitions:
            hint = ""
            if any(name.fullmatch(one.topic) for members in self.members.values() for one in members):
                hint = f": what is in a storage group moves with its partition of {STORAGE_GROUPS}"
            raise click.ClickException(f"no topic to look at has a name that matches {pattern!r}{hint}")
        return self.replace(partitions=partitions)

    def pins_without_effect(self) -> list[str]:
        """Returns a text for each, with the cause."""
        group_of = {one: group for group, members in self.members.items() for one in members}
        found = []
        for one, broker in sorted(self.pinned.items()):
            row, group = self.partitions.get(one), group_of.get(one)
            if group is not None:
                why = f"it is in a storage group: pin {group.topic}:{group.partition} instead"
            elif row is None:
                why = "there is no such partition"
            elif broker not in row.replicas:
                why = f"its replicas are {','.join(map(str, row.replicas))}"
            else:
                continue
            found.append(f"{PINNED_LEADERS_KEY}: {one.topic}:{one.partition}:{broker} has no effect, {why}")
        return found


async def look(admin: Admin) -> Leadership:
    """Raises click.ClickException for pins that cannot be read."""
    topics = await admin.topics.describe()
    in_groups = await admin.storage_groups.members(topic.name for topic in topics if not topic.is_internal)
    members: dict[TopicPartition, list[TopicPartition]] = {}
    for topic in topics:
        if topic.name in in_groups:
            group = members.setdefault(TopicPartition(STORAGE_GROUPS, in_groups[topic.name]), [])
            group += [row.topic_partition for row in topic.partitions.values()]
    brokers = (await admin.describe_cluster(include_fenced=True)).brokers
    keys = await admin.configs.describe(ResourceType.BROKER, "", keys=[PINNED_LEADERS_KEY])
    text = next((entry.value for entry in keys if entry.name == PINNED_LEADERS_KEY), None)
    with in_words(ConfigError):
        pinned = parse_pinned_leaders(text or "")
    return Leadership(
        {broker.node_id: broker.rack for broker in brokers},
        tuple(broker.node_id for broker in brokers if broker.is_fenced),
        {
            row.topic_partition: row
            for topic in topics
            if topic.name not in in_groups
            for row in topic.partitions.values()
            if row.replicas
        },
        {TopicPartition(*partition): broker for partition, broker in pinned.items()},
        members,
    )


async def traffic(admin: Admin, leadership: Leadership, seconds: float) -> Traffic:
    """How much the leaders' logs grow in that time, and is read of all. What is deleted meanwhile makes it look like
    less.
    """
    before = await _logs(admin, leadership)
    await asyncio.sleep(seconds)
    after = await _logs(admin, leadership)
    return Traffic(
        after.sizes,
        {one: max(after.sizes[one] - before.sizes[one], 0) / seconds for one in leadership.partitions},
        {
            one: tuple(max(after.read[one, node] - before.read[one, node], 0) / seconds for node in row.replicas)
            for one, row in leadership.partitions.items()
        },
    )


async def _logs(admin: Admin, leadership: Leadership) -> _Logs:
    """Of storage groups the partitions in them count: their own logs are short, and forgotten again and again."""
    leaders, group_of = leadership.leaders, {one: group for group, its in leadership.members.items() for one in its}
    found = _Logs(Counter(), Counter())
    for directory in await admin.describe_log_dirs([node for node in leadership.racks if node not in leadership.away]):
        for partition, replica in directory.partitions.items():
            one = group_of.get(partition, partition)
            if replica.is_future or partition.topic == STORAGE_GROUPS:
                continue
            found.read[one, directory.node_id] += replica.bytes_read
            if leaders.get(one) == directory.node_id:
                found.sizes[one] += replica.size_bytes
    return found


def loads(leaders: Iterable[tuple[TopicPartition, int]], weights: Mapping[TopicPartition, float]) -> Counter[int]:
    """Per broker, in partitions or in bytes a second."""
    counts: Counter[int] = Counter()
    for partition, leader in leaders:
        counts[leader] += round(weights[partition])
    return counts
