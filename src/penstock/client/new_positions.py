"""Where a group that is set back or ahead goes on: at the first record from a moment on, within what the logs have."""

from collections.abc import Mapping, Sequence

from penstock.client.cluster import ClusterClient
from penstock.client.log_offsets import list_offsets
from penstock.client.values import EARLIEST, LATEST, TopicPartition

Positions = dict[TopicPartition, int]


async def offsets_at(cluster: ClusterClient, partitions: Sequence[TopicPartition], timestamp_ms: int) -> Positions:
    """Where no record is that new, the end."""
    found = {p: v.offset for p, v in (await list_offsets(cluster, dict.fromkeys(partitions, timestamp_ms))).items()}
    newer = [partition for partition, offset in found.items() if offset < 0]
    return found | (await offsets_at(cluster, newer, LATEST) if newer else {})


async def bounded(cluster: ClusterClient, wanted: Mapping[TopicPartition, int]) -> Positions:
    """Each offset, or the end of the log that is next to it."""
    first = await offsets_at(cluster, list(wanted), EARLIEST)
    end = await offsets_at(cluster, list(wanted), LATEST)
    return {partition: min(max(offset, first[partition]), end[partition]) for partition, offset in wanted.items()}
