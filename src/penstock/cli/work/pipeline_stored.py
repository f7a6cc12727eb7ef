"""`penstock pipeline state | repartition | reset`: what a pipeline's checkpoints hold, where this machine sees them."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from penstock.cli.terminal.failures import in_words
from penstock.cli.terminal.lines import say
from penstock.cli.terminal.options import JSON, argument, declared, option
from penstock.cli.terminal.output import Value as Cell
from penstock.cli.terminal.output import print_rows
from penstock.cli.terminal.times import parse_datetime_ms
from penstock.cli.work.pipeline_values import SET, pairs
from penstock.pipeline.errors import PipelineError
from penstock.pipeline.session import cache_directory, spark_session
from penstock.pipeline.spec.files import load_spec, session_spec

if TYPE_CHECKING:
    from penstock.pipeline.running.stored import StoredQuery
    from penstock.pipeline.spec.pipeline import PipelineSpec

CHECKPOINT: Any = option("where the pipeline remembers how far it came, instead of what the file says")
SINKS: Any = option("only this sink; may be repeated", "--sink", metavar="NAME")
WORDS = ("earliest", "latest", "committed")


@click.command(short_help="the state that a pipeline's queries remember")
@declared
def state(
    file: Path = argument(),
    checkpoint: str | None = CHECKPOINT,
    sinks: tuple[str, ...] = SINKS,
    values: tuple[str, ...] = SET,
    as_json: bool = JSON,
) -> None:
    """The parts of the state of the pipeline in FILE: partitions and keys, as of the last batch. All of it is read."""
    with _stored(file, checkpoint, sinks, pairs("set", values)) as (_, queries):
        found = [store for query in queries for store in query.stores()]
    columns = ("sink", "operator", "store", "partitions", "keys")
    rows: list[list[Cell]] = [[one.sink, one.operator, one.name, one.partitions, one.keys] for one in found]
    print_rows(columns, rows, as_json=as_json, empty="there is no state")


@click.command(short_help="spread a pipeline's state over more or fewer partitions")
@declared
def repartition(
    file: Path = argument(),
    partitions: int = argument(type=click.IntRange(1)),
    checkpoint: str | None = CHECKPOINT,
    sinks: tuple[str, ...] = SINKS,
    values: tuple[str, ...] = SET,
) -> None:
    """Spread the state of the pipeline in FILE over so many partitions. Stop it first (penstock pipeline stop)."""
    with _stored(file, checkpoint, sinks, pairs("set", values)) as (_, queries):
        for query in queries:
            if query.has_state and query.partitions != partitions:
                query.repartition(partitions)
                say(f"sink {query.sink.name}: its state has {partitions} partitions")
            else:
                has = f"{partitions} partitions already" if query.has_state else "no state"
                say(f"sink {query.sink.name}: has {has}")


@click.command(short_help="let a pipeline go on from other offsets")
@declared
def reset(
    file: Path = argument(),
    to: str = option(
        "a time (2026-01-31T12:00:00, in UTC), earliest, latest, committed, or offsets as in startingOffsets",
        required=True,
    ),
    source: str | None = option("only this source", metavar="NAME"),
    checkpoint: str | None = CHECKPOINT,
    bootstrap_server: str | None = option("host:port of the cluster, instead of what the file says"),
    sinks: tuple[str, ...] = SINKS,
    values: tuple[str, ...] = SET,
) -> None:
    """Let the pipeline in FILE go on from other offsets of its topics. Stop it first (penstock pipeline stop).

    What lies before and was not read is left out, what lies behind and was read is read again: a topic and Parquet get
    its rows twice. A sink with state only goes forward.
    """
    if to in WORDS or to.startswith("{"):
        starting = {"startingOffsets": to}
    else:
        with in_words(ValueError):
            starting = {"startingTimestamp": str(parse_datetime_ms(to))}
    with _stored(file, checkpoint, sinks, pairs("set", values)) as (spec, queries):
        from penstock.pipeline.running.stored import positions_at

        moved = spec if bootstrap_server is None else spec.with_bootstrap_servers(bootstrap_server)
        positions = positions_at(moved, starting | {"startingOffsetsByTimestampStrategy": "latest"}, source)
        for query in queries:
            query.check_whole()
        for query in queries:
            query.move(positions)
            say(f"sink {query.sink.name}: goes on from {to}")


@contextmanager
def _stored(
    file: Path, checkpoint: str | None, sinks: tuple[str, ...], values: Mapping[str, str]
) -> "Iterator[tuple[PipelineSpec, list[StoredQuery]]]":
    with in_words(PipelineError):
        known = session_spec(file, values)
        log_file = cache_directory() / "logs" / "stored.log"
        session = spark_session(known.name, config=known.spark, log_file=log_file)
        from penstock.pipeline.running.run import in_a_sentence
        from penstock.pipeline.running.stored import stored_queries

        try:
            with in_a_sentence(file):
                spec = load_spec(file, values).only(sinks)
                spec = spec if checkpoint is None else spec.replace(checkpoint=checkpoint)
                yield spec, stored_queries(session, spec)
        finally:
            session.stop()


COMMANDS = (state, repartition, reset)
