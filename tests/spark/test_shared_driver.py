"""Pipelines side by side in one session of Spark, as the driver has them that tasks of a worker share."""

import json
import socket
import threading
import time
from contextlib import closing
from io import StringIO
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from tests.spark.topics import json_records, new_topic, write

from penstock.cli.work import pipeline_runs
from penstock.cli.work.pipeline import run
from penstock.cli.work.pipeline_place import Place
from penstock.pipeline.committed_files import committed_files
from penstock.pipeline.running.run import BesideOthers
from penstock.testing.quorum_view import wait_until

PATIENCE_S = 120
NUMBERS = """
source: {bootstrap.servers: SERVERS, subscribe: TOPIC, startingOffsets: earliest, json: "number INT"}
steps: {wanted: SELECT number FROM source WHERE number % 2 = REST}
sql: SELECT number FROM wanted
sink: {format: parquet, path: FOLDER/NAME}
checkpoint: FOLDER/checkpoints/NAME
"""
SLOW = """
SOURCE = {"bootstrap.servers": "SERVERS", "subscribe": "TOPIC", "startingOffsets": "earliest"}
SINK = {"name": "slow", "format": "noop"}
CHECKPOINT = "FOLDER/checkpoints/slow"

def pipeline(source):
    def live(batches):
        import time
        for batch in batches:
            while True:
                open("FOLDER/lives", "w").close()
                time.sleep(0.1)
            yield batch
    return source.select("offset").mapInArrow(live, "offset BIGINT")
"""
FAILS = NUMBERS.replace("SELECT number FROM wanted", "SELECT raise_error('seven') AS number FROM wanted")


class Driver:
    def __init__(self, session: SparkSession, folder: Path, servers: str) -> None:
        self.folder, self.servers = folder, servers
        self.topic = new_topic(servers, 1)
        self._out = StringIO()
        self._ours, theirs = socket.socketpair()
        self._serving = threading.Thread(target=pipeline_runs.serve, args=[session, theirs, self._run_in, self._out])
        self._serving.start()

    def _run_in(self, place: Place, arguments: list[str]) -> None:
        run.main(arguments, prog_name="run", standalone_mode=False, obj=place)

    def produce(self, *numbers: int) -> None:
        write(self.servers, self.topic, 0, json_records(*({"number": number} for number in numbers)))

    def say(self, **message: Any) -> None:
        self._ours.sendall(json.dumps(message).encode() + b"\n")

    def begin(self, number: int, text: str, *options: str) -> None:
        words = {"SERVERS": f'"{self.servers}"', "TOPIC": self.topic, "NAME": f"p{number}", "REST": str(number % 2)}
        for word, value in {**words, "FOLDER": str(self.folder)}.items():
            text = text.replace(word, value)
        self.say(begin=number, arguments=["-", "--json", "--name", f"p{number}", *options], given=text)

    def said(self, number: int) -> list[str]:
        """What it has printed of a run, and at the end how it ended."""
        lines = [json.loads(line) for line in self._out.getvalue().splitlines() if line.startswith('{"run"')]
        return [one.get("line", f"over: {one.get('over')}") for one in lines if one["run"] == number]

    def over(self, number: int) -> list[str]:
        """The same, when it has ended."""
        ended = lambda: "over: " in "".join(self.said(number)[-1:]) or None  # noqa: E731
        wait_until(ended, PATIENCE_S, f"an end of {self.said(number)}")
        return self.said(number)

    def numbers(self, number: int) -> list[int]:
        folder = self.folder / f"p{number}"
        files = committed_files(folder) if (folder / "_spark_metadata").is_dir() else []
        return sorted(
            one for file in files for one in pq.read_table(file, partitioning=None).column("number").to_pylist()
        )

    def until(self, number: int, numbers: list[int]) -> None:
        wait_until(lambda: self.numbers(number) == numbers or None, PATIENCE_S, f"{numbers} of {self.said(number)}")

    def close(self) -> None:
        self._ours.close()
        self._serving.join(PATIENCE_S)
        assert not self._serving.is_alive()


