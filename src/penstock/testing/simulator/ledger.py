"""What clients were promised, and the rules that must never be broken.

| what                      | rule |
| ------------------------- | ------------------------------ |
| an acknowledged record    | is there until retention; a power cut may take what no flush promised, only the end |
| offsets of a partition    | follow one another without a hole |
| records of one producer   | lie in the order in which they were sent; of an idempotent one each lies there once |
| an acknowledged topic     | exists with all of its partitions, until its deletion: see `promised_topics.py` |
| what all nodes know       | is the same: see `agreement.py` |
| a partition, a generation | belong to one member of a group |
| a committed offset        | never goes back |
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.client.values import ConsumedRecord, TopicPartition
from penstock.node.start import RunningNode
from penstock.testing.simulator.agreement import Agreement
from penstock.testing.simulator.loop import EPOCH_MS
from penstock.testing.simulator.promised_topics import TopicPromises
from penstock.testing.simulator.trace import Trace
from penstock.testing.simulator.views import image_of, partitions_of


class Ledger:
    """Keeps the promises of one simulation; `violations` has what was broken."""

    def __init__(self, trace: Trace, *, flushes_each: bool, retention_ms: int | None = None) -> None:
        self.violations: list[str] = []
        self.promises = TopicPromises()
        self.agreement = Agreement(self.violated)
        self.acknowledged: dict[TopicPartition, dict[int, bytes]] = {}
        self.committed: dict[tuple[str, TopicPartition], int] = {}
        self.acks = 0
        self.lossy_crashes = 0
        self._owners: dict[tuple[int, str, int, TopicPartition], str] = {}
        self._nodes: dict[str, RunningNode] = {}
        self._homes: dict[TopicPartition, str] = {}
        self._flushes_each = flushes_each
        self._retention_ms = retention_ms
        self._written_ms: dict[TopicPartition, dict[int, int]] = {}
        self._trace = trace

    @property
    def topics(self) -> dict[str, int]:
        """Topics that exist for sure, and how many partitions they have at least."""
        return self.promises.counts

    def violated(self, text: str) -> None:
        """Note a broken rule, in the outcome and in the trace."""
        self.violations.append(text)
        self._trace.note("VIOLATION", text)

    # What clients were told

    def acked(self, partition: TopicPartition, offset: int, value: bytes, written_ms: int) -> None:
        """A record was acknowledged at this offset; its timestamp is at least `written_ms`."""
        if partition.topic not in self.topics:
            return  # somebody deletes it
        self.acks += 1
        self._written_ms.setdefault(partition, {})[offset] = written_ms
        known = self.acknowledged.setdefault(partition, {})
        if known.setdefault(offset, value) != value:
            self.violated(f"{partition} offset {offset} was given to {known[offset]!r} and to {value!r}")

    def consumed(self, record: ConsumedRecord) -> None:
        """Compare a record that a consumer was given with what was acknowledged."""
        known = self.acknowledged.get(record.topic_partition, {}).get(record.offset, record.value)
        if known != record.value:
            self.violated(f"{record.topic_partition} offset {record.offset} is {record.value!r}, not {known!r}")

    def owns(self, group: str, generation: int, member: str, partitions: Sequence[TopicPartition]) -> None:
        """Check that nobody else has these partitions in the same generation."""
        for partition in partitions:
            owner = self._owners.setdefault((self.lossy_crashes, group, generation, partition), member)
            if owner != member:
                self.violated(f"{partition} belongs to {owner} and {member} in generation {generation} of {group}")

    def commit_acknowledged(self, group: str, partition: TopicPartition, offset: int) -> None:
        """Note an offset whose commit was acknowledged."""
        key = (group, partition)
        self.committed[key] = max(offset, self.committed.get(key, 0))

    def found_committed(self, group: str, partition: TopicPartition, offset: int, promised: int) -> None:
        """The coordinator says so; `promised` is what was acknowledged before it was asked."""
        if self.lossy_crashes:
            return  # a reader whose position is behind the end that is left begins anew, and commits that
        if offset < promised and self.committed.get((group, partition), 0) >= promised:
            self.violated(f"group {group} stands at {offset} in {partition}; {promised} was committed")

    # What befalls the node

    def crashing(self, name: str, node: RunningNode | None, *, power_lost: bool) -> None:
        """Strike out what nobody promised to keep through this."""
        self._note_homes()
        self._nodes.pop(name, None)
        if not power_lost or self._flushes_each:
            return
        self.lossy_crashes += 1
        self.committed.clear()
        for partition, known in self.acknowledged.items():
            if self._homes.get(partition, name) != name:
                continue
            held = None if node is None else partitions_of(node).get(*partition)
            flushed = 0 if held is None else max(held.log.recovery_point, 0)
            self.acknowledged[partition] = {o: value for o, value in known.items() if o < flushed}

    def started(self, name: str, node: RunningNode, versions: dict[str, int]) -> None:
        """Look at what a node has found after its start; `versions` are the promises of before it."""
        if node.is_broker:  # a controller need not know what is committed to do its work
            for broken in self.promises.broken(image_of(node), versions):
                self.violated(f"{name}: {broken}")
        self._nodes[name] = node
        self._note_homes()
        for partition, known in self.acknowledged.items():
            if partition.topic not in self.topics or not known or self._homes.get(partition) != name:
                continue
            if node.parts.directories.roots.offline and partitions_of(node).get(*partition) is None:
                continue  # it may lie in a directory that is offline
            held = partitions_of(node).get(*partition)
            end = -1 if held is None else held.log.log_end_offset
            if end <= max(known):
                self.violated(f"{partition} ends at {end}, offset {max(known)} was acknowledged")

    def stopped(self, name: str) -> None:
        """A node has stopped as it should."""
        self._note_homes()
        self._nodes.pop(name, None)

    def _note_homes(self) -> None:
        """Each partition has one replica, and it stays where it was made."""
        for name, node in self._nodes.items():
            for partition in partitions_of(node):
                self._homes[TopicPartition(partition.topic, partition.index)] = name

    def read_back(
        self, partition: TopicPartition, records: Sequence[ConsumedRecord], end_offset: int, idempotent: Sequence[str]
    ) -> None:
        """The whole content of a partition, at the end."""
        first = records[0].offset if records else end_offset
        for number, record in enumerate(records, start=first):
            if record.offset != number:
                self.violated(f"{partition}: offset {record.offset} stands where {number} is due")
                return
            self.consumed(record)
        for offset, value in self.acknowledged.get(partition, {}).items():
            if offset >= first + len(records) or (offset < first and not self._is_old(partition, offset)):
                self.violated(f"{partition} offset {offset} ({value!r}) was acknowledged and is gone")
                return
        if not self.lossy_crashes:
            self._check_order(partition, records, idempotent)

    def _is_old(self, partition: TopicPartition, offset: int) -> bool:
        """Whether retention may have deleted an acknowledged record."""
        if self._retention_ms is None:
            return False
        return self._written_ms[partition][offset] + self._retention_ms < EPOCH_MS + int(self._trace.now() * 1000)

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
