"""What `penstock controller` says of a change of hands, and what `metadata-quorum` asks and says."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from penstock.cli.cluster import metadata_quorum
from penstock.cli.cluster.controller import check_successor, hand_over
from penstock.cli.main import main
from penstock.cli.terminal import session
from penstock.client.admin.quorum import NO_SUCCESSOR

BEFORE: Any = SimpleNamespace(leader_id=1, leader_epoch=5, voters=[SimpleNamespace(node_id=node) for node in (3, 1, 2)])


class Quorum:
    """The next leader is `next_id`."""

    def __init__(self, next_id: int = 2) -> None:
        self.asked: list[Any] = []
        self._next = SimpleNamespace(leader_id=next_id, leader_epoch=6, voters=BEFORE.voters)

    async def describe(self) -> Any:
        return BEFORE

    async def resign(self, before: object, successor_id: int) -> Any:
        assert before is BEFORE
        self.asked.append(successor_id)
        return self._next

    async def add_voter(self, *given: object) -> None:
        self.asked.append(given)


@pytest.fixture
def quorum(monkeypatch: pytest.MonkeyPatch) -> Quorum:
    found = Quorum()
    admin: Any = SimpleNamespace(quorum=found, cluster=SimpleNamespace(metadata=SimpleNamespace(cluster_id=None)))

    def run(addresses: object, config: object, work: Any, **_: object) -> Any:
        try:
            work(admin).send(None)
        except StopIteration as end:
            return end.value

    monkeypatch.setattr(session, "run_with_admin", run)
    return found


def run(*words: str) -> Result:
    return CliRunner().invoke(main, ["controller", *words])


@pytest.mark.parametrize(
    ("words", "asked", "lines", "document"),
    [
        ((), [], ["controller 1 is active in epoch 5"], {"controller_id": 1, "epoch": 5}),
        (
            ("--resign",),
            [NO_SUCCESSOR],
            ["controller 1 resigned from epoch 5", "controller 2 is active in epoch 6"],
            {"controller_id": 2, "epoch": 6, "before": {"controller_id": 1, "epoch": 5}},
        ),
        (
            ("--transfer", "--to", "2"),
            [2],
            ["controller 1 resigned from epoch 5", "controller 2 is active in epoch 6"],
            {"controller_id": 2, "epoch": 6, "before": {"controller_id": 1, "epoch": 5}},
        ),
        (("--transfer", "--to", "1"), [], ["controller 1 is active in epoch 5"], {"controller_id": 1, "epoch": 5}),
    ],
)
def test_who_is_active(
    words: tuple[str, ...], asked: list[int], lines: list[str], document: dict[str, Any], quorum: Quorum
) -> None:
    done = run(*words)
    assert (done.exit_code, done.output.splitlines(), quorum.asked) == (0, lines, asked)
    assert json.loads(run(*words, "--json").output) == document


def test_who_is_not_elected_is_told(quorum: Quorum) -> None:
    done = run("--transfer", "--to", "3")
    assert (done.exit_code, quorum.asked) == (1, [3])
    assert done.output.splitlines()[:2] == ["controller 1 resigned from epoch 5", "controller 2 is active in epoch 6"]
    assert "Error: the voters elected 2, not 3: see with `penstock metadata-quorum describe" in done.output
    done = run("--transfer", "--to", "4")
    assert (done.exit_code, done.output) == (1, "Error: controller 4 cannot take over: the voters are 1, 2, 3\n")


@pytest.mark.parametrize(
    "words", [("--resign", "--transfer"), ("--transfer",), ("--to", "2"), ("--resign", "--to", "2")]
)
def test_what_does_not_go_together(words: tuple[str, ...], quorum: Quorum) -> None:
    assert (run(*words).exit_code, quorum.asked) == (2, [])


async def test_a_wish_is_for_a_voter() -> None:
    one = Quorum()
    admin: Any = SimpleNamespace(quorum=one)
    assert (await hand_over(admin, 3))[1].leader_id == 2
    assert (await hand_over(admin, None))[1].leader_id == 2
    assert await hand_over(admin, 1) == (BEFORE, BEFORE)
    with pytest.raises(click.ClickException, match="controller 0 cannot take over"):
        await hand_over(admin, 0)
    assert one.asked == [3, NO_SUCCESSOR]


@pytest.mark.parametrize(("successor_id", "is_refused"), [(None, False), (1, False), (0, True), (2, True)])
def test_who_was_wanted_is_compared(successor_id: int | None, is_refused: bool) -> None:
    if is_refused:
        with pytest.raises(click.ClickException, match=f"the voters elected 1, not {successor_id}"):
            check_successor(BEFORE, successor_id)
    else:
        check_successor(BEFORE, successor_id)


# -- metadata-quorum ---------------------------------------------------------------------------------------------------


def test_a_cluster_without_an_id_has_an_empty_one(quorum: Quorum, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[object] = []

    def lines(cluster_id: str, info: object) -> list[str]:
        told.append((cluster_id, info))
        return ["a line"]

    monkeypatch.setattr(metadata_quorum, "status_lines", lines)
    monkeypatch.setattr(metadata_quorum, "quorum_as_json", lambda cluster_id, info: {"id": cluster_id})
    done = CliRunner().invoke(main, ["metadata-quorum", "describe", "--status"])
    assert (done.exit_code, done.output, told) == (0, "a line\n", [("", BEFORE)])
    done = CliRunner().invoke(main, ["metadata-quorum", "describe", "--status", "--json"])
    assert json.loads(done.output) == {"id": ""}


@pytest.mark.parametrize("is_dry", [True, False])
def test_a_controller_is_added_as_its_file_says(is_dry: bool, quorum: Quorum, tmp_path: Path) -> None:
    file = tmp_path / "controller.properties"
    file.write_text(
        f"process.roles=controller\nnode.id=4\nlog.dirs={tmp_path / 'log'}\ncontroller.listener.names=CONTROLLER\n"
        "listeners=CONTROLLER://127.0.0.1:9093\ncontroller.quorum.bootstrap.servers=127.0.0.1:9093\n"
    )
    formatted = ["storage", "format", "-t", "AAAAAAAAAAAAAAAAAAAAAQ", "-c", str(file), "--no-initial-controllers"]
    assert CliRunner().invoke(main, formatted).exit_code == 0
    dry = ["--dry-run"] if is_dry else []
    done = CliRunner().invoke(main, ["metadata-quorum", "add-controller", "--config", str(file), *dry])
    assert done.exit_code == 0, done.output
    assert done.output.startswith(f"{'DRY RUN of adding' if is_dry else 'Added'} controller 4 with directory id ")
    assert [given[0] for given in quorum.asked] == ([] if is_dry else [4])
    if not is_dry:
        ((_, directory_id, endpoints),) = quorum.asked
        assert [str(one) for one in endpoints] == ["CONTROLLER://127.0.0.1:9093"]
        assert directory_id.int
    assert CliRunner().invoke(main, ["metadata-quorum", "add-controller", *dry]).exit_code == 2
