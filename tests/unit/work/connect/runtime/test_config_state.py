"""The config topic as a machine: what a leader writes in steps holds as a whole, compacted or not."""

from random import Random

import pytest

from penstock.work.connect.runtime.config_state import ConfigState, Deleted, Known, LoggerLevel, RestartRequest
from penstock.work.connect.runtime.records import Target, encode, properties, target_state

Log = list[tuple[str, bytes | None]]


def read(log: Log) -> ConfigState:
    state = ConfigState()
    for key, value in log:
        state.apply(key, value)
    return state


def tasks(name: str, *configs: dict[str, str]) -> Log:
    written: Log = [(f"task-{name}-{number}", properties(config)) for number, config in enumerate(configs)]
    return [*written, (f"commit-{name}", encode({"tasks": len(configs)}))]


CREATED: Log = [("commit-a", None), ("connector-a", properties({"name": "a", "x": "1"}))]
WITH_TASKS: Log = [*CREATED, *tasks("a", {"part": "0"}, {"part": "1"})]


def test_tasks_are_in_force_from_the_commit_on() -> None:
    assert read(WITH_TASKS[:-1]).task_names() == []
    state = read(WITH_TASKS)
    assert state.task_names() == ["task-a-0", "task-a-1"]
    assert state.task_config("task-a-1") == {"name": "a", "x": "1", "part": "1"}
    assert state.task_config("task-a-2") is None
    assert state.task_config("task-b-0") is None


def test_a_task_runs_with_what_its_connector_was_when_it_was_committed() -> None:
    log = [*WITH_TASKS, ("connector-a", properties({"name": "a", "x": "2"}))]
    assert read(log).task_config("task-a-0") == {"name": "a", "x": "1", "part": "0"}
    state = read([*log, *tasks("a", {"part": "0"})])
    assert state.task_names() == ["task-a-0"]
    assert state.task_config("task-a-0") == {"name": "a", "x": "2", "part": "0"}


def test_a_leader_that_dies_while_it_writes_changes_nothing() -> None:
    half = tasks("a", {"part": "new"}, {"part": "new"})[:1]
    assert read([*WITH_TASKS, *half]).task_config("task-a-0") == {"name": "a", "x": "1", "part": "0"}


def test_compaction_in_the_midst_of_a_change_makes_it_inconsistent_until_it_is_written_anew() -> None:
    log = [*WITH_TASKS, tasks("a", {"part": "new"}, {"part": "new"})[0]]
    compacted = [entry for entry in log if entry != WITH_TASKS[2]]
    state = read(compacted)
    assert state.connectors["a"].is_inconsistent
    assert not read([*compacted, *tasks("a", {"part": "2"})]).connectors["a"].is_inconsistent


def test_a_connector_that_was_deleted_leaves_nothing_to_the_next_of_its_name() -> None:
    gone: Log = [*WITH_TASKS, ("target-state-a", target_state(Target.PAUSED)), ("connector-a", None)]
    assert read(gone).connectors == {}
    assert read([*gone, ("target-state-a", None), *CREATED]).task_names() == []
    assert read([*gone, ("target-state-a", None), *CREATED]).connectors["a"].target is Target.STARTED
    assert read([*WITH_TASKS[2:], *CREATED]).task_names() == [], "the tombstone was compacted away"


def test_tasks_wait_for_a_connector_that_was_written_again_behind_them() -> None:
    again = ("connector-a", properties({"name": "a", "x": "2"}))
    state = read([*WITH_TASKS[2:], again])
    assert state.task_names() == ["task-a-0", "task-a-1"]
    assert state.task_config("task-a-1") == {"name": "a", "x": "2", "part": "1"}
    assert state.connectors["a"].applied is None, "the leader writes them anew where it starts the connector"
    assert state.generations == {"a": 1}
    half = read([*WITH_TASKS[3:], again])
    assert (half.task_names(), half.connectors["a"].is_inconsistent) == ([], True)
    newer = read([*WITH_TASKS[2:], *tasks("a", {"part": "new"}), again])
    assert newer.task_config("task-a-0") == {"name": "a", "x": "2", "part": "new"}
    assert newer.task_config("task-a-1") is None
    stopped = read([*WITH_TASKS[2:], ("target-state-a", target_state(Target.STOPPED)), again])
    assert stopped.connectors["a"].target is Target.STOPPED


def test_a_deletion_is_news_once_with_what_the_connector_was() -> None:
    state = read(WITH_TASKS)
    assert state.apply("connector-a", None) == Deleted("a", {"name": "a", "x": "1"})
    assert state.apply("connector-a", None) is None
    assert state.apply("connector-b", None) is None


