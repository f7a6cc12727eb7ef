"""Offsets as requests say them: which documents are understood, and as what."""

from typing import Any

import pytest

from penstock.client.values import TopicPartition
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.work.connect.rest.errors import RestError
from penstock.work.connect.rest.offsets import _group_of, _parsed, _positions, _refused
from penstock.work.connect.runtime.config_state import Known


@pytest.mark.parametrize(
    ("rows", "changes"),
    [
        ([{"partition": {"a": 1}, "offset": {"b": 2}}], [({"a": 1}, {"b": 2})]),
        ([{"partition": {}, "offset": None}, {"partition": {"a": 1}}], [({}, None), ({"a": 1}, None)]),
        ([{"partition": {}, "offset": {}}], [({}, {})]),
    ],
)
def test_changes_are_read(rows: Any, changes: Any) -> None:
    assert _parsed({"offsets": rows}) == changes


@pytest.mark.parametrize(
    "document", [None, [], {}, {"offsets": None}, {"offsets": []}, {"offsets": {"a": 1}}, "offsets"]
)
def test_what_is_no_list(document: Any) -> None:
    with pytest.raises(RestError, match="offsets is a list of objects with partition and offset, and at least one"):
        _parsed(document)


@pytest.mark.parametrize("row", [{}, {"offset": {}}, {"partition": None}, {"partition": [], "offset": {}}, 7, None])
def test_what_is_no_row(row: Any) -> None:
    good: dict[str, Any] = {"partition": {}, "offset": {}}
    for rows in ([row], [good, row], [row, good]):
        with pytest.raises(RestError, match="is no object with partition and offset"):
            _parsed({"offsets": rows})


def sink(topic: Any = "t", partition: Any = 1, offset: Any = 5) -> Any:
    return {"kafka_topic": topic, "kafka_partition": partition}, None if offset is None else {"kafka_offset": offset}


def test_positions_of_a_sink() -> None:
    changes = [sink(), sink(partition="0", offset="7"), sink("u", 0, None), sink(7, 0, 10**18 - 1)]
    assert _positions(changes) == {
        TopicPartition("t", 1): 5,
        TopicPartition("t", 0): 7,
        TopicPartition("u", 0): None,
        TopicPartition("7", 0): 10**18 - 1,
    }


@pytest.mark.parametrize(
    "wrong",
    [
        ({}, None),
        ({"kafka_topic": "t"}, None),
        ({"kafka_partition": 0}, None),
        ({"kafka_topic": "t", "kafka_partition": 0}, {}),
        *(sink(partition=number) for number in (-1, "x", None, 1.5, "1.0", " 1", 10**18)),
        *(sink(offset=number) for number in (-1, "", "١", True, 10**18)),
    ],
)
def test_what_is_no_position(wrong: Any) -> None:
    for changes in ([wrong], [sink(), wrong]):
        with pytest.raises(RestError, match="a sink's partition has kafka_topic and kafka_partition"):
            _positions(changes)


@pytest.mark.parametrize(
    ("code", "hint"),
    [
        (ErrorCode.NON_EMPTY_GROUP, True),
        (ErrorCode.UNKNOWN_MEMBER_ID, True),
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, False),
    ],
)
def test_a_refusal_of_the_group_is_told(code: ErrorCode, hint: bool) -> None:
    refused = _refused("g", KafkaError(code))
    assert refused.status == 500
    assert str(refused).startswith("the offsets of group g cannot be changed: ")
    assert str(refused).endswith("; its tasks may not have ended yet") is hint


def test_the_group_of_a_sink() -> None:
    assert _group_of("c", Known({})) == "connect-c"
    assert _group_of("c", Known({"consumer.override.group.id": "own"})) == "own"
