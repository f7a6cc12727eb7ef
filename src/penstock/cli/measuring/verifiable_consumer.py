"""`penstock verifiable-consumer`: read in a group and tell all that happens, as kafka-verifiable-consumer.sh does."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click

from penstock.cli.measuring.settings import config_option
from penstock.cli.measuring.verifiable_producer import say_event
from penstock.cli.terminal.options import declared, option
from penstock.cli.terminal.session import BOOTSTRAP_SERVER, read_properties, run, settings_from
from penstock.client.assignors import KAFKAS_PACKAGE
from penstock.client.consumer import Consumer
from penstock.client.consumer.listeners import RebalanceListener
from penstock.client.errors import ClientError
from penstock.client.settings import ConsumerSettings
from penstock.client.values import ConsumedRecord, OffsetAndMetadata, TopicPartition
from penstock.protocol.errors import KafkaError

POLL_MS: Final = 1_000
POLL_RECORDS: Final = ConsumerSettings().max_poll_records


@click.command(short_help="read as a member of a group, and tell as JSON all that happens")
@declared
def command(
    bootstrap_server: str = BOOTSTRAP_SERVER,
    *,
    topic: str = option("The topic to read.", required=True),
    group_id: str = option("The group to read as.", required=True),
    group_instance_id: str | None = option("The name of a static member."),
    group_protocol: str = option("How the group works.", type=click.Choice(["classic"]), default="classic"),
    assignment_strategy: str = option(
        "Who assigns partitions, in the order of preference.",
        default=f"{KAFKAS_PACKAGE}RangeAssignor",
        show_default=True,
    ),
    session_timeout: int | None = option("How long the member may be silent, in ms.", min=1),
    max_messages: int = option("Stop after so many records; -1: at Ctrl-C.", min=-1, default=-1, show_default=True),
    verbose: bool = option("Tell of each record."),
    enable_autocommit: bool = option("Commit now and then, instead of after each poll."),
    close_timeout: int = option("How long leaving may take, in ms.", min=0, default=30_000, show_default=True),
    reset_policy: str = option(
        "Where to begin without an offset: earliest, latest or none.", default="earliest", show_default=True
    ),
    command_config: Path | None = config_option("--consumer.config"),
) -> None:
    """Read a topic as a member of a group, and print a line of JSON for each rebalance, poll and commit."""
    options = {
        "group.id": group_id,
        "group.instance.id": group_instance_id,
        "partition.assignment.strategy": assignment_strategy,
        "session.timeout.ms": session_timeout,
        "enable.auto.commit": enable_autocommit,
        "auto.offset.reset": reset_policy,
    }
    settings = settings_from(
        ConsumerSettings(client_id="verifiable-consumer"),
        read_properties(command_config),
        {key: str(value) for key, value in options.items() if value is not None},
    )

    async def work() -> None:
        consumer = Consumer(bootstrap_server, settings)
        reading = Reading(consumer, max_messages, is_verbose=verbose, commits=not enable_autocommit)
        await consumer.start()
        try:
            await reading.run(topic)
        except asyncio.CancelledError:
            say_event("shutdown_requested")
            raise
        finally:
            await consumer.close(close_timeout)
            say_event("shutdown_complete")

    run(work())


class Reading(RebalanceListener):
    def __init__(self, consumer: Consumer, most: int, *, is_verbose: bool, commits: bool) -> None:
        self._consumer = consumer
        self._most = most
        self._is_verbose = is_verbose
        self._commits = commits
        self._count = 0

    async def on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        say_event("partitions_assigned", partitions=[one._asdict() for one in partitions])

    async def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        say_event("partitions_revoked", partitions=[one._asdict() for one in partitions])

    async def run(self, topic: str) -> None:
        say_event("startup_complete")
        await self._consumer.subscribe([topic], listener=self)
        while self._most < 0 or self._count < self._most:
            left = POLL_RECORDS if self._most < 0 else self._most - self._count
            records = await self._consumer.poll(POLL_MS, min(left, POLL_RECORDS))
            if not records:
                continue
            self._count += len(records)
            offsets = self._told(records)
            if self._commits:
                await self._commit(offsets)

    def _told(self, records: Sequence[ConsumedRecord]) -> dict[TopicPartition, OffsetAndMetadata]:
        """Where to go on."""
        rows: dict[TopicPartition, list[ConsumedRecord]] = {}
        for record in records:
            rows.setdefault(record.topic_partition, []).append(record)
            if self._is_verbose:
                say_event("record_data", **_record(record))
        summaries = [
            {**place._asdict(), "count": len(row), "minOffset": row[0].offset, "maxOffset": row[-1].offset}
            for place, row in rows.items()
        ]
        say_event("records_consumed", count=len(records), partitions=summaries)
        return {partition: OffsetAndMetadata(row[-1].offset + 1) for partition, row in rows.items()}

    async def _commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        rows = [{**partition._asdict(), "offset": position.offset} for partition, position in offsets.items()]
        try:
            await self._consumer.commit(offsets)
        except (ClientError, KafkaError) as error:
            say_event("offsets_committed", offsets=rows, error=str(error), success=False)
        else:
            say_event("offsets_committed", offsets=rows, success=True)


def _record(record: ConsumedRecord) -> dict[str, Any]:
    key, value = (None if it is None else it.decode(errors="replace") for it in (record.key, record.value))
    return {"key": key, "value": value, **record.topic_partition._asdict(), "offset": record.offset}
