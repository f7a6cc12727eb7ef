"""Pipelines at a server of Spark Connect that others keep: its worker is killed, then the server, and no row is lost.

    python -m pytest -m soak -n 0 -s tests/cluster/test_pipelines_at_a_server.py

Times are printed; they are worth something on a calm machine only.
"""

import json
import os
import signal
import socket
import subprocess
import time
import urllib.error
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pyspark
import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer, Producer, TopicPartition
from pyspark.errors import PySparkException
from pyspark.sql.connect.session import SparkSession
from tests.cluster.connect_processes import BROKER, SECONDS, a_worker, ask, is_healthy, worker_file
from tests.cluster.started import environment

from penstock.cli.main import main
from penstock.pipeline.committed_files import committed_files
from penstock.pipeline.running.server_session import CLOSED, address_of
from penstock.pipeline.session import log_properties, prepare_environment
from penstock.testing import Cluster
from penstock.testing.quorum_view import wait_until

PATIENCE_S = 10 * SECONDS
CONNECT_SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
NUMBERS = """
name: numbers
source: {bootstrap.servers: SERVERS, subscribe: numbers, startingOffsets: earliest}
sql: SELECT CAST(CAST(value AS STRING) AS BIGINT) AS number FROM source
sink:
  - {name: files, format: parquet, path: FOLDER/files}
  - {name: once, bootstrap.servers: SERVERS, topic: once, penstock.sink.delivery: exactly-once}
  - {name: topic, bootstrap.servers: SERVERS, topic: topic}
trigger: 1 second
"""

TIMES = """
import rules
from pyspark.sql.functions import col, udf
from rules import FACTOR, by

SOURCE = {"bootstrap.servers": "SERVERS", "subscribe": "numbers", "startingOffsets": "earliest"}
SINK = {"format": "parquet", "path": "FOLDER"}
TRIGGER = "1 second"


@udf("bigint")
def times(value):
    assert rules.FACTOR == FACTOR
    return by(int(value))


def pipeline(source):
    return source.select(times(col("value")).alias("number"))
"""


RULES = """
FACTOR = HERE


def by(number):
    return FACTOR * number
"""


class Server:
    """Of Spark Connect, in a process of its own with the Spark that is installed here."""

    def __init__(self, folder: Path, port: int) -> None:
        self._log = folder / "server.log"
        self._port = port
        self.address = f"sc://127.0.0.1:{self._port}"
        logging = folder / "log4j2.properties"
        logging.write_text(log_properties())
        settings = {
            "spark.master": "local[2]",
            "spark.ui.enabled": "false",
            "spark.sql.shuffle.partitions": "1",
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": str(self._port),
            "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={logging.as_uri()}",
        }
        given = [part for key, value in settings.items() for part in ("--conf", f"{key}={value}")]
        submit = str(Path(str(pyspark.__file__)).parent / "bin" / "spark-submit")
        self._command = [submit, "--class", CONNECT_SERVER, *given, "spark-internal"]

    @contextmanager
    def running(self) -> Iterator["subprocess.Popen[bytes]"]:
        prepare_environment()
        with self._log.open("ab") as log:
            process = subprocess.Popen(self._command, env=environment(), stdout=log, stderr=log, start_new_session=True)
        try:
            wait_until(self._answers, PATIENCE_S, "a server of Spark Connect")
            yield process
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(SECONDS)

    def _answers(self) -> bool | None:
        try:
            socket.create_connection(("127.0.0.1", self._port), 1).close()
        except OSError:
            return None
        return True


