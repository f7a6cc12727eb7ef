"""Produced batches of transactions that are not open yet in their partitions: verified, then appended."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final
from uuid import UUID

from penstock.node.api.producing import Unverified
from penstock.node.api.transactions.verification import MOST_TRIES, Asked, Asking, Knows, answers_of
from penstock.node.roles.broker import Broker
from penstock.node.serving.slices import Steps
from penstock.protocol.errors import ErrorCode, KafkaError

ABORTABLE_FROM: Final = 11
EPOCHS_RISE_FROM: Final = 12


Append = Callable[[Unverified], bool]
"""False if the log asks for a verification once more."""
Refuse = Callable[[str | UUID, int, KafkaError, list[bytes]], None]
"""Takes the topic, the index of the partition, the error, and where the answer goes."""


def knows(version: int) -> Knows:
    """By the version of Produce."""
    if version >= EPOCHS_RISE_FROM:
        return Knows.EPOCHS_RISE
    return Knows.ABORTABLE if version >= ABORTABLE_FROM else Knows.OLD_ERRORS


def verified(
    broker: Broker, transactional_id: str, version: int, batches: list[Unverified], append: Append, refuse: Refuse
) -> Steps[None]:
    """Ask about each producer's batches in turn, and append what is good: in the turn in which the answer is here."""
    by_producer: dict[tuple[int, int], list[Unverified]] = {}
    for one in batches:
        by_producer.setdefault((one.header.producer_id, one.header.producer_epoch), []).append(one)
    for producer, its in by_producer.items():
        asking = Asking(transactional_id, *producer, knows(version))
        for number in range(MOST_TRIES):
            if its:
                its = yield from _of_one(broker, asking, its, append, refuse, is_last=number == MOST_TRIES - 1)


def _of_one(
    broker: Broker, asking: Asking, batches: list[Unverified], append: Append, refuse: Refuse, *, is_last: bool
) -> Steps[list[Unverified]]:
    """What is to be asked about again."""
    again: list[Unverified] = []
    asked: list[tuple[Unverified, Asked, tuple[str, int]]] = []
    for one in batches:
        try:
            partition = broker.partition(one.topic, one.partition)
            asked.append((one, Asked(partition, asking, one.header.base_sequence), (partition.topic, partition.index)))
        except KafkaError as error:  # it has gone since
            refuse(one.topic, one.partition, error, one.answers)
    try:
        codes = yield answers_of(broker, asking, [place for _, _, place in asked])
        for one, waiting, place in asked:
            waiting.answered(code := codes[place])
            if code is not ErrorCode.NONE:
                why = f"the coordinator of {asking.transactional_id} did not verify the batch"
                refuse(one.topic, one.partition, KafkaError(code, why), one.answers)
            elif not is_last and waiting.may_be_asked_again(asking, code):
                again.append(one)
            elif not append(one):
                refuse(one.topic, one.partition, waiting.voided, one.answers)
    finally:
        for _, waiting, _ in asked:
            waiting.over()
    return again
