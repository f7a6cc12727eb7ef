"""The status topic: what workers tell of connectors and tasks, and who is right when two of them do."""

from penstock.work.connect.runtime.records import TaskId
from penstock.work.connect.runtime.statuses import LONGEST_TRACE, Statuses
from penstock.work.connect.runtime.supervisor import RunState


class Topic:
    """What two workers write reaches both of them."""

    def __init__(self) -> None:
        self.one, self.two = Statuses("one:1", self.post), Statuses("two:2", self.post)
        self.keys: list[str] = []

    def post(self, key: bytes, value: bytes | None) -> None:
        self.keys.append(key.decode())
        for statuses in (self.one, self.two):
            statuses.read(key, value)


TASK = TaskId("a-b", 3)


def test_what_one_tells_the_other_knows() -> None:
    topic = Topic()
    topic.one.tell_connector("a-b", RunState.RUNNING)
    topic.one.tell_task(TASK, RunState.FAILED, "why")
    topic.one.tell_topic(TASK, "t", 5)
    topic.one.tell_topic(TASK, "t", 6)
    assert topic.two.connector("a-b").state == "RUNNING"  # type: ignore[union-attr]
    assert topic.two.tasks("a-b")[3].trace == "why"
    assert topic.two.topics("a-b") == ["t"]
    assert topic.keys == ["status-connector-a-b", "status-task-a-b-3", "status-topic-t:connector-a-b"]


def test_who_lets_go_late_is_not_believed() -> None:
    topic = Topic()
    topic.one.generation, topic.two.generation = 4, 5
    topic.two.tell_task(TASK, RunState.RUNNING)
    topic.one.tell_task(TASK, RunState.UNASSIGNED)
    assert topic.two.tasks("a-b")[3].worker_id == "two:2"
    topic.one.generation = 5
    topic.one.tell_task(TASK, RunState.UNASSIGNED)
    assert topic.two.tasks("a-b")[3].worker_id == "one:1"


def test_a_connector_that_is_gone_leaves_nothing() -> None:
    topic = Topic()
    topic.one.tell_connector("a-b", RunState.RUNNING)
    for number in range(3):
        topic.one.tell_task(TaskId("a-b", number), RunState.RUNNING)
    topic.one.tell_topic(TASK, "t", 5)
    topic.one.forget_tasks("a-b", 1)
    assert list(topic.two.tasks("a-b")) == [0]
    topic.two.forget("a-b")
    for one in (topic.one, topic.two):
        assert (one._connectors, one._tasks, one._topics) == ({}, {}, {})
    topic.one.read(b"status-task-c-0", None)
    assert topic.one._tasks == {}


def test_a_trace_is_no_book() -> None:
    topic = Topic()
    topic.one.tell_task(TASK, RunState.FAILED, "x" * (LONGEST_TRACE + 1))
    assert len(topic.two.tasks("a-b")[3].trace or "") == LONGEST_TRACE


def test_what_is_not_understood_is_let_be() -> None:
    topic = Topic()
    for key in (b"\xff", b"status-task-a", b"something", b"status-connector-a"):
        topic.one.read(key, b"garbage")
    assert topic.one.connectors() == []