def test_what_is_wanted_of_it_may_be_said_first() -> None:
    stopped = ("target-state-a", target_state(Target.STOPPED))
    assert read([stopped, *CREATED]).connectors["a"].target is Target.STOPPED
    assert read([*CREATED, stopped]).connectors["a"].target is Target.STOPPED


def test_orders_are_no_state() -> None:
    state = ConfigState()
    order = encode({"include-tasks": True, "only-failed": False})
    assert state.apply("restart-connector-a", order) == RestartRequest("a", True, False)
    assert state.apply("restart-connector-a", None) is None
    assert state.apply("logger-cluster-root", encode({"level": "DEBUG"})) == LoggerLevel("root", "DEBUG")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("connector-a", b"garbage"),
        ("connector-a", encode({"properties": 3})),
        ("task-a-0", encode({"properties": None})),
        ("task-a", encode({"properties": {}})),
        ("commit-a", encode({"tasks": "two"})),
        ("commit-a", encode({"tasks": -1})),
        ("target-state-a", b"[]"),
        ("session-key", encode({"key": "AAAA"})),
        ("tasks-fencing-a", encode({"task-count": 2})),
        ("", b""),
    ],
)
def test_what_is_not_understood_changes_nothing(key: str, value: bytes) -> None:
    state, before = read(WITH_TASKS), read(WITH_TASKS)
    state.apply(key, value)
    assert state.connectors == before.connectors


