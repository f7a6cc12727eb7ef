"""Which dead letters go back, and what of their records; that they do, and once, is seen over the wire."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from penstock.cli.groups.redrive import Letter, Redrive, Sources, letter_of, show
from penstock.client.values import ConsumedRecord, OffsetAndMetadata, TopicPartition

WHERE = TopicPartition("orders", 3)


def letter(**said: str) -> ConsumedRecord:
    headers = {"topic": "orders", "partition": "3", "offset": "7", "group": "g"} | said
    return ConsumedRecord(
        "dlq.orders", 0, 1, 5, None, None, [(f"__dlq.errors.{name}", text.encode()) for name, text in headers.items()]
    )


def test_a_letter_says_where_its_record_was() -> None:
    record = letter()
    assert letter_of(record, "g") == Letter(record, WHERE, 7)


@pytest.mark.parametrize(
    "said", [{"group": "another"}, {"partition": "-1"}, {"offset": "x"}, {"offset": "³"}, {"offset": "1" * 5_000}]
)
def test_what_is_no_letter_of_the_group_is_passed_over(said: dict[str, str]) -> None:
    assert letter_of(letter(**said), "g") is None


@pytest.mark.parametrize(("key", "value", "has_copy"), [(None, None, False), (b"", None, True), (None, b"", True)])
def test_a_copy_has_a_key_or_a_value(key: bytes | None, value: bytes | None, has_copy: bool) -> None:
    assert Letter(ConsumedRecord("dlq.orders", 0, 1, 5, key, value), WHERE, 7).has_copy is has_copy


class Log:
    """A consumer of one partition, whose log has the records 5, 6 and 8."""

    def __init__(self) -> None:
        self.assignment: list[TopicPartition] = []
        self.at = 0

    async def assign(self, partitions: list[TopicPartition]) -> None:
        self.assignment = partitions

    async def beginning_offsets(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 5)

    async def end_offsets(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 10)

    def seek(self, _: TopicPartition, offset: int) -> None:
        self.at = offset

    async def position(self, _: TopicPartition) -> int:
        return self.at

    async def poll(self, _: int, max_records: int) -> list[ConsumedRecord]:
        found = next((offset for offset in (5, 6, 8) if offset >= self.at), None)
        self.at = 10 if found is None else found + 1
        return [] if found is None else [ConsumedRecord(*WHERE, found, 0, None, b"%d" % found)]


@pytest.mark.parametrize(("offset", "value"), [(5, b"5"), (8, b"8"), (7, None), (4, None), (9, None), (10, None)])
async def test_a_record_is_read_from_its_topic_if_that_has_it(offset: int, value: bytes | None) -> None:
    found = await Sources(Log()).find(WHERE, offset)  # type: ignore[arg-type]
    assert (None if found is None else found.value) == value


class Letters(Log):
    """The topic of dead letters has two partitions; the second one's third letter came after the start."""

    def __init__(self) -> None:
        super().__init__()
        self.positions = {0: 0, 1: 0}
        self.letters = [
            [letter(), letter(group="another"), letter(offset="9", partition="4")],
            [letter(topic="orders", offset="8", copy="yes"), letter(topic="unknown")],
            [letter(offset="5")],
        ]
        self.committed: list[Any] = []

    async def partitions_for(self, topic: str) -> list[TopicPartition]:
        return [TopicPartition(topic, 0), TopicPartition(topic, 1)]

    async def end_offsets(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        return dict(zip(partitions, (3, 2), strict=True))

    async def position(self, partition: TopicPartition) -> int:
        return self.positions[partition.partition]

    async def poll(self, _: int, max_records: int = 0) -> list[ConsumedRecord]:
        number = 3 - len(self.letters)
        found = self.letters.pop(0)
        records = []
        for it in found:
            partition = min(number, 1)
            offset = self.positions[partition]
            value = b"copied" if ("__dlq.errors.copy", b"yes") in it.headers else None
            headers = [("mine", b"1"), *it.headers, ("empty", None)]
            records.append(ConsumedRecord("dlq.orders", partition, offset, 0, None, value, headers))
            self.positions[partition] += 1
        return records


class Sends:
    def __init__(self) -> None:
        self.done: list[Any] = []

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        self.done.append("begin")
        yield
        self.done.append("commit")

    async def send(self, topic: str, value: bytes | None, **more: Any) -> None:
        self.done.append((topic, more["partition"], more["key"], value, more["headers"]))

    async def send_offsets_to_transaction(self, group: str, offsets: dict[TopicPartition, OffsetAndMetadata]) -> None:
        self.done.append((group, {str(place): it.offset for place, it in offsets.items()}))


async def test_letters_go_back_with_their_positions() -> None:
    letters, sends = Letters(), Sends()
    work = Redrive("g", letters, Sources(WithSeven()), sends, {"orders": 4})  # type: ignore[arg-type]
    await work.run("dlq.orders")
    assert [str(one) for one in letters.assignment] == ["dlq.orders-0", "dlq.orders-1"]
    own = [("mine", b"1"), ("empty", None)]
    redriven = "penstock-dlq-redriven"
    assert sends.done == [
        "begin",
        ("orders", 3, None, b"7", [(redriven, b"dlq.orders-0-0")]),
        ("penstock-redrive.g", {"dlq.orders-0": 3}),
        "commit",
        "begin",
        ("orders", 3, None, b"copied", [*own, (redriven, b"dlq.orders-1-0")]),
        ("penstock-redrive.g", {"dlq.orders-1": 2}),
        "commit",
    ]
    counts = {str(place): (it.records, it.gone) for place, it in work.counts.items()}
    assert counts == {"orders-3": (2, 0), "orders-4": (0, 1), "unknown-3": (0, 1)}


async def test_without_a_producer_they_are_counted_alone() -> None:
    work = Redrive("g", Letters(), Sources(WithSeven()), None, {"orders": 5})  # type: ignore[arg-type]
    await work.run("dlq.orders")
    counts = {str(place): (it.records, it.gone) for place, it in work.counts.items()}
    assert counts == {"orders-3": (2, 0), "orders-4": (0, 1), "unknown-3": (0, 1)}


class WithSeven(Log):
    async def poll(self, _: int, max_records: int) -> list[ConsumedRecord]:
        assert max_records == 1
        at, self.at = self.at, 10
        return [ConsumedRecord(*WHERE, 7, 0, None, b"7")] if at == 7 else []


@pytest.mark.parametrize(("letters", "execute", "says_so"), [(1, False, True), (1, True, False), (0, False, False)])
def test_that_nothing_was_sent_is_said_where_there_is_something(
    capsys: pytest.CaptureFixture[str], letters: int, execute: bool, says_so: bool
) -> None:
    show([("g", "dlq.orders", *WHERE, 3, 0)] * letters, execute=execute, as_json=False)
    assert ("nothing was sent: --execute does it" in capsys.readouterr().err) is says_so
