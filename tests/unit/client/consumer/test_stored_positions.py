"""Positions beside their results: crashes, members that wake too late, rollbacks, topics that are others by now."""

from __future__ import annotations

import inspect
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import aiosqlite
import pytest
import sqlalchemy
from sqlalchemy.ext.asyncio import create_async_engine

from penstock.client.consumer import Consumer
from penstock.client.consumer.listeners import ConsumerInterceptor, RebalanceListener
from penstock.client.consumer.stored_positions import AsyncStoredPositions, Rows, StoredPositions
from penstock.client.errors import ConsumerMisuseError, PositionsTakenError, TopicReplacedError
from penstock.client.settings import ConsumerSettings
from penstock.client.values import ConsumedRecord, TopicPartition

ZERO, ONE = TopicPartition("t", 0), TopicPartition("t", 1)
Connect = Callable[[], Any]


class Reader:
    """A consumer of topic t; the logs begin at 5 and end at 50."""

    def __init__(self, reset: str = "none") -> None:
        self.settings = ConsumerSettings(auto_offset_reset=reset)
        self.topic_id = UUID(int=1)
        self.cluster = self
        self.at: dict[TopicPartition, int] = {}
        self.listener = RebalanceListener()
        self.interceptors: list[ConsumerInterceptor] = []

    @property
    def metadata(self) -> Any:
        return SimpleNamespace(topics={"t": SimpleNamespace(topic_id=self.topic_id)})

    @property
    def assignment(self) -> list[TopicPartition]:
        return sorted(self.at)

    async def topic(self, name: str) -> Any:
        return self.metadata.topics[name]

    async def subscribe(self, topics: Sequence[str], *, pattern: str | None, listener: RebalanceListener) -> None:
        self.listener = listener

    async def beginning_offsets(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 5)

    async def end_offsets(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 50)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self.at[partition] = offset

    async def gets(self, *partitions: TopicPartition) -> None:
        await self.listener.on_assigned(partitions)

    def intercept(self, interceptor: ConsumerInterceptor) -> None:
        self.interceptors.append(interceptor)

    async def poll(self, count: int = 3) -> list[ConsumedRecord]:
        records = []
        for (topic, number), offset in self.at.items():
            records += [ConsumedRecord(topic, number, offset + more, 0, None, b"") for more in range(count)]
            self.at[TopicPartition(topic, number)] = offset + count
        for interceptor in self.interceptors:
            await interceptor.on_consume(records)
        return records


KINDS = ("sqlite3", "SQLAlchemy", "aiosqlite", "SQLAlchemy's asyncio")


def positions_of(kind: str, path: Path, **options: Any) -> StoredPositions | AsyncStoredPositions:
    file = path / "totals.db"
    if kind == "sqlite3":
        return StoredPositions("totals", lambda: sqlite3.connect(file), **options)
    if kind == "SQLAlchemy":
        return StoredPositions("totals", sqlalchemy.create_engine(f"sqlite:///{file}").connect, **options)
    if kind == "aiosqlite":
        return AsyncStoredPositions("totals", lambda: aiosqlite.connect(file), **options)
    return AsyncStoredPositions("totals", create_async_engine(f"sqlite+aiosqlite:///{file}").connect, **options)


async def member(positions: StoredPositions | AsyncStoredPositions, *partitions: TopicPartition) -> Reader:
    reader = Reader()
    await positions.subscribe(cast("Consumer", reader), ["t"])
    await reader.gets(*partitions)
    return reader