@pytest.mark.soak
def test_each_has_a_session_of_its_own_and_fails_and_ends_alone(
    spark: SparkSession, servers: str, tmp_path: Path
) -> None:
    with closing(Driver(spark, tmp_path, servers)) as driver:
        _two_beside_those_that_fail(driver, spark)
        _one_ends_alone(driver, spark)


def _two_beside_those_that_fail(driver: Driver, spark: SparkSession) -> None:
    driver.produce(0, 1, 2)
    driver.begin(1, NUMBERS, "--conf", "spark.sql.shuffle.partitions=1", "--keep-going")
    driver.begin(2, NUMBERS, "--keep-going")  # its step has the same name
    driver.until(1, [1])
    driver.until(2, [0, 2])
    assert spark.conf.get("spark.sql.shuffle.partitions") == "2", "what one of them says is not for the others"

    driver.begin(3, FAILS)
    *_, failed, how = driver.over(3)
    assert (json.loads(failed)["event"], "seven" in failed, how) == ("failed", True, "over: 1")
    driver.begin(4, NUMBERS, "--conf", "spark.driver.memory=2g")
    *_, failed, how = driver.over(4)
    assert "say pipeline.driver.spark.driver.memory in the worker's configuration" in failed
    driver.begin(5, NUMBERS + "sources: {}\n")
    assert "over: 1" in driver.over(5)


def test_a_session_that_ends_leaves_no_listener(spark: SparkSession) -> None:
    """Each would be told of all that the driver's queries do, and be kept with its session, until the driver ends."""
    listeners = spark.sparkContext._jsc.sc().listenerBus().listeners
    spark.streams.active  # noqa: B018 - its own one is there from now on
    before = listeners().size()
    place = pipeline_runs.SharedPlace(spark, "", BesideOthers("", threading.Semaphore(1)))
    for _ in range(3):
        with place.session("one", "local[2]", {}, None) as session:
            assert session.streams.active == []
            assert listeners().size() == before + 1
    assert listeners().size() == before


@pytest.mark.soak
def test_one_that_is_interrupted_is_over_when_its_tasks_are(spark: SparkSession, servers: str, tmp_path: Path) -> None:
    """Spark waits for none of them, and a Python goes on for some seconds."""
    lives = tmp_path / "lives"
    file = tmp_path / "slow.py"
    file.write_text(SLOW.replace("SERVERS", servers).replace("FOLDER", str(tmp_path)))
    with closing(Driver(spark, tmp_path, servers)) as driver:
        file.write_text(file.read_text().replace("TOPIC", driver.topic))
        driver.produce(0)
        driver.say(begin=1, arguments=[str(file), "--json"], given="")
        wait_until(lambda: lives.exists() or None, PATIENCE_S, f"a task of {driver.said(1)}")
        driver.say(interrupt=1)
        driver.over(1)
        ended_at_s = time.time()
        lives.unlink()
        wait_until(lambda: time.time() > ended_at_s + 5 or None, PATIENCE_S, "what it would do")
        assert not lives.exists()


def _one_ends_alone(driver: Driver, spark: SparkSession) -> None:
    driver.say(stop=1)
    *_, ended, how = driver.over(1)
    assert (json.loads(ended)["event"], json.loads(ended)["was_stopped"], how) == ("ended", True, "over: 0")
    driver.produce(3, 4)
    driver.until(2, [0, 2, 4])
    assert driver.numbers(1) == [1]

    driver.begin(1, NUMBERS)  # again, from its checkpoint
    driver.until(1, [1, 3])
    for number in (1, 2):
        driver.say(interrupt=number)
        driver.over(number)
    assert not any(one.name in ("p1: p1", "p2: p2") for one in spark.streams.active)
