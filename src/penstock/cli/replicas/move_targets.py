"""What moves of replicas name: partitions that are there, and brokers in service that take new replicas."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

import click

from penstock.client.admin import Admin, LogDirDescription
from penstock.client.admin.configs import ConfigChange, ConfigOperation, ResourceType
from penstock.client.values import TopicPartition

CORDONED: Final = "cordoned.log.dirs"


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


async def cordoned(admin: Admin, nodes: Collection[int]) -> set[int]:
    """Those of these brokers in service that take no new replicas."""
    return all_cordoned(nodes, await admin.describe_log_dirs(nodes, {}))


def all_cordoned(nodes: Collection[int], directories: Iterable[LogDirDescription]) -> set[int]:
    """Brokers all of whose directories are cordoned."""
    return set(nodes) - {one.node_id for one in directories if not one.is_cordoned}


async def cordon(admin: Admin, node_id: int) -> None:
    await admin.configs.alter(ResourceType.BROKER, str(node_id), [ConfigChange(CORDONED, ConfigOperation.SET, "*")])


async def uncordon(admin: Admin, node_id: int) -> None:
    await admin.configs.alter(ResourceType.BROKER, str(node_id), [ConfigChange(CORDONED, ConfigOperation.DELETE)])


async def replicas_now(admin: Admin, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, list[int]]:
    """Raises click.ClickException for a partition that is not there."""
    wanted = sorted(set(partitions))
    topics = await admin.topics.describe(sorted({partition.topic for partition in wanted})) if wanted else []
    found = {row.topic_partition: row.replicas for topic in topics for row in topic.partitions.values()}
    for partition in wanted:
        if partition not in found:
            raise click.ClickException(f"there is no partition {partition}")
    return {partition: found[partition] for partition in wanted}
