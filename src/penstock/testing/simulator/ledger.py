"""What clients were promised, and the rules that must never be broken.

| what                      | rule |
| ------------------------- | ------------------------------ |
| an acknowledged record    | is there until retention; power cuts may take what no flush promised, and only the end,  |
|                           | where they strike all replicas that have it (those in sync and eligible leaders) before  |
|                           | one of them has caught up again; or where the last leader leads again, as the others have|
|                           | crashed as well. Of several replicas this is promised with acks=all only; a storage group|
|                           | keeps it through all of that |
| replicas of a partition   | agree: see `replica_agreement.py` |
| offsets of a partition    | follow one another without a hole |
| records of one producer   | lie in the order in which they were sent; of an idempotent one each lies there once |
| an acknowledged topic     | exists with all of its partitions, until its deletion: see `promised_topics.py` |
| what all nodes know       | is the same: see `agreement.py` |
| a partition               | has one leader that answers, or none: see `leader_claims.py` |
| the balance of leaders    | moves one at a time: see `leader_moves.py` |
| a leader that hands over  | appends nothing once it has asked for its successor: see `given_up.py` |
| a partition, a generation | belong to one member of a group |
| a member without company  | stays as long as no fault strikes, wherever its coordinator goes: see `clients.py` |
| a committed offset        | never goes back, but as a replaced coordinator tells it that does not know that yet |
| a storage group           | has one leader that holds the lease, or none: see `group_leads.py` |
| produces and reads        | of a storage group, or where brokers refuse without a lease, are linearizable: see       |
|                           | `log_ends.py` |
| what clients saw          | has no anomaly of `penstock.testing.history`, and nothing that was read is gone |
"""

from collections.abc import Sequence

from penstock.client.values import ConsumedRecord, TopicPartition
from penstock.metadata.topics import PartitionImage
from penstock.node.assembly.start import RunningNode
from penstock.node.partitions.partition import Partition
from penstock.protocol.hashing import coordinator_partition
from penstock.protocol.internal_topics import CONSUMER_OFFSETS
from penstock.testing.simulator.agreement import Agreement
from penstock.testing.simulator.client_history import READER, ClientHistory
from penstock.testing.simulator.given_up import GivenUp
from penstock.testing.simulator.group_leads import GroupLeads
from penstock.testing.simulator.leader_claims import LeaderClaims
from penstock.testing.simulator.leader_moves import LeaderMoves
from penstock.testing.simulator.log_ends import LogEnds
from penstock.testing.simulator.promised_topics import TopicPromises
from penstock.testing.simulator.replica_agreement import Key, ReplicaAgreement
from penstock.testing.simulator.trace import Trace
from penstock.testing.simulator.views import image_of, partitions_of
from penstock.testing.simulator.wrong_clocks import WrongClocks


