"""`penstock delayed`: the records of a topic that wait until they are due; cancel one, or let it go now."""

from __future__ import annotations

import time

import click

from penstock.cli.records.waiting_records import WaitingRecord, waiting_records
from penstock.cli.terminal.options import JSON, declared, option
from penstock.cli.terminal.output import Value as Cell
from penstock.cli.terminal.output import print_lines, print_rows, show_time
from penstock.cli.terminal.session import BrokerSession, read_properties, servers_from, settings_from
from penstock.client.admin import Admin
from penstock.client.admin.configs import ResourceType
from penstock.client.producer import Producer
from penstock.client.settings import ProducerSettings
from penstock.client.values import TopicPartition
from penstock.metadata.configs.definitions import is_true
from penstock.metadata.configs.topic import DELAY_ENABLE
from penstock.protocol.delayed import CANCEL, DELAY_ID, NOW

COLUMNS = ["PARTITION", "OFFSET", "DUE", "IN_MS", "ID", "KEY", "BYTES"]


@click.group(short_help="show, cancel and hasten records that wait until they are due")
def command() -> None:
    """Show, cancel and hasten records that wait until they are due.

    A topic with penstock.delay.enable=true delivers a record with a header penstock-deliver-at or penstock-delay when
    it is due. A record that was given a name by a header penstock-delay-id can be cancelled or hastened by it.
    """


@command.command("list", short_help="show what waits, the next first")
@declared
def show(
    session: BrokerSession,
    topic: str = option("Of this topic.", required=True),
    partition: int | None = option("Of this partition alone.", min=0),
    limit: int = option("How many to show of each partition.", min=1, default=100, show_default=True),
    as_json: bool = JSON,
) -> None:
    """Show what waits, the next first. Reads the log of the topic, from its beginning to its end."""

    async def work(admin: Admin) -> list[WaitingRecord]:
        return await waiting_records(admin, await _partitions(admin, topic, partition))

    found = session.run(work)
    shown: list[WaitingRecord] = []
    counts: dict[TopicPartition, int] = {}
    for one in found:
        counts[one.partition] = counts.get(one.partition, 0) + 1
        if counts[one.partition] <= limit:
            shown.append(one)
    now_ms = time.time_ns() // 1_000_000
    print_rows(COLUMNS, [_row(one, now_ms) for one in shown], as_json=as_json, empty="nothing waits")
    if len(shown) < len(found) and not as_json:
        print_lines([f"{len(found) - len(shown)} more wait: --limit shows them"], None, as_json=False)


def _row(one: WaitingRecord, now_ms: int) -> list[Cell]:
    due = show_time(one.due_ms) if one.due_ms else "now"
    texts = [None if text is None else text.decode(errors="replace") for text in (one.id, one.key)]
    return [one.partition.partition, one.offset, due, max(0, one.due_ms - now_ms), *texts, one.size]


@command.command(short_help="let a record never be delivered")
@declared
def cancel(
    session: BrokerSession,
    topic: str = option("In this topic.", required=True),
    id_: str = option("The record's penstock-delay-id.", "--id", required=True),
    partition: int | None = option("In this partition; without it in all, as each has ids of its own.", min=0),
) -> None:
    """Let the record with this id never be delivered: that is certain once this has ended, unless it came before."""
    _order(session, topic, id_, partition, CANCEL, "cancelled")


@command.command(short_help="let a record be delivered at once")
@declared
def now(
    session: BrokerSession,
    topic: str = option("In this topic.", required=True),
    id_: str = option("The record's penstock-delay-id.", "--id", required=True),
    partition: int | None = option("In this partition; without it in all, as each has ids of its own.", min=0),
) -> None:
    """Let the record with this id be delivered at once."""
    _order(session, topic, id_, partition, NOW, "due now")


def _order(session: BrokerSession, topic: str, id_: str, partition: int | None, header: str, done: str) -> None:
    properties = read_properties(session.command_config)
    servers = servers_from(session.bootstrap_server, properties)
    settings = settings_from(ProducerSettings(client_id="penstock-cli"), properties)

    async def work(admin: Admin) -> int:
        found = await _partitions(admin, topic, partition)
        configs = await admin.configs.describe(ResourceType.TOPIC, topic, keys=[DELAY_ENABLE])
        if not any(is_true(entry.value) for entry in configs):  # it would write an empty record
            raise click.ClickException(f"nothing waits in topic {topic!r}: it has not {DELAY_ENABLE}=true")
        async with Producer(servers, settings) as producer:
            for one in found:
                headers = [(DELAY_ID, id_.encode()), (header, b"")]
                await producer.send_and_wait(topic, None, headers=headers, partition=one.partition)
        return len(found)

    count = session.run(work)
    where = f"{topic}-{partition}" if partition is not None else f"the {count} partitions of {topic}"
    print_lines([f"what waits with the id {id_!r} in {where} is {done}"], None, as_json=False)


async def _partitions(admin: Admin, topic: str, partition: int | None) -> list[TopicPartition]:
    count = len((await admin.topics.describe([topic]))[0].partitions)
    if partition is not None and partition >= count:
        raise click.ClickException(f"topic {topic!r} has {count} partitions, counted from 0")
    return [TopicPartition(topic, number) for number in range(count) if partition in (None, number)]
