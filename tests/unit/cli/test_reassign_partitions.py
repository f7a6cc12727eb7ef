"""Moves of replicas as `penstock reassign-partitions` begins them, shows them, and calls them back."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner, Result

from penstock.cli import reassign_partitions
from penstock.client.partition_admin import Outcome, Reassignment
from penstock.client.values import TopicPartition
from penstock.protocol.errors import ErrorCode

T0 = TopicPartition("t", 0)
MOVING = {T0: Reassignment((1, 2, 3), (3,), (1,)), TopicPartition("t", 1): Reassignment((2, 1), (), ())}


class FakePartitions:
    """What the controller has on the move; it does as it is told, or gives the outcome that the test sets."""

    def __init__(self) -> None:
        self.moving: dict[TopicPartition, Reassignment] = {}
        self.outcome = Outcome(ErrorCode.NONE)
        self.asked: list[Mapping[TopicPartition, Sequence[int] | None]] = []

    async def reassignments(self) -> dict[TopicPartition, Reassignment]:
        return self.moving

    async def reassign(
        self, targets: Mapping[TopicPartition, Sequence[int] | None], *, change_replication_factor: bool = True
    ) -> dict[TopicPartition, Outcome]:
        self.asked.append(targets)
        return dict.fromkeys(targets, self.outcome)


@pytest.fixture
def partitions(monkeypatch: pytest.MonkeyPatch) -> FakePartitions:
    fake = FakePartitions()

    async def describe(names: Sequence[str]) -> list[Any]:
        rows = {number: SimpleNamespace(topic_partition=TopicPartition("t", number), replicas=[1]) for number in (0, 1)}
        return [SimpleNamespace(partitions=rows)]

    brokers = dict.fromkeys((1, 2, 3))
    admin = SimpleNamespace(
        partitions=fake,
        topics=SimpleNamespace(describe=describe),
        cluster=SimpleNamespace(metadata=SimpleNamespace(brokers=brokers)),
    )

    def run(reach: object, config: object, work: Any) -> None:
        with pytest.raises(StopIteration):
            work(admin).send(None)

    monkeypatch.setattr(reassign_partitions, "run_with_admin", run)
    return fake


def penstock(directory: Path, *arguments: str) -> Result:
    file = directory / "moves.json"
    file.write_text('{"partitions": [{"topic": "t", "partition": 0, "replicas": [2, 3]}]}')
    with_file = () if "--list" in arguments else ("--reassignment-json-file", str(file))
    return CliRunner().invoke(reassign_partitions.command, [*arguments, *with_file])


def test_what_is_on_the_move_is_shown(partitions: FakePartitions, tmp_path: Path) -> None:
    partitions.moving = MOVING
    assert penstock(tmp_path, "--list").output.splitlines() == [
        "Current partition reassignments:",
        "t-0: replicas: 1,2,3. adding: 3. removing: 1.",
        "t-1: replicas: 2,1.",
    ]
    shown = penstock(tmp_path, "--verify").output.splitlines()
    assert shown == ["Status of partition reassignment:", "Reassignment of partition t-0 is still in progress."]


def test_moves_begin_and_the_way_back_is_printed_first(partitions: FakePartitions, tmp_path: Path) -> None:
    lines = penstock(tmp_path, "--execute").output.splitlines()
    assert lines[0] == "Current partition replica assignment"
    assert '"replicas":[1]' in lines[2]
    assert lines[-1] == "Successfully started partition reassignment for t-0"
    assert partitions.asked == [{T0: [2, 3]}]


def test_others_that_move_are_not_disturbed_unless_it_is_said(partitions: FakePartitions, tmp_path: Path) -> None:
    partitions.moving = MOVING
    penstock(tmp_path, "--execute", "--additional")
    assert partitions.asked == [{T0: [2, 3]}]


def test_a_move_is_called_back(partitions: FakePartitions, tmp_path: Path) -> None:
    partitions.moving = MOVING
    partitions.outcome = Outcome(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)  # it has just come to its end
    said = penstock(tmp_path, "--cancel").output
    assert said == "Successfully cancelled partition reassignments for: t-0\n"
    assert partitions.asked == [{T0: None}]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "exactly one of"),
        (("--execute", "--verify"), "exactly one of"),
        (("--list", "--reassignment-json-file", "pyproject.toml"), "does not go with --list"),
    ],
)
def test_wrong_usage_is_said(tmp_path: Path, arguments: tuple[str, ...], says: str) -> None:
    result = penstock(tmp_path, *arguments)
    assert result.exit_code == 2
    assert says in result.output
