"""What `penstock reassign-partitions --generate` proposes: topics spread over a list of brokers, as new topics are."""

import json
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Final

import click

from penstock.cli.replicas.partition_files import assignment_text
from penstock.cli.terminal.lines import say
from penstock.cli.terminal.names import parse_numbers
from penstock.client.admin import Admin
from penstock.client.metadata import BrokerMetadata, TopicMetadata
from penstock.client.values import TopicPartition
from penstock.controller.placement import place
from penstock.metadata.brokers import BrokerImage
from penstock.protocol.errors import KafkaError
from penstock.protocol.internal_topics import STORAGE_GROUPS
from penstock.protocol.uuids import ZERO_UUID

NO_EPOCH: Final = -1
SOME_RACKS: Final = (
    "not all of these brokers have a rack: --disable-rack-aware spreads replicas without regard to racks"
)


def topics_in(path: Path) -> list[str]:
    """Reads {"topics": [{"topic": "t"}], "version": 1}. Raises click.ClickException."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        names = [row["topic"] for row in document["topics"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise click.ClickException(f"{path}: topics cannot be read: {error!r}") from None
    if document.get("version", 1) != 1:
        raise click.ClickException(f"{path}: version {document['version']} is not known, only 1 is")
    if not names or not all(isinstance(name, str) for name in names):
        raise click.ClickException(f"{path}: there are no topics")
    if len(set(names)) != len(names):
        raise click.ClickException(f"{path}: a topic comes twice")
    return names


async def generate(admin: Admin, topics: Path, broker_list: str, *, rack_aware: bool) -> None:
    """Print where the topics' replicas are and where they could be, both in the form of --reassignment-json-file."""
    brokers = _brokers(admin, broker_list, rack_aware=rack_aware)
    current: dict[TopicPartition, list[int]] = {}
    proposed: dict[TopicPartition, list[int]] = {}
    for topic in await _movable(admin, topics_in(topics)):
        rows = {row.topic_partition: row.replicas for row in topic.partitions.values()}
        current |= rows
        for factor in sorted({len(nodes) for nodes in rows.values()}):  # each storage group has its own
            alike = [partition for partition, nodes in rows.items() if len(nodes) == factor]
            try:
                placed = place(brokers, len(alike), factor, Random())
            except KafkaError as error:
                raise click.ClickException(f"topic {topic.name}: {error.message}") from None
            proposed |= dict(zip(alike, placed, strict=True))
    if not current:
        raise click.ClickException("nothing is left to move")
    say("Current partition replica assignment", assignment_text(current), "")
    say("Proposed partition reassignment configuration", assignment_text(proposed))


async def _movable(admin: Admin, names: Sequence[str]) -> list[TopicMetadata]:
    """Without topics that go where their storage groups go, which are told."""
    await admin.topics.names()  # so that it is known whether there are storage groups
    topics = await admin.topics.describe(names)
    in_groups = await admin.storage_groups.members(topic.name for topic in topics if not topic.is_internal)
    for name, group in sorted(in_groups.items()):
        say(f"{name} is left out: it goes where {STORAGE_GROUPS}-{group} goes", err=True)
    return [topic for topic in topics if topic.name not in in_groups]


def _brokers(admin: Admin, broker_list: str, *, rack_aware: bool) -> list[BrokerImage]:
    known = admin.cluster.metadata.brokers
    wanted = parse_numbers(broker_list, "--broker-list")
    for node_id in wanted:
        if node_id not in known:
            raise click.ClickException(f"there is no broker {node_id} in service")
    chosen = [known[node_id] for node_id in dict.fromkeys(wanted)]
    if rack_aware and len({broker.rack is None for broker in chosen}) > 1:
        raise click.ClickException(SOME_RACKS)
    return [_as_registered(broker, broker.rack if rack_aware else None) for broker in chosen]


def _as_registered(broker: BrokerMetadata, rack: str | None) -> BrokerImage:
    """As much of a registration as placing replicas looks at."""
    return BrokerImage(
        node_id=broker.node_id,
        epoch=NO_EPOCH,
        incarnation_id=ZERO_UUID,
        endpoints={},
        rack=rack,
        fenced=False,
        in_controlled_shutdown=False,
        features={},
        directories=(),
    )
