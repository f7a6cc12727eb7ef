"""`make demo`: real flights through a node and a Spark pipeline, checked against plain pandas; 0 only if they agree."""

import argparse
import asyncio
import shutil
import sys
import time
from pathlib import Path

import pandas as pd

from examples.flights import steps
from examples.flights.data import closing_record, expected_delays, flight_records, load_flights, same
from examples.flights.kept_node import keep_running, what_next
from examples.flights.report import Report
from penstock.pipeline.errors import PipelineError
from penstock.pipeline.running.progress import BatchProgress
from penstock.testing import Cluster

DIRECTORY = Path("demo-data")
DATA = DIRECTORY / "data"


def run(address: str, report: Report) -> bool:
    """All steps on a running node; whether the pipeline and pandas agree."""
    flights = load_flights()
    asyncio.run(steps.create_topics(address))
    produced = produce(address, flights, report)
    run_spark(address, produced, report)
    delays = read(address, report)
    report.worst_hours(delays)
    expected = expected_delays(flights)
    ways_out = {"the topic delays": delays, "Parquet": pd.read_parquet(steps.parquet(DIRECTORY))}
    agree = {name: same(rows, expected) for name, rows in ways_out.items()}
    for name, rows in ways_out.items():
        report.verdict(name, agree[name], len(rows))
    return all(agree.values())


def produce(address: str, flights: pd.DataFrame, report: Report) -> int:
    """Produce all flights and the tick that closes the last hours; how many records that were."""
    records = [*flight_records(flights), closing_record(flights)]
    with report.progress() as bars:
        bar = bars.add_task("producing", total=len(records))
        begun = time.perf_counter()
        asyncio.run(steps.produce(address, records, lambda count: bars.advance(bar, count)))
        seconds = time.perf_counter() - begun
    rate = len(records) / seconds
    report.say(f"{len(flights):,} flights (and a closing tick) went into the topic flights: {rate:,.0f} records/s")
    return len(records)


def run_spark(address: str, produced: int, report: Report) -> None:
    """Run the pipeline until it has read all that was produced, once for each of its sinks."""
    spec = steps.pipeline_spec(address, DIRECTORY)
    report.say(f"starting Spark for the pipeline {steps.PIPELINE.name} (what Spark prints is in {DIRECTORY}/spark.log)")
    with report.progress() as bars:
        ways_out = {spec.query_name(sink): f"into {sink.name}" for sink in spec.sinks}
        tasks = {query: bars.add_task(way, total=produced) for query, way in ways_out.items()}

        def batch_ended(batch: BatchProgress) -> None:
            bars.advance(tasks[batch.query], batch.input_rows)

        begun = time.perf_counter()
        result = steps.run_spark(spec, DIRECTORY, batch_ended)
        seconds = time.perf_counter() - begun
    for query, rows in result.input_rows.items():
        report.say(f"Spark read {rows:,} records in {result.batches[query]} batches and wrote {ways_out[query]}")
    report.say(f"Spark took {seconds:.0f} s, with its own start and both queries at once")


def read(address: str, report: Report) -> pd.DataFrame:
    """Read what the pipeline has written, with a consumer group."""
    with report.progress() as bars:
        bar = bars.add_task("reading delays", total=None)
        begun = time.perf_counter()
        delays = asyncio.run(steps.read_delays(address, lambda count: bars.advance(bar, count)))
        seconds = time.perf_counter() - begun
    rate = len(delays) / seconds
    report.say(
        f"{len(delays):,} records came out of the topic delays, by the group {steps.GROUP}: {rate:,.0f} records/s"
    )
    return delays


def main() -> int:
    """Run the demo; the exit code says whether the results agree."""
    parser = argparse.ArgumentParser(prog="python -m examples.flights", description=__doc__)
    parser.add_argument("--keep", action="store_true", help="leave the node running at the end")
    keep = parser.parse_args().keep
    shutil.rmtree(DIRECTORY, ignore_errors=True)
    DIRECTORY.mkdir()
    report = Report()
    try:
        with Cluster(process=True, config={"log.dirs": str(DATA)}, directory=DIRECTORY) as cluster:
            report.say(f"a node runs on {cluster.bootstrap_servers}; its data is in {DATA}")
            agrees = run(cluster.bootstrap_servers, report)
    except PipelineError as error:
        report.say(f"[red]{error}[/red]")
        return 1
    if keep:
        pid = keep_running(DATA)
        why_not = f"The node did not start again: see {DIRECTORY}/node.log"
        report.console.print(what_next(pid) if pid else why_not, soft_wrap=True)
    return 0 if agrees else 1


if __name__ == "__main__":
    sys.exit(main())
