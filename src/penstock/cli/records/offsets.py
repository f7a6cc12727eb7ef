"""`penstock offsets`: offsets of partitions by time, with the options of kafka-get-offsets.sh, and of replicas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import click

from penstock.cli.terminal.names import matching, parse_numbers, parse_topic_partitions
from penstock.cli.terminal.options import JSON, declared, option
from penstock.cli.terminal.output import Value as Cell
from penstock.cli.terminal.output import print_rows
from penstock.cli.terminal.session import BrokerSession, complain_of
from penstock.client.admin import Admin
from penstock.client.at_leaders import Failures
from penstock.client.messages import Found
from penstock.client.metadata import ClusterMetadata
from penstock.client.replica_offsets import Replica, ReplicaOffsets, replica_offsets
from penstock.client.values import EARLIEST, EARLIEST_LOCAL, LATEST, LATEST_TIERED, MAX_TIMESTAMP, TopicPartition
from penstock.protocol.internal_topics import STORAGE_GROUPS
from penstock.protocol.value import Value

SPECIAL: Final = {
    "latest": LATEST,
    "earliest": EARLIEST,
    "max-timestamp": MAX_TIMESTAMP,
    "earliest-local": EARLIEST_LOCAL,
    "latest-tiered": LATEST_TIERED,
}


class Chosen(Value, kw_only=True):
    topic: str | None = option("Topics: a regular expression, several with commas (default: all).")
    partitions: str | None = option("Partitions of them, such as 0,2,5-7 (default: all).")
    topic_partitions: str | None = option("Topics with partitions, such as clicks:0,2 users (several with blanks).")
    exclude_internal_topics: bool = option("Leave out internal topics.")

    def check(self) -> None:
        """Raises UsageError."""
        if self.topic_partitions is not None and (self.topic is not None or self.partitions is not None):
            raise click.UsageError("give --topic-partitions or --topic and --partitions, not both")

    async def find(self, admin: Admin) -> list[TopicPartition]:
        names = await admin.topics.names(include_internal=not self.exclude_internal_topics)
        counts = admin.cluster.metadata.partition_counts()
        if self.topic_partitions is not None:
            texts = self.topic_partitions.split()
            return [one for text in texts for one in parse_topic_partitions(text, counts, "--topic-partitions")]
        readable = [name for name in names if name != STORAGE_GROUPS]
        taken = readable if self.topic is None else matching(self.topic, names, "--topic")
        if self.topic is not None and not taken:
            raise click.ClickException(f"topic {self.topic!r} does not exist")
        numbers = None if self.partitions is None else set(parse_numbers(self.partitions, "--partitions"))
        every = (TopicPartition(name, n) for name in taken for n in range(counts.get(name, 0)))
        return [one for one in every if numbers is None or one.partition in numbers]


@click.command(short_help="show the offsets of partitions")
@declared
def command(
    session: BrokerSession,
    chosen: Chosen,
    *,
    moment: str = option(
        f"{', '.join(SPECIAL)}, their numbers -1 to -5, or milliseconds since 1970: the first record from then on.",
        "--time",
        default="latest",
        show_default=True,
    ),
    replicas: bool = option("Show where the log of each replica begins and ends, and its high watermark."),
    as_json: bool = JSON,
) -> None:
    """Show the offset of each partition at a moment, or how far each of its replicas is."""
    timestamp_ms = _parse_moment(moment)
    chosen.check()
    if not replicas:
        _show_offsets(session, chosen, timestamp_ms, as_json)
    elif timestamp_ms == LATEST:
        _show_replicas(session, chosen, as_json)
    else:
        raise click.UsageError("--replicas shows beginnings and ends: it goes without --time")


def _show_offsets(session: BrokerSession, chosen: Chosen, timestamp_ms: int, as_json: bool) -> None:
    async def work(admin: Admin) -> tuple[Found, Failures]:
        return await admin.offsets_that_can_be_had(dict.fromkeys(await chosen.find(admin), timestamp_ms))

    found, failures = session.run(work)
    rows = [(p.topic, p.partition, _known(value.offset), _known(value.timestamp_ms)) for p, value in found.items()]
    print_rows(["TOPIC", "PARTITION", "OFFSET", "TIMESTAMP"], rows, as_json=as_json, empty="no partition to show")
    complain_of(failures)


def _show_replicas(session: BrokerSession, chosen: Chosen, as_json: bool) -> None:
    async def work(admin: Admin) -> tuple[list[tuple[Cell, ...]], Failures]:
        partitions = await chosen.find(admin)
        found, failed = await replica_offsets(admin.cluster, partitions)
        metadata = admin.cluster.metadata
        rows = [row for partition in partitions for row in _replica_rows(metadata, partition, found)]
        return rows, {partition: error for (partition, _), error in failed.items()}

    rows, failures = session.run(work)
    columns = ["TOPIC", "PARTITION", "REPLICA", "LEADER", "IN-SYNC", "LOG-START", "HIGH-WATERMARK", "LOG-END", "LAG"]
    print_rows(columns, rows, as_json=as_json, empty="no partition to show")
    complain_of(failures)


def _replica_rows(
    metadata: ClusterMetadata, partition: TopicPartition, found: Mapping[Replica, ReplicaOffsets]
) -> list[tuple[Cell, ...]]:
    """In the order of the replicas; the lag is what the leader's log has beyond the end of the replica's."""
    row = metadata.topics[partition.topic].partitions[partition.partition]
    leader = found.get((partition, row.leader))
    shown: list[tuple[Cell, ...]] = []
    for node_id in row.replicas:
        is_in = (node_id, node_id == row.leader, node_id in row.isr)
        it = found.get((partition, node_id))
        if it is None:
            shown.append((*partition, *is_in, None, None, None, None))
            continue
        lag = None if leader is None else max(leader.log_end_offset - it.log_end_offset, 0)
        shown.append((*partition, *is_in, it.log_start_offset, it.high_watermark, it.log_end_offset, lag))
    return shown


def _parse_moment(text: str) -> int:
    if text in SPECIAL:
        return SPECIAL[text]
    try:
        number = int(text)
    except ValueError:
        number = LATEST_TIERED - 1
    if number < LATEST_TIERED:
        raise click.UsageError(f"--time: {text!r} is neither one of {', '.join(SPECIAL)} nor a time in milliseconds")
    return number


def _known(number: int) -> int | None:
    return number if number >= 0 else None
