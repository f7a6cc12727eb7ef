"""Brokers as the controller meets them: they register, beat, stop, crash, fall silent, and lose their disks."""

from dataclasses import dataclass, field
from random import Random
from typing import Any
from uuid import UUID

from penstock.metadata.image import ClusterImage, PartitionImage
from penstock.metadata.topics import is_online
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    BrokerState,
)
from penstock.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsRequestDirectoryData,
    AssignReplicasToDirsRequestPartitionData,
    AssignReplicasToDirsRequestTopicData,
)
from penstock.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from penstock.protocol.messages.broker_registration import BrokerRegistrationRequest, Feature, Listener
from penstock.protocol.schema import Message
from penstock.protocol.uuids import process_uuid

UNKNOWN = -1
CORDONS = 0.05
"""How often another number of directories is cordoned, per heartbeat."""


@dataclass(slots=True)
class SimulatedBroker:
    """A host; `incarnation` is None while no process runs on it."""

    id: int
    rack: str | None
    directories: list[UUID]
    port: int = 9092
    offline: list[UUID] = field(default_factory=list)
    cordoned: int = 0
    """So many of its directories want no new replicas."""
    incarnation: UUID | None = None
    epoch: int = UNKNOWN
    previous_epoch: int = UNKNOWN
    applied: int = -1
    """Up to which offset it has read the metadata log."""
    next_beat_ms: int = 0
    is_stopping: bool = False
    was_clean: bool = False
    operator: Random = field(init=False)
    """Cordons directories, and opens them again."""

    def __post_init__(self) -> None:
        self.operator = Random(self.id)

    def boot(self, random: Random, now_ms: int) -> None:
        self.incarnation = process_uuid(now_ms, random)
        self.previous_epoch = self.epoch if self.was_clean else UNKNOWN
        self.epoch, self.applied, self.next_beat_ms = UNKNOWN, -1, now_ms
        self.is_stopping = self.was_clean = False
        self.directories = [directory for directory in self.directories if directory not in self.offline]
        self.offline = []
        self.port += random.randrange(2)  # now and then the process listens elsewhere
        if not self.directories:  # somebody has changed the disks
            self.directories = [UUID(int=random.getrandbits(128), version=4) for _ in range(2)]

    def stop(self, *, cleanly: bool) -> None:
        self.incarnation, self.was_clean = None, cleanly

    def beat(self, cluster_id: str) -> Message:
        """What it says when it is time: who it is, or that it lives."""
        if self.epoch == UNKNOWN:
            assert self.incarnation is not None
            return BrokerRegistrationRequest(
                broker_id=self.id,
                cluster_id=cluster_id,
                incarnation_id=self.incarnation,
                listeners=[Listener(name="PLAINTEXT", host="localhost", port=self.port)],
                features=[
                    Feature(name="metadata.version", min_supported_version=7, max_supported_version=33),
                    Feature(name="eligible.leader.replicas.version", min_supported_version=0, max_supported_version=1),
                ],
                rack=self.rack,
                log_dirs=list(self.directories),
                previous_broker_epoch=self.previous_epoch,
            )
        if self.operator.random() < CORDONS:
            self.cordoned = self.operator.randrange(len(self.directories) + 1)
        return BrokerHeartbeatRequest(
            broker_id=self.id,
            broker_epoch=self.epoch,
            current_metadata_offset=self.applied,
            want_shut_down=self.is_stopping,
            offline_log_dirs=list(self.offline),
            cordoned_log_dirs=list(self.directories[: self.cordoned]),
        )

    def answered(self, incarnation: UUID | None, reply: Any) -> None:
        """An answer came to the process that asked; a late one may find another process, and is not for it."""
        if incarnation != self.incarnation:
            return
        if isinstance(reply, BrokerHeartbeatResponse):
            if reply.error_code in (ErrorCode.STALE_BROKER_EPOCH, ErrorCode.BROKER_ID_NOT_REGISTERED):
                self.stop(cleanly=False)
            elif reply.should_shut_down:
                self.stop(cleanly=True)
        elif reply.error_code == ErrorCode.NONE:
            self.epoch = reply.broker_epoch

    def isr_changes(
        self, image: ClusterImage, random: Random, *, grow_only: bool = False
    ) -> AlterPartitionRequest | None:
        """As the leader of some partition: another set of replicas in sync; now and then from an outdated view, or
        from an earlier life of the broker.
        """
        topics = [topic for topic in image.topics.values() if not (grow_only and topic.by_consensus)]
        led = [(t, i, p) for t in topics for i, p in t.partitions.items() if p.leader == self.id]
        if not led:
            return None
        if grow_only:
            led = [it for it in led if len(it[2].isr) < len(it[2].replicas)] or led
        topic, index, partition = random.choice(led)
        eligible = [r for r in partition.replicas if r == self.id or (r in image.brokers and image.brokers[r].active)]
        keep = (
            eligible if grow_only or random.random() < 0.6 else random.sample(eligible, random.randrange(len(eligible)))
        )
        isr = [replica for replica in partition.replicas if replica in keep or replica == self.id]
        if not grow_only and random.random() < 0.1:
            isr = list(partition.replicas)  # it has not heard yet who is fenced
        recovery = self._recovery(partition, random)
        asked = AlterPartitionRequestPartitionData(
            partition_index=index,
            leader_epoch=partition.leader_epoch - (random.random() < 0.05),
            partition_epoch=partition.partition_epoch - (random.random() < 0.05),
            new_isr_with_epochs=[
                BrokerState(broker_id=r, broker_epoch=self._fetched_with(r, image, random))
                for r in (isr if not recovery else [self.id])
            ],
            leader_recovery_state=recovery,
        )
        changes = [AlterPartitionRequestTopicData(topic_id=topic.topic_id, partitions=[asked])]
        epoch = self.epoch if grow_only or random.random() < 0.9 else self.epoch - 1
        return AlterPartitionRequest(broker_id=self.id, broker_epoch=epoch, topics=changes)

    def _fetched_with(self, replica: int, image: ClusterImage, random: Random) -> int:
        """The epoch that a replica's broker had when it fetched, if the leader tells; it may have another one since."""
        broker = image.brokers.get(replica)
        return UNKNOWN if broker is None or random.random() < 0.7 else broker.epoch - (random.random() < 0.1)

    def directory_changes(self, image: ClusterImage, random: Random, *, lost_only: bool = False) -> Message | None:
        """Where some replica lies, now that it is known; or one whose directory is gone, as it has begun anew."""
        held = [
            (t, i)
            for t in image.topics.values()
            for i, p in t.partitions.items()
            if self.id in p.replicas
            and not (lost_only and t.by_consensus)
            and not (lost_only and is_online(p.directory_of(self.id), tuple(self.directories)))
        ]
        if not held:
            return None
        topic, index = random.choice(held)
        asked = AssignReplicasToDirsRequestTopicData(
            topic_id=topic.topic_id, partitions=[AssignReplicasToDirsRequestPartitionData(partition_index=index)]
        )
        good = [directory for directory in self.directories if directory not in self.offline] or self.directories
        return AssignReplicasToDirsRequest(
            broker_id=self.id,
            broker_epoch=self.epoch,
            directories=[AssignReplicasToDirsRequestDirectoryData(id=random.choice(good), topics=[asked])],
        )

    def _recovery(self, partition: PartitionImage, random: Random) -> int:
        return partition.leader_recovery_state if random.random() < 0.3 else 0
