"""How a command's work is run, and stopped."""

import asyncio
import json
import os
import signal
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from penstock.cli.main import main
from penstock.cli.terminal import session
from penstock.cli.terminal.session import TERMINATED, complain_of, explain, run
from penstock.client.errors import UNANSWERED, ClientError, ClusterUnreachableError
from penstock.client.values import TopicPartition
from penstock.protocol.errors import ErrorCode, KafkaError

GROUPS = (("features", "describe"), ("transactions", "list"), ("metadata-quorum", "describe", "--status"))
"""Those of Kafka's tools whose options of the client stand before the subcommand."""


def test_sigterm_lets_work_take_back_what_it_began() -> None:
    taken_back = []

    async def work() -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        try:
            await asyncio.Event().wait()
        finally:
            taken_back.append("all")

    with pytest.raises(click.exceptions.Exit) as ended:
        run(work())
    assert ended.value.exit_code == TERMINATED
    assert taken_back == ["all"]


@pytest.mark.parametrize("words", GROUPS, ids=lambda words: str(words[0]))
def test_the_clients_file_may_be_named_before_the_subcommand_as_for_kafkas_tools(
    words: tuple[str, ...], tmp_path: Path
) -> None:
    before, behind = (tmp_path / name for name in ("before", "behind"))
    for file, port in ((before, 1), (behind, 2)):
        file.write_text(f"bootstrap.servers=127.0.0.1:{port}\ndefault.api.timeout.ms=1\n")
    group, *subcommand = words
    first = [group, "--command-config", str(before), *subcommand]
    assert "127.0.0.1:1" in CliRunner().invoke(main, first).output
    assert "127.0.0.1:2" in CliRunner().invoke(main, [*first, "--command-config", str(behind)]).output


# -- where the cluster is ---------------------------------------------------------------------------------------------

FILE_AT, FILE_WITHOUT = "bootstrap.servers=f:1\n", "client.id=me\n"


@pytest.fixture
def gone_to(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, bool]]:
    """Addresses, and whether they are those of controllers."""
    found: list[tuple[str, bool]] = []

    def note(addresses: str, properties: object, work: object, *, of_controllers: bool = False, **_: object) -> None:
        found.append((addresses, of_controllers))
        raise click.exceptions.Exit(0)

    monkeypatch.setattr(session, "run_with_admin", note)
    return found


@pytest.mark.parametrize(
    ("words", "file", "where"),
    [
        ((), None, ("127.0.0.1:9092", False)),
        ((), FILE_AT, ("f:1", False)),
        ((), FILE_WITHOUT, ("127.0.0.1:9092", False)),
        (("--bootstrap-server", "a:1"), None, ("a:1", False)),
        (("--bootstrap-server", "a:1"), FILE_AT, ("a:1", False)),
        (("--bootstrap-server", "127.0.0.1:9092"), FILE_AT, ("127.0.0.1:9092", False)),
    ],
)
@pytest.mark.parametrize("command", [("groups", "--list"), ("transactions", "list")])
def test_where_brokers_are(
    command: tuple[str, ...],
    words: tuple[str, ...],
    file: str | None,
    where: tuple[str, bool],
    gone_to: list[tuple[str, bool]],
    tmp_path: Path,
) -> None:
    path = tmp_path / "properties"
    path.write_text(file or "")
    named = () if file is None else ("--command-config", str(path))
    CliRunner().invoke(main, [*command, *words, *named])
    assert gone_to == [where]


@pytest.mark.parametrize(
    ("before", "behind", "where"),
    [
        ((), ("--bootstrap-controller", "c:1"), ("c:1", True)),
        (("--bootstrap-server", "a:1"), (), ("a:1", False)),
        (("--bootstrap-controller", "c:1"), (), ("c:1", True)),
        (("--bootstrap-server", "a:1"), ("--bootstrap-server", "b:1"), ("b:1", False)),
        (("--bootstrap-controller", "c:1"), ("--bootstrap-server", "b:1"), ("b:1", False)),
        (("--bootstrap-server", "a:1"), ("--bootstrap-controller", "c:1"), ("c:1", True)),
    ],
)
def test_what_stands_behind_the_subcommand_counts(
    before: tuple[str, ...], behind: tuple[str, ...], where: tuple[str, bool], gone_to: list[tuple[str, bool]]
) -> None:
    CliRunner().invoke(main, ["features", *before, "describe", *behind])
    assert gone_to == [where]


@pytest.mark.parametrize(
    "words",
    [
        ("--bootstrap-server", "a:1", "--bootstrap-controller", "c:1"),
        ("--bootstrap-controller", "c:1", "--bootstrap-server", "a:1"),
    ],
)
def test_brokers_or_controllers(words: tuple[str, ...], gone_to: list[tuple[str, bool]]) -> None:
    result = CliRunner().invoke(main, ["configs", "--describe", "--broker", "1", *words])
    assert (result.exit_code, gone_to) == (2, [])
    assert result.stderr.endswith("Error: give one of --bootstrap-server and --bootstrap-controller\n")


def test_settings_that_would_hold() -> None:
    words = ["consume", "--show-config", "--json", "--group", "g", "--consumer-property", "fetch.min.bytes=7"]
    rows = {row["setting"]: row for row in json.loads(CliRunner().invoke(main, words).stdout)}
    assert list(rows) == sorted(rows)
    assert rows["group.id"] == {"setting": "group.id", "value": "g", "default": None}
    assert rows["fetch.min.bytes"] == {"setting": "fetch.min.bytes", "value": "7", "default": "1"}
    assert rows["client.id"]["value"] == "console-consumer"
    assert rows["group.instance.id"] == {"setting": "group.instance.id", "value": None, "default": None}


# -- how it fails -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (KafkaError(ErrorCode.NOT_CONTROLLER, "not me"), "not me (NOT_CONTROLLER)"),
        (KafkaError(ErrorCode.NOT_CONTROLLER), "the cluster refused (NOT_CONTROLLER)"),
        (ClientError("gone"), "gone"),
        (ClusterUnreachableError("a:1: other"), "a:1: other"),
        (
            ClusterUnreachableError(f"a:1: {UNANSWERED}"),
            f"a:1: {UNANSWERED}: is a node running there? start one with `penstock start`",
        ),
        (FileNotFoundError(2, "No such file", "f"), "f: No such file"),
        (OSError("odd"), "odd"),
        (ValueError("x"), "ValueError: x (a fault of this program: PENSTOCK_TRACEBACK=1 shows where)"),
    ],
)
def test_a_failure_in_words(error: Exception, text: str) -> None:
    assert explain(error) == text


def test_what_could_not_be_had_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    complain_of({})
    with pytest.raises(click.exceptions.Exit) as ended:
        complain_of({TopicPartition("t", n): ClientError(f"gone {n}") for n in (0, 1)})
    assert ended.value.exit_code == 1
    assert capsys.readouterr().err == "gone 0\ngone 1\n"


def test_a_failure_of_one_of_several_tasks_is_that_of_the_work() -> None:
    async def fail() -> None:
        raise ClientError("gone")

    async def work() -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(fail())

    with pytest.raises(click.ClickException, match="gone"):
        run(work())
