"""Limits for moves of replicas (KIP-73): set when moves begin, taken away when they are over, as Kafka's tool does.

The replicas that are there already are limited as leaders, those that come as followers, and all their brokers get the
same rate.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import click

from penstock.cli.terminal.lines import say
from penstock.cli.terminal.options import option
from penstock.cli.terminal.output import joined
from penstock.client.admin import Admin
from penstock.client.admin.configs import ConfigChange, ConfigOperation, ConfigSource, ResourceType
from penstock.client.admin.partitions import Reassignment
from penstock.client.values import TopicPartition
from penstock.protocol.value import Value

LEADERS: Final = "leader.replication.throttled.replicas"
FOLLOWERS: Final = "follower.replication.throttled.replicas"
RATES: Final = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
UNTIL_MOVED: Final = "penstock.replication.throttled.until.moved"
DIRECTORIES: Final = "replica.alter.log.dirs.io.max.bytes.per.second"
ALL_BROKERS: Final = ""
NO_LIMIT: Final = -1


class _Limit(click.types.IntParamType):
    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> int:
        limit: int = super().convert(value, parameter, context)
        if limit < 1 and limit != NO_LIMIT:
            cure = f"give 1 or more, or {NO_LIMIT} for no limit"
            self.fail(f"with {limit} bytes a second nothing would move: {cure}", parameter, context)
        return limit


limit_option: Final = partial(option, type=_Limit(), metavar="BYTES")
"""An option that limits copies: bytes a second, or NO_LIMIT."""


class PlannedMove(Value):
    sources: tuple[int, ...]
    destinations: tuple[int, ...]


Moves = Mapping[TopicPartition, PlannedMove]


def planned_moves(
    moving: Mapping[TopicPartition, Reassignment],
    targets: Mapping[TopicPartition, Sequence[int]],
    current: Mapping[TopicPartition, Sequence[int]],
) -> dict[TopicPartition, PlannedMove]:
    """All moves once those to `targets` have begun beside, or in the place of, those that are under way."""
    moves = {
        partition: PlannedMove(tuple(node for node in row.replicas if node not in row.adding), row.adding)
        for partition, row in moving.items()
    }
    for partition, nodes in targets.items():
        sources = moves[partition].sources if partition in moves else tuple(current[partition])
        moves[partition] = PlannedMove(sources, tuple(node for node in nodes if node not in sources))
    return moves


async def limit_until_moved(admin: Admin, moves: Moves, bytes_per_s: int) -> None:
    """The controller takes the limits away where the command cannot any more: it was killed, or a broker was away."""
    await admin.configs.alter(ResourceType.BROKER, ALL_BROKERS, [_set(UNTIL_MOVED, "true")])
    await limit_moves(admin, moves, bytes_per_s)


async def limit_moves(admin: Admin, moves: Moves, bytes_per_s: int) -> None:
    topics: dict[str, list[TopicPartition]] = {}
    for partition in sorted(moves):
        topics.setdefault(partition.topic, []).append(partition)
    for topic, partitions in topics.items():
        leaders = joined(f"{row.partition}:{node}" for row in partitions for node in moves[row].sources)
        followers = joined(f"{row.partition}:{node}" for row in partitions for node in moves[row].destinations)
        changes = [_set(LEADERS, leaders), _set(FOLLOWERS, followers)]
        await admin.configs.alter(ResourceType.TOPIC, topic, changes)
    rates = [_set(key, str(bytes_per_s)) for key in RATES]
    await _alter_brokers(admin, (node for move in moves.values() for node in move.sources + move.destinations), rates)


async def limit_directory_moves(admin: Admin, nodes: Iterable[int], bytes_per_s: int) -> None:
    await _alter_brokers(admin, nodes, [_set(DIRECTORIES, str(bytes_per_s))])


async def clear_limits(admin: Admin, targets: Mapping[TopicPartition, Sequence[int]]) -> None:
    """All brokers are freed, whichever client set the limits, and the topics of `targets`."""
    known = (await admin.describe_cluster(include_fenced=True)).brokers  # a broker that is away has its limit, too
    nodes = sorted({*(broker.node_id for broker in known), *(node for nodes in targets.values() for node in nodes)})
    say(f"Clearing broker-level throttles on broker{_s(nodes)} {joined(nodes)}")
    await _alter_brokers(admin, nodes, [_delete(key) for key in (*RATES, DIRECTORIES)])
    await _clear_topics(admin, sorted({partition.topic for partition in targets}))


async def release_limits(admin: Admin, targets: Mapping[TopicPartition, Sequence[int]]) -> None:
    """As `clear_limits`, but what other clients have on the move keeps its limit."""
    busy = {partition.topic for partition in await admin.partitions.reassignments()}
    if not busy:
        await clear_limits(admin, targets)
        return
    await _clear_topics(admin, sorted({partition.topic for partition in targets} - busy))
    say("other partitions are on the move: the limit of the brokers stays until those are there", err=True)


async def check_limits(admin: Admin, nodes: Iterable[int], bytes_per_s: int) -> None:
    """Raises click.ClickException for brokers that have another limit."""
    for node_id in sorted(nodes):
        for entry in await admin.configs.describe(ResourceType.BROKER, str(node_id), keys=RATES):
            if entry.source is ConfigSource.DYNAMIC_BROKER_CONFIG and entry.value != str(bytes_per_s):
                raise click.ClickException(
                    f"partitions are on the move with another limit: {entry.name}={entry.value} on broker {node_id}; "
                    "give the same limit, or none to go along with it"
                )


async def _clear_topics(admin: Admin, topics: Sequence[str]) -> None:
    say(f"Clearing topic-level throttles on topic{_s(topics)} {joined(topics)}")
    for topic in topics:
        await admin.configs.alter(ResourceType.TOPIC, topic, [_delete(LEADERS), _delete(FOLLOWERS)])


async def _alter_brokers(admin: Admin, nodes: Iterable[int], changes: Sequence[ConfigChange]) -> None:
    for node_id in sorted(set(nodes)):
        await admin.configs.alter(ResourceType.BROKER, str(node_id), changes)


def _set(key: str, value: str) -> ConfigChange:
    return ConfigChange(key, ConfigOperation.SET, value)


def _delete(key: str) -> ConfigChange:
    return ConfigChange(key, ConfigOperation.DELETE)


def _s(items: Sequence[object]) -> str:
    return "" if len(items) == 1 else "s"
