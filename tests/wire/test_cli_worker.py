"""`penstock worker` with files that cannot be right: one line that says what to mend."""

import errno
import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.wire.connect_workers import worker_config

from penstock.cli.main import main
from penstock.work.connect.api import SourceConnector


class NeverConnector(SourceConnector):
    def start(self, config: Mapping[str, str]) -> None:
        raise RuntimeError("it never starts")


def run(path: Path, config: dict[str, str], *arguments: str) -> str:
    path.write_text("".join(f"{key}={value}\n" for key, value in config.items()))
    result = CliRunner().invoke(main, ["worker", *arguments[:1], str(path), *arguments[1:]])
    assert result.exit_code == 1, result.output
    assert "a fault of this program" not in result.output
    return result.output


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"config.storage.replication.factor": "3"}, "set config., offset. and status.storage.replication.factor"),
        ({"listeners": "https://127.0.0.1:0"}, "ssl.keystore.location is missing"),
        ({"session.timeout.ms": "soon"}, "session.timeout.ms=soon is no int"),
    ],
)
def test_a_worker_that_cannot_start_says_why(
    bootstrap: str, topic: str, tmp_path: Path, changes: dict[str, str], reason: str
) -> None:
    config = worker_config(bootstrap, topic) | {"listeners": "http://127.0.0.1:0"} | changes
    assert reason in run(tmp_path / "worker.properties", config)


def test_a_port_that_is_taken_is_named_with_its_key(bootstrap: str, topic: str, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        listener = f"http://127.0.0.1:{taken.getsockname()[1]}"
        said = run(tmp_path / "worker.properties", worker_config(bootstrap, topic) | {"listeners": listener})
        why = f"cannot listen on {listener} ({os.strerror(errno.EADDRINUSE)})"
        assert said == f"Error: {why}: stop what uses the address, or set listeners\n"


def test_a_topic_that_would_forget_is_refused(bootstrap: str, topic: str, tmp_path: Path) -> None:
    create = ["topics", "--bootstrap-server", bootstrap, "--create", "--topic", f"{topic}-configs", "--partitions", "1"]
    assert CliRunner().invoke(main, create).exit_code == 0
    config = worker_config(bootstrap, topic) | {"listeners": "http://127.0.0.1:0"}
    assert "must be compact" in run(tmp_path / "worker.properties", config)


def test_a_connector_of_a_standalone_worker_that_is_wrong(bootstrap: str, tmp_path: Path) -> None:
    job = tmp_path / "job.properties"
    job.write_text("name=n\nconnector.class=FileStreamSource\n")
    config = {"bootstrap.servers": bootstrap, "offset.storage.file.filename": str(tmp_path / "offsets")}
    config |= {"listeners": "http://127.0.0.1:0"}
    assert "file is missing" in run(tmp_path / "worker.properties", config, "--standalone", str(job))
    job.write_text(f"name=n\nconnector.class={__name__}:NeverConnector\n")
    assert "it never starts" in run(tmp_path / "worker.properties", config, "--standalone", str(job))


def test_a_standalone_worker_is_asked_like_any_other(bootstrap: str, topic: str, tmp_path: Path) -> None:
    worker, job = tmp_path / "worker.properties", tmp_path / "job.properties"
    worker.write_text(
        f"bootstrap.servers={bootstrap}\noffset.storage.file.filename={tmp_path}/offsets\n"
        "listeners=http://127.0.0.1:0\noffset.flush.interval.ms=10\nvalue.converter=StringConverter\n"
    )
    (tmp_path / "lines").write_text("one\n")
    job.write_text(f"name=lines\nconnector.class=FileStreamSource\nfile={tmp_path}/lines\ntopic={topic}\n")
    command = [sys.executable, "-m", "penstock", "worker", "--standalone", str(worker)]

    def connect(url: str, *words: str) -> str:
        result = CliRunner().invoke(main, ["connect", "--worker", url, *words])
        assert result.exit_code == 0, result.output
        return result.output

    for life, given in enumerate(([], [str(job)])):
        with subprocess.Popen([*command, *given], stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout is not None
                url = process.stdout.readline().rpartition(" ")[2].strip()
                if not given:
                    assert connect(url, "list") == "there are no connectors\n"
                    connect(url, "create", str(job))
                said = {process.stdout.readline() for _ in range(2)}
                assert said == {"connector lines: running\n", "task lines-0: running\n"}
                while not (stored := json.loads(connect(url, "offsets", "lines", "--json"))["offsets"]):
                    pass
                assert stored == [{"partition": {"filename": f"{tmp_path}/lines"}, "offset": {"position": 4}}]
            finally:
                process.terminate()
        assert process.returncode == 0, f"life {life}"


def test_topics_that_a_worker_may_not_make_are_made_by_hand(bootstrap: str, topic: str, tmp_path: Path) -> None:
    config = worker_config(bootstrap, topic) | {"listeners": "http://127.0.0.1:0"}
    config["internal.topics.automatic.creation.enable"] = "false"
    file = tmp_path / "worker.properties"
    assert "is missing, and internal.topics.automatic.creation.enable=false" in run(file, config)
    for outcome in ("created", "it is there already"):
        result = CliRunner().invoke(main, ["worker", "--create-topics", str(file)])
        assert result.exit_code == 0, result.output
        assert result.output.splitlines() == [
            f"topic {topic}-{store}: {outcome}" for store in ("configs", "offsets", "statuses")
        ]
