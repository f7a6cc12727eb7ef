"""Records for a page: a window of a topic, its end as it grows, an export, one record whole.

Who searches reads: a look has a limit in records and time, says how far it came, and can be gone on with.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any, Final, TypeVar

from penstock.client.consumer import Consumer
from penstock.client.errors import UnusableSettingsError
from penstock.client.log_offsets import list_offsets_that_can_be_had
from penstock.client.properties import with_properties
from penstock.client.settings import ConsumerSettings
from penstock.client.values import EARLIEST, LATEST, TopicPartition
from penstock.console.errors import ConsoleError, bad_request
from penstock.console.matching import Found, Matching, Wanted
from penstock.console.query import MAX_ROWS
from penstock.console.schemas import SchemaRegistry
from penstock.console.shown import MOST_BYTES, shown
from penstock.console.watched import WatchedCluster
from penstock.protocol.hashing import partition_for_key

MOST_READ: Final = 50_000
"""Records that one look reads,"""
LAST_READ: Final = 10_000
"""of which so many where only the last ones are wanted,"""
LONGEST_S: Final = 10.0
"""and how long it takes."""
FETCH_BYTES: Final = 1_048_576
POLL_MS: Final = 500
POLLED: Final = 200
QUIET: Final = 20
"""So many times nothing may come: a large record takes its time."""
QUIET_COMMITTED: Final = 2
"""The same where what is left may be records of an open transaction, which nobody sees."""
READING_AT_ONCE: Final = 4
EXPORTED: Final = 100_000
EXPORTED_CHARACTERS: Final = 1024 * 1024
"""Of a value that a schema decodes; a longer one is exported as it is."""
MOST_PARTITIONS: Final = 1_000
"""Of a topic that are looked at together."""

OUR_OWN: Final = (
    *("group_id", "group_instance_id", "isolation_level", "auto_offset_reset", "enable_auto_commit"),
    *("allow_auto_create_topics", "fetch_max_bytes", "max_partition_fetch_bytes", "fetch_max_wait_ms"),
)
"""Properties of the client do not change these: a file that a consumer of a group uses has it read here as well."""
MAX_HEADERS: Final = 30
"""Of a record in a list; a file has them all,"""
HEADER_BYTES: Final = 256
"""and the names and values whole."""

Positions = dict[TopicPartition, int]
Kept = TypeVar("Kept")


def as_row(found: Found) -> dict[str, Any]:
    record = found.record
    return {
        "partition": record.partition,
        "offset": str(record.offset),
        "timestamp": str(record.timestamp_ms),
        "key": found.key or shown(record.key),
        "value": found.value or shown(record.value),
        "problem": found.problem,
        "headers": [
            [name[:HEADER_BYTES], shown(value, HEADER_BYTES), len(name) > HEADER_BYTES]
            for name, value in record.headers[:MAX_HEADERS]
        ],
        "headers_total": len(record.headers),
    }


class Records:
    """Reads with consumers of its own, a few at once."""

    def __init__(self, watched: WatchedCluster, properties: Mapping[str, str], schemas: SchemaRegistry) -> None:
        self._watched = watched
        self._properties = properties
        self._schemas = schemas
        self._reading = asyncio.Semaphore(READING_AT_ONCE)

    async def window(self, want: Wanted) -> dict[str, Any]:
        """The newest first where the end is asked for, else in the order of their times."""
        placed = await self._placed(want)
        async with self._reading, self._matching(want) as matching, self._consumer(want) as consumer:
            begins, ends = await self._bounds(placed)
            starts = await self._starts(want, begins, ends)
            found, read, is_whole = await _found(consumer, want, starts, ends, matching, as_row)
        count = len((await self._watched.topic(want.topic)).partitions) if placed.partition is None else 1
        is_whole = is_whole and count <= MOST_PARTITIONS
        found.sort(key=_when, reverse=want.place == "latest")
        return {
            "records": [row for _, _, row in found[: want.limit]],
            "read": read,
            "whole": is_whole,
            "reckoned": placed.partition if want.reckons else None,
            "passed_over": matching.passed_over,
            "why": matching.why,
        }

    async def one(self, topic: str, partition: int, offset: int, most: int) -> Found:
        """With up to `most` characters of what a schema makes of it."""
        want = Wanted(topic, partition, "offset", offset, 1, b"", b"", "", False)
        async with self._reading, self._matching(want, most) as matching, self._consumer(want) as consumer:
            begins, ends = await self._bounds(want)
            starts = await self._starts(want, begins, ends)
            found, _, _ = await _found(consumer, want, starts, ends, matching, lambda one: one)
        if not found or found[0][1] != offset:
            raise ConsoleError(HTTPStatus.NOT_FOUND, f"{topic}-{partition} has no record at offset {offset}")
        return found[0][2]

    async def tail(self, want: Wanted) -> AsyncGenerator[list[dict[str, Any]]]:
        """What comes from the first list on, which is empty, as are others while nothing comes.

        What nobody takes is not read.
        """
        want = await self._placed(want)
        async with self._matching(want) as matching, self._consumer(want) as consumer:
            _, ends = await self._bounds(want)
            await _assign(consumer, ends)
            yield []
            while True:
                records = await consumer.poll(POLL_MS * 10, POLLED)
                rows = [as_row(one) for one in await matching.of(records)]
                records.clear()
                yield rows

    async def export(self, want: Wanted) -> AsyncGenerator[list[Found]]:
        """From the place that is wanted to what is the end now, at most `limit` records, a list good until the next."""
        want = await self._placed(want)
        async with (
            self._reading,
            self._matching(want, EXPORTED_CHARACTERS) as matching,
            self._consumer(want) as consumer,
        ):
            begins, ends = await self._bounds(want)
            count = 0
            async for _, found in _read(consumer, matching, await self._starts(want, begins, ends), ends):
                count += len(found)
                del found[max(len(found) - max(count - want.limit, 0), 0) :]
                yield found
                if count >= want.limit:
                    return

    async def _placed(self, want: Wanted) -> Wanted:
        """With the one partition that has to be looked at, where its key tells which that is."""
        if not want.reckons:
            return want
        count = len((await self._watched.topic(want.topic)).partitions)
        return want.replace(partition=partition_for_key(want.key, count))

    def _matching(self, want: Wanted, most: int = MOST_BYTES) -> Matching:
        return Matching(want, self._schemas, most)

    @asynccontextmanager
    async def _consumer(self, want: Wanted) -> AsyncIterator[Consumer]:
        defaults = ConsumerSettings(
            client_id="penstock-console",
            isolation_level="read_committed" if want.committed else "read_uncommitted",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            allow_auto_create_topics=False,
            fetch_max_bytes=4 * FETCH_BYTES,
            max_partition_fetch_bytes=FETCH_BYTES,
            fetch_max_wait_ms=POLL_MS // 2,
            default_api_timeout_ms=self._watched.settings.default_api_timeout_ms,
            request_timeout_ms=self._watched.settings.request_timeout_ms,
        )
        try:
            settings = with_properties(defaults, self._properties)
        except ValueError as error:
            raise UnusableSettingsError(str(error)) from None
        settings = settings.replace(**{name: getattr(defaults, name) for name in OUR_OWN})
        async with Consumer(self._watched.bootstrap_servers, settings, large_as_views=True) as consumer:
            yield consumer

    async def _bounds(self, want: Wanted) -> tuple[Positions, Positions]:
        """First offsets and ends of the partitions that can be had."""
        topic = await self._watched.topic(want.topic)
        numbers: Collection[int] = sorted(topic.partitions)[:MOST_PARTITIONS]
        if want.partition is not None:
            if want.partition not in topic.partitions:
                raise bad_request(f"topic {want.topic!r} has no partition {want.partition}")
            numbers = [want.partition]
        chosen = [TopicPartition(want.topic, one) for one in numbers]
        begins, ends = await self._offsets(chosen, EARLIEST), await self._offsets(chosen, LATEST)
        return begins, {one: end for one, end in ends.items() if one in begins}

    async def _starts(self, want: Wanted, begins: Positions, ends: Positions) -> Positions:
        if want.place == "earliest":
            return {one: begins[one] for one in ends}
        if want.place == "offset":
            return {one: max(begins[one], want.at) for one in ends}
        if want.place == "time":
            found = await self._offsets(list(ends), want.at)
            return {one: found[one] if found.get(one, -1) >= 0 else end for one, end in ends.items()}
        if want.is_search:
            each = max(MOST_READ // max(len(ends), 1), 1)
        else:  # any partition may have all of the last ones
            each = min(want.limit, max(LAST_READ // max(len(ends), 1), 2))
        return {one: max(begins[one], end - each) for one, end in ends.items()}

    async def _offsets(self, partitions: Collection[TopicPartition], timestamp_ms: int) -> Positions:
        asked = dict.fromkeys(partitions, timestamp_ms)
        found, _ = await list_offsets_that_can_be_had(self._watched.admin.cluster, asked)
        return {one: value.offset for one, value in found.items()}


async def _assign(consumer: Consumer, positions: Mapping[TopicPartition, int]) -> None:
    await consumer.assign(list(positions))
    for one, offset in positions.items():
        consumer.seek(one, offset)


async def _read(
    consumer: Consumer, matching: Matching, starts: Positions, ends: Positions
) -> AsyncIterator[tuple[int, list[Found]]]:
    """From `starts` to `ends`: how many records were read at a time, and those that match, which are good until the
    next are asked for: they may be large, and are let go before more come.
    """
    left = {one: start for one, start in starts.items() if start < ends[one]}
    await _assign(consumer, left)
    quiet = 0
    while left and quiet < (QUIET_COMMITTED if matching.is_committed else QUIET):
        records = await consumer.poll(POLL_MS, POLLED)
        count = len(records)
        found = await matching.of([one for one in records if one.offset < ends[one.topic_partition]])
        records.clear()
        yield count, found
        found.clear()
        positions = consumer.positions()
        done = [one for one in left if one in positions and positions[one].offset >= ends[one]]
        quiet = 0 if count or done else quiet + 1
        for one in done:
            del left[one]
        consumer.pause(done)


async def _found(
    consumer: Consumer,
    want: Wanted,
    starts: Positions,
    ends: Positions,
    matching: Matching,
    kept: Callable[[Found], Kept],
) -> tuple[list[tuple[int, int, Kept]], int, bool]:
    """What is `kept` of each record that matches, after its time and its offset, how many records were read for it, and
    whether the limits let all be read that should be. Records themselves may be large, and are let go.

    Where the end is wanted all is read, and the last ones stay; else reading ends with the last one wanted.
    """
    until_s = time.monotonic() + LONGEST_S
    found: list[tuple[int, int, Kept]] = []
    read = 0
    keeps_last = want.place == "latest"
    async for count, ones in _read(consumer, matching, starts, ends):
        read += count
        found += [(one.record.timestamp_ms, one.record.offset, kept(one)) for one in ones]
        if keeps_last and len(found) > 2 * MAX_ROWS:
            found = sorted(found, key=_when)[-want.limit :]
        if not keeps_last and len(found) >= want.limit:
            break
        if read >= MOST_READ or time.monotonic() >= until_s:
            return found, read, False
    return found, read, True


def _when(found: tuple[int, int, Any]) -> tuple[int, int]:
    return found[:2]
