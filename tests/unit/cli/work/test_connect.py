"""What `penstock connect` asks of a worker, and says of it; without workers."""

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from penstock.cli.main import main
from penstock.cli.work.connect_client import ConnectClient


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = []
    monkeypatch.setattr(ConnectClient, "ask", lambda _, *words, **more: found.append((*words, *more.values())))
    return found


def said(*words: object, exit_code: int = 0) -> str:
    result = CliRunner().invoke(main, ["connect", *map(str, words)])
    assert result.exit_code == exit_code, result.output
    return result.output


def test_a_connector_that_is_replaced_keeps_its_state(asked: list[tuple[Any, ...]], tmp_path: Path) -> None:
    file = tmp_path / "a.properties"
    file.write_text("name=a\nconnector.class=x\n")
    for state in ("--paused", "--stopped"):
        assert "--replace is about connectors that run already" in said("create", "--replace", state, file, exit_code=2)
    assert asked == []
    assert said("create", "--replace", file) == "connector a: configured\n"
    (verb, *path, _) = asked.pop()
    assert (verb, *path) == ("PUT", "connectors", "a", "config")
    assert said("create", "--stopped", file) == "connector a: created\n"
    assert asked.pop()[-1]["initial_state"] == "STOPPED"


def test_a_connector_or_a_task_is_started_again(asked: list[tuple[Any, ...]]) -> None:
    assert said("restart", "a") == "connector a: restarts\n"
    assert said("restart", "--task", 3, "a") == "task 3 of connector a: restarts\n"
    assert [one[:3] for one in asked] == [("POST", "connectors", "a")] * 2


def test_the_file_of_a_command_is_read_wherever_it_is_named(tmp_path: Path) -> None:
    file = tmp_path / "tls.properties"
    file.write_text("ssl.truststore.type=nothing\n")
    for words in (("--command-config", file, "list"), ("list", "--command-config", file)):
        assert f"{file}: " in said(*words, exit_code=1)
