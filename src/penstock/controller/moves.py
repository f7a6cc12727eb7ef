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

What this costs depends on the partitions of the broker and on those without a leader. A decision moves at most
`max_moves_per_decision` of them, and notes which are left. A broker that is back comes in when none is.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from uuid import UUID

from penstock.controller.decision import MAX_RECORDS_PER_DECISION, ControllerState
from penstock.controller.heartbeats import Going, Left
from penstock.controller.partition_change import Election, Electorate, Wanted, allows_unclean, changed
from penstock.metadata.image import TopicImage
from penstock.metadata.partition_index import each, taken_from
from penstock.metadata.records import MetadataRecord, PartitionChangeRecord


def left_by(state: ControllerState, broker_id: int, going: Going) -> list[MetadataRecord]:
    """What becomes of the partitions of a broker that goes, and a note if that is not all yet."""
    records = _go_on(state, broker_id, Left(going, state.image.index.in_sync(broker_id)))
    if going is Going.BACK_AFTER_CRASH:
        records += islice(_not_eligible(state, broker_id), MAX_RECORDS_PER_DECISION - 1 - len(records))
    return records


def left_with(state: ControllerState, broker_id: int, directories: Sequence[UUID]) -> list[MetadataRecord]:
    """What becomes of what an active broker has in directories that went offline, and a note if that is not all yet."""
    topics = state.image.topics
    lost = (
        (name, index)
        for name, index in each(state.image.index.in_sync(broker_id))
        if topics[name].partitions[index].directory_of(broker_id) in directories
    )
    moves = _leaving(state, broker_id, Going.FENCED, lost)
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
    records = list(islice(_kept(state, electorate), state.settings.max_moves_per_decision))
    if len(records) == state.settings.max_moves_per_decision:
        state.heartbeats.unfinished[broker_id] = True
        return records
    return _with_coming(state, electorate, records)


def finish(state: ControllerState, broker_id: int) -> list[MetadataRecord]:
    """The next part of what was noted as unfinished for a broker; the note goes when all is done."""
    broker, note = state.image.brokers.get(broker_id), state.heartbeats.unfinished[broker_id]
    if broker is None or broker.fenced:
        if isinstance(note, Left) and note.going is not Going.STOPPING:
            return _go_on(state, broker_id, note)
        return left_by(state, broker_id, Going.FENCED)
    if broker.in_controlled_shutdown:
        return left_by(state, broker_id, Going.STOPPING)
    if note:
        return taken_by(state, broker_id)
    return _with_coming(state, Electorate(state.image, coming=broker_id), [])


def led_anew(state: ControllerState, topic: str, index: int) -> PartitionChangeRecord | None:
    """Who leads a partition that nobody leads, uncleanly if its topic allows that; None if that is still nobody."""
    return _led_anew(state, Electorate(state.image), topic, index)


def _with_coming(state: ControllerState, electorate: Electorate, records: list[MetadataRecord]) -> list[MetadataRecord]:
    at_most = state.settings.max_moves_per_decision
    records += islice(_coming(state, electorate), at_most - len(records))
    if len(records) == at_most:
        state.heartbeats.unfinished[electorate.coming] = False
    else:
        state.heartbeats.unfinished.pop(electorate.coming, None)
    return records


def _go_on(state: ControllerState, broker_id: int, left: Left) -> list[MetadataRecord]:
    """The first of the partitions that are left, and a note of the rest: none is looked at twice."""
    partitions, at_most = dict(left.partitions), state.settings.max_moves_per_decision
    moves = _leaving(state, broker_id, left.going, taken_from(partitions))
    records = list(islice(moves, at_most))
    if partitions:
        state.heartbeats.unfinished[broker_id] = left.replace(partitions=partitions)
    else:
        state.heartbeats.unfinished.pop(broker_id, None)
    return records


def _leaving(
    state: ControllerState, broker_id: int, going: Going, partitions: Iterable[tuple[str, int]]
) -> Iterator[MetadataRecord]:
    electorate = Electorate(state.image, going=broker_id)
    for name, index in partitions:
        topic = state.image.topics.get(name)
        partition = None if topic is None else topic.partitions.get(index)
        if topic is None or partition is None or broker_id not in partition.isr:
            continue  # it has gone since it was noted
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
