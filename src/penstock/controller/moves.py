"""Partitions follow their brokers: when one comes or goes, others take over what it led, or it leads what nobody leads.

A broker that goes leaves the replicas in sync wherever another one stays that may lead: one in sync, or an eligible
leader where no other is in sync. Where it is the last that could, no other has all records; who leads goes by how it
goes:

| it goes because it is  | partitions where no other broker could lead |
| --- | --- |
| fenced or unregistered | they have no leader; an outdated replica does if `unclean.leader.election.enable` says so |
| without the directory | the same; it is no eligible leader any more |
| stopping | it leads them until it has stopped |
| back, after a clean stop | it keeps the leadership, as it will be there in a moment |
| back, after a crash | the same, from a new leader epoch on, and has to recover; no leader where others are eligible |

A crash may have lost the end of a log that no other replica has, so the same offsets will hold other records; the new
leader epoch is how readers can tell (KIP-320).

What this costs depends on the partitions of the broker and on those without a leader. A decision moves at most
`max_moves_per_decision` of them, and notes which are left. A broker that is back comes in when none is. A controller
that takes over has no notes: a broker that is fenced, and in sync still, may have been back after a crash.

Partitions of storage groups have rules of their own (`group_leaders`).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from uuid import UUID

from penstock.controller.decision import MAX_RECORDS_PER_DECISION, ControllerState
from penstock.controller.eligible_leaders import could_lead, keeps_track
from penstock.controller.group_leaders import left_in_group
from penstock.controller.heartbeats import Going, Left
from penstock.controller.partition_change import (
    Election,
    Electorate,
    Wanted,
    allows_unclean,
    changed,
)
from penstock.metadata.image import NOBODY, TopicImage
from penstock.metadata.partition_index import Partitions, each, taken_from
from penstock.metadata.records import MetadataRecord, PartitionChangeRecord
from penstock.metadata.topics import NO_LEADER, RECOVERING, PartitionImage


def left_by(state: ControllerState, broker_id: int, going: Going) -> list[MetadataRecord]:
    """Notes what is left. Where a broker that loses something is eligible is known at once, see `lost_before`."""
    records = _go_on(state, broker_id, Left(going, state.image.index.in_sync(broker_id), _lost(state, broker_id)))
    if going.loses:
        records += _not_eligible(state, broker_id, _all)
    return records


def lost_before(state: ControllerState, broker_id: int) -> list[MetadataRecord]:
    """Where a broker that crashed is eligible no more, if that is too much for the decision that registers it."""
    room = MAX_RECORDS_PER_DECISION - 1 - state.settings.max_moves_per_decision
    count = sum(bits.bit_count() for bits in state.image.index.eligible(broker_id).values())
    return [] if count <= room else list(islice(_not_eligible(state, broker_id, _all), MAX_RECORDS_PER_DECISION))


def left_with(state: ControllerState, broker_id: int, directories: Sequence[UUID]) -> list[MetadataRecord]:
    """What an active broker has in directories that went offline follows; a note is left if that is not all yet."""
    topics = state.image.topics
    lost = (
        (name, index)
        for name, index in each(state.image.index.in_sync(broker_id))
        if topics[name].partitions[index].directory_of(broker_id) in directories
    )
    moves = _leaving(state, broker_id, Going.WITHOUT_DATA, lost)
    others = _not_eligible(state, broker_id, lambda partition: partition.directory_of(broker_id) in directories)
    records = list(islice(chain(moves, others), state.settings.max_moves_per_decision))
    if len(records) == state.settings.max_moves_per_decision:
        state.heartbeats.unfinished[broker_id] = True
    return records


def taken_by(state: ControllerState, broker_id: int) -> list[MetadataRecord]:
    """What the broker leads of all partitions without a leader; notes what is left.

    It does not lead, and is not in sync, where the directory of its replica is gone; what it led all the time it leads
    without brokers that are still away. A broker that kept the leadership and is still away loses it.
    """
    electorate = Electorate(state, coming=broker_id)
    records = list(islice(_kept(state, electorate), state.settings.max_moves_per_decision))
    if len(records) == state.settings.max_moves_per_decision:
        state.heartbeats.unfinished[broker_id] = True
        return records
    return _with_coming(state, electorate, records)


def finish(state: ControllerState, broker_id: int) -> list[MetadataRecord]:
    """The next part of what is unfinished for a broker; the note goes when all is done."""
    broker, note = state.image.brokers.get(broker_id), state.heartbeats.unfinished[broker_id]
    if broker is None or broker.fenced:
        if not isinstance(note, Left):
            note = Left(Going.FENCED, state.image.index.in_sync(broker_id), _lost(state, broker_id))
        records = _go_on(state, broker_id, note)
        if records:
            state.heartbeats.loses(broker_id, state.next_offset + len(records) - 1)
        return records
    if broker.in_controlled_shutdown:
        return left_by(state, broker_id, Going.STOPPING)
    if note:
        return taken_by(state, broker_id)
    return _with_coming(state, Electorate(state, coming=broker_id), [])


def led_anew(state: ControllerState, topic: str, index: int) -> PartitionChangeRecord | None:
    """An election for a partition without a leader, unclean if its topic allows that; None if it has no result."""
    return _led_anew(state, Electorate(state), topic, index)


def _with_coming(state: ControllerState, electorate: Electorate, records: list[MetadataRecord]) -> list[MetadataRecord]:
    at_most = state.settings.max_moves_per_decision
    records += islice(_coming(state, electorate), at_most - len(records))
    if len(records) == at_most:
        state.heartbeats.unfinished[electorate.coming] = False
    else:
        state.heartbeats.unfinished.pop(electorate.coming, None)
    return records


def _go_on(state: ControllerState, broker_id: int, left: Left) -> list[MetadataRecord]:
    """Notes the rest; none is looked at twice. Partitions that the broker leads come first: clients wait."""
    partitions, at_most = dict(left.partitions), state.settings.max_moves_per_decision
    in_order = taken_from(partitions, state.image.index.led_by(broker_id))
    moves = _leaving(state, broker_id, left.going, in_order, left.lost)
    records = list(islice(moves, at_most))
    if partitions:
        state.heartbeats.unfinished[broker_id] = left.replace(partitions=partitions)
    else:
        state.heartbeats.unfinished.pop(broker_id, None)
    return records


def _lost(state: ControllerState, broker_id: int) -> Partitions:
    """Where a broker that goes once more may lack records, as is noted as unfinished."""
    note = state.heartbeats.unfinished.get(broker_id)
    if isinstance(note, Left):
        return note.partitions if note.going.loses else note.lost
    broker = state.image.brokers.get(broker_id)
    was_gone = broker is None or broker.fenced
    if note is not None and was_gone and keeps_track(state.image):  # an earlier controller knew how it went
        return state.image.index.in_sync(broker_id)
    return {}


def _leaving(
    state: ControllerState,
    broker_id: int,
    going: Going,
    partitions: Iterable[tuple[str, int]],
    lost: Partitions | None = None,
) -> Iterator[MetadataRecord]:
    electorate = Electorate(state, going=broker_id)
    for name, index in partitions:
        topic = state.image.topics.get(name)
        partition = None if topic is None else topic.partitions.get(index)
        if topic is None or partition is None or broker_id not in partition.isr:
            continue  # it has gone since it was noted
        has_lost = lost is not None and lost.get(name, 0) >> index & 1
        record = _left(state, electorate, topic, index, going.losing if has_lost else going)
        if record is not None:
            yield record


def _all(partition: PartitionImage) -> bool:
    return True


def _not_eligible(
    state: ControllerState, broker_id: int, concerns: Callable[[PartitionImage], bool]
) -> Iterator[MetadataRecord]:
    """A lost record may be one that other eligible leaders of a partition have (KIP-966)."""
    electorate = Electorate(state, going=broker_id)
    for name, index in each(state.image.index.eligible(broker_id)):
        topic = state.image.topics[name]
        partition = topic.partitions[index]
        if not concerns(partition):
            continue
        if keeps_track(state.image):
            wanted = Wanted(lost=broker_id, election=_election(state, name))
            record = changed(electorate, topic, index, wanted)
            if record is not None:
                yield record
        elif len(partition.eligible_leader_replicas) > 1:
            others = [replica for replica in partition.eligible_leader_replicas if replica != broker_id]
            yield PartitionChangeRecord(partition_id=index, topic_id=topic.topic_id, eligible_leader_replicas=others)


def _left(
    state: ControllerState, electorate: Electorate, topic: TopicImage, index: int, going: Going
) -> PartitionChangeRecord | None:
    partition, broker_id = topic.partitions[index], electorate.going
    if topic.by_consensus:
        return left_in_group(topic, index, broker_id, going)
    if partition.leader == broker_id and len(partition.replicas) == 1 and going.leads_on:
        # No other can lead. A node that is alone has very many of these.
        return _led_again(state, topic, index) if going is Going.BACK_AFTER_CRASH else None
    others = tuple(replica for replica in partition.isr if replica != broker_id)
    lost = broker_id if going.loses else NOBODY
    if electorate.may_go_on(partition.leader) or _any(electorate, partition, others):
        return changed(electorate, topic, index, Wanted(isr=others, lost=lost))
    if keeps_track(state.image):
        return _left_by_the_last(state, electorate, topic, index, going)
    if going in (Going.FENCED, Going.WITHOUT_DATA):
        return _led_anew(state, electorate, topic.name, index)
    if going is Going.BACK_AFTER_CRASH and partition.leader == broker_id:
        return _led_again(state, topic, index)
    return None


def _led_again(state: ControllerState, topic: TopicImage, index: int) -> PartitionChangeRecord:
    """The same leader in a new epoch: it is back in a moment."""
    partition = topic.partitions[index]
    record = PartitionChangeRecord(partition_id=index, topic_id=topic.topic_id, leader=partition.leader)
    if keeps_track(state.image) and partition.leader_recovery_state != RECOVERING:
        record.leader_recovery_state = RECOVERING
    return record


def _left_by_the_last(
    state: ControllerState, electorate: Electorate, topic: TopicImage, index: int, going: Going
) -> PartitionChangeRecord | None:
    """No other replica in sync could lead: an eligible one does, or none, or the broker that goes once more."""
    partition, broker_id = topic.partitions[index], electorate.going
    lost = broker_id if going.loses else NOBODY
    wanted = Wanted(isr=(), lost=lost, election=_election(state, topic.name))
    others = could_lead(state, partition, partition._replace(isr=()), broker_id)
    if going in (Going.STOPPING, Going.BACK):
        return changed(electorate, topic, index, wanted) if _any(electorate, partition, others) else None
    record = changed(electorate, topic, index, wanted)
    stays = going is Going.BACK_AFTER_CRASH and partition.leader == broker_id and not others
    return record if not stays or (record is not None and record.leader >= 0) else _led_again(state, topic, index)


def _any(electorate: Electorate, partition: PartitionImage, replicas: Iterable[int]) -> bool:
    return any(electorate.may_lead(partition, replica) for replica in replicas)


def _kept(state: ControllerState, electorate: Electorate) -> Iterator[MetadataRecord]:
    """What a broker that comes was in sync with while it was away: it leads that alone, or cannot any more."""
    going = Electorate(state, going=electorate.coming)
    for name, index in each(state.image.index.in_sync(electorate.coming)):
        topic = state.image.topics[name]
        partition = topic.partitions[index]
        record = None
        if not electorate.may_lead(partition, electorate.coming):
            record = _left(state, going, topic, index, Going.WITHOUT_DATA)
        elif partition.leader != NO_LEADER and len(partition.isr) > 1:  # others may not be there yet
            record = changed(electorate, topic, index, Wanted())
        if record is not None:
            yield record
    coming = electorate.coming
    yield from _not_eligible(state, coming, lambda partition: not electorate.may_lead(partition, coming))


def _coming(state: ControllerState, electorate: Electorate) -> Iterator[MetadataRecord]:
    for name, index in each(state.image.index.leaderless):
        if electorate.coming in state.image.topics[name].partitions[index].replicas:
            record = _led_anew(state, electorate, name, index)
            if record is not None:
                yield record


def _led_anew(state: ControllerState, electorate: Electorate, name: str, index: int) -> PartitionChangeRecord | None:
    return changed(electorate, state.image.topics[name], index, Wanted(election=_election(state, name)))


def _election(state: ControllerState, topic: str) -> Election:
    return Election.UNCLEAN if allows_unclean(state, topic) else Election.ONLINE
