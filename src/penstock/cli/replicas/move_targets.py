"""What moves of replicas name: partitions that are there, and brokers in service."""

from collections.abc import Iterable, Mapping, Sequence

import click

from penstock.client.admin import Admin
from penstock.client.values import TopicPartition


def check_brokers(admin: Admin, targets: Mapping[TopicPartition, Sequence[int]]) -> None:
    """Raises click.ClickException for a broker that is not in service."""
    unknown = sorted({node for nodes in targets.values() for node in nodes} - set(admin.cluster.metadata.brokers))
    if unknown:
        raise click.ClickException(f"there is no broker {unknown[0]} in service")


async def begin_moves(admin: Admin, targets: Mapping[TopicPartition, Sequence[int]]) -> None:
    """Raises click.ClickException for a partition that cannot move."""
    for partition, outcome in sorted((await admin.partitions.reassign(targets)).items()):
        if outcome.error:
            raise click.ClickException(f"{partition} cannot move: {outcome.message or outcome.error.name}")


async def replicas_now(admin: Admin, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, list[int]]:
    """Raises click.ClickException for a partition that is not there."""
    wanted = sorted(set(partitions))
    topics = await admin.topics.describe(sorted({partition.topic for partition in wanted})) if wanted else []
    found = {row.topic_partition: row.replicas for topic in topics for row in topic.partitions.values()}
    for partition in wanted:
        if partition not in found:
            raise click.ClickException(f"there is no partition {partition}")
    return {partition: found[partition] for partition in wanted}
