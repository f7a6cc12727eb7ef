"""Positions that lie beside the results, in the application's own database: what is counted is counted once.

    positions = StoredPositions("totals", lambda: sqlite3.connect("totals.db"))
    async with Consumer(servers, settings) as consumer:
        await positions.subscribe(consumer, ["clicks"])
        while True:
            records = await consumer.poll()
            with closing(sqlite3.connect("totals.db")) as database, database:  # one transaction
                ...  # write the results of `records` to `database`
                positions.store(database, records)

The results and the position are committed together or not at all, and a member begins where the database says. Whoever
gets a partition becomes the owner of its row; a member that was paused meanwhile, and believes it still has the
partition, cannot store any more: its transaction fails, with its results.

The statements are those that all SQL databases know. A connection is one of Python's DB-API, of SQLAlchemy, or of an
asyncio driver whose `execute` gives a cursor (psycopg, aiosqlite), or SQLAlchemy's asyncio.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeVar
from uuid import uuid4

from penstock.client.consumer import Consumer
from penstock.client.consumer.listeners import ConsumerInterceptor, RebalanceListener
from penstock.client.errors import ConsumerMisuseError, PositionsTakenError, TopicReplacedError
from penstock.client.values import ConsumedRecord, TopicPartition

TABLE: Final = "penstock_positions"
PLACEHOLDERS: Final[Mapping[str, str]] = {"qmark": "?", "format": "%s", "pyformat": "%s", "numeric": ":{}"}
WHERE: Final = "consumer = {} AND topic = {} AND topic_partition = {}"
ReturnT = TypeVar("ReturnT")


class Statement(NamedTuple):
    text: str
    values: tuple[object, ...] = ()
    is_query: bool = False


class Outcome(NamedTuple):
    """How many rows a statement has changed, and those that a query gave."""

    changed: int
    rows: Sequence[Sequence[Any]] = ()


class Place(NamedTuple):
    """What the database says of a partition: where to go on, and in which of the topics that had this name."""

    offset: int
    topic_id: str


class Held(NamedTuple):
    """A partition whose row is ours: `owner` stands in it, and `place` as far as we know."""

    owner: str
    place: Place


Steps = Generator[Statement, Outcome, ReturnT]
"""Statements of one transaction: each is carried out before the next one is asked for."""


class Rows:
    """The statements about the rows of one consumer."""

    def __init__(self, consumer: str, table: str, paramstyle: str) -> None:
        if not table.replace("_", "").replace(".", "").isalnum():
            raise ValueError(f"{table!r} is no name of a table: it may have letters, digits, _ and .")
        if paramstyle not in PLACEHOLDERS:
            raise ValueError(
                f"paramstyle {paramstyle!r} is not known: your driver's is one of {', '.join(PLACEHOLDERS)}"
            )
        self.consumer, self._table, self._placeholder = consumer, table, PLACEHOLDERS[paramstyle]

    def create(self) -> Steps[None]:
        yield Statement(
            f"CREATE TABLE IF NOT EXISTS {self._table} (consumer VARCHAR(255) NOT NULL, topic VARCHAR(249) NOT NULL, "
            "topic_partition INTEGER NOT NULL, topic_id VARCHAR(36) NOT NULL, next_offset BIGINT NOT NULL, "
            "owner VARCHAR(36) NOT NULL, PRIMARY KEY (consumer, topic, topic_partition))"
        )

    def own(self, owners: Mapping[TopicPartition, str]) -> Steps[dict[TopicPartition, Place]]:
        """From now on nobody else may store; without the partitions that have no row yet."""
        found: dict[TopicPartition, Place] = {}
        for partition, owner in owners.items():
            taken = yield self._of(f"UPDATE {self._table} SET owner = {{}} WHERE {WHERE}", owner, *self._key(partition))
            if taken.changed:
                query = self._of(
                    f"SELECT next_offset, topic_id, consumer, topic FROM {self._table} WHERE {WHERE}",
                    *self._key(partition),
                )
                ((offset, *texts),) = (yield query._replace(is_query=True)).rows
                topic_id, consumer, topic = map(_text, texts)
                self._check(partition, consumer, topic)
                found[partition] = Place(int(offset), topic_id)
        return found

    def begin(self, held: Mapping[TopicPartition, Held]) -> Steps[None]:
        for partition, (owner, place) in held.items():
            yield self._of(
                f"INSERT INTO {self._table} (consumer, topic, topic_partition, topic_id, next_offset, owner) "
                "VALUES ({}, {}, {}, {}, {}, {})",
                *(*self._key(partition), place.topic_id, place.offset, owner),
            )

    def store(self, partition: TopicPartition, held: Held, offset: int) -> Steps[None]:
        """PositionsTakenError if another is the owner, or the position is not what we know."""
        stored = yield self._of(
            f"UPDATE {self._table} SET next_offset = {{}} WHERE {WHERE} AND owner = {{}} AND next_offset = {{}}",
            *(offset, *self._key(partition), held.owner, held.place.offset),
        )
        if stored.changed != 1:
            raise PositionsTakenError(
                f"{partition} belongs to another member of {self.consumer} by now, or what was stored before was "
                "rolled back: roll this transaction back and call reload()"
            )

    def _check(self, partition: TopicPartition, consumer: str, topic: str) -> None:
        """Databases may take texts for equal that differ, as MySQL does by default: then another's row is found."""
        if (consumer, topic) != (self.consumer, partition.topic):
            raise ConsumerMisuseError(
                f"for {self.consumer!r} and topic {partition.topic!r} the database finds the row of {consumer!r} and "
                f"{topic!r}: give the columns consumer and topic of {self._table} a collation that tells letters apart "
                "(for MySQL utf8mb4_bin), or take names that differ in more than the case of letters"
            )

    def _key(self, partition: TopicPartition) -> tuple[object, ...]:
        return self.consumer, *partition

    def _of(self, text: str, *values: object) -> Statement:
        places = (self._placeholder.format(number) for number in range(1, len(values) + 1))
        return Statement(text.format(*places), values)


