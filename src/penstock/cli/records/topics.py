"""`penstock topics`: list, describe, create, enlarge and delete topics, with the options of kafka-topics.sh."""

import asyncio
from collections.abc import Mapping, Sequence

import click

from penstock.cli.terminal.failures import wrong_usage
from penstock.cli.terminal.names import matching
from penstock.cli.terminal.options import JSON, actions, declared, option
from penstock.cli.terminal.output import joined, print_json, print_lines, print_table
from penstock.cli.terminal.session import BrokerSession, parse_pairs
from penstock.client.admin import Admin
from penstock.client.admin.configs import ConfigSource, ResourceType
from penstock.client.admin.partitions import Reassignment
from penstock.client.admin.storage_groups import REPLICATION_MODE, STORAGE_GROUP
from penstock.client.admin.topics import BROKER_DEFAULT, EligibleLeaders, NewTopic
from penstock.client.metadata import PartitionMetadata, TopicMetadata
from penstock.client.values import TopicPartition
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.internal_topics import STORAGE_GROUPS
from penstock.protocol.uuids import uuid_from_text, uuid_to_text
from penstock.protocol.value import Value

MIN_ISR = "min.insync.replicas"


class Filters(Value, kw_only=True):
    under_replicated_partitions: bool = option("Show only partitions with too few replicas in sync.")
    unavailable_partitions: bool = option("Show only partitions without a leader.")
    under_min_isr_partitions: bool = option("Show only those below min.insync.replicas.")
    at_min_isr_partitions: bool = option("Show only those with exactly min.insync.replicas.")
    topics_with_overrides: bool = option("Show only topics with a configuration of their own.")

    @property
    def needs_min_isr(self) -> bool:
        return self.under_min_isr_partitions or self.at_min_isr_partitions

    @property
    def on_partitions(self) -> bool:
        return self.under_replicated_partitions or self.unavailable_partitions or self.needs_min_isr

    def shows(self, row: PartitionMetadata, min_isr: int, *, coming: int, is_led: bool) -> bool:
        """Some replicas may be still on their way: `coming`."""
        if not self.on_partitions:
            return True
        return (
            (self.under_replicated_partitions and len(row.isr) < len(row.replicas) - coming)
            or (self.unavailable_partitions and not is_led)
            or (self.under_min_isr_partitions and (not is_led or len(row.isr) < min_isr))
            or (self.at_min_isr_partitions and len(row.isr) == min_isr)
        )


@click.command(short_help="list, describe, create, change and delete topics")
@declared
def command(
    session: BrokerSession,
    *,
    action: str = actions(
        list="List the topics.",
        describe="Show partitions, leaders and replicas.",
        create="Create a topic.",
        alter="Give a topic more partitions.",
        delete="Delete a topic with all that is in it.",
    ),
    topic: str | None = option("The topic's name; but for --create a regular expression, several with commas."),
    topic_id: str | None = option("The topic's id, for --describe."),
    partitions: int | None = option("The number of partitions (default: the broker's).", min=1),
    replication_factor: int | None = option("Copies of each partition (default: the broker's).", min=1),
    replica_assignment: str | None = option(
        "The nodes of each partition's replicas, instead of both.", metavar="1:2,2:3,..."
    ),
    configs: tuple[str, ...] = option("A configuration of the new topic.", "--config", metavar="KEY=VALUE"),
    if_exists: bool = option("Do nothing if there is no such topic."),
    if_not_exists: bool = option("Do nothing if there is such a topic."),
    exclude_internal: bool = option("Leave out internal topics."),
    filters: Filters,
    as_json: bool = JSON,
) -> None:
    """List, describe, create, enlarge and delete topics."""
    assignments = _parse_assignment(replica_assignment)
    if action in ("create", "alter", "delete") and not topic:
        raise click.UsageError(f"--{action} needs --topic NAME")
    if action != "create" and replication_factor is not None:
        raise click.UsageError(
            "--replication-factor goes with --create alone; replicas of a topic that is there are changed by "
            "`penstock reassign-partitions`"
        )
    if action == "create" and assignments and (partitions is not None or replication_factor is not None):
        raise click.UsageError("--replica-assignment goes without --partitions and --replication-factor: it says both")

    async def work(admin: Admin) -> None:
        if action == "create":
            assert topic is not None
            new = NewTopic(
                name=topic,
                partitions=partitions or BROKER_DEFAULT,
                replication_factor=replication_factor or BROKER_DEFAULT,
                configs=parse_pairs(configs, "--config"),
                assignments=dict(enumerate(assignments)),
            )
            await _create(admin, new, if_not_exists, as_json)
            return
        names = await _chosen(admin, topic, topic_id, exclude_internal, if_exists or action == "list")
        if action == "list":
            print_lines(names, names, as_json=as_json)
        elif action == "describe":
            await _describe(admin, names, filters, as_json)
        elif action == "alter":
            await _alter(admin, names, partitions, assignments, as_json)
        else:
            await _delete(admin, names, as_json)

    session.run(work)


