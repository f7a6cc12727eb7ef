"""`penstock storage-groups recover`: what is said before a replica goes on alone, and in which order that is done."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner, Result

from penstock.cli.replicas import recover_storage_group as module
from penstock.log.directories.errors import LogDirectoryError

LAST = (4, 70)


class Played:
    """The replica of node 7, and its directories; `reasons` are why it may not go on."""

    def __init__(self) -> None:
        self.done: list[Any] = []
        self.reasons: list[str] = []
        self.last: tuple[int, int] | None = LAST
        self.roots = SimpleNamespace(clean_broker_epoch=9)
        self.quorum = SimpleNamespace(ids=(5, 7, 8))

    def remains(self, directories: object, node_id: int, group: int) -> "Played":
        assert directories is self
        self.done.append((node_id, group))
        return self

    def report(self) -> Any:
        return SimpleNamespace(node_id=7, last=self.last, partitions={"t-0": 1, "t-1": 2}, as_json=lambda: {"a": 1})

    def why_not(self, reports: list[object], gone: list[int]) -> list[str]:
        self.done.append((reports, [*gone]))
        return self.reasons

    def begin(self) -> None:
        self.done.append("begin")

    def go_on_alone(self, now_ms: int) -> None:
        self.done.append("go on")
        assert now_ms > 1_500_000_000_000

    def close(self, *, broker_epoch: int) -> None:
        self.done.append(("close", broker_epoch))


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> Played:
    found = Played()

    @contextmanager
    def opened(config: Any) -> Iterator[Played]:
        if config.node_id == 8:
            raise LogDirectoryError("/d", "it is in use")
        yield found

    monkeypatch.setattr(module, "_opened", opened)
    monkeypatch.setattr(module, "Remains", found.remains)
    return found


def run(path: Path, *words: str, typed: str | None = None, node: int = 7) -> Result:
    file = path / "server.properties"
    file.write_text(
        f"node.id={node}\nprocess.roles=broker\nlog.dirs={path}/d\ncontroller.listener.names=CONTROLLER\n"
        "listeners=PLAINTEXT://127.0.0.1:0\ncontroller.quorum.voters=1@127.0.0.1:1\n"
    )
    given = ["--config", str(file), "--group", "3", *(word.replace("PATH", str(path)) for word in words)]
    return CliRunner().invoke(module.recover, given, input=typed)


MEANS = [
    "Storage group 3 goes on from node 7, whose log of it ends at 70 in epoch 4.",
    "What the voters [5, 8] acknowledged without node 7, and no log of a partition has, is lost.",
    "None of them may ever start again with an earlier copy of the group's log: it would vote as before.",
]
GOES_ON = ["begin", "go on", ("close", 9)]


@pytest.mark.parametrize(("last", "log"), [(LAST, "has its log"), (None, "does not have its log")])
def test_a_report(last: tuple[int, int] | None, log: str, played: Played, tmp_path: Path) -> None:
    played.last = last
    done = run(tmp_path, "--report", "PATH/r")
    assert done.exit_code == 0, done.output
    assert done.output == f"node 7 {log}, and 2 logs of partitions: written to {tmp_path}/r\n"
    assert json.loads((tmp_path / "r").read_text()) == {"a": 1}
    assert played.done == [(7, 3)]


def test_a_replica_goes_on_when_somebody_has_said_yes(played: Played, tmp_path: Path) -> None:
    done = run(tmp_path, "--gone", "5,8", typed="y\n")
    assert done.exit_code == 0, done.output
    assert done.output.splitlines() == [
        *MEANS,
        "Go on from this replica? [y/N]: y",
        "node 7 votes alone in storage group 3: start all of its nodes",
    ]
    assert played.done == [(7, 3), ([], [5, 8]), *GOES_ON]
    played.done.clear()
    assert run(tmp_path, "--gone", "5", typed="n\n").exit_code == 1
    assert played.done == [(7, 3), ([], [5])]
    played.done.clear()
    done = run(tmp_path, "--yes")
    assert done.output.splitlines() == [*MEANS, "node 7 votes alone in storage group 3: start all of its nodes"]
    assert played.done == [(7, 3), ([], []), *GOES_ON]


def test_why_it_may_not(played: Played, tmp_path: Path) -> None:
    played.reasons = ["one", "another"]
    done = run(tmp_path, "--yes")
    assert done.exit_code == 1
    assert " ".join(done.output.split()) == "Error: nothing was changed: - one - another"
    assert played.done == [(7, 3), ([], [])]
    done = run(tmp_path, node=8)
    assert (done.exit_code, done.output) == (1, "Error: it is in use\n")