def _text(content: object) -> str:
    """Some drivers give bytes for columns whose collation is binary."""
    return content.decode() if isinstance(content, bytes | bytearray) else str(content)


class _Positions(ABC):
    """What both kinds of connections have in common.

    `consumer` names who counts, and has rows of its own in the table; `connect` opens a connection; `paramstyle` is
    what the driver's module says of itself; `begin` is where a partition begins that has no row yet.
    """

    def __init__(
        self,
        consumer: str,
        connect: Callable[[], Any],
        *,
        table: str = TABLE,
        paramstyle: str = "qmark",
        begin: Literal["earliest", "latest"] = "earliest",
    ) -> None:
        self._rows = Rows(consumer, table, paramstyle)
        self._connect = connect
        self._begin = begin
        self._held: dict[TopicPartition, Held] = {}
        self.unstored: dict[TopicPartition, int] = {}
        """The first offset of those that `poll` has returned, and `store` has not seen."""
        self._reader: Consumer | None = None

    async def subscribe(self, consumer: Consumer, topics: Collection[str] = (), *, pattern: str | None = None) -> None:
        """Read these topics, as `Consumer.subscribe`, from where the database says.

        Raises ConsumerMisuseError if the consumer would begin elsewhere where a position is out of range.
        """
        if consumer.settings.auto_offset_reset != "none":
            raise ConsumerMisuseError(
                "auto_offset_reset must be none: records that are gone would be passed over, or others counted twice"
            )
        if consumer is not self._reader:
            consumer.intercept(_Returned(self.unstored))
        self._reader = consumer
        await self._create()
        await consumer.subscribe(topics, pattern=pattern, listener=_Owning(self))

    async def reload(self) -> None:
        """Go back to what the database says, after a transaction that was rolled back."""
        await self.take(self._consumer().assignment)

    async def take(self, partitions: Collection[TopicPartition]) -> None:
        """Own these and go on where they are. TopicReplacedError if a topic is not the one that was counted."""
        consumer = self._consumer()
        ids = {topic: await self._topic_id(topic) for topic in {partition.topic for partition in partitions}}
        owners = {partition: str(uuid4()) for partition in partitions}
        found = await self._do(self._rows.own(owners))
        missing = [partition for partition in partitions if partition not in found]
        if missing:
            look = consumer.beginning_offsets if self._begin == "earliest" else consumer.end_offsets
            offsets = await look(missing)
            new = {at: Held(owners[at], Place(offset, ids[at.topic])) for at, offset in offsets.items()}
            await self._do(self._rows.begin(new))
            found |= {partition: held.place for partition, held in new.items()}
        for partition, place in found.items():
            self._check(partition, place, ids[partition.topic])
            self._held[partition] = Held(owners[partition], place)
            self.unstored.pop(partition, None)
            consumer.seek(partition, place.offset)

    async def _create(self) -> None:
        """Of members that do it at the same moment PostgreSQL refuses all but one; the next time the table is there."""
        try:
            await self._do(self._rows.create())
        except Exception:  # of any driver; what is wrong for another reason is so again
            await self._do(self._rows.create())

    def leave(self, partitions: Collection[TopicPartition]) -> None:
        for partition in partitions:
            self._held.pop(partition, None)
            self.unstored.pop(partition, None)

    def _storing(self, records: Iterable[ConsumedRecord]) -> Steps[None]:
        first: dict[TopicPartition, int] = {}
        ends: dict[TopicPartition, int] = {}
        for record in records:
            first.setdefault(record.topic_partition, record.offset)
            ends[record.topic_partition] = record.offset + 1
        for partition, offset in ends.items():
            held = self._held.get(partition)
            if held is None or first[partition] != self.unstored.get(partition):
                raise PositionsTakenError(
                    f"offset {first[partition]} of {partition} is not the first that this member of "
                    f"{self._rows.consumer} has to store: it was read before the partition was lost or gone back in, "
                    "or others before it were not stored; roll this transaction back and call reload()"
                )
            topic = self._consumer().cluster.metadata.topics.get(partition.topic)
            if topic is not None:
                self._check(partition, held.place, str(topic.topic_id))
            yield from self._rows.store(partition, held, offset)
            self._held[partition] = held._replace(place=held.place._replace(offset=offset))
            del self.unstored[partition]

    def _check(self, partition: TopicPartition, place: Place, topic_id: str) -> None:
        if place.topic_id != topic_id:
            raise TopicReplacedError(
                f"topic {partition.topic} was deleted and made again: what {self._rows.consumer} has counted is of the "
                f"one before, {place.topic_id}; delete its rows in the table of positions to begin with the new one"
            )

    async def _topic_id(self, topic: str) -> str:
        return str((await self._consumer().cluster.topic(topic)).topic_id)

    def _consumer(self) -> Consumer:
        if self._reader is None:
            raise ConsumerMisuseError("these positions are of no consumer yet: subscribe first")
        return self._reader

    @abstractmethod
    async def _do(self, steps: Steps[ReturnT]) -> ReturnT:
        """In a transaction of its own, on a connection of its own."""