class Numbers:
    def __init__(self, folder: Path, servers: str) -> None:
        self.folder, self.servers, self.url, self.rows = folder, servers, "", 0
        self._file = folder / "numbers.yaml"
        self._file.write_text(NUMBERS.replace("SERVERS", f'"{servers}"').replace("FOLDER", str(folder)))

    def produce(self, count: int = 50) -> None:
        producer = Producer({"bootstrap.servers": self.servers})
        for number in range(self.rows, self.rows + count):
            producer.produce("numbers", str(number).encode())
        assert producer.flush(SECONDS) == 0
        self.rows += count

    def submit(self, *options: str, file: Path | None = None) -> None:
        places = ["--checkpoint-root", str(self.folder / "checkpoints"), "--worker", self.url]

        def submitted() -> bool | None:
            result = CliRunner().invoke(main, ["pipeline", "submit", str(file or self._file), *places, *options])
            assert result.exit_code == 0 or "rebalance" in result.output, result.output
            return result.exit_code == 0 or None

        wait_until(submitted, SECONDS, "workers that agree who leads")

    def delete(self) -> bool | None:
        """None while workers do not agree who leads."""
        try:
            ask("DELETE", f"{self.url}/connectors/numbers")
        except urllib.error.HTTPError:
            return None
        return True

    def told(self, *command: str) -> str:
        result = CliRunner().invoke(main, ["pipeline", *command, "numbers", "--worker", self.url])
        assert result.exit_code == 0, result.output
        return result.output

    def report(self) -> dict[str, Any]:
        try:
            return dict(ask("GET", f"{self.url}/connectors/numbers/tasks/0/report")["report"])
        except urllib.error.HTTPError:
            return {}

    def open_sessions(self) -> list[Any]:
        """Of all sinks."""
        return list(ask("GET", f"{self.url}/connectors/numbers/offsets")["offsets"])

    def until_all_are_there(self, what: str) -> None:
        began_s, left = time.monotonic(), dict[str, int]()

        def are_there() -> bool | None:
            left.update({name: self.rows - len(set(self.numbers_in(name))) for name in ("files", "once", "topic")})
            return not any(left.values()) or None

        try:
            wait_until(are_there, PATIENCE_S, f"all rows in all outputs, {what}")
        except BaseException:
            print(left, self.report())
            raise
        print(f"{what}: all rows are in all outputs {time.monotonic() - began_s:.1f} s later", flush=True)

    def numbers_in(self, name: str) -> list[int]:
        if name != "files":
            return self._numbers_of(name)
        return numbers_in_files(self.folder / "files")

    def _numbers_of(self, topic: str) -> list[int]:
        consumer = Consumer({"bootstrap.servers": self.servers, "group.id": "reader", "enable.partition.eof": True})
        try:
            if topic not in consumer.list_topics(timeout=SECONDS).topics:
                return []
            consumer.assign([TopicPartition(topic, 0, 0)])
            found: list[int] = []
            while True:
                one = consumer.poll(SECONDS)
                assert one is not None
                if one.error() is not None:
                    return found
                found.append(json.loads(one.value() or b"")["number"])
        finally:
            consumer.close()


