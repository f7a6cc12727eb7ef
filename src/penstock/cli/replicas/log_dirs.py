"""`penstock log-dirs`: what lies on the brokers' disks, as kafka-log-dirs.sh tells it."""

from __future__ import annotations

import click

from penstock.cli.terminal.names import parse_numbers
from penstock.cli.terminal.options import JSON, declared, option
from penstock.cli.terminal.output import Value, print_found, print_table, show_bytes, show_time
from penstock.cli.terminal.session import BrokerSession
from penstock.client.admin import Admin, LogDirDescription, ReplicaSize
from penstock.client.values import TopicPartition


@click.command(short_help="show the sizes of partitions in the data directories")
@declared
def command(
    session: BrokerSession,
    describe: bool = option("Show the directories (the only action, and the default)."),
    broker_list: str | None = option("Only these nodes, such as 1,2 (default: all)."),
    topic_list: str | None = option("Only these topics, with commas (default: all)."),
    as_json: bool = JSON,
) -> None:
    """Show what lies in each log directory of each node."""
    nodes = None if broker_list is None else parse_numbers(broker_list, "--broker-list")

    async def work(admin: Admin) -> list[LogDirDescription]:
        for node_id in nodes or ():
            if node_id not in admin.cluster.metadata.brokers:
                known = ", ".join(map(str, sorted(admin.cluster.metadata.brokers)))
                raise click.ClickException(f"there is no node {node_id} in this cluster: its nodes are {known}")
        topics: dict[str, range] | None = None
        if topic_list is not None:
            described = await admin.topics.describe([name.strip() for name in topic_list.split(",")])
            topics = {topic.name: range(len(topic.partitions)) for topic in described}
        return await admin.describe_log_dirs(nodes, topics)

    directories = session.run(work)
    print_found(
        [_as_json(directory) for directory in directories],
        ["NODE", "DIRECTORY", "STATE", "PARTITIONS", "SIZE", "FREE", "TOTAL"],
        [_directory(directory) for directory in directories],
        as_json=as_json,
    )
    if not as_json:
        print_table(
            ["NODE", "TOPIC", "PARTITION", "SIZE", "OFFSET-LAG", "FUTURE", "DIRTY", "COMPACTED"],
            [(one.node_id, *_replica(*replica)) for one in directories for replica in one.partitions.items()],
            empty="no partition to show",
        )


def _directory(one: LogDirDescription) -> tuple[Value, ...]:
    state = one.error.name if one.error else "cordoned" if one.is_cordoned else "ok"
    size = sum(replica.size_bytes for replica in one.partitions.values())
    sizes = (show_bytes(size), show_bytes(one.usable_bytes), show_bytes(one.total_bytes))
    return (one.node_id, one.path, state, len(one.partitions), *sizes)


def _replica(partition: TopicPartition, it: ReplicaSize) -> tuple[Value, ...]:
    dirty = "" if it.dirty_percent is None else f"{it.dirty_percent} %"
    compacted = it.problem or ("" if it.cleaned_ms is None else show_time(it.cleaned_ms))
    return (*partition, show_bytes(it.size_bytes), it.offset_lag, it.is_future, dirty, compacted)


def _as_json(directory: LogDirDescription) -> dict[str, object]:
    return {
        "node_id": directory.node_id,
        "log_dir": directory.path,
        "error": directory.error.name if directory.error else None,
        "is_cordoned": directory.is_cordoned,
        "total_bytes": directory.total_bytes,
        "usable_bytes": directory.usable_bytes,
        "partitions": [
            {
                "topic": partition.topic,
                "partition": partition.partition,
                "size_bytes": replica.size_bytes,
                "offset_lag": replica.offset_lag,
                "is_future": replica.is_future,
                "dirty_percent": replica.dirty_percent,
                "cleaned_ms": replica.cleaned_ms,
                "not_compacted_for": replica.problem,
            }
            for partition, replica in directory.partitions.items()
        ],
    }
