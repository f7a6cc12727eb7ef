"""New partitions: the replicas that somebody named by hand, checked, and the records that make them."""

from collections.abc import Sequence
from uuid import UUID

from penstock.metadata.image import ClusterImage
from penstock.metadata.records import PartitionRecord
from penstock.metadata.topics import UNASSIGNED_DIRECTORY, UNKNOWN_DIRECTORY
from penstock.protocol.errors import ErrorCode, KafkaError

FIRST_EPOCH = 0


def check_replicas(
    image: ClusterImage, replicas: Sequence[int], replication_factor: int | None, *, present: Sequence[int] = ()
) -> None:
    """`replication_factor` is None for the first partition; `present` replicas are there already, and may stay where no
    new ones go. Raises KafkaError INVALID_REPLICA_ASSIGNMENT.
    """
    problem = None
    if not replicas:
        problem = "a partition needs at least one replica"
    elif len(set(replicas)) != len(replicas):
        problem = f"the replicas {list(replicas)} name a broker twice"
    elif unknown := [broker for broker in replicas if broker not in image.brokers]:
        problem = f"there is no broker {unknown[0]}"
    elif cordoned := [it for it in replicas if it not in present and not image.brokers[it].takes_replicas]:
        problem = f"broker {cordoned[0]} takes no new replicas: all its directories are cordoned (cordoned.log.dirs)"
    elif replication_factor is not None and len(replicas) != replication_factor:
        problem = f"{len(replicas)} replicas where the other partitions have {replication_factor}"
    if problem is not None:
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, problem)


def new_partition(image: ClusterImage, topic_id: UUID, index: int, replicas: Sequence[int]) -> PartitionRecord:
    """Replicas of active brokers are in sync and lead. Raises KafkaError INVALID_REPLICA_ASSIGNMENT without any."""
    isr = [broker for broker in replicas if image.brokers[broker].active]
    if not isr:
        message = f"no broker of {list(replicas)} could lead partition {index}: all are fenced or on their way out"
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
    return PartitionRecord(
        partition_id=index,
        topic_id=topic_id,
        replicas=list(replicas),
        isr=isr,
        leader=isr[0],
        leader_epoch=FIRST_EPOCH,
        partition_epoch=FIRST_EPOCH,
        directories=[only_directory(image, broker) for broker in replicas],
    )


def only_directory(image: ClusterImage, broker: int) -> UUID:
    """The directory in which a broker will put a replica, if it has no choice (KIP-858)."""
    directories = image.brokers[broker].directories
    if not directories:
        return UNKNOWN_DIRECTORY
    return directories[0] if len(directories) == 1 else UNASSIGNED_DIRECTORY
