"""Retention by consumption: how far the beginning of a partition may follow what all groups have committed.

All groups, on all coordinators. So the leader asks each coordinator once (`Question`), and what they said counts only
where there is an answer for every partition of the coordinators' topic, from a coordinator of no earlier epoch than the
metadata know when all have answered: an earlier one may have been followed by another, with groups that it never heard
of. Where anything is missing, nothing is known, and nothing goes.

A group that reads the topic and has committed no offset in the partition keeps everything, as long as the grace lasts:
it counts from when this leader first heard of the group (`Consumption`). Where no group has committed anything, nothing
has been consumed.
"""

from collections.abc import Mapping
from typing import Final

from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.value import Value

Positions = Mapping[str, Mapping[int, int]]
"""By group and partition, committed offsets; a group that reads the topic may have none."""
Shard = tuple[str, int]
"""A partition of a coordinator's topic."""

FOREVER: Final = -1


class Answer(Value):
    """What a coordinator says of the groups of one shard; its topic has so many partitions, as far as it knows."""

    leader_epoch: int
    partition_count: int
    positions: Positions


class Question:
    """One topic, asked of all coordinators once. The caller asks, and hands in what they answer to this question."""

    def __init__(self) -> None:
        self._answers: dict[Shard, Answer] = {}

    def answered(self, shard: Shard, answer: Answer) -> None:
        known = self._answers.get(shard)
        if known is None or known.leader_epoch < answer.leader_epoch:
            self._answers[shard] = answer

    def positions(self, epochs: Mapping[Shard, int]) -> Positions:
        """Of all groups, the least where several shards know an offset. `epochs` has every shard with its leader epoch,
        as the metadata say when all have answered.
        Raises KafkaError COORDINATOR_NOT_AVAILABLE where something is missing.
        """
        counts: dict[str, int] = {}
        for topic, _ in epochs:
            counts[topic] = counts.get(topic, 0) + 1
        found: dict[str, dict[int, int]] = {}
        for (topic, index), epoch in epochs.items():
            answer = self._answers.get((topic, index))
            if answer is None or answer.leader_epoch < epoch or answer.partition_count != counts[topic]:
                raise KafkaError(
                    ErrorCode.COORDINATOR_NOT_AVAILABLE, f"the coordinator of {topic}-{index} has not answered"
                )
            for group_id, offsets in answer.positions.items():
                known = found.get(group_id, {})
                least = {place: min(known[place], offsets[place]) for place in known.keys() & offsets.keys()}
                found[group_id] = {**known, **offsets, **least}
        return found


class Consumption:
    """What the leader of one partition, in one epoch, has heard of the groups that read it."""

    __slots__ = ("_index", "_new_since_ms")

    def __init__(self, index: int) -> None:
        self._index = index
        self._new_since_ms: dict[str, int] = {}
        """Groups without an offset."""

    def consumed_to(self, positions: Positions, grace_ms: int, now_ms: int) -> int:
        """Every group has consumed what lies before; 0 where some group keeps everything, or none has an offset."""
        index, known = self._index, self._new_since_ms
        new = {group_id: known.get(group_id, now_ms) for group_id, at in positions.items() if index not in at}
        self._new_since_ms = new
        if any(grace_ms == FOREVER or now_ms - since_ms < grace_ms for since_ms in new.values()):
            return 0
        return min((at[index] for at in positions.values() if index in at), default=0)


def new_start(consumed_to: int, log_start_offset: int, high_watermark: int, last_stable_offset: int) -> int:
    """Where the log is to begin: never beyond what is committed, nor within what an open transaction needs."""
    return max(log_start_offset, min(consumed_to, high_watermark, last_stable_offset))
