"""Who leads the partitions of a storage group: whoever its leader says, and the controller elects nobody.

| what happens                                | the group's partition and all partitions in the group |
| --- | --- |
| the leader claims it                        | it leads; in sync are those that have caught up and are active |
| a broker is fenced or unregistered          | they have no leader; it is not in sync, unless it is the last |
| it registers anew, or loses the directory   | the same |
| it is on its way out                        | as it was: it lays down its office by itself, and another one claims |
| elections, AlterPartition                   | refused, or left out where the request names no partition |
| other replicas                              | a claim says so, when they vote (`reassignments`) |

What the metadata say is a signpost. A broker that they name and that does not lead the group refuses its clients.
"""

from penstock.controller.heartbeats import Going
from penstock.controller.partition_change import difference
from penstock.metadata.image import TopicImage
from penstock.metadata.records import PartitionChangeRecord
from penstock.metadata.topics import NO_LEADER, PartitionImage
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.internal_topics import STORAGE_GROUPS


def left_in_group(topic: TopicImage, index: int, broker_id: int, going: Going) -> PartitionChangeRecord | None:
    """None if the partition stays as it is."""
    if going is Going.STOPPING:
        return None
    partition = topic.partitions[index]
    leader = NO_LEADER if partition.leader == broker_id else partition.leader
    others = tuple(replica for replica in partition.isr if replica != broker_id)
    return record_of(topic, index, partition._replace(leader=leader, isr=others or partition.isr))


def record_of(topic: TopicImage, index: int, after: PartitionImage) -> PartitionChangeRecord | None:
    """None if the partition is so already."""
    before = topic.partitions[index]
    return None if before == after else difference(topic.topic_id, index, before, after)


def check_elected_here(topic: TopicImage, index: int, code: ErrorCode) -> None:
    """Refuses, with this code, elections and changes of the ISR where a group decides."""
    if topic.by_consensus:
        who = "its replicas elect" if topic.name == STORAGE_GROUPS else "its storage group decides"
        why = f"{topic.name}-{index} is replicated by consensus: {who} who leads it"
        raise KafkaError(code, f"{why}; penstock leaders balance gives the lead to the group's first replica")