class World:
    """Leaders write to the topic, die in the middle, and the topic is compacted now and then, up to some place."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.log: Log = []
        self.names = ["a", "a-1", "b"]

    def change(self) -> None:
        name, random = self.random.choice(self.names), self.random
        state = read(self.log)
        match random.randrange(5):
            case 0 if name in state.connectors:
                self.log += [(f"connector-{name}", None), (f"target-state-{name}", None)]
                if random.random() < 0.7:  # as it was deleted before there were these, and as by Kafka
                    rows = [(f"task-{name}-{number}", None) for number in state.task_rows.get(name, ())]
                    self.log += [(f"commit-{name}", None), *rows]
            case 1:
                self.log.append((f"target-state-{name}", target_state(random.choice(list(Target)))))
            case 2:
                if name not in state.connectors:
                    self.log.append((f"commit-{name}", None))
                self.log.append((f"connector-{name}", properties({"name": name, "x": str(random.randrange(9))})))
            case _ if name in state.connectors:
                written = tasks(name, *({"part": str(random.randrange(9))} for _ in range(random.randrange(4))))
                self.log += written[: random.randrange(1, len(written) + 2)]
            case _:
                pass

    def compact(self) -> None:
        """As a cleaner does: of what lies before some place, what a later record of the same key replaces goes."""
        end = self.random.randrange(len(self.log) + 1)
        last = {key: index for index, (key, _) in enumerate(self.log)}
        keeps = self.random.random() < 0.5  # tombstones, or not any more
        self.log = [
            (key, value)
            for index, (key, value) in enumerate(self.log)
            if index >= end or (last[key] == index and (value is not None or keeps))
        ]

    def lead(self) -> None:
        """A new leader writes anew what is inconsistent, or does not fit."""
        for name, known in read(self.log).connectors.items():
            if known.is_inconsistent or known.applied != known.config:
                self.log += tasks(name, {"part": known.config.get("x", "")})


@pytest.mark.parametrize("seed", range(60))
def test_after_a_leader_has_looked_all_see_the_same_however_much_was_compacted(seed: int) -> None:
    world = World(seed)
    for _ in range(60):
        world.change()
        if world.random.random() < 0.2:
            before = read(world.log)
            world.compact()
            after = read(world.log)
            assert after.connectors.keys() == before.connectors.keys()
            assert all(after.connectors[name].config == one.config for name, one in before.connectors.items())
            assert all(after.connectors[name].target == one.target for name, one in before.connectors.items())
            assert all(
                after.connectors[name].is_inconsistent or after.task_ids(name) == before.task_ids(name)
                for name, one in before.connectors.items()
                if not one.is_inconsistent
            )
        if world.random.random() < 0.3:
            world.lead()
    world.lead()
    settled = read(world.log)
    assert not any(one.is_inconsistent or one.applied != one.config for one in settled.connectors.values())
    world.compact()
    world.lead()
    again = read(world.log)
    assert not any(one.is_inconsistent for one in again.connectors.values())
    assert {name: one.config for name, one in again.connectors.items()} == {
        name: one.config for name, one in settled.connectors.items()
    }


def whole(state: ConfigState) -> dict[str, object]:
    """All that it knows."""
    return dict(vars(state))


A = {"name": "a", "x": "1"}
FENCED = encode({"task-count": 2})
TASK_ROW = {"_uncommitted": {"a": {0: {"p": "0"}}}, "task_rows": {"a": {0: True}}}
COMMITTED = {"generations": {"a": 1}, "unfenced": {"a": None}, "task_rows": {"a": {0: True}}}
HISTORIES: list[tuple[Log, dict[str, object]]] = [
    (CREATED, {"connectors": {"a": Known(A)}}),
    (CREATED[1:], {"connectors": {"a": Known(A)}}),
    ([("connector-a", encode({"properties": {"n": 1, "none": None}}))], {"connectors": {"a": Known({"n": "1"})}}),
    ([("task-a-0", properties({"p": "0"}))], TASK_ROW),
    ([("task-a-0", properties({"p": "0"})), ("connector-a", None)], {"task_rows": {"a": {0: True}}}),
    ([("task-a-0", properties({"p": "0"})), ("task-a-0", None), ("task-a-1", None)], {}),
    ([("task-a-0", properties({"p": "0"})), ("task-a-0", b"{")], TASK_ROW),
    ([("tasks-fencing-a", encode({"task-count": 0}))], {"task_counts": {"a": 0}}),
    ([("tasks-fencing-a", encode({"task-count": -1}))], {}),
    ([("tasks-fencing-a", encode({"task-count": "1"}))], {}),
    ([("tasks-fencing-a", None)], {}),
    ([("target-state-a", target_state(Target.PAUSED))], {"_targets": {"a": Target.PAUSED}}),
    ([("target-state-a", target_state(Target.PAUSED)), ("target-state-a", None)], {}),
    (
        [("target-state-a", target_state(Target.PAUSED)), ("target-state-a", b"{")],
        {"_targets": {"a": Target.PAUSED}},
    ),
    (
        WITH_TASKS,
        {
            "connectors": {"a": Known(A, tasks=({"part": "0"}, {"part": "1"}), applied=A)},
            "generations": {"a": 1},
            "unfenced": {"a": None},
            "task_rows": {"a": {0: True, 1: True}},
        },
    ),
    (
        [*WITH_TASKS, *tasks("a"), ("tasks-fencing-a", FENCED), *tasks("a", {"p": "2"})],
        {
            "connectors": {"a": Known(A, tasks=({"p": "2"},), applied=A)},
            "generations": {"a": 3},
            "unfenced": {"a": None},
            "task_counts": {"a": 2},
            "task_rows": {"a": {0: True, 1: True}},
        },
    ),
    (
        [*WITH_TASKS, ("tasks-fencing-a", FENCED)],
        {
            "connectors": {"a": Known(A, tasks=({"part": "0"}, {"part": "1"}), applied=A)},
            "generations": {"a": 1},
            "task_counts": {"a": 2},
            "task_rows": {"a": {0: True, 1: True}},
        },
    ),
    (
        tasks("a", {"p": "0"}),
        {
            "_waiting": {"a": Known({}, tasks=({"p": "0"},))},
            "task_rows": {"a": {0: True}},
            "generations": {"a": 1},
            "unfenced": {"a": None},
        },
    ),
    ([*tasks("a", {"p": "0"}), ("commit-a", None)], COMMITTED),
    ([*tasks("a", {"p": "0"}), ("connector-a", None)], COMMITTED),
    (
        [*CREATED, ("commit-a", encode({"tasks": 1}))],
        {
            "connectors": {"a": Known(A, is_inconsistent=True)},
            "generations": {"a": 1},
            "unfenced": {"a": None},
        },
    ),
]


@pytest.mark.parametrize(("log", "changes"), HISTORIES)
def test_each_record_changes_what_it_is_about(log: Log, changes: dict[str, object]) -> None:
    """Of one that waits for its connector, too."""
    assert whole(read(log)) == whole(ConfigState()) | changes


@pytest.mark.parametrize(
    ("document", "order"),
    [
        ({}, RestartRequest("a", False, False)),
        ({"include-tasks": True}, RestartRequest("a", True, False)),
        ({"only-failed": True}, RestartRequest("a", False, True)),
        ({"include-tasks": 0, "only-failed": 1}, RestartRequest("a", False, True)),
    ],
)
def test_orders_to_start_again(document: dict[str, object], order: RestartRequest) -> None:
    state = ConfigState()
    assert state.apply("restart-connector-a", encode(document)) == order
    for value in (None, b"{", encode({"level": 5}), encode({})):
        assert state.apply("logger-cluster-a", value) is None
    assert whole(state) == whole(ConfigState())
