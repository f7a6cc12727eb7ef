"""`penstock transactions`: transactions, who is in them, and those that hang, as kafka-transactions.sh."""

from __future__ import annotations

from typing import Final

import click

from penstock.cli.terminal.lines import say
from penstock.cli.terminal.options import JSON, declared, option
from penstock.cli.terminal.output import print_rows
from penstock.cli.terminal.session import NodeSession
from penstock.client.admin import Admin
from penstock.client.admin.transactions import ProducerDescription
from penstock.client.settings import wall_clock_ms
from penstock.client.values import TopicPartition
from penstock.protocol.value import Value

MINUTE_MS: Final = 60_000
PRODUCERS: Final = ["PRODUCER-ID", "EPOCH", "COORDINATOR-EPOCH", "LAST-SEQUENCE", "LAST-TIMESTAMP", "START-OFFSET"]


@click.group(short_help="list, describe and abort transactions, and find those that hang")
@declared
def command(session: NodeSession) -> None:
    """Look at transactions and their producers; find and end those that hang.

    Where to reach the cluster, and as whom, may be said before the subcommand, as for kafka-transactions.sh,
    or behind it.
    """
    click.get_current_context().obj = session


@command.command("list")
@declared
def list_transactions(
    session: NodeSession,
    duration_filter: int = option("Only those that are open for longer.", metavar="MS", default=-1),
    transactional_id_pattern: str | None = option("Only ids that fit this pattern as a whole.", metavar="PATTERN"),
    prepared: bool = option("Only those that are decided elsewhere, and wait for that.", default=False),
    as_json: bool = JSON,
) -> None:
    """List the transactional ids that the cluster knows."""
    if prepared:
        _list_prepared(session, as_json=as_json)
        return
    listings = session.run(
        lambda admin: admin.transactions.listings(duration_ms=duration_filter, pattern=transactional_id_pattern)
    )
    rows = [(it.transactional_id, it.coordinator, it.producer_id, it.state) for it in listings]
    columns = ["TRANSACTIONAL-ID", "COORDINATOR", "PRODUCER-ID", "STATE"]
    print_rows(columns, rows, as_json=as_json, empty="no transactional ids")


def _list_prepared(session: NodeSession, *, as_json: bool) -> None:
    waiting, now_ms = session.run(lambda admin: admin.transactions.prepared()), wall_clock_ms()
    rows = [
        (it.transactional_id, it.coordinator, it.producer_id, it.producer_epoch, now_ms - it.start_ms) for it in waiting
    ]
    columns = ["TRANSACTIONAL-ID", "COORDINATOR", "PRODUCER-ID", "EPOCH", "DURATION-MS"]
    print_rows(columns, rows, as_json=as_json, empty="no transaction waits to be decided")


@command.command("complete")
@declared
def complete(
    session: NodeSession,
    transactional_id: str = option("The id.", required=True),
    commit: bool = option("Commit it.", default=False),
    abort: bool = option("Abort it.", default=False),
) -> None:
    """Decide about a prepared transaction, in place of its producer: `list --prepared` shows which wait."""
    if commit == abort:
        raise click.UsageError("say how it ends: --commit or --abort")
    known = session.run(lambda admin: admin.transactions.complete(transactional_id, commits=commit))
    what = "committed" if commit else "aborted"
    say(f"{transactional_id}: transaction {known.producer_id}:{known.producer_epoch} is {what}, its producer is fenced")


@command.command("describe")
@declared
def describe(
    session: NodeSession,
    transactional_id: str = option("The id.", required=True),
    as_json: bool = JSON,
) -> None:
    """Show what a transactional id is in the middle of."""
    it = session.run(lambda admin: admin.transactions.describe(transactional_id))
    has_begun = it.start_ms >= 0
    row = (
        it.coordinator,
        it.transactional_id,
        it.producer_id,
        it.producer_epoch,
        it.state,
        it.timeout_ms,
        it.start_ms if has_begun else None,
        wall_clock_ms() - it.start_ms if has_begun else None,
        ",".join(map(str, it.partitions)),
    )
    columns = [
        "COORDINATOR",
        "TRANSACTIONAL-ID",
        "PRODUCER-ID",
        "EPOCH",
        "STATE",
        "TIMEOUT-MS",
        "START-MS",
        "DURATION-MS",
        "PARTITIONS",
    ]
    print_rows(columns, [row], as_json=as_json)


@command.command("describe-producers")
@declared
def describe_producers(
    session: NodeSession,
    topic: str = option("The topic.", required=True),
    partition: int = option("Its partition.", required=True, min=0),
    broker_id: int | None = option("Ask this broker's replica (default: the leader).", min=0),
    as_json: bool = JSON,
) -> None:
    """Show who has written to a partition, and whose transaction is open there."""
    where = TopicPartition(topic, partition)
    found = session.run(lambda admin: admin.transactions.producers([where], broker_id))
    print_rows(PRODUCERS, [_row(it) for it in found[where]], as_json=as_json, empty="no producers")