def numbers_in_files(folder: Path) -> list[int]:
    files = committed_files(folder) if (folder / "_spark_metadata").is_dir() else []
    return [one for file in files for one in pq.read_table(file, partitioning=None).column("number").to_pylist()]


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_a_pipeline_at_a_server_outlives_its_worker_and_the_server(
    tmp_path: Path, reserve_port: Callable[[], int]
) -> None:
    with Cluster(config=BROKER) as cluster, ExitStack() as stack:
        server, numbers = Server(tmp_path, reserve_port()), Numbers(tmp_path, cluster.bootstrap_servers)
        spark = stack.enter_context(server.running())
        config = worker_file(tmp_path, cluster.bootstrap_servers, 6_000)
        worker, numbers.url = stack.enter_context(a_worker(config))
        wait_until(partial(is_healthy, numbers.url), SECONDS, "a healthy worker")
        numbers.produce()
        numbers.submit("--driver", server.address)
        numbers.until_all_are_there("submitted")
        first = numbers.report()["driver"]
        assert first["server"] == server.address
        assert first["generation"] > 0
        assert f"its queries are at {server.address}" in numbers.told("status")

        os.kill(worker.pid, signal.SIGKILL)
        numbers.produce()
        worker, numbers.url = stack.enter_context(a_worker(config))
        numbers.until_all_are_there("kill -9 of the worker")
        second = wait_until(lambda: numbers.report().get("driver"), PATIENCE_S, "the task elsewhere")
        assert second["session"] != first["session"]
        assert second["generation"] > first["generation"]
        numbers.produce()
        numbers.until_all_are_there("with the next worker")

        os.killpg(spark.pid, signal.SIGKILL)
        numbers.produce()
        wait_until(lambda: numbers.report().get("driver") != second or None, PATIENCE_S, "a process that has failed")
        spark = stack.enter_context(server.running())
        numbers.until_all_are_there("kill -9 of the server, from its next start on")

        began_s = time.monotonic()
        numbers.told("stop")
        wait_until(lambda: numbers.open_sessions() == [] or None, PATIENCE_S, "sessions that are closed")
        print(f"stopped after {time.monotonic() - began_s:.1f} s")
        numbers.produce()
        numbers.told("resume")
        numbers.until_all_are_there("resumed")
        for name in ("files", "once"):
            found = Counter(numbers.numbers_in(name))
            assert set(found.values()) == {1}, f"each row is in {name} once"
        twice = len(numbers.numbers_in("topic")) - numbers.rows
        print(f"of {numbers.rows} rows {twice} are in the topic that is written at least once twice")

        last = wait_until(lambda: numbers.report().get("driver"), PATIENCE_S, "a session")["session"]
        os.kill(worker.pid, signal.SIGKILL)
        worker, numbers.url = stack.enter_context(a_worker(config))
        wait_until(numbers.delete, SECONDS, "a worker that leads")
        wait_until(lambda: is_closed(server.address, last) or None, PATIENCE_S, "the end of a deleted job's queries")


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_modules_of_a_job_go_to_the_server(tmp_path: Path, reserve_port: Callable[[], int]) -> None:
    """For functions that its workers run on rows of a topic; two jobs have different ones of one name."""
    with Cluster(config=BROKER) as cluster, ExitStack() as stack:
        server, numbers = Server(tmp_path, reserve_port()), Numbers(tmp_path, cluster.bootstrap_servers)
        stack.enter_context(server.running())
        _, numbers.url = stack.enter_context(a_worker(worker_file(tmp_path, cluster.bootstrap_servers, 6_000)))
        wait_until(partial(is_healthy, numbers.url), SECONDS, "a healthy worker")
        numbers.produce()
        for name, factor in (("twice", 2), ("thrice", 3)):
            (tmp_path / name / "rules").mkdir(parents=True)
            (tmp_path / name / "rules" / "__init__.py").write_text(RULES.replace("HERE", str(factor)))
            file = tmp_path / f"{name}.py"
            text = TIMES.replace("SERVERS", cluster.bootstrap_servers).replace("FOLDER", str(tmp_path / name / "out"))
            file.write_text(text)
            numbers.submit("--driver", server.address, "--module", str(tmp_path / name / "rules"), file=file)
        for name, factor in (("twice", 2), ("thrice", 3)):
            expected = {factor * number for number in range(numbers.rows)}
            folder = tmp_path / name / "out"
            wait_until(partial(_has_all, folder, expected), PATIENCE_S, f"all rows of {name}")


def _has_all(folder: Path, expected: set[int]) -> bool | None:
    return set(numbers_in_files(folder)) == expected or None


def is_closed(server: str, session: str) -> bool:
    """Whether the server refuses it; it asks in that session, as what is late does."""
    opened = SparkSession(address_of(server, session))
    try:
        opened.client.get_configs("spark.sql.session.timeZone")
    except PySparkException as error:
        return CLOSED in str(error)
    finally:
        opened.client.close()
    return False
