"""`penstock worker` with files that cannot be right: one line that says what to mend."""

from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.wire.connect_workers import worker_config

from penstock.cli.main import main


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


def test_a_topic_that_would_forget_is_refused(bootstrap: str, topic: str, tmp_path: Path) -> None:
    create = ["topics", "--bootstrap-server", bootstrap, "--create", "--topic", f"{topic}-configs", "--partitions", "1"]
    assert CliRunner().invoke(main, create).exit_code == 0
    config = worker_config(bootstrap, topic) | {"listeners": "http://127.0.0.1:0"}
    assert "must be compact" in run(tmp_path / "worker.properties", config)


def test_a_connector_of_a_standalone_worker_that_is_wrong(bootstrap: str, tmp_path: Path) -> None:
    job = tmp_path / "job.properties"
    job.write_text("name=n\nconnector.class=FileStreamSource\n")
    config = {"bootstrap.servers": bootstrap, "offset.storage.file.filename": str(tmp_path / "offsets")}
    assert "file is missing" in run(tmp_path / "worker.properties", config, "--standalone", str(job))