def _row(it: ProducerDescription) -> tuple[int | None, ...]:
    start = it.transaction_start_offset
    return (
        it.producer_id,
        it.epoch,
        it.coordinator_epoch,
        it.last_sequence,
        it.last_timestamp_ms,
        start if start >= 0 else None,
    )


class Marked(Value):
    """Which transaction is to be aborted: by where it begins, or as brokers before 3.0 want it."""

    topic: str = option("The topic.", required=True)
    partition: int = option("Its partition.", required=True, min=0)
    start_offset: int | None = option("Where the transaction begins, as describe-producers shows it.", min=0)
    producer_id: int | None = option("The producer, instead of --start-offset.", min=0)
    producer_epoch: int | None = option("Its epoch.", min=0)
    coordinator_epoch: int | None = option("The epoch of the coordinator that it had.")

    def check(self) -> None:
        given = {it is not None for it in (self.producer_id, self.producer_epoch, self.coordinator_epoch)}
        if given != {self.start_offset is None}:
            raise click.UsageError(
                "give --start-offset, or --producer-id with --producer-epoch and --coordinator-epoch"
            )


@command.command("abort")
@declared
def abort(session: NodeSession, marked: Marked) -> None:
    """Abort a hanging transaction on one partition: find-hanging shows which are."""
    marked.check()
    where = TopicPartition(marked.topic, marked.partition)

    async def work(admin: Admin) -> None:
        producer = marked.producer_id, marked.producer_epoch, marked.coordinator_epoch
        if marked.start_offset is not None:
            found = (await admin.transactions.producers([where]))[where]
            there = [it for it in found if it.transaction_start_offset == marked.start_offset]
            if not there:
                raise click.ClickException(f"no open transaction begins at offset {marked.start_offset} of {where}")
            producer = there[0].producer_id, there[0].epoch, there[0].coordinator_epoch
        producer_id, epoch, coordinator_epoch = producer
        assert producer_id is not None
        assert epoch is not None
        assert coordinator_epoch is not None
        await admin.transactions.abort(where, producer_id, epoch, coordinator_epoch)
        say(f"aborted the transaction of producer {producer_id} on {where}")

    session.run(work)


class Scope(Value):
    broker_id: int | None = option("Look at the replicas of this broker.", min=0)
    max_transaction_timeout: int = option(
        "Transactions hang whose last record is older.", metavar="MINUTES", default=15, show_default=True, min=0
    )
    topic: str | None = option("Look at this topic.")
    partition: int | None = option("Look at this partition of --topic.", min=0)

    def check(self) -> None:
        if self.topic is None and self.broker_id is None:
            raise click.UsageError("give --topic or --broker-id: what is to be looked at")
        if self.partition is not None and self.topic is None:
            raise click.UsageError("--partition needs --topic")

    async def partitions(self, admin: Admin) -> list[TopicPartition]:
        if self.topic is not None and self.partition is not None:
            return [TopicPartition(self.topic, self.partition)]
        if self.topic is not None:
            await admin.cluster.topic(self.topic)
        topics = (await admin.cluster.refresh(None if self.topic is None else [self.topic])).topics
        return [
            TopicPartition(name, number)
            for name, known in topics.items()
            for number, row in known.partitions.items()
            if self.broker_id is None or self.broker_id in row.replicas
        ]


@command.command("find-hanging")
@declared
def find_hanging(session: NodeSession, scope: Scope, as_json: bool = JSON) -> None:
    """Find transactions that no coordinator will end: readers of committed records wait for them for ever."""
    scope.check()

    async def work(admin: Admin) -> list[tuple[object, ...]]:
        open_for_ms = scope.max_transaction_timeout * MINUTE_MS
        found = await admin.transactions.hanging(await scope.partitions(admin), open_for_ms, scope.broker_id)
        now_ms = wall_clock_ms()
        return [
            (
                *partition,
                it.producer_id,
                it.epoch,
                it.coordinator_epoch,
                it.transaction_start_offset,
                it.last_timestamp_ms,
                (now_ms - it.last_timestamp_ms) // MINUTE_MS,
            )
            for partition, producers in sorted(found.items())
            for it in producers
        ]

    columns = [
        "TOPIC",
        "PARTITION",
        "PRODUCER-ID",
        "EPOCH",
        "COORDINATOR-EPOCH",
        "START-OFFSET",
        "LAST-TIMESTAMP",
        "DURATION-MIN",
    ]
    print_rows(columns, session.run(work), as_json=as_json, empty="no transaction hangs")  # type: ignore[arg-type]


@command.command("forceTerminateTransaction")
@declared
def force_terminate(
    session: NodeSession, transactional_id: str = option("The id.", "--transactionalId", required=True)
) -> None:
    """Abort the transaction that a transactional id has open, and fence its producer."""
    session.run(lambda admin: admin.transactions.terminate(transactional_id))
    say(f"{transactional_id}: its producer is fenced, and has no open transaction")