async def do(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


async def store(
    positions: StoredPositions | AsyncStoredPositions, records: list[ConsumedRecord], *, commits: bool = True
) -> None:
    connection = await do(positions._connect())
    try:
        await do(positions.store(connection, records))
        if commits:
            await do(connection.commit())
    finally:
        await do(connection.close())


@pytest.mark.parametrize("kind", KINDS)
async def test_the_next_member_goes_on_where_the_database_says(kind: str, tmp_path: Path) -> None:
    first = positions_of(kind, tmp_path)
    reader = await member(first, ZERO, ONE)
    assert reader.at == {ZERO: 5, ONE: 5}
    await store(first, await reader.poll(3))
    await store(first, await reader.poll(2))
    await store(first, await reader.poll(9), commits=False)
    second = positions_of(kind, tmp_path)
    assert (await member(second, ONE)).at == {ONE: 10}
    assert (await member(positions_of(kind, tmp_path), ZERO)).at == {ZERO: 10}


@pytest.mark.parametrize("kind", KINDS)
async def test_who_wakes_when_another_has_the_partition_cannot_store(kind: str, tmp_path: Path) -> None:
    first, second = positions_of(kind, tmp_path), positions_of(kind, tmp_path)
    slow = await member(first, ZERO)
    records = await slow.poll()
    quick = await member(second, ZERO)
    assert quick.at == {ZERO: 5}
    with pytest.raises(PositionsTakenError, match="belongs to another member of totals"):
        await store(first, records)
    await store(second, await quick.poll())
    await first.reload()  # as the group gives it back
    assert slow.at == {ZERO: 8}
    await store(first, await slow.poll())


async def test_after_a_rollback_nothing_is_passed_over(tmp_path: Path) -> None:
    positions = positions_of("sqlite3", tmp_path)
    reader = await member(positions, ZERO)
    await store(positions, await reader.poll(), commits=False)
    with pytest.raises(PositionsTakenError, match=r"was rolled back: roll this transaction back and call reload\(\)"):
        await store(positions, await reader.poll())
    await positions.reload()
    assert reader.at == {ZERO: 5}
    await store(positions, await reader.poll())


async def test_what_was_not_stored_is_not_passed_over(tmp_path: Path) -> None:
    positions = positions_of("sqlite3", tmp_path)
    reader = await member(positions, ZERO)
    forgotten = await reader.poll()
    later = await reader.poll()
    with pytest.raises(PositionsTakenError, match="others before it were not stored"):
        await store(positions, later)
    await store(positions, [*forgotten, *later])
    await store(positions, await reader.poll())


async def test_what_was_revoked_is_not_stored(tmp_path: Path) -> None:
    positions = positions_of("sqlite3", tmp_path)
    reader = await member(positions, ZERO, ONE)
    records = await reader.poll()
    await reader.listener.on_lost([ONE])
    with pytest.raises(PositionsTakenError, match="offset 5 of t-1 is not the first"):
        await store(positions, records)


async def test_nothing_is_remembered_of_what_was_revoked(tmp_path: Path) -> None:
    positions = positions_of("sqlite3", tmp_path)
    reader = await member(positions, ZERO, ONE)
    await reader.poll()
    assert positions.unstored == {ZERO: 5, ONE: 5}
    await reader.listener.on_revoked([ZERO])
    assert (positions.unstored, list(positions._held)) == ({ONE: 5}, [ONE])


async def test_a_topic_of_the_same_name_is_another_one(tmp_path: Path) -> None:
    positions = positions_of("sqlite3", tmp_path)
    reader = await member(positions, ZERO)
    records = await reader.poll()
    reader.topic_id = UUID(int=2)
    with pytest.raises(TopicReplacedError, match="topic t was deleted and made again"):
        await store(positions, records)
    with pytest.raises(TopicReplacedError):
        await reader.gets(ZERO)


async def test_where_a_partition_begins_that_is_new(tmp_path: Path) -> None:
    latest = positions_of("sqlite3", tmp_path, begin="latest")
    assert (await member(latest, ZERO)).at == {ZERO: 50}
    assert (await member(positions_of("sqlite3", tmp_path), ZERO)).at == {ZERO: 50}, "it has a row by now"


async def test_two_who_count_have_rows_of_their_own(tmp_path: Path) -> None:
    first = positions_of("sqlite3", tmp_path)
    other = StoredPositions("others", first._connect)
    reader = await member(first, ZERO)
    await member(other, ZERO)
    await store(first, await reader.poll())


async def test_a_row_that_a_database_takes_for_ours_is_not_taken(tmp_path: Path) -> None:
    """Databases may compare texts as people do, and two names are one then."""
    with sqlite3.connect(tmp_path / "totals.db") as database:
        (create,) = list(Rows("totals", "penstock_positions", "qmark").create())
        database.execute(create.text.replace("VARCHAR(255)", "VARCHAR(255) COLLATE NOCASE"))
    await member(positions_of("sqlite3", tmp_path), ZERO)
    other = positions_of("sqlite3", tmp_path)
    other._rows.consumer = "Totals"
    with pytest.raises(ConsumerMisuseError, match="for 'Totals' and topic 't' the database finds the row of 'totals'"):
        await member(other, ZERO)


async def test_what_cannot_be_kept_is_refused(tmp_path: Path) -> None:
    positions = positions_of("sqlite3", tmp_path)
    with pytest.raises(ConsumerMisuseError, match="subscribe first"):
        await positions.reload()
    with pytest.raises(ConsumerMisuseError, match="auto_offset_reset must be none"):
        await positions.subscribe(cast("Consumer", Reader("earliest")), ["t"])
    with pytest.raises(ValueError, match="is no name of a table"):
        positions_of("sqlite3", tmp_path, table="a; DROP TABLE b")
    with pytest.raises(ValueError, match="paramstyle 'named' is not known"):
        positions_of("sqlite3", tmp_path, paramstyle="named")


def test_other_drivers_have_other_placeholders() -> None:
    texts = {
        style: next(StoredPositions("a", None, paramstyle=style)._rows.own({ZERO: "me"})).text  # type: ignore[arg-type]
        for style in ("qmark", "format", "numeric")
    }
    assert texts["qmark"].endswith("SET owner = ? WHERE consumer = ? AND topic = ? AND topic_partition = ?")
    assert texts["format"].endswith("SET owner = %s WHERE consumer = %s AND topic = %s AND topic_partition = %s")
    assert texts["numeric"].endswith("SET owner = :1 WHERE consumer = :2 AND topic = :3 AND topic_partition = :4")


class Member:
    """One that takes, works and stores; it may die at any step, or sleep while others go on."""

    def __init__(self, path: Path) -> None:
        self.positions = positions_of("sqlite3", path)
        self.reader = Reader()
        self.records: list[ConsumedRecord] = []

    async def join(self, *partitions: TopicPartition) -> None:
        await self.positions.subscribe(cast("Consumer", self.reader), ["t"])
        await self.reader.gets(*partitions)


@pytest.mark.parametrize("seed", range(10))
async def test_each_record_is_counted_once_whoever_dies_or_sleeps(seed: int, tmp_path: Path) -> None:
    random, members = Random(seed), [Member(tmp_path) for _ in range(3)]
    with sqlite3.connect(tmp_path / "totals.db") as database:
        database.execute("CREATE TABLE counted (partition INTEGER, place INTEGER)")
    await members[0].join(ZERO, ONE)
    for _ in range(150):
        number = random.randrange(3)
        one = members[number]
        match random.choice(["join", "poll", "poll", "poll", "count", "count", "count", "fail", "die"]):
            case "join":
                await one.join(*random.sample([ZERO, ONE], random.randint(1, 2)))
            case "poll" if not one.records:
                one.records = await one.reader.poll(random.randint(1, 4))
            case "count" | "fail" as does if one.records:
                records, one.records = one.records, []
                connection = one.positions._connect()
                try:
                    rows = [(record.partition, record.offset) for record in records]
                    connection.executemany("INSERT INTO counted VALUES (?, ?)", rows)
                    one.positions.store(connection, records)
                    if does == "count":
                        connection.commit()
                except PositionsTakenError:
                    connection.rollback()
                    await one.positions.reload()
                finally:
                    connection.close()
            case "die":
                members[number] = Member(tmp_path)
    with sqlite3.connect(tmp_path / "totals.db") as database:
        places = database.execute("SELECT partition, place FROM counted ORDER BY partition, place").fetchall()
        ends = database.execute("SELECT topic_partition, next_offset FROM penstock_positions").fetchall()
    assert places == [(number, place) for number, end in sorted(ends) for place in range(5, end)]
    assert len(ends) == 2