class _Returned(ConsumerInterceptor):
    """Notes where that begins which is to be stored."""

    def __init__(self, unstored: dict[TopicPartition, int]) -> None:
        self._unstored = unstored

    async def on_consume(self, records: list[ConsumedRecord]) -> list[ConsumedRecord]:
        for record in records:
            self._unstored.setdefault(record.topic_partition, record.offset)
        return records


class _Owning(RebalanceListener):
    def __init__(self, positions: _Positions) -> None:
        self._positions = positions

    async def on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        await self._positions.take(partitions)

    async def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self._positions.leave(partitions)


class StoredPositions(_Positions):
    """By connections of Python's DB-API, or SQLAlchemy's; `connect` is called in a thread."""

    def store(self, connection: Any, records: Iterable[ConsumedRecord]) -> None:
        """As a part of the transaction that `connection` is in: it goes on behind these records.

        They are all that `poll` has returned since the last time, in its order. Raises PositionsTakenError or
        TopicReplacedError: then the transaction must be rolled back.
        """
        _carry_out(connection, self._storing(records))

    async def _do(self, steps: Steps[ReturnT]) -> ReturnT:
        return await asyncio.to_thread(self._transaction, steps)

    def _transaction(self, steps: Steps[ReturnT]) -> ReturnT:
        connection = self._connect()
        try:
            done = _carry_out(connection, steps)
            connection.commit()
        finally:
            connection.close()
        return done


class AsyncStoredPositions(_Positions):
    """By connections of asyncio drivers, or SQLAlchemy's `AsyncConnection`; what `connect` gives is awaited."""

    async def store(self, connection: Any, records: Iterable[ConsumedRecord]) -> None:
        """As `StoredPositions.store`."""
        await _carry_out_async(connection, self._storing(records))

    async def _do(self, steps: Steps[ReturnT]) -> ReturnT:
        connection = await self._connect()
        try:
            done = await _carry_out_async(connection, steps)
            await connection.commit()
        finally:
            await connection.close()
        return done


def _carry_out(connection: Any, steps: Steps[ReturnT]) -> ReturnT:
    try:
        statement = next(steps)
        while True:
            statement = steps.send(_executed(connection, statement))
    except StopIteration as end:
        done: ReturnT = end.value
        return done


def _executed(connection: Any, statement: Statement) -> Outcome:
    if hasattr(connection, "exec_driver_sql"):  # SQLAlchemy's
        cursor = connection.exec_driver_sql(statement.text, statement.values)
    else:
        cursor = connection.cursor()
        cursor.execute(statement.text, statement.values)
    outcome = Outcome(cursor.rowcount, cursor.fetchall() if statement.is_query else ())
    cursor.close()
    return outcome


async def _carry_out_async(connection: Any, steps: Steps[ReturnT]) -> ReturnT:
    try:
        statement = next(steps)
        while True:
            statement = steps.send(await _executed_async(connection, statement))
    except StopIteration as end:
        done: ReturnT = end.value
        return done


async def _executed_async(connection: Any, statement: Statement) -> Outcome:
    if hasattr(connection, "exec_driver_sql"):  # SQLAlchemy's, which has all rows at once
        result = await connection.exec_driver_sql(statement.text, statement.values)
        return Outcome(result.rowcount, result.fetchall() if statement.is_query else ())
    cursor = await connection.execute(statement.text, statement.values)
    outcome = Outcome(cursor.rowcount, await cursor.fetchall() if statement.is_query else ())
    await cursor.close()
    return outcome
