"""`penstock groups --redrive`: dead letters of share groups go back to the topics of their records (KIP-1191).

How far the letters of a group were sent back is committed for `penstock-redrive.GROUP`, in the transaction that sends
them: so none is sent twice, whatever ends the command, and of two that run the later one goes on. Where a letter is no
copy, the record is read from its topic, if that still has it.

What a letter says of its record is what somebody wrote who may write to the topic of dead letters, and the command may
write to more: so it sends nothing but to topics where the group has begun.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import click

from penstock.cli.groups.views import Row
from penstock.cli.terminal.lines import say
from penstock.cli.terminal.output import print_rows
from penstock.cli.terminal.session import BrokerSession, read_properties, servers_from, settings_from
from penstock.client.admin import Admin
from penstock.client.admin.configs import ResourceType
from penstock.client.consumer import Consumer
from penstock.client.producer import Producer
from penstock.client.settings import ConsumerSettings, ProducerSettings
from penstock.client.values import ConsumedRecord, OffsetAndMetadata, TopicPartition
from penstock.protocol import dead_letters as header

TOPIC_KEY: Final = "errors.deadletterqueue.topic.name"
REDRIVER: Final = "penstock-redrive."
POLL_MS: Final = 500
MOST_DIGITS: Final = 19
"""Of an offset."""


class Letter(NamedTuple):
    """A dead letter, and where its record was."""

    record: ConsumedRecord
    source: TopicPartition
    offset: int

    @property
    def has_copy(self) -> bool:
        return self.record.key is not None or self.record.value is not None


@dataclass(slots=True)
class Count:
    """Of the letters of one partition: the records that go back, and those that are nowhere any more."""

    records: int = 0
    gone: int = 0


def letter_of(record: ConsumedRecord, group_id: str) -> Letter | None:
    """None where it is no letter of this group."""
    said = {name: (value or b"").decode(errors="replace") for name, value in record.headers}
    partition, offset = said.get(header.PARTITION, ""), said.get(header.OFFSET, "")
    are_numbers = all(text.isdecimal() and len(text) <= MOST_DIGITS for text in (partition, offset))
    if said.get(header.GROUP) != group_id or not are_numbers:
        return None
    return Letter(record, TopicPartition(said.get(header.TOPIC, ""), int(partition)), int(offset))


class Sources:
    """The records of which letters have no copies."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self._bounds: dict[TopicPartition, tuple[int, int]] = {}

    async def find(self, partition: TopicPartition, offset: int) -> ConsumedRecord | None:
        consumer = self._consumer
        if partition not in self._bounds:
            begin = (await consumer.beginning_offsets([partition]))[partition]
            self._bounds[partition] = begin, (await consumer.end_offsets([partition]))[partition]
        begin, end = self._bounds[partition]
        if not begin <= offset < end:
            return None
        if consumer.assignment != [partition]:
            await consumer.assign([partition])
        consumer.seek(partition, offset)
        while not (some := await consumer.poll(POLL_MS, max_records=1)):
            if await consumer.position(partition) > offset:
                return None
        return some[0] if some[0].offset == offset else None


@dataclass(slots=True)
class Redrive:
    """Of one group's letters, from where the last one ended to where the topic of dead letters ends now."""

    group_id: str
    letters: Consumer
    sources: Sources
    producer: Producer | None
    """None where nothing is sent."""
    partition_counts: Mapping[str, int]
    """Of the topics to which something may be sent."""
    counts: dict[TopicPartition, Count] = field(default_factory=dict)

    async def run(self, topic: str) -> None:
        partitions = await self.letters.partitions_for(topic)
        ends = await self.letters.end_offsets(partitions)
        await self.letters.assign(partitions)
        while not all([await self.letters.position(one) >= ends[one] for one in partitions]):
            some = await self.letters.poll(POLL_MS)
            some = [record for record in some if record.offset < ends[record.topic_partition]]
            if some:
                await self._take(some)

    async def _take(self, some: Sequence[ConsumedRecord]) -> None:
        found = [letter for record in some if (letter := letter_of(record, self.group_id)) is not None]
        back = [(letter, record) for letter in found if (record := await self._record(letter)) is not None]
        if self.producer is None:
            return
        behind = {record.topic_partition: OffsetAndMetadata(record.offset + 1) for record in some}
        async with self.producer.transaction():
            for letter, record in back:
                where = f"{letter.record.topic}-{letter.record.partition}-{letter.record.offset}"
                headers = [*header.own_headers(record.headers), (header.REDRIVEN, where.encode())]
                topic, partition = letter.source
                await self.producer.send(topic, record.value, key=record.key, headers=headers, partition=partition)
            await self.producer.send_offsets_to_transaction(REDRIVER + self.group_id, behind)

    async def _record(self, letter: Letter) -> ConsumedRecord | None:
        """What goes back; None if there is nothing any more."""
        count = self.counts.setdefault(letter.source, Count())
        is_there = letter.source.partition < self.partition_counts.get(letter.source.topic, 0)
        found = None
        if is_there:
            found = letter.record if letter.has_copy else await self.sources.find(letter.source, letter.offset)
        if found is None:
            count.gone += 1
        else:
            count.records += 1
        return found


async def redrive(session: BrokerSession, admin: Admin, groups: Sequence[str], *, execute: bool, as_json: bool) -> None:
    """Without `execute` only shows what would be sent."""
    properties = read_properties(session.command_config)
    servers = servers_from(session.bootstrap_server, properties)
    await admin.cluster.refresh()
    partition_counts = admin.cluster.metadata.partition_counts()
    defaults = ConsumerSettings(client_id="penstock-cli", auto_offset_reset="earliest", enable_auto_commit=False)
    reads = settings_from(defaults, properties)
    sends = settings_from(ProducerSettings(client_id="penstock-cli"), properties)
    rows: list[Row] = []
    for group_id in groups:
        topic = await _topic_of(admin, group_id)
        begun = {place.topic for place in await admin.share_groups.offsets(group_id)}
        async with AsyncExitStack() as stack:
            producer = None
            if execute:
                settings = sends.replace(transactional_id=REDRIVER + group_id)
                producer = await stack.enter_async_context(Producer(servers, settings))
                await producer.init_transactions()  # one that was cut off is over before its position is looked up
            position = reads.replace(group_id=REDRIVER + group_id)
            letters = await stack.enter_async_context(Consumer(servers, position))
            sources = await stack.enter_async_context(Consumer(servers, reads))
            counts = {name: count for name, count in partition_counts.items() if name in begun}
            work = Redrive(group_id, letters, Sources(sources), producer, counts)
            await work.run(topic)
        rows += [(group_id, topic, *at, count.records, count.gone) for at, count in sorted(work.counts.items())]
    show(rows, execute=execute, as_json=as_json)


def show(rows: Sequence[Row], *, execute: bool, as_json: bool) -> None:
    names = ["GROUP", "DEAD-LETTERS", "TOPIC", "PARTITION", "RECORDS", "GONE"]
    print_rows(names, rows, as_json=as_json, empty="no dead letter that was not sent back before")
    if rows and not execute:
        say("nothing was sent: --execute does it", err=True)


async def _topic_of(admin: Admin, group_id: str) -> str:
    for entry in await admin.configs.describe(ResourceType.GROUP, group_id, keys=[TOPIC_KEY]):
        if entry.value:
            return entry.value
    raise click.ClickException(f"group {group_id!r} has no dead letters: its {TOPIC_KEY} is not set")
