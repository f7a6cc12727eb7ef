"""Moves of replicas as `penstock reassign-partitions` begins them, shows them, and calls them back."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner, Result

from penstock.cli.replicas import reassign_partitions
from penstock.cli.terminal import session
from penstock.client.admin.configs import ConfigChange, ResourceType
from penstock.client.admin.partitions import Outcome, Reassignment
from penstock.client.values import TopicPartition
from penstock.protocol.errors import ErrorCode

AWAY = 4
T0 = TopicPartition("t", 0)
MOVING = {T0: Reassignment((1, 2, 3), (3,), (1,)), TopicPartition("t", 1): Reassignment((2, 1), (), ())}


class FakePartitions:
    """What the controller has on the move; it does as it is told, or gives the outcome that the test sets."""

    def __init__(self) -> None:
        self.moving: dict[TopicPartition, Reassignment] = {}
        self.outcome = Outcome(ErrorCode.NONE)
        self.asked: list[Mapping[TopicPartition, Sequence[int] | None]] = []
        self.configs: dict[tuple[ResourceType, str], dict[str, str | None]] = {}

    async def reassignments(self) -> dict[TopicPartition, Reassignment]:
        return self.moving

    async def reassign(
        self, targets: Mapping[TopicPartition, Sequence[int] | None], *, change_replication_factor: bool = True
    ) -> dict[TopicPartition, Outcome]:
        self.asked.append(targets)
        return dict.fromkeys(targets, self.outcome)

    async def alter(self, kind: ResourceType, name: str, changes: Sequence[ConfigChange]) -> None:
        self.configs.setdefault((kind, name), {}).update({change.name: change.value for change in changes})


@pytest.fixture
def partitions(monkeypatch: pytest.MonkeyPatch) -> FakePartitions:
    fake = FakePartitions()

    async def describe(names: Sequence[str]) -> list[Any]:
        rows = {number: SimpleNamespace(topic_partition=TopicPartition("t", number), replicas=[1]) for number in (0, 1)}
        return [SimpleNamespace(partitions=rows)]

    async def describe_cluster(*, include_fenced: bool) -> Any:
        return SimpleNamespace(brokers=[SimpleNamespace(node_id=node) for node in (1, 2, 3, *[AWAY] * include_fenced)])

    brokers = dict.fromkeys((1, 2, 3))
    admin = SimpleNamespace(
        partitions=fake,
        configs=fake,
        topics=SimpleNamespace(describe=describe),
        describe_cluster=describe_cluster,
        cluster=SimpleNamespace(metadata=SimpleNamespace(brokers=brokers)),
    )

    def run(addresses: object, config: object, work: Any, **_: object) -> None:
        with pytest.raises(StopIteration):
            work(admin).send(None)

    monkeypatch.setattr(session, "run_with_admin", run)
    return fake


def penstock(directory: Path, *arguments: str, extra: str = "") -> Result:
    file = directory / "moves.json"
    file.write_text(f'{{"partitions": [{{"topic": "t", "partition": 0, "replicas": [2, 3]{extra}}}]}}')
    with_file = () if {"--list", "--all"} & {*arguments} else ("--reassignment-json-file", str(file))
    return CliRunner().invoke(reassign_partitions.command, [*arguments, *with_file])


def test_what_is_on_the_move_is_shown(partitions: FakePartitions, tmp_path: Path) -> None:
    assert penstock(tmp_path, "--list").output == "No partition reassignments found.\n"
    partitions.moving = MOVING
    assert penstock(tmp_path, "--list").output.splitlines() == [
        "Current partition reassignments:",
        "t-0: replicas: 1,2,3. adding: 3. removing: 1.",
        "t-1: replicas: 2,1.",
    ]
    shown = penstock(tmp_path, "--verify").output.splitlines()
    assert shown == ["Status of partition reassignment:", "Reassignment of partition t-0 is still in progress.", ""]
    assert not partitions.configs, "limits stay while something moves"


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
    said = penstock(tmp_path, "--cancel", "--preserve-throttles").output.splitlines()
    assert said == [
        "Successfully cancelled partition reassignment for: t-0",
        "None of the specified partition moves are active.",
    ]
    assert partitions.asked == [{T0: None}]
    assert not partitions.configs


def test_all_moves_are_called_back_and_their_limits_go(partitions: FakePartitions, tmp_path: Path) -> None:
    partitions.moving = MOVING
    said = penstock(tmp_path, "--cancel", "--all").output.splitlines()
    assert said[0] == "Successfully cancelled partition reassignments for: t-0,t-1"
    assert partitions.asked == [dict.fromkeys(MOVING)]
    assert partitions.configs == NO_LIMITS


LEADERS, FOLLOWERS = "leader.replication.throttled.replicas", "follower.replication.throttled.replicas"
RATE = dict.fromkeys(("leader.replication.throttled.rate", "follower.replication.throttled.rate"), "5000")
NO_LIMITS: dict[tuple[ResourceType, str], dict[str, str | None]] = {
    **{
        (ResourceType.BROKER, str(node_id)): dict.fromkeys((*RATE, "replica.alter.log.dirs.io.max.bytes.per.second"))
        for node_id in (1, 2, 3, AWAY)
    },
    (ResourceType.TOPIC, "t"): {LEADERS: None, FOLLOWERS: None},
}


def test_moves_are_throttled_on_the_brokers_that_they_concern(partitions: FakePartitions, tmp_path: Path) -> None:
    lines = penstock(tmp_path, "--execute", "--throttle", "5000").output.splitlines()
    assert lines[-3].startswith("Warning: You must run --verify periodically")
    assert lines[-2] == "The inter-broker throttle limit was set to 5000 B/s"
    assert partitions.configs == {
        (ResourceType.TOPIC, "t"): {LEADERS: "0:1", FOLLOWERS: "0:2,0:3"},
        **{(ResourceType.BROKER, str(node_id)): RATE for node_id in (1, 2, 3)},
    }


def test_other_moves_that_are_under_way_get_the_new_throttle_too(partitions: FakePartitions, tmp_path: Path) -> None:
    partitions.moving = {TopicPartition("t", 1): Reassignment((2, 1), (2,), (1,)), T0: Reassignment((1, 4), (4,), ())}
    penstock(tmp_path, "--execute", "--additional", "--throttle", "5000")
    assert partitions.configs[ResourceType.TOPIC, "t"] == {LEADERS: "0:1,1:1", FOLLOWERS: "0:2,0:3,1:2"}


def test_moves_between_directories_are_throttled_on_their_brokers(
    partitions: FakePartitions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[tuple[Mapping[Any, str], int]] = []

    async def begin(admin: object, targets: Mapping[Any, str], timeout_ms: int) -> None:
        begun.append((targets, timeout_ms))

    monkeypatch.setattr(reassign_partitions, "begin_moves", begin)
    arguments = ("--execute", "--replica-alter-log-dirs-throttle", "7", "--timeout", "20")
    lines = penstock(tmp_path, *arguments, extra=', "log_dirs": ["any", "/a"]').output.splitlines()
    assert "The replica-alter-dir throttle limit was set to 7 B/s" in lines
    assert partitions.configs == {
        (ResourceType.BROKER, "3"): {"replica.alter.log.dirs.io.max.bytes.per.second": "7"},
    }
    assert begun == [({(T0, 3): "/a"}, 20)]


@pytest.mark.parametrize("action", ["--verify", "--cancel"])
def test_limits_go_when_nothing_moves_any_more(partitions: FakePartitions, tmp_path: Path, action: str) -> None:
    lines = penstock(tmp_path, action).output.splitlines()
    assert lines[-2:] == [
        "Clearing broker-level throttles on brokers 1,2,3,4",
        "Clearing topic-level throttles on topic t",
    ]
    assert partitions.configs == NO_LIMITS
    partitions.configs.clear()
    penstock(tmp_path, action, "--preserve-throttles")
    assert not partitions.configs


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "exactly one of"),
        (("--execute", "--verify"), "exactly one of"),
        (("--list", "--reassignment-json-file", "pyproject.toml"), "does not go with --list"),
        (("--verify", "--throttle", "5"), "go with --execute only"),
        (("--list", "--all"), "--all goes with --cancel only"),
        (("--cancel", "--all", "--reassignment-json-file", "pyproject.toml"), "does not go with --cancel --all"),
        (("--execute", "--preserve-throttles"), "--verify and --cancel only"),
    ],
)
def test_wrong_usage_is_said(tmp_path: Path, arguments: tuple[str, ...], says: str) -> None:
    result = penstock(tmp_path, *arguments)
    assert result.exit_code == 2
    assert says in result.output