async def _chosen(
    admin: Admin, pattern: str | None, topic_id: str | None, exclude_internal: bool, may_be_none: bool
) -> list[str]:
    names = await admin.topics.names(include_internal=not exclude_internal)
    if topic_id is not None:
        with wrong_usage(ValueError, of="--topic-id"):
            wanted = uuid_from_text(topic_id)
        names = [name for name in names if admin.cluster.metadata.topics[name].topic_id == wanted]
        if not names and not may_be_none:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, f"no topic has the id {topic_id}")
    if pattern is None:
        return names
    chosen = matching(pattern, names, "--topic")
    if not chosen and not may_be_none:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {pattern!r} does not exist")
    return chosen


async def _create(admin: Admin, topic: NewTopic, if_not_exists: bool, as_json: bool) -> None:
    try:
        await admin.topics.create(topic)
        created = True
    except KafkaError as error:
        if not (if_not_exists and error.code == ErrorCode.TOPIC_ALREADY_EXISTS):
            raise
        created = False
    line = f"{'created' if created else 'there is already'} topic {topic.name}"
    print_lines([line], {"topic": topic.name, "created": created}, as_json=as_json)


async def _alter(
    admin: Admin, names: Sequence[str], partitions: int | None, assignments: Sequence[Sequence[int]], as_json: bool
) -> None:
    if partitions is None:
        raise click.UsageError("--alter needs --partitions COUNT (configurations: `penstock configs --alter`)")
    for name in names:
        has = len((await admin.cluster.topic(name)).partitions)
        await admin.topics.create_partitions(name, partitions, assignments=assignments[has:] or None)
    lines = [f"topic {name} has {partitions} partitions now" for name in names]
    print_lines(lines, [{"topic": name, "partitions": partitions} for name in names], as_json=as_json)


async def _delete(admin: Admin, names: Sequence[str], as_json: bool) -> None:
    for name in names:
        await admin.topics.delete(name)
    document = [{"topic": name, "deleted": True} for name in names]
    print_lines([f"deleted topic {name}" for name in names], document, as_json=as_json)


async def _describe(admin: Admin, names: Sequence[str], filters: Filters, as_json: bool) -> None:
    topics = await admin.topics.describe(names) if names else []
    described = await asyncio.gather(*(_configs(admin, topic.name) for topic in topics))
    moving = await _moving(admin)
    brokers = admin.cluster.metadata.brokers

    def is_shown(row: PartitionMetadata, min_isr: int) -> bool:
        move = moving.get(row.topic_partition)
        coming = 0 if move is None else len(move.adding)
        return filters.shows(row, min_isr, coming=coming, is_led=row.leader in brokers)

    shown: list[tuple[TopicMetadata, Mapping[str, str], list[PartitionMetadata]]] = []
    for topic, (overrides, min_isr) in zip(topics, described, strict=True):
        rows = [row for row in topic.partitions.values() if is_shown(row, min_isr)]
        if rows and (overrides or not filters.topics_with_overrides):
            shown.append((topic, overrides, rows))
    eligible = await admin.topics.eligible_leaders([topic.name for topic, _, _ in shown]) if shown else {}
    if as_json:
        print_json([_as_json(*item, moving, eligible) for item in shown])
        return
    if not filters.on_partitions:
        columns = ["TOPIC", "ID", "PARTITIONS", "REPLICATION", "MODE", "GROUP", "CONFIGS"]
        print_table(columns, [_topic_row(topic, overrides) for topic, overrides, _ in shown], empty="no topic to show")
    if shown and not filters.topics_with_overrides:
        print_table(
            ["TOPIC", "PARTITION", "LEADER", "REPLICAS", "ISR", "ELR", "LAST KNOWN ELR"],
            [_partition_row(row, eligible.get(row.topic_partition)) for _, _, rows in shown for row in rows],
        )