class Ledger:
    def __init__(
        self,
        trace: Trace,
        *,
        flushes_each: bool,
        replicas: int = 1,
        retention_ms: int | None = None,
        is_careless: bool = False,
        has_leases: bool = False,
    ) -> None:
        """`is_careless`: outdated replicas may lead, so no record is promised.

        `has_leases`: of a partition with several replicas a broker answers as the leader only with a lease.
        """
        self.violations: list[str] = []
        self.promises = TopicPromises()
        self.agreement = Agreement(self.violated)
        self.replica_agreement = ReplicaAgreement(self.violated)
        self.leader_moves = LeaderMoves(self.violated)
        self.leader_claims = LeaderClaims(self.violated, lambda: self.agreement.newest)
        self.given_up = GivenUp(self.violated)
        self.group_leads = GroupLeads(self.violated)
        self.log_ends = LogEnds(self.violated)
        self.history = ClientHistory()
        self.acknowledged: dict[TopicPartition, dict[int, bytes]] = {}
        self.committed: dict[tuple[str, TopicPartition], int] = {}
        self.acks = 0
        self.lossy_crashes = int(is_careless)
        self._is_careless = is_careless
        self._has_leases = has_leases
        self._owners: dict[tuple[int, str, int, TopicPartition], str] = {}
        self._nodes: dict[str, RunningNode] = {}
        self._homes: dict[TopicPartition, str] = {}
        self._flushes_each = flushes_each
        self._retention_ms = retention_ms
        self._written_ms: dict[TopicPartition, dict[int, int]] = {}
        self._replicas = replicas
        self._weak: dict[Key, dict[str, int]] = {}
        """Replicas that lost their power while they had all, and how much of them a flush had promised."""
        self._last_leaders: dict[Key, dict[str, int]] = {}
        """As `_weak`, of replicas that count no more, and may lead when no other can; and the epochs in which they do.
        """
        self._recovering: dict[Key, int] = {}
        self._lost: dict[Key, None] = {}
        """Partitions of which all replicas that had all are such, and that is noted."""
        self.clocks = WrongClocks(trace.now)
        self._trace = trace

    @property
    def topics(self) -> dict[str, int]:
        """Topics that certainly exist, and their least number of partitions."""
        return self.promises.counts

    def violated(self, text: str) -> None:
        """In the outcome and in the trace."""
        self.violations.append(text)
        self._trace.note("VIOLATION", text)

    # What clients were told

    def acked(
        self,
        partition: TopicPartition,
        offset: int,
        value: bytes,
        written_ms: int,
        *,
        by_all: bool = True,
        before: int = 0,
    ) -> None:
        """A record was acknowledged at this offset, by all replicas in sync or by the leader alone.

        Its timestamp is at least `written_ms`; the partition went to `before` when it was sent.
        """
        if partition.topic not in self.topics:
            return  # its deletion is under way
        self.acks += 1
        if not self.is_by_consensus(partition.topic) and (self._is_careless or (self._replicas > 1 and not by_all)):
            return  # the next leader may not have it
        if self.is_linearizable(partition.topic):
            self.log_ends.produced(partition, offset, before)
        self._written_ms.setdefault(partition, {})[offset] = written_ms
        known = self.acknowledged.setdefault(partition, {})
        if known.setdefault(offset, value) != value:
            self.violated(f"{partition} offset {offset} was given to {known[offset]!r} and to {value!r}")

    def is_by_consensus(self, topic: str) -> bool:
        """Whether acknowledged records are on the disks of a majority, for good."""
        known = None if self.agreement.newest is None else self.agreement.newest.topics.get(topic)
        return known is not None and known.by_consensus

    def is_linearizable(self, topic: str) -> bool:
        """Whether no read of the topic may miss what was acknowledged before: see `log_ends.py`."""
        return self.is_by_consensus(topic) or (self._has_leases and not self._is_careless)

    def promised_ends(self, name: str) -> dict[TopicPartition, int]:
        """The least ends of partitions, if this node is asked now and answers.

        Without the partitions from whose ISR it was removed while it was neither fenced nor asked to go: it may not
        have heard of that, and answers as before.
        """
        ends, image = self.log_ends.reached(), self.agreement.newest
        brokers = () if image is None else image.brokers.values()
        if image is None or not any(name == f"node{it.node_id}" and it.active for it in brokers):
            return ends
        return {
            where: end
            for where, end in ends.items()
            if (topic := image.topics.get(where.topic)) is None
            or topic.by_consensus
            or where.partition not in topic.partitions
            or name in _names(topic.partitions[where.partition].isr)
        }

    def holds_since(self, topic: str, losses: int) -> bool:
        """Whether no power cut can have taken what was asked for when `lossy_crashes` was `losses`."""
        return losses == self.lossy_crashes or self.is_by_consensus(topic)

    def consumed(self, record: ConsumedRecord) -> None:
        """A consumer's record must be the acknowledged one."""
        known = self.acknowledged.get(record.topic_partition, {}).get(record.offset, record.value)
        if known != record.value:
            self.violated(f"{record.topic_partition} offset {record.offset} is {record.value!r}, not {known!r}")
        if self.is_linearizable(record.topic):
            self.log_ends.goes_to(record.topic_partition, record.offset + 1)

    def owns(self, group: str, generation: int, member: str, partitions: Sequence[TopicPartition]) -> None:
        """No other member may have these partitions in the same generation."""
        if self._is_careless:
            return  # a group whose log is gone counts its generations from the beginning
        for partition in partitions:
            owner = self._owners.setdefault((self.lossy_crashes, group, generation, partition), member)
            if owner != member:
                self.violated(f"{partition} belongs to {owner} and {member} in generation {generation} of {group}")

    def commit_acknowledged(self, group: str, partition: TopicPartition, offset: int) -> None:
        key = (group, partition)
        self.committed[key] = max(offset, self.committed.get(key, 0))

    def promised_offsets(self, group: str) -> dict[TopicPartition, int]:
        """The offsets that a group's coordinator must know when it is asked now.

        None while a node does not know yet that another one coordinates the group: it may be asked, and it knows what
        it knew, as Kafka's coordinators do.
        """
        if self._has_deposed_coordinator(group):
            return {}
        return {partition: offset for (of_group, partition), offset in self.committed.items() if of_group == group}

    def _has_deposed_coordinator(self, group: str) -> bool:
        image = self.agreement.newest
        topic = None if image is None else image.topics.get(CONSUMER_OFFSETS)
        if topic is None:
            return False
        index = coordinator_partition(group, len(topic.partitions))
        held = [(name, partitions_of(node).get(CONSUMER_OFFSETS, index)) for name, node in self._nodes.items()]
        return any(
            partition is not None and partition.leader is not None and not self._leads(name, partition)
            for name, partition in held
        )

    def found_committed(self, group: str, partition: TopicPartition, offset: int, promised: int) -> None:
        """The coordinator's answer; `promised` was acknowledged before the question."""
        if self.lossy_crashes:
            return  # a reader whose position is behind the end that is left begins anew, and commits that
        if offset < promised and self.committed.get((group, partition), 0) >= promised:
            self.violated(f"group {group} stands at {offset} in {partition}; {promised} was committed")

    # What befalls the node

    def crashing(self, name: str, node: RunningNode | None, *, power_lost: bool) -> None:
        """Removes what was not promised through such a crash."""
        self._note_homes()
        self._nodes.pop(name, None)
        self.replica_agreement.forget_node(name)
        if not power_lost or self._flushes_each:
            return
        if self._replicas > 1:
            self._weaken(name, node)
            return
        self.lossy_crashes += 1
        self.committed.clear()
        for topic in () if self.agreement.newest is None else self.agreement.newest.topics.values():
            for index in topic.partitions:
                held = None if node is None else partitions_of(node).get(topic.name, index)
                if held is not None or self._homes.get(TopicPartition(topic.name, index), name) == name:
                    flushed = 0 if held is None else max(held.log.recovery_point, 0)  # None: its directory is offline
                    self.replica_agreement.lost((topic.topic_id, index), flushed)
        for partition, known in self.acknowledged.items():
            if self._homes.get(partition, name) != name:
                continue
            held = None if node is None else partitions_of(node).get(*partition)
            flushed = 0 if held is None else max(held.log.recovery_point, 0)
            self.acknowledged[partition] = {o: value for o, value in known.items() if o < flushed}
            self.log_ends.lost(partition, flushed)

    def disk_replaced(self, name: str) -> None:
        """All that a replica there had may be gone."""
        self._weaken(name, None)

    def _weaken(self, name: str, node: RunningNode | None) -> None:
        """One of several replicas lost its power: removes what no other one is sure to have."""
        self.look_at_weak()
        image = self.agreement.newest
        for topic in () if image is None else [one for one in image.topics.values() if not one.by_consensus]:
            for index, partition in topic.partitions.items():
                key = topic.topic_id, index
                is_member = name in _members(partition)
                weak, last = self._weak.setdefault(key, {}), self._last_leaders.setdefault(key, {})
                known = weak if is_member else last  # both are looked at together
                if is_member or name in known or name in _names(partition.last_known_elr):
                    held = None if node is None else partitions_of(node).get(topic.name, index)
                    flushed = 0 if held is None else max(held.log.recovery_point, 0)
                    known[name] = min(flushed, known.get(name, flushed))
                if is_member:
                    self._lost.pop(key, None)  # this cut may have taken more than the last one
        self.look_at_weak()

    def _lose(self, key: Key, topic: str, offset: int) -> None:
        """Records at this offset and behind it may be gone."""
        self.replica_agreement.lost(key, offset)
        where = TopicPartition(topic, key[1])
        self.log_ends.lost(where, offset)
        known = self.acknowledged.get(where)
        if known is not None:
            self.acknowledged[where] = {o: v for o, v in known.items() if o < offset}

    def look_at_weak(self) -> None:
        """A replica that is neither in sync nor eligible any more comes back only with all that is committed, but for
        the last leader (`look_at_recoveries`).

        Where those that lost their power are the last ones, what they have is what is left.
        """
        image = self.agreement.newest
        is_lossy = False
        for key, weak in self._weak.items():
            topic = None if image is None else image.topics_by_id.get(key[0])
            partition = None if topic is None else topic.partitions.get(key[1])
            have_all = [] if partition is None else _members(partition)
            for name in [name for name in weak if name not in have_all]:
                self._last_leaders.setdefault(key, {})[name] = weak.pop(name)
            for name in have_all:
                self._last_leaders.get(key, {}).pop(name, None)
            if topic is not None and weak and len(weak) == len(have_all) and key not in self._lost:
                is_lossy = True
                self._lost[key] = None
                self._lose(key, topic.name, min(weak.values()))
            elif len(weak) < len(have_all):
                self._lost.pop(key, None)
        if is_lossy:
            self.lossy_crashes += 1
            self.committed.clear()

    def look_at_recoveries(self) -> None:
        """No replica was eligible, so the last leader leads again: what power cuts have taken from it is gone."""
        image = self.agreement.newest
        for topic in () if image is None else image.topics.values():
            for index, partition in topic.partitions.items():
                key = topic.topic_id, index
                is_news = self._recovering.get(key) != partition.leader_epoch
                if not partition.leader_recovery_state or not is_news:
                    continue
                self._recovering[key] = partition.leader_epoch
                cut = self._last_leaders.pop(key, {}) | self._weak.pop(key, {})
                flushed = cut.get(f"node{partition.leader}")
                if flushed is not None:  # what it has now is all there is
                    self._lost.pop(key, None)
                    self._lose(key, topic.name, flushed)
                    self.lossy_crashes += 1
                    self.committed.clear()

    def look_at_replica(self, name: str, partition: Partition) -> None:
        if self._is_careless:
            return
        known = self._known(partition)
        is_in_sync = known is not None and name in _members(known)
        is_weak = not is_in_sync or name in self._weak.get((partition.topic_id, partition.index), ())
        is_current = known is not None and known.leader_epoch == partition.leader_epoch
        if not partition.owns_log:  # it has only what is committed, and no rule counts on its having all
            is_weak = is_current = False
        self.replica_agreement.look(
            name,
            partition,
            leads=self._leads(name, partition),
            is_weak=is_weak,
            is_current=is_current,
            now_ms=self.clocks.latest_ms(),
        )

    def all_is_well(self) -> None:
        """From now on replicas must agree, also where an outdated one has led."""
        if self._is_careless:
            self._is_careless = False
            self.replica_agreement = ReplicaAgreement(self.violated, begins_late=True)

    def _known(self, partition: Partition) -> PartitionImage | None:
        image = self.agreement.newest
        topic = None if image is None else image.topics_by_id.get(partition.topic_id)
        return None if topic is None else topic.partitions.get(partition.index)

    def _leads(self, name: str, partition: Partition) -> bool:
        """By the newest metadata, too: a node that is behind may believe that it leads."""
        known = self._known(partition)
        if partition.leader is None or known is None:
            return False
        return name == f"node{known.leader}" and known.leader_epoch == partition.leader_epoch

    def started(self, name: str, node: RunningNode, versions: dict[str, int]) -> None:
        """Checks what a node has found at its start; `versions` are the promises of before it."""
        if node.is_broker:  # a controller need not know what is committed to do its work
            for broken in self.promises.broken(image_of(node), versions):
                self.violated(f"{name}: {broken}")
        self._nodes[name] = node
        self._note_homes()
        if self._replicas > 1:
            return  # a follower has time to catch up
        for partition, known in self.acknowledged.items():
            if partition.topic not in self.topics or not known or self._homes.get(partition) != name:
                continue
            if node.parts.context.directories.roots.offline and partitions_of(node).get(*partition) is None:
                continue  # it may lie in a directory that is offline
            held = partitions_of(node).get(*partition)
            end = -1 if held is None else held.log.log_end_offset
            if end <= max(known):
                self.violated(f"{partition} ends at {end}, offset {max(known)} was acknowledged")

    def stopped(self, name: str) -> None:
        self._note_homes()
        self.replica_agreement.forget_node(name)
        self._nodes.pop(name, None)

    def _note_homes(self) -> None:
        """Partitions with one replica stay where they were made."""
        for name, node in self._nodes.items():
            for partition in partitions_of(node):
                self._homes[TopicPartition(partition.topic, partition.index)] = name

    def read_back(
        self, partition: TopicPartition, records: Sequence[ConsumedRecord], end_offset: int, idempotent: Sequence[str]
    ) -> None:
        """The whole content of a partition, at the end."""
        due, before_ms, read = records[0].offset if records else end_offset, 0, set[int]()
        for record in records:
            if record.offset != due and not self._are_old(partition, range(due, record.offset), before_ms):
                self.violated(f"{partition}: offset {record.offset} stands where {due} is due")
                return
            due, before_ms = record.offset + 1, record.timestamp_ms
            read.add(record.offset)
            self.consumed(record)
            self.history.polled(READER, record)
        for offset, value in self.acknowledged.get(partition, {}).items():
            # Retention may delete records while they are read back, but a log never ends earlier for that.
            if offset >= end_offset or not (offset in read or self._is_old(partition, offset)):
                self.violated(f"{partition} offset {offset} ({value!r}) was acknowledged and is gone")
                return
        if self.holds_since(partition.topic, 0):
            self._check_order(partition, records, idempotent)

    def look_at_history(self) -> None:
        """After all partitions were read back: compares them with what clients saw, where no record may be gone."""
        if self._retention_ms is None:
            for anomaly in self.history.anomalies([topic for topic in self.topics if self.holds_since(topic, 0)]):
                self.violated(anomaly)

    def _are_old(self, partition: TopicPartition, offsets: range, before_ms: int) -> bool:
        """Some, and retention may have taken them: all that were acknowledged, and first of all the record before."""
        known = self._written_ms.get(partition, {})
        times_ms = (before_ms, *(known[offset] for offset in offsets if offset in known))
        return bool(offsets) and all(map(self._is_over, times_ms))

    def _is_old(self, partition: TopicPartition, offset: int) -> bool:
        return self._is_over(self._written_ms[partition][offset])

    def _is_over(self, written_ms: int) -> bool:
        return self._retention_ms is not None and written_ms + self._retention_ms < self.clocks.latest_ms()

    def _check_order(
        self, partition: TopicPartition, records: Sequence[ConsumedRecord], idempotent: Sequence[str]
    ) -> None:
        last: dict[str, int] = {}
        for record in records:
            producer, _, number = (record.value or b"?:0").decode().partition(":")
            before = last.get(producer, -1)
            if producer.partition(".")[0] in idempotent and int(number) <= before:
                self.violated(f"{partition}: {producer} wrote {number} behind {before}")
            last[producer] = int(number)


def _members(partition: PartitionImage) -> list[str]:
    """The nodes whose replicas have all that is committed: those in sync, and the eligible leaders beside them."""
    return _names((*partition.isr, *partition.eligible_leader_replicas))


def _names(replicas: Sequence[int]) -> list[str]:
    return [f"node{replica}" for replica in replicas]
