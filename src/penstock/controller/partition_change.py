"""How a partition changes: who leads it then, who is in sync, and when a move to other replicas is over.

All that changes a partition goes through `changed`, but for storage groups (`group_leaders`). Its rules are Kafka's:

* A move is over as soon as every replica of its target is in sync; what was to be removed goes with the same record.
* The leader stays if it may lead. Otherwise the first replica leads that is in sync and may lead, in the order of the
  assignment; if there is none, there is no leader. A preferred election asks for the first replica even if another one
  leads.
* Where none is in sync, the eligible leader replicas stand for the ISR; then the last known leader, if it is the only
  one known, which has to recover. `eligible_leaders` says who is one. In a cluster without this feature there are none
  but those that an earlier controller has left, and they are forgotten as soon as there is a leader.
* An unclean election takes the first replica that may lead though it is not in sync. It alone is in sync then, and has
  to recover first (KIP-704).
* Replicas of brokers that are not active stay in sync only while no active one could lead: then they may come back.
  With eligible leaders the ISR is empty where there is no leader, and they come back as such.
* A broker may lead if it is active and the directory of its replica is not offline (KIP-858). One on its way out goes
  on leading while no other can.
* Taking a replica away begins a new leader epoch, so that the one that is gone is not heard any more.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeVar
from uuid import UUID

from penstock.controller.assignments import only_directory
from penstock.controller.decision import ControllerState
from penstock.controller.eligible_leaders import could_lead, keeps_track, left_over, tracked
from penstock.metadata.configs.definitions import is_true
from penstock.metadata.image import NOBODY, ClusterImage, ConfigResource, PartitionImage, ResourceType, TopicImage
from penstock.metadata.records import PartitionChangeRecord
from penstock.metadata.topics import NO_LEADER, RECOVERING, is_online
from penstock.protocol.value import Value

RECOVERED = 0

ItemT = TypeVar("ItemT", int, UUID)

_LISTS = (
    "isr",
    "replicas",
    "directories",
    "removing_replicas",
    "adding_replicas",
    "eligible_leader_replicas",
    "last_known_elr",
)
"""Fields of a partition, of which a record has those that change."""

UNCLEAN_LEADER_ELECTION = "unclean.leader.election.enable"


class Election(IntEnum):
    """The numbers of the first two are those of ElectLeaders."""

    PREFERRED = 0
    UNCLEAN = 1
    ONLINE = 2


@dataclass(slots=True)
class Wanted:
    """What is None stays as it is."""

    isr: Sequence[int] | None = None
    replicas: Sequence[int] | None = None
    removing: Sequence[int] | None = None
    adding: Sequence[int] | None = None
    recovery_state: int | None = None
    directories: Sequence[UUID] | None = None
    lost: int = NOBODY
    """It may lack records which it had, and is no eligible leader any more."""
    election: Election = Election.ONLINE
    leader: int = NOBODY
    """It leads if it is in sync and may; else the election decides."""


class Electorate(Value):
    """Who may lead: as the image says, but for one broker that is just coming or going."""

    state: ControllerState
    coming: int = NOBODY
    going: int = NOBODY

    @property
    def image(self) -> ClusterImage:
        return self.state.image

    def may_lead(self, partition: PartitionImage, broker_id: int) -> bool:
        """Whether it is active, and its replica's directory is not offline."""
        if not self.is_active(broker_id):
            return False
        return is_online(partition.directory_of(broker_id), self.image.brokers[broker_id].directories)

    def is_active(self, broker_id: int) -> bool:
        """Neither fenced nor on its way out."""
        broker = self.image.brokers.get(broker_id)
        return broker is not None and broker_id != self.going and (broker.active or broker_id == self.coming)

    def may_go_on(self, broker_id: int) -> bool:
        """A leader on its way out could lead a little longer while it is there."""
        broker = self.image.brokers.get(broker_id)
        return broker is not None and broker.in_controlled_shutdown and not broker.fenced and broker_id != self.going


