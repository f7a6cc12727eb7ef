"""Which dead letters go back, and what of their records; that they do, and once, is seen over the wire."""

from __future__ import annotations

import pytest

from penstock.cli.groups.redrive import Letter, Sources, letter_of, show
from penstock.client.values import ConsumedRecord, TopicPartition

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


@pytest.mark.parametrize(("letters", "execute", "says_so"), [(1, False, True), (1, True, False), (0, False, False)])
def test_that_nothing_was_sent_is_said_where_there_is_something(
    capsys: pytest.CaptureFixture[str], letters: int, execute: bool, says_so: bool
) -> None:
    show([("g", "dlq.orders", *WHERE, 3, 0)] * letters, execute=execute, as_json=False)
    assert ("nothing was sent: --execute does it" in capsys.readouterr().err) is says_so
