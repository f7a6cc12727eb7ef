"""`penstock replica-verification`: compare what the replicas of topics hold, as kafka-replica-verification.sh does."""

import asyncio
import re
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

import click

from penstock.cli.replicas.replica_comparison import Given, compare, max_lag
from penstock.cli.terminal.failures import wrong_usage
from penstock.cli.terminal.lines import say
from penstock.cli.terminal.options import declared, option
from penstock.cli.terminal.session import BrokerSession
from penstock.client.admin import Admin
from penstock.client.errors import ClientError
from penstock.client.replica_offsets import replica_fetch_request
from penstock.client.values import EARLIEST, LATEST, TopicPartition
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.internal_topics import STORAGE_GROUPS
from penstock.protocol.messages.fetch import FetchRequest, FetchResponse
from penstock.protocol.value import Value

RETRY_S: Final = 1.0


class Options(Value, kw_only=True):
    topics_include: str = option("Which topics: a regular expression.", default=".*", show_default=True)
    fetch_size: int = option("Bytes a partition.", min=1, default=1 << 20, show_default=True)
    max_wait_ms: int = option("How long a broker may wait.", min=0, default=1_000, show_default=True)
    moment: int | None = option("Begin at -1 (latest, the default), -2 (earliest) or a timestamp.", "--time")
    report_interval_ms: int = option("How often to say how far it is.", min=0, default=30_000, show_default=True)
    once: bool = option("Compare what there is now, from the earliest offset on unless --time says, and end.")


class Verification:
    """Each partition has the offset that its comparison has come to."""

    def __init__(self, admin: Admin, replicas: Mapping[TopicPartition, Sequence[int]], ids: Mapping[str, UUID]) -> None:
        self._admin = admin
        self._replicas = replicas
        self._ids = ids
        self._names = {topic_id: name for name, topic_id in ids.items()}
        self._offsets: dict[TopicPartition, int] = {}
        self._ends: dict[TopicPartition, int] = {}
        self._unreachable: dict[int, None] = {}
        self._refused: dict[tuple[int, TopicPartition], ErrorCode] = {}
        self.has_differences = False

    async def begin(self, moment: int) -> None:
        """`moment` is LATEST, EARLIEST or a timestamp. Raises KafkaError, ClientError."""
        found = await self._admin.offsets(dict.fromkeys(self._replicas, moment))
        latest = await self._admin.offsets(dict.fromkeys(self._replicas, LATEST))
        self._ends = {partition: latest[partition].offset for partition in self._replicas}
        self._offsets = {
            partition: found[partition].offset if found[partition].offset >= 0 else self._ends[partition]
            for partition in self._replicas
        }
        _say("verification process is started")

    async def run(self, options: Options) -> None:
        """Goes on for ever, or with `once` to the end at the beginning. Raises click.exceptions.Exit."""
        targets = dict(self._ends)
        reported_s = time.monotonic()
        while not options.once or any(self._offsets[row] < end for row, end in targets.items()):
            await self._round(options)
            if time.monotonic() - reported_s > options.report_interval_ms / 1000:
                reported_s = time.monotonic()
                self.report()
        if options.once:
            self.report()

    def report(self) -> None:
        lag, partition = max_lag(self._offsets, self._ends)
        offset = self._offsets[partition]
        _say(f"max lag is {lag} for partition {partition} at offset {offset} among {len(self._offsets)} partitions")

    async def _round(self, options: Options) -> None:
        nodes = sorted({node for nodes in self._replicas.values() for node in nodes})
        answers = await asyncio.gather(*(self._ask(node, options) for node in nodes))
        given: dict[TopicPartition, dict[int, Given]] = {partition: {} for partition in self._replicas}
        for node, answer in zip(nodes, answers, strict=True):
            for partition, data in answer.items():
                given[partition][node] = data
        is_idle = True
        for partition, nodes_of in self._replicas.items():
            rows = given[partition]
            if len(rows) < len(nodes_of):
                continue
            self._ends[partition] = max(row.high_watermark for row in rows.values())
            found = compare(partition, self._offsets[partition], rows)
            for difference in found.differences:
                self.has_differences = True
                _say(difference)
            if found.is_apart:
                raise click.exceptions.Exit(1)
            if found.next_offset != self._offsets[partition]:
                is_idle = False
                self._offsets[partition] = found.next_offset
                self._offsets[partition] = self._offsets.pop(partition)  # the others come first in the next answer
        if is_idle and (self._unreachable or self._refused):
            await asyncio.sleep(RETRY_S)

    async def _ask(self, node_id: int, options: Options) -> dict[TopicPartition, Given]:
        """Leaves out replicas that the node cannot read now."""
        try:
            response = await self._admin.cluster.to_node(node_id, self._request(node_id, options), FetchResponse)
            if response.error_code:
                raise KafkaError(ErrorCode(response.error_code))
        except (ClientError, KafkaError, TimeoutError) as error:
            if node_id not in self._unreachable:
                self._unreachable[node_id] = None
                say(f"broker {node_id} does not answer, its partitions wait: {error}", err=True)
            return {}
        if self._unreachable.pop(node_id, 1) is None:
            say(f"broker {node_id} answers again", err=True)
        given = {}
        for topic in response.responses:
            for row in topic.partitions:
                partition = TopicPartition(topic.topic or self._names[topic.topic_id], row.partition_index)
                if row.error_code == ErrorCode.OFFSET_OUT_OF_RANGE and row.log_start_offset > self._offsets[partition]:
                    self._offsets[partition] = row.log_start_offset
                elif row.error_code:
                    self._told_error(node_id, partition, ErrorCode(row.error_code))
                else:
                    self._refused.pop((node_id, partition), None)
                    given[partition] = Given(row.records or b"", row.high_watermark)
        return given

    def _told_error(self, node_id: int, partition: TopicPartition, code: ErrorCode) -> None:
        """Says once that a replica cannot be read; it is asked again."""
        if self._refused.get((node_id, partition)) != code:
            self._refused[node_id, partition] = code
            say(f"{partition}: broker {node_id} says {code.name}, the partition waits", err=True)

    def _request(self, node_id: int, options: Options) -> FetchRequest:
        held = {row: offset for row, offset in self._offsets.items() if node_id in self._replicas[row]}
        return replica_fetch_request(held, self._ids, bytes_each=options.fetch_size, max_wait_ms=options.max_wait_ms)


@click.command(short_help="compare what the replicas of topics hold")
@declared
def command(session: BrokerSession, options: Options) -> None:
    """Read the replicas of topics from all their brokers and compare their batches, up to the high watermark.

    Says what differs, and the largest lag at each interval. The exit code is 1 if something differs.
    """
    begins = options.moment if options.moment is not None else EARLIEST if options.once else LATEST
    with wrong_usage(re.error, of="--topics-include"):
        included = re.compile(options.topics_include)

    async def work(admin: Admin) -> bool:
        readable = [topic for topic in await admin.topics.describe() if topic.name != STORAGE_GROUPS]
        topics = [topic for topic in readable if included.fullmatch(topic.name)]
        if not topics:
            raise click.ClickException("there is no such topic")
        replicas = {row.topic_partition: row.replicas for topic in topics for row in topic.partitions.values()}
        verification = Verification(admin, replicas, {topic.name: topic.topic_id for topic in topics})
        await verification.begin(begins)
        await verification.run(options)
        return verification.has_differences

    if session.run(work):
        raise click.exceptions.Exit(1)


def _say(text: str) -> None:
    now = datetime.now()
    say(f"{now:%Y-%m-%d %H:%M:%S},{now.microsecond // 1000:03}: {text}")