def changed(electorate: Electorate, topic: TopicImage, index: int, wanted: Wanted) -> PartitionChangeRecord | None:
    """None if nothing changes, as where a storage group elects."""
    if topic.by_consensus:
        return None
    before = topic.partitions[index]
    after = before._replace(
        replicas=_or(wanted.replicas, before.replicas),
        isr=_or(wanted.isr, before.isr),
        directories=_or(wanted.directories, before.directories),
        removing_replicas=_or(wanted.removing, before.removing_replicas),
        adding_replicas=_or(wanted.adding, before.adding_replicas),
        leader_recovery_state=before.leader_recovery_state if wanted.recovery_state is None else wanted.recovery_state,
    )
    if after.removing_replicas or after.adding_replicas:
        after = _completed(after)
    if after.replicas != before.replicas:
        after = after._replace(directories=_directories(electorate.image, before, after.replicas))
    keeps = keeps_track(electorate.image)
    if keeps:
        after = after._replace(eligible_leader_replicas=could_lead(electorate.state, before, after, wanted.lost))
    leader, is_unclean = _elect(electorate, after, wanted)
    after = after._replace(leader=leader)
    if leader != NO_LEADER:
        after = after._replace(isr=after.isr or (leader,), eligible_leader_replicas=(), last_known_elr=())
    if is_unclean:
        after = after._replace(isr=(leader,), leader_recovery_state=RECOVERING)
    else:
        if electorate.is_active(leader):
            after = after._replace(isr=tuple(replica for replica in after.isr if electorate.is_active(replica)))
        if keeps:
            after = tracked(electorate.state, topic.name, before, after, wanted.lost)
        else:
            after = left_over(after._replace(isr=after.isr or before.isr))
    record = difference(topic.topic_id, index, before, after)
    return None if record == PartitionChangeRecord(partition_id=index, topic_id=topic.topic_id) else record


def allows_unclean(state: ControllerState, topic: str) -> bool:
    resource = ConfigResource(ResourceType.TOPIC, topic)
    return is_true(state.settings.rules.value_of(state.image, resource, UNCLEAN_LEADER_ELECTION))


def _or(wanted: Sequence[ItemT] | None, present: tuple[ItemT, ...]) -> tuple[ItemT, ...]:
    return present if wanted is None else tuple(wanted)


def _completed(partition: PartitionImage) -> PartitionImage:
    """The partition itself while replicas of the target are not in sync."""
    target = tuple(replica for replica in partition.replicas if replica not in partition.removing_replicas)
    if not all(replica in partition.isr for replica in target):
        return partition
    isr = tuple(replica for replica in partition.isr if replica in target)
    return partition._replace(replicas=target, isr=isr, removing_replicas=(), adding_replicas=())


def difference(topic_id: UUID, index: int, before: PartitionImage, after: PartitionImage) -> PartitionChangeRecord:
    record = PartitionChangeRecord(partition_id=index, topic_id=topic_id)
    if after.leader != before.leader or not set(before.replicas) <= set(after.replicas):
        record.leader = after.leader
    for name in _LISTS:
        if getattr(after, name) != getattr(before, name):
            setattr(record, name, list(getattr(after, name)))
    if after.leader_recovery_state != before.leader_recovery_state:
        record.leader_recovery_state = after.leader_recovery_state
    return record


def _elect(electorate: Electorate, partition: PartitionImage, wanted: Wanted) -> tuple[int, bool]:
    """The leader, and whether it was elected uncleanly."""
    leader, replicas, election = partition.leader, partition.replicas, wanted.election
    isr = partition.isr or partition.eligible_leader_replicas
    candidates = [replica for replica in replicas if replica in isr and electorate.may_lead(partition, replica)]
    if wanted.leader in candidates:
        return wanted.leader, False
    if leader in candidates and (election is not Election.PREFERRED or candidates[0] != replicas[0]):
        return leader, False
    if candidates:
        return candidates[0], False
    if leader in isr and electorate.may_go_on(leader):
        return leader, False
    last = partition.last_known_elr
    if not isr and len(last) == 1 and last[0] in replicas and electorate.may_lead(partition, last[0]):
        return last[0], True
    if election is Election.UNCLEAN:
        for replica in replicas:
            if electorate.may_lead(partition, replica):
                return replica, True
    return NO_LEADER, False


def _directories(image: ClusterImage, before: PartitionImage, replicas: tuple[int, ...]) -> tuple[UUID, ...]:
    """Replicas that stay keep theirs, the others lie where their brokers have no choice."""
    return tuple(
        before.directory_of(broker) if broker in before.replicas else only_directory(image, broker)
        for broker in replicas
    )
