"""Partitions follow their brokers: when one comes or goes, others take over what it led, or it leads what nobody leads.

A broker that goes leaves the replicas in sync wherever another one stays there that may lead. Where it is the last that
could, it stays in sync, for nobody else has all records; whether it leads there goes by how it goes:

| it goes because it is  | partitions where nobody else could lead |
| --- | --- |
| fenced or unregistered | nobody leads them; an outdated replica does if `unclean.leader.election.enable` says so |
| stopping | it leads them until it has stopped |
| back, after a clean stop | it keeps the leadership, as it will be there in a moment |
| back, after a crash | the same, from a new leader epoch on |

A crash may have lost the end of a log that nobody else has, so the same offsets will hold other records; the new leader
epoch is how readers can tell (KIP-320).

What this costs depends on the partitions of the broker and on those without a leader. A decision moves a bounded
number of them, mostly `max_moves_per_decision`; who has more is noted as unfinished.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum, auto
from itertools import chain, islice
from uuid import UUID

from penstock.controller.decision import MAX_RECORDS_PER_DECISION, ControllerState
from penstock.controller.partition_change import Election, Electorate, Wanted, allows_unclean, changed
from penstock.metadata.image import TopicImage
from penstock.metadata.partition_index import each
from penstock.metadata.records import MetadataRecord, PartitionChangeRecord
from penstock.metadata.topics import PartitionImage


class Going(Enum):
    """Why the partitions of a broker may get other leaders."""

    FENCED = auto()
    STOPPING = auto()
    BACK = auto()
    BACK_AFTER_CRASH = auto()


def left_by(state: ControllerState, broker_id: int, going: Going) -> list[MetadataRecord]:
    """What becomes of the partitions of a broker that goes, and a note if that is not all yet.

    Of one that is back as much as fits is done at once: for what is left, it would be as if it had been fenced.
    """
    moves = _leaving(state, broker_id, going, lambda partition: True)
    if going is Going.BACK_AFTER_CRASH:
        moves = chain(moves, _not_eligible(state, broker_id))
    is_back = going in (Going.BACK, Going.BACK_AFTER_CRASH)
    return _bounded(state, broker_id, moves, limit=MAX_RECORDS_PER_DECISION - 1 if is_back else None)


def left_with(state: ControllerState, broker_id: int, directories: Sequence[UUID]) -> list[MetadataRecord]:
    """What becomes of what an active broker has in directories that went offline, and a note if that is not all yet."""
    moves = _leaving(state, broker_id, Going.FENCED, lambda p: p.directory_of(broker_id) in directories)
    records = list(islice(moves, state.settings.max_moves_per_decision))
    if len(records) == state.settings.max_moves_per_decision:
        state.heartbeats.unfinished[broker_id] = True
    return records


def taken_by(state: ControllerState, broker_id: int) -> list[MetadataRecord]:
    """What a broker that comes leads of all that nobody leads, and a note if that is not all yet.

    And it does not lead, and is not in sync, where the directory of its replica is not there any more; what it led all
    the time it leads without those that are still away.
    """
    electorate = Electorate(state.image, coming=broker_id)
    return _bounded(state, broker_id, chain(_kept(state, electorate), _coming(state, electorate)), thorough=True)


def finish(state: ControllerState, broker_id: int) -> list[MetadataRecord]:
    """The next part of what was noted as unfinished for a broker; the note goes when all is done."""
    broker = state.image.brokers.get(broker_id)
    if broker is None or broker.fenced:
        return left_by(state, broker_id, Going.FENCED)
    if broker.in_controlled_shutdown:
        return left_by(state, broker_id, Going.STOPPING)
    if state.heartbeats.unfinished[broker_id]:
        return taken_by(state, broker_id)
    return _bounded(state, broker_id, _coming(state, Electorate(state.image, coming=broker_id)))


def led_anew(state: ControllerState, topic: str, index: int) -> PartitionChangeRecord | None:
    """Who leads a partition that nobody leads, uncleanly if its topic allows that; None if that is still nobody."""
    return _led_anew(state, Electorate(state.image), topic, index)


def _bounded(
    state: ControllerState,
    broker_id: int,
    moves: Iterable[MetadataRecord],
    *,
    limit: int | None = None,
    thorough: bool = False,
) -> list[MetadataRecord]:
    at_most = state.settings.max_moves_per_decision if limit is None else limit
    records = list(islice(moves, at_most))
    if len(records) == at_most:
        state.heartbeats.unfinished[broker_id] = thorough
    else:
        state.heartbeats.unfinished.pop(broker_id, None)
    return records


def _leaving(
    state: ControllerState, broker_id: int, going: Going, concerns: Callable[[PartitionImage], bool]
) -> Iterator[MetadataRecord]:
    electorate = Electorate(state.image, going=broker_id)
    for name, index in each(state.image.index.in_sync(broker_id)):
        topic = state.image.topics[name]
        if concerns(topic.partitions[index]):
            record = _left(state, electorate, topic, index, going)
            if record is not None:
                yield record


def _not_eligible(state: ControllerState, broker_id: int) -> Iterator[MetadataRecord]:
    """A crash may have cost a broker records that other eligible leaders of a partition have (KIP-966)."""
    for name, index in each(state.image.index.leaderless):
        topic = state.image.topics[name]
        eligible = topic.partitions[index].eligible_leader_replicas
        if broker_id in eligible and len(eligible) > 1:
            others = [replica for replica in eligible if replica != broker_id]
            yield PartitionChangeRecord(partition_id=index, topic_id=topic.topic_id, eligible_leader_replicas=others)


def _left(
    state: ControllerState, electorate: Electorate, topic: TopicImage, index: int, going: Going
) -> PartitionChangeRecord | None:
    partition, broker_id = topic.partitions[index], electorate.going
    others = tuple(replica for replica in partition.isr if replica != broker_id)
    goes_on = partition.leader in others and electorate.may_go_on(partition.leader)
    if goes_on or any(electorate.may_lead(partition, replica) for replica in others):
        return changed(electorate, topic, index, Wanted(isr=others))
    if going is Going.FENCED:
        return _led_anew(state, electorate, topic.name, index)
    if going is Going.BACK_AFTER_CRASH and partition.leader == broker_id:
        return PartitionChangeRecord(partition_id=index, topic_id=topic.topic_id, leader=broker_id)
    return None


def _kept(state: ControllerState, electorate: Electorate) -> Iterator[MetadataRecord]:
    """What a broker that comes was in sync with while it was away: it leads that alone, or cannot any more."""
    going = Electorate(state.image, going=electorate.coming)
    for name, index in each(state.image.index.in_sync(electorate.coming)):
        topic = state.image.topics[name]
        partition = topic.partitions[index]
        record = None
        if not electorate.may_lead(partition, electorate.coming):
            record = _left(state, going, topic, index, Going.FENCED)
        elif partition.leader == electorate.coming and len(partition.isr) > 1:
            record = changed(electorate, topic, index, Wanted())
        if record is not None:
            yield record


def _coming(state: ControllerState, electorate: Electorate) -> Iterator[MetadataRecord]:
    for name, index in each(state.image.index.leaderless):
        if electorate.coming in state.image.topics[name].partitions[index].replicas:
            record = _led_anew(state, electorate, name, index)
            if record is not None:
                yield record


def _led_anew(state: ControllerState, electorate: Electorate, name: str, index: int) -> PartitionChangeRecord | None:
    election = Election.UNCLEAN if allows_unclean(state, name) else Election.ONLINE
    return changed(electorate, state.image.topics[name], index, Wanted(election=election))
