"""`penstock connect`, against a worker over HTTP."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.wire.connect_workers import LIMIT_S, worker_config

from penstock.cli.main import main
from penstock.work.connect.distributed.worker import DistributedWorker
from penstock.work.connect.rest.running import RunningWorker


class Typing:
    """Commands typed at a terminal, in a thread, while the worker runs here."""

    def __init__(self, url: str) -> None:
        self.url = url

    async def __call__(self, *arguments: str, exit_code: int = 0) -> str:
        words = ["connect", arguments[0], "--worker", self.url, *arguments[1:]]
        result: Result = await asyncio.to_thread(CliRunner().invoke, main, words)
        assert result.exit_code == exit_code, result.output
        return result.output

    async def until(self, wanted: str, *arguments: str) -> str:
        async with asyncio.timeout(LIMIT_S):
            while wanted not in (said := await self(*arguments)):
                pass
        return said


@pytest.fixture
async def penstock(bootstrap: str, topic: str) -> AsyncIterator[Typing]:
    config = worker_config(bootstrap, topic) | {"listeners": "http://127.0.0.1:0"}
    async with RunningWorker(DistributedWorker, config) as running:
        assert running.worker is not None
        async with asyncio.timeout(LIMIT_S):
            while not running.worker.leading.leads:
                await asyncio.sleep(0.01)
        yield Typing(running.server.urls[0])


@pytest.fixture
def file(tmp_path: Path, topic: str) -> Path:
    (tmp_path / "lines").write_text("one\ntwo\n")
    path = tmp_path / "lines.properties"
    path.write_text(f"name=lines\nconnector.class=FileStreamSource\nfile={tmp_path / 'lines'}\ntopic={topic}\n")
    return path


async def test_a_connector_from_its_creation_to_its_end(penstock: Typing, file: Path, tmp_path: Path) -> None:
    assert "there are no connectors" in await penstock("list")
    assert await penstock("validate", str(file)) == f"{file} is good\n"
    assert await penstock("create", str(file)) == "connector lines: created\n"
    assert "exists already" in await penstock("create", str(file), exit_code=1)
    assert await penstock("create", "--replace", str(file)) == "connector lines: configured\n"
    await penstock.until("task 0     RUNNING", "status", "lines")
    (row,) = json.loads(await penstock("list", "--json"))
    names = {"connector": "lines", "type": "source", "class": "FileStreamSource"}
    assert row == names | {"state": "RUNNING", "tasks": 1, "running": 1, "failed": 0}
    assert json.loads(await penstock("status", "lines", "--json"))["name"] == "lines"
    assert "task.class" in await penstock("tasks", "lines")
    await penstock.until('{"position": 8}', "offsets", "lines")
    assert "PUT /connectors/lines/stop first" in await penstock("offsets", "lines", "--reset", exit_code=1)
    assert await penstock("pause", "lines") == "connector lines: pauses\n"
    await penstock.until("PAUSED", "status", "lines")
    assert await penstock("resume", "lines") == "connector lines: is to run\n"
    await penstock.until("task 0     RUNNING", "status", "lines")
    assert await penstock("restart", "lines", "--include-tasks") == "connector lines: restarts\n"
    assert await penstock("restart", "lines", "--task", "0") == "task 0 of connector lines: restarts\n"
    assert await penstock("stop", "lines") == "connector lines: stops\n"
    await penstock.until("STOPPED", "status", "lines")
    where = json.loads(await penstock("offsets", "lines", "--json"))
    where["offsets"][0]["offset"] = {"position": 4}
    (tmp_path / "where.json").write_text(json.dumps(where))
    assert "altered" in await penstock("offsets", "lines", "--alter", str(tmp_path / "where.json"))
    assert '{"position": 4}' in await penstock("offsets", "lines")
    assert "reset" in await penstock("offsets", "lines", "--reset")
    assert "nothing is stored" in await penstock("offsets", "lines")
    assert await penstock("delete", "lines") == "connector lines: deleted\n"
    assert "not found" in await penstock("pause", "lines", exit_code=1)


async def test_a_connector_that_is_not_there_is_called_so(penstock: Typing, file: Path) -> None:
    for command in ("status", "tasks", "stop"):
        assert await penstock(command, "nope", exit_code=1) == "Error: connector nope not found\n"
    await penstock("create", str(file))
    assert "`penstock connect stop lines`" in await penstock("offsets", "lines", "--reset", exit_code=1)


async def test_it_may_be_created_stopped(penstock: Typing, file: Path) -> None:
    await penstock("create", "--stopped", str(file))
    await penstock.until("STOPPED", "status", "lines")
    assert "has no tasks" in await penstock("tasks", "lines")


async def test_what_is_wrong_with_a_file(penstock: Typing, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.json"
    wrong.write_text(json.dumps({"name": "n", "config": {"connector.class": "FileStreamSource", "tasks.max": "many"}}))
    said = await penstock("validate", str(wrong), exit_code=1)
    assert "file is missing" in said
    assert "tasks.max=many is no int" in said
    assert json.loads(await penstock("validate", "--json", str(wrong), exit_code=1))["error_count"] == 3
    refused = await penstock("create", str(wrong), exit_code=1)
    assert refused.startswith("Error: the configuration cannot be right:\n  file is missing")


async def test_a_task_that_failed_is_seen_in_the_list(penstock: Typing, topic: str, tmp_path: Path) -> None:
    failing = tmp_path / "failing.properties"
    failing.write_text(f"name=failing\nconnector.class=FileStreamSource\nfile={tmp_path}\ntopic={topic}\n")
    await penstock("create", str(failing))
    await penstock.until('"failed": 1', "list", "--json")


async def test_a_key_that_is_misspelt_is_named_with_the_one_that_was_meant(penstock: Typing, file: Path) -> None:
    file.write_text(file.read_text() + "task.max=2\ntransforms.cut.type=x\n")
    said = await penstock("validate", str(file))
    assert said.splitlines()[1].split("  ")[-1] == "an unknown key; did you mean tasks.max?"
    assert len(said.splitlines()) == 2


async def test_what_is_no_pipeline_is_not_stopped_as_one(penstock: Typing, file: Path) -> None:
    await penstock("create", str(file))
    for command in ("stop", "delete"):
        words = ["pipeline", command, "lines", "--worker", penstock.url]
        result = await asyncio.to_thread(CliRunner().invoke, main, words)
        assert (result.exit_code, result.output) == (
            1,
            f"Error: lines is no pipeline but a connector (FileStreamSource): penstock connect {command} lines\n",
        )
    await penstock.until("task 0     RUNNING", "status", "lines")


async def test_plugins_and_their_keys(penstock: Typing) -> None:
    assert "FileStreamSinkConnector" in await penstock("plugins")
    assert "transforms.RegexRouter" in await penstock("plugins", "--all")
    assert "batch.size" in await penstock("plugins", "FileStreamSource")
    assert json.loads(await penstock("plugins", "FileStreamSource", "--json"))[0]["key"] == "file"


def test_nobody_is_there(file: Path) -> None:
    result = CliRunner().invoke(main, ["connect", "--worker", "127.0.0.1:1", "list"])
    assert result.exit_code == 1
    assert "no worker at http://127.0.0.1:1" in result.output


@pytest.mark.parametrize(
    "arguments",
    [
        ["offsets", "n", "--reset", "--alter", "{file}"],
        ["restart", "n", "--task", "0", "--only-failed"],
        ["create", "--paused", "--replace", "{file}"],
        ["create"],
    ],
)
def test_what_contradicts_itself_is_refused(arguments: list[str], file: Path) -> None:
    result = CliRunner().invoke(main, ["connect", *(word.format(file=file) for word in arguments)])
    assert result.exit_code == 2