async def _moving(admin: Admin) -> Mapping[TopicPartition, Reassignment]:
    """Nothing where the user may not see that: as Kafka's tool, this needs no right on the cluster."""
    try:
        return await admin.partitions.reassignments()
    except KafkaError as error:
        if error.code != ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            raise
        return {}


def _topic_row(topic: TopicMetadata, overrides: Mapping[str, str]) -> Sequence[str | int | None]:
    configs = joined(f"{name}={value}" for name, value in overrides.items())
    where = (_replication(topic), _mode(topic, overrides), overrides.get(STORAGE_GROUP))
    return (topic.name, uuid_to_text(topic.topic_id), len(topic.partitions), *where, configs)


def _partition_row(row: PartitionMetadata, known: EligibleLeaders | None) -> Sequence[str | int | None]:
    leader = row.leader if row.leader >= 0 else None
    elr = (None, None) if known is None else (joined(known.replicas) or None, joined(known.last_known) or None)
    return (row.topic, row.partition, leader, joined(row.replicas), joined(row.isr) or None, *elr)


async def _configs(admin: Admin, topic: str) -> tuple[dict[str, str], int]:
    entries = await admin.configs.describe(ResourceType.TOPIC, topic)
    own = {e.name: e.value or "" for e in entries if e.source == ConfigSource.DYNAMIC_TOPIC_CONFIG}
    min_isr = next((int(e.value) for e in entries if e.name == MIN_ISR and e.value), 1)
    return own, min_isr


def _as_json(
    topic: TopicMetadata,
    overrides: Mapping[str, str],
    rows: Sequence[PartitionMetadata],
    moving: Mapping[TopicPartition, Reassignment],
    eligible: Mapping[TopicPartition, EligibleLeaders],
) -> dict[str, object]:
    return {
        "topic": topic.name,
        "topic_id": uuid_to_text(topic.topic_id),
        "is_internal": topic.is_internal,
        "partition_count": len(topic.partitions),
        "replication_factor": _replication(topic),
        "replication_mode": _mode(topic, overrides),
        "storage_group": int(overrides[STORAGE_GROUP]) if STORAGE_GROUP in overrides else None,
        "configs": dict(overrides),
        "partitions": [
            {
                "partition": row.partition,
                "leader": row.leader,
                "leader_epoch": row.leader_epoch,
                "replicas": row.replicas,
                "isr": row.isr,
                "offline_replicas": row.offline_replicas,
                **_move_as_json(moving.get(row.topic_partition)),
                "elr": known.replicas if known is not None else None,
                "last_known_elr": known.last_known if known is not None else None,
            }
            for row in rows
            for known in (eligible.get(row.topic_partition),)
        ],
    }


def _move_as_json(move: Reassignment | None) -> dict[str, list[int]]:
    return {} if move is None else {"adding_replicas": list(move.adding), "removing_replicas": list(move.removing)}


def _replication(topic: TopicMetadata) -> int:
    return max((len(row.replicas) for row in topic.partitions.values()), default=0)


def _mode(topic: TopicMetadata, overrides: Mapping[str, str]) -> str:
    return "consensus" if topic.name == STORAGE_GROUPS else overrides.get(REPLICATION_MODE, "isr")


def _parse_assignment(text: str | None) -> list[list[int]]:
    if text is None:
        return []
    try:
        return [[int(node) for node in partition.split(":")] for partition in text.split(",")]
    except ValueError:
        raise click.UsageError(f"--replica-assignment: {text!r} is not of the form 1:2,2:3") from None
