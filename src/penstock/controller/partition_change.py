"""How a partition changes: who leads it then, who is in sync, and when a move to other replicas is over.

All that changes a partition goes through `changed`. Its rules are Kafka's, without eligible leader replicas (KIP-966),
which stay as they are:

* A move is over as soon as every replica of its target is in sync; what was to be removed goes with the same record.
* The leader stays if it may lead. Otherwise the first replica leads that is in sync and may lead, in the order of the
  assignment; if there is none, nobody does. A preferred election asks for the first replica even if another one leads.
* An unclean election takes the first replica that may lead though it is not in sync. It alone is in sync then, and has
  to recover first (KIP-704).
* A broker may lead if it is active and the directory of its replica is not offline (KIP-858). One on its way out goes
  on leading while nobody else can.
* Who takes a replica away begins a new leader epoch, so that the one that is gone is not heard any more.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from uuid import UUID

from penstock.controller.assignments import only_directory
from penstock.controller.decision import ControllerState
from penstock.metadata.image import NOBODY, ClusterImage, ConfigResource, PartitionImage, ResourceType, TopicImage
from penstock.metadata.records import PartitionChangeRecord
from penstock.metadata.topics import LOST_DIRECTORY, NO_LEADER, UNASSIGNED_DIRECTORY, is_reserved

RECOVERED = 0
RECOVERING = 1
"""Whether the leader has all that was committed; one that was elected uncleanly has to find out first (KIP-704)."""

UNCLEAN_LEADER_ELECTION = "unclean.leader.election.enable"


class Election(IntEnum):
    """Whom an election takes; the numbers of the first two are those of ElectLeaders."""

    PREFERRED = 0
    UNCLEAN = 1
    ONLINE = 2


@dataclass(slots=True)
class Wanted:
    """What a partition is to become; what is None stays as it is."""

    isr: Sequence[int] | None = None
    replicas: Sequence[int] | None = None
    removing: Sequence[int] | None = None
    adding: Sequence[int] | None = None
    recovery_state: int | None = None
    election: Election = Election.ONLINE


@dataclass(frozen=True, slots=True)
class Electorate:
    """Who may lead: as the image says, but for one broker that is just coming or going."""

    image: ClusterImage
    coming: int = NOBODY
    going: int = NOBODY

    def may_lead(self, partition: PartitionImage, broker_id: int) -> bool:
        """Whether a broker could lead a partition: it is active, and its replica's directory is not offline."""
        broker = self.image.brokers.get(broker_id)
        if broker is None or broker_id == self.going or not (broker.active or broker_id == self.coming):
            return False
        directory = directory_of(partition, broker_id)
        if is_reserved(directory):
            return directory != LOST_DIRECTORY
        return not broker.directories or directory in broker.directories

    def may_go_on(self, broker_id: int) -> bool:
        """Whether a leader could lead a little longer: it is on its way out, and still there."""
        broker = self.image.brokers.get(broker_id)
        return broker is not None and broker.in_controlled_shutdown and not broker.fenced and broker_id != self.going


def changed(electorate: Electorate, topic: TopicImage, index: int, wanted: Wanted) -> PartitionChangeRecord | None:
    """The record that makes of a partition what is wanted, with all that follows; None if nothing changes."""
    partition = topic.partitions[index]
    replicas = _or(wanted.replicas, partition.replicas)
    isr = _or(wanted.isr, partition.isr)
    removing = _or(wanted.removing, partition.removing_replicas)
    adding = _or(wanted.adding, partition.adding_replicas)
    if (removing or adding) and _is_complete(replicas, isr, removing):
        replicas = tuple(replica for replica in replicas if replica not in removing)
        isr = tuple(replica for replica in isr if replica not in removing)
        removing, adding = (), ()
    recovery_state = partition.leader_recovery_state if wanted.recovery_state is None else wanted.recovery_state
    leader, is_unclean = _elect(electorate, partition, replicas, isr, wanted.election)
    if is_unclean:
        isr, recovery_state = (leader,), RECOVERING
    record = PartitionChangeRecord(partition_id=index, topic_id=topic.topic_id)
    lost_replica = not set(partition.replicas) <= set(replicas)
    if leader != partition.leader or lost_replica:
        record.leader = leader
    if isr and isr != partition.isr:
        record.isr = list(isr)
    if replicas != partition.replicas:
        record.replicas = list(replicas)
        record.directories = _directories(electorate.image, partition, replicas)
    if removing != partition.removing_replicas:
        record.removing_replicas = list(removing)
    if adding != partition.adding_replicas:
        record.adding_replicas = list(adding)
    if recovery_state != partition.leader_recovery_state:
        record.leader_recovery_state = recovery_state
    return None if record == PartitionChangeRecord(partition_id=index, topic_id=topic.topic_id) else record


def directory_of(partition: PartitionImage, broker_id: int) -> UUID:
    """The directory in which a broker's replica lies; `UNASSIGNED_DIRECTORY` if the broker has not said."""
    if len(partition.directories) != len(partition.replicas) or broker_id not in partition.replicas:
        return UNASSIGNED_DIRECTORY
    return partition.directories[partition.replicas.index(broker_id)]


def allows_unclean(state: ControllerState, topic: str) -> bool:
    """Whether an outdated replica of the topic may lead where no other one can."""
    resource = ConfigResource(ResourceType.TOPIC, topic)
    return state.settings.rules.value_of(state.image, resource, UNCLEAN_LEADER_ELECTION) == "true"


def _or(wanted: Sequence[int] | None, present: tuple[int, ...]) -> tuple[int, ...]:
    return present if wanted is None else tuple(wanted)


def _is_complete(replicas: tuple[int, ...], isr: tuple[int, ...], removing: tuple[int, ...]) -> bool:
    """Whether all replicas of a move's target are in sync."""
    target = [replica for replica in replicas if replica not in removing]
    return bool(target) and all(replica in isr for replica in target)


def _elect(
    electorate: Electorate,
    partition: PartitionImage,
    replicas: tuple[int, ...],
    isr: tuple[int, ...],
    election: Election,
) -> tuple[int, bool]:
    """Who leads, and whether it had to be somebody who is not in sync."""
    leader = partition.leader
    candidates = [replica for replica in replicas if replica in isr and electorate.may_lead(partition, replica)]
    if leader in candidates and (election is not Election.PREFERRED or candidates[0] != replicas[0]):
        return leader, False
    if candidates:
        return candidates[0], False
    if leader in isr and leader in replicas and electorate.may_go_on(leader):
        return leader, False
    if election is Election.UNCLEAN:
        for replica in replicas:
            if electorate.may_lead(partition, replica):
                return replica, True
    return NO_LEADER, False


def _directories(image: ClusterImage, partition: PartitionImage, replicas: tuple[int, ...]) -> list[UUID]:
    return [
        directory_of(partition, broker) if broker in partition.replicas else only_directory(image, broker)
        for broker in replicas
    ]
