"""`penstock verifiable-share-consumer`: read in a share group and tell all that happens, as
kafka-verifiable-share-consumer.sh does.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import click

from penstock.cli.measuring.verifiable_producer import say_event
from penstock.cli.terminal.options import declared, option
from penstock.cli.terminal.session import BOOTSTRAP_SERVER, read_properties, run, settings_from
from penstock.client.admin import Admin
from penstock.client.admin.configs import ConfigChange, ConfigOperation, ResourceType
from penstock.client.settings import ShareConsumerSettings
from penstock.client.share import Failure, ShareConsumer
from penstock.client.share.acknowledgements import AcknowledgeType
from penstock.client.share.records import SharedRecord
from penstock.client.values import TopicPartition

POLL_MS: Final = 5_000
AUTO, SYNC, ASYNC = "auto", "sync", "async"
MODES: Final = AUTO, SYNC, ASYNC
RESETS: Final = "earliest", "latest"
RESET: Final = "share.auto.offset.reset"


@click.command(short_help="read as a member of a share group, and tell as JSON all that happens")
@declared
def command(
    bootstrap_server: str = BOOTSTRAP_SERVER,
    *,
    topic: str = option("The topic to read.", required=True),
    group_id: str = option("The share group to read as.", required=True),
    max_messages: int = option(
        "Stop when so many were acknowledged; -1: at Ctrl-C.", min=-1, default=-1, show_default=True
    ),
    verbose: bool = option("Tell of each record."),
    acknowledgement_mode: str = option(
        "When to acknowledge: with the next poll (auto), or after each, waiting for the answer (sync) or not (async).",
        type=click.Choice(MODES, case_sensitive=False),
        default=AUTO,
        show_default=True,
    ),
    ack_pattern: str = option(
        "How to acknowledge records, one after the other by their offset: some of accept, release, reject and renew "
        "with commas between them. A record that was renewed takes the next one when it comes again.",
        default="",
    ),
    offset_reset_strategy: str = option(
        f"Where the group begins: {' or '.join(RESETS)}.",
        type=click.Choice(["", *RESETS], case_sensitive=False),
        default="",
    ),
    command_config: Path | None = option("A file with settings of the client."),
) -> None:
    """Read a topic as a member of a share group, and print a line of JSON for each poll and acknowledgement."""
    pattern = _pattern(ack_pattern, acknowledgement_mode)
    settings = settings_from(
        ShareConsumerSettings(client_id="verifiable-share-consumer"),
        read_properties(command_config),
        {"group.id": group_id, "share.acknowledgement.mode": "explicit" if pattern else "implicit"},
    )

    async def work() -> None:
        consumer = ShareConsumer(bootstrap_server, settings)
        await consumer.start()
        try:
            say_event("startup_complete")
            if offset_reset_strategy:
                async with Admin(bootstrap_server, settings) as admin:
                    change = ConfigChange(RESET, ConfigOperation.SET, offset_reset_strategy)
                    await admin.configs.alter(ResourceType.GROUP, group_id, [change])
                say_event("offset_reset_strategy_set", offsetResetStrategy=offset_reset_strategy)
            await Reading(consumer, max_messages, pattern, is_verbose=verbose).run(topic, acknowledgement_mode)
        except asyncio.CancelledError:
            say_event("shutdown_requested")
            raise
        finally:
            await consumer.close()
            say_event("shutdown_complete")

    run(work())


def _pattern(text: str, mode: str) -> list[AcknowledgeType]:
    """Raises UsageError."""
    words = [word.strip().upper() for word in text.split(",")] if text else []
    unknown = [word for word in words if word not in AcknowledgeType.__members__]
    if unknown:
        raise click.UsageError(f"--ack-pattern: {unknown[0].lower()!r} is none of accept, release, reject, renew")
    pattern = [AcknowledgeType[word] for word in words]
    if pattern and mode == AUTO:
        raise click.UsageError("--ack-pattern needs --acknowledgement-mode sync or async")
    if set(pattern) == {AcknowledgeType.RENEW}:
        raise click.UsageError("--ack-pattern: with renew alone no record is ever done with")
    return pattern


class Reading:
    def __init__(self, consumer: ShareConsumer, most: int, pattern: list[AcknowledgeType], *, is_verbose: bool) -> None:
        self._consumer = consumer
        self._most = most
        self._pattern = pattern
        self._is_verbose = is_verbose
        self._count = 0
        self._renewed: dict[tuple[TopicPartition, int], int] = {}
        """How often, of records that are to come again."""
        self._said: dict[tuple[TopicPartition, int], AcknowledgeType] = {}

    async def run(self, topic: str, mode: str) -> None:
        await self._consumer.subscribe([topic])
        self._consumer.set_acknowledgement_commit_callback(self._acknowledged)
        while self._most < 0 or self._count < self._most:
            records = await self._consumer.poll(POLL_MS)
            if not records:
                continue
            self._received(records)
            if mode == SYNC:
                await self._consumer.commit_sync()
            elif mode == ASYNC:
                self._consumer.commit_async()

    def _received(self, records: Sequence[SharedRecord]) -> None:
        rows: dict[TopicPartition, list[int]] = {}
        for record in records:
            rows.setdefault(record.topic_partition, []).append(record.offset)
            if self._pattern:
                self._acknowledge(record)
            if self._is_verbose:
                say_event("record_data", **_record(record))
        say_event("records_consumed", count=len(records), partitions=_summaries(rows))

    def _acknowledge(self, record: SharedRecord) -> None:
        place = record.topic_partition, record.offset
        renewals = self._renewed.pop(place, 0)
        kind = self._pattern[(record.offset + renewals) % len(self._pattern)]
        if kind is AcknowledgeType.RENEW:
            self._renewed[place] = renewals + 1
        self._said[place] = kind
        self._consumer.acknowledge(record, kind)

    def _acknowledged(self, partition: TopicPartition, offsets: Sequence[int], error: Failure | None) -> None:
        kinds = [kind for offset in offsets if (kind := self._said.pop((partition, offset), None)) is not None]
        told: dict[str, Any] = {"success": error is None}
        if error is not None:
            told["error"] = str(error)
        elif self._pattern:
            told["ackTypeCounts"] = Counter(kind.name for kind in kinds)
        if error is None:
            self._count += len(offsets)
        partitions = _summaries({partition: list(offsets)})
        say_event("offsets_acknowledged", count=len(offsets), partitions=partitions, **told)


def _summaries(rows: dict[TopicPartition, list[int]]) -> list[dict[str, Any]]:
    return [{**at._asdict(), "count": len(offsets), "offsets": sorted(offsets)} for at, offsets in rows.items()]


def _record(record: SharedRecord) -> dict[str, Any]:
    key, value = (None if it is None else it.decode(errors="replace") for it in (record.key, record.value))
    return {"key": key, "value": value, **record.topic_partition._asdict(), "offset": record.offset}
