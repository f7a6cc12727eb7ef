"""`make demo-work`: the flights on three workers, of which one is killed in the middle; checked against plain pandas.

file --FileStreamSource--> topic flights --pipeline on Spark--> Parquet
                                                  └--> topic delays --SqlSink--> SQLite
"""

import asyncio
import shutil
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pandas as pd
import yaml

from examples.flights import steps
from examples.flights.data import closing_record, expected_delays, flight_records, load_flights, same
from examples.flights.report import Report
from examples.flights.workers import WaitError, Workers, started, wait_until
from penstock.client.consumer import Consumer
from penstock.pipeline.committed_files import committed_files
from penstock.testing import Cluster

DIRECTORY = Path("demo-work-data")
LINES, DATABASE, OUT = (DIRECTORY / name for name in ("flights.jsonl", "delays.sqlite", "delays.parquet"))
SOURCE, PIPELINE, SINK = "flights-from-a-file", "delays", "delays-to-sqlite"
IN_A_BATCH = 100_000


def connectors(address: str) -> dict[str, dict[str, str]]:
    """All that the workers are to run."""
    parts = yaml.safe_load(steps.PIPELINE.read_text())
    parts["source"] |= {"kafka.bootstrap.servers": address, "maxOffsetsPerTrigger": IN_A_BATCH}
    parts["sink"][1]["path"] = str(OUT.resolve())
    parts["trigger"] = "1 second"
    return {
        SOURCE: {
            "connector.class": "FileStreamSource",
            "file": str(LINES.resolve()),
            "topic": steps.FLIGHTS,
            "value.converter": "StringConverter",
        },
        PIPELINE: {
            "connector.class": "penstock.pipeline",
            "tasks.max": "2",
            "pipeline": yaml.safe_dump(parts),
            "checkpoint.root": str((DIRECTORY / "checkpoints").resolve()),
            "master": "local[2]",
        },
        SINK: {
            "connector.class": "penstock.SqlSink",
            "topics": steps.DELAYS,
            "connection.url": f"sqlite:///{DATABASE.resolve()}",
            "insert.mode": "upsert",
            "pk.mode": "record_value",
            "pk.fields": "id",
            "auto.create": "true",
        },
    }


def run(address: str, report: Report) -> bool:
    """All steps on a running node; whether both ways out and pandas agree."""
    flights = load_flights()
    records = [*flight_records(flights), closing_record(flights)]
    LINES.write_bytes(b"".join(record.value + b"\n" for record in records))
    report.say(f"{len(flights):,} flights (and a closing tick) lie in {LINES}")
    asyncio.run(steps.create_topics(address))
    with started(DIRECTORY, address) as workers:
        report.say(f"three workers run: {', '.join(workers.names)}")
        for name, config in connectors(address).items():
            workers.create(name, config)
        read_the_file(workers, address, len(records), report)
        kill_in_the_middle(workers, len(records), report)
        expected = expected_delays(flights)
        wait_for_rows("SQLite", count_in_sqlite, len(expected), report)
        wait_for_rows("Parquet", lambda: len(from_parquet()), len(expected), report)
        ways_out = {"SQLite": from_sqlite(), "Parquet": from_parquet()}
    agree = {name: same(rows, expected) for name, rows in ways_out.items()}
    report.worst_hours(ways_out["SQLite"])
    for name, rows in ways_out.items():
        report.verdict(name, agree[name], len(rows))
    return all(agree.values())


def read_the_file(workers: Workers, address: str, lines: int, report: Report) -> None:
    """Wait until the source has stored that it is at the end: a file source that is killed before repeats lines."""
    size = LINES.stat().st_size

    def at_end() -> bool | None:
        offsets = workers.client.ask("GET", "connectors", SOURCE, "offsets")["offsets"]
        return any(one["offset"].get("position") == size for one in offsets) or None

    wait_until(at_end, "end of the file")
    count = asyncio.run(count_records(address))
    report.say(f"the file source has written {count:,} records to the topic flights, of {lines:,} lines")


def kill_in_the_middle(workers: Workers, lines: int, report: Report) -> None:
    """Kill the worker whose query writes to Parquet, after its first batch."""

    def in_the_midst() -> int | None:
        for one in workers.reports(PIPELINE):
            rows: int = sum(
                query["input_rows"] or 0 for title, query in one["queries"].items() if title.endswith(OUT.name)
            )
            if rows:
                return rows
        return None

    with report.progress() as bars:
        bars.add_task("Spark starts and reads a first batch", total=None)
        rows = wait_until(in_the_midst, "batch of the pipeline")
    owners = wait_until(lambda: workers.owners(PIPELINE), "owner of the pipeline")
    where = owners[1]
    process = workers.kill(where)
    report.say(
        f"[bold]kill -9[/bold] of worker {where} (process {process}) when its query had read {rows:,} of {lines:,}"
    )
    owners = wait_until(lambda: workers.owners(PIPELINE), "worker that goes on")
    report.say(f"the query goes on on worker {owners[1]}, from its checkpoint")


def wait_for_rows(name: str, count: Callable[[], int], wanted: int, report: Report) -> None:
    """Wait until a way out has all rows."""
    with report.progress() as bars:
        bar = bars.add_task(f"rows in {name}", total=wanted)

        def all_there() -> bool | None:
            bars.update(bar, completed=count())
            return bars.finished or None

        wait_until(all_there, f"end of it in {name}")


def count_in_sqlite() -> int:
    """How many rows the sink has written."""
    try:
        with closing(sqlite3.connect(DATABASE)) as database:
            return int(database.execute(f"SELECT count(*) FROM {steps.DELAYS}").fetchone()[0])
    except sqlite3.OperationalError:  # there is no table yet, or it is being written
        return 0


def from_sqlite() -> pd.DataFrame:
    """What the sink has written."""
    with closing(sqlite3.connect(DATABASE)) as database:
        return pd.read_sql_query(f"SELECT * FROM {steps.DELAYS}", database)


def from_parquet() -> pd.DataFrame:
    """What the query has written for good."""
    files = committed_files(OUT)
    return pd.concat([pd.read_parquet(file) for file in files]) if files else pd.DataFrame()


async def count_records(address: str) -> int:
    """How many records the topic of the flights has."""
    async with Consumer(address) as consumer:
        ends = await consumer.end_offsets(await consumer.partitions_for(steps.FLIGHTS))
    return sum(ends.values())


def main() -> int:
    """Run the demo; the exit code says whether the results agree."""
    shutil.rmtree(DIRECTORY, ignore_errors=True)
    DIRECTORY.mkdir()
    report = Report()
    config = {"log.dirs": str(DIRECTORY / "data"), "group.initial.rebalance.delay.ms": "0"}
    try:
        with Cluster(process=True, config=config, directory=DIRECTORY) as cluster:
            report.say(f"a node runs on {cluster.bootstrap_servers}; what workers say is in {DIRECTORY}/workers.log")
            return 0 if run(cluster.bootstrap_servers, report) else 1
    except WaitError as error:
        report.say(f"[red]{error}[/red]")
        return 1


if __name__ == "__main__":
    sys.exit(main())
