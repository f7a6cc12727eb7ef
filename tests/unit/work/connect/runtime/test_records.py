"""Connect's formats: the bytes are those of Kafka's own workers."""

import pytest

from penstock.work.connect.runtime.records import (
    Status,
    Target,
    TaskId,
    decode,
    offset_key,
    parse_offset_key,
    parse_task,
    parse_topic_key,
    properties,
    read_status,
    read_target,
    status,
    target_state,
    topic_key,
    topic_use,
)

NESTED = b"[" * 100_000


def test_the_bytes() -> None:
    assert properties({"name": "n", "topic": "ü"}) == '{"properties":{"name":"n","topic":"ü"}}'.encode()
    assert offset_key("a", {"filename": "x"}) == b'["a",{"filename":"x"}]'
    assert target_state(Target.STOPPED) == b'{"state":"PAUSED","state.v2":"STOPPED"}'
    assert status(Status("RUNNING", None, "h:1", 3)) == (
        b'{"state":"RUNNING","trace":null,"worker_id":"h:1","generation":3,"version":null}'
    )
    assert topic_use("t", TaskId("c", 2), 9) == (
        b'{"topic":{"name":"t","connector":"c","task":2,"discoverTimestamp":9}}'
    )
    assert topic_key("t", "c") == "status-topic-t:connector-c"


@pytest.mark.parametrize(
    ("text", "task"),
    [
        ("a-0", TaskId("a", 0)),
        ("a-b-12", TaskId("a-b", 12)),
        ("a", None),
        ("-1", None),
        ("a-x", None),
        ("a-²", None),
        (f"a-{'9' * 5000}", None),
    ],
)
def test_tasks_are_named_by_their_connector_and_a_number(text: str, task: TaskId | None) -> None:
    assert parse_task(text) == task
    assert task is None or str(task) == text


def test_what_comes_back() -> None:
    one = Status("FAILED", "why", "h:1", 3, "1.0")
    assert read_status(decode(status(one)) or {}) == one
    assert parse_offset_key(offset_key("a", {"x": 1})) == ("a", {"x": 1})
    assert parse_topic_key(topic_key("t", "c:connector-d")) == ("t", "c:connector-d")


@pytest.mark.parametrize("target", Target)
def test_target_states_come_back(target: Target) -> None:
    assert read_target(decode(target_state(target)) or {}) is target


def test_a_state_of_a_worker_that_knows_no_second_field() -> None:
    assert read_target({"state": "PAUSED"}) is Target.PAUSED
    assert read_target({"state": "SOMETHING"}) is Target.STARTED


@pytest.mark.parametrize("data", [None, b"", b"\xff", b"[]", b"3", b"{", NESTED])
def test_what_is_no_object_is_nothing(data: bytes | None) -> None:
    assert decode(data) is None


@pytest.mark.parametrize("key", [b"", b"\xff", b"{}", b'["a"]', b'["a",null]', b"[1,{}]", NESTED])
def test_what_is_no_key_of_an_offset(key: bytes) -> None:
    assert parse_offset_key(key) is None


@pytest.mark.parametrize("generation", ["much", None, float("inf"), []])
def test_what_is_no_status(generation: object) -> None:
    assert read_status({}) is None
    assert read_status({"state": "X", "worker_id": "w", "generation": generation}) is None
