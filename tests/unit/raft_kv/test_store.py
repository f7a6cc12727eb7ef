from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from examples.raft_kv import store as store_module
from examples.raft_kv.store import OPEN_HEADERS, Store, set_headers
from examples.raft_kv.values import MemoryValues, SqliteFiles, Values

from penstock.protocol.errors import DecodeError
from penstock.protocol.records import Record

Applied = Callable[..., Store]
"""Makes a store of these records."""


@pytest.fixture(params=["memory", "sqlite"])
def make_values(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Values]:
    return MemoryValues if request.param == "memory" else SqliteFiles(str(tmp_path))


@pytest.fixture
def applied(make_values: Callable[[], Values]) -> Applied:
    def applied(*records: Record) -> Store:
        store = Store(make_values())
        for offset, record in enumerate(records):
            store.apply(replace(record, offset=offset))
        return store

    return applied


def put(session: int, sequence: int, key: str, value: str) -> Record:
    return Record(key=key.encode(), value=value.encode(), headers=set_headers(session, sequence))


def opened() -> Record:
    return Record(value=b"", headers=OPEN_HEADERS)


def test_a_key_has_the_value_that_was_set_last(applied: Applied) -> None:
    store = applied(opened(), put(0, 1, "a", "1"), put(0, 2, "b", "2"), put(0, 3, "a", "3"))
    assert [store.get(key) for key in (b"a", b"b", b"c")] == [b"3", b"2", None]


def test_a_set_that_is_tried_again_is_applied_once(applied: Applied) -> None:
    first = put(0, 1, "a", "mine")
    store = applied(opened(), opened(), first, put(1, 1, "a", "theirs"), first)
    assert store.get(b"a") == b"theirs"


def test_a_late_copy_of_an_earlier_set_is_not_applied(applied: Applied) -> None:
    store = applied(opened(), put(0, 2, "a", "new"), put(0, 1, "a", "old"))
    assert store.get(b"a") == b"new"


def test_sequences_belong_to_their_session(applied: Applied) -> None:
    store = applied(opened(), opened(), put(0, 1, "a", "1"), put(1, 1, "a", "2"))
    assert store.get(b"a") == b"2"


def test_nobody_sets_without_a_session(applied: Applied) -> None:
    store = applied(opened(), put(7, 1, "a", "1"))
    assert store.get(b"a") is None
    assert store.knows(0)
    assert not store.knows(7)


def test_the_session_that_was_silent_for_longest_is_forgotten(
    monkeypatch: pytest.MonkeyPatch, applied: Applied
) -> None:
    monkeypatch.setattr(store_module, "MAX_SESSIONS", 2)
    store = applied(opened(), opened(), put(0, 1, "a", "1"), opened(), put(1, 1, "a", "2"))
    assert [store.knows(session) for session in (0, 1, 3)] == [True, False, True]
    assert store.get(b"a") == b"1", "a session that is forgotten sets nothing"


def test_a_snapshot_holds_everything(monkeypatch: pytest.MonkeyPatch, applied: Applied) -> None:
    monkeypatch.setattr(store_module, "MAX_SESSIONS", 2)
    store = applied(opened(), opened(), put(1, 4, "a", "1"), put(0, 9, "b", "2"))
    copy = applied()
    for record in store.snapshot():
        copy.restore(record)
    assert list(copy.snapshot()) == list(store.snapshot())
    for both in (store, copy):
        both.apply(replace(put(0, 9, "b", "again"), offset=4))
        both.apply(replace(opened(), offset=5))
        assert both.get(b"b") == b"2"
        assert [both.knows(session) for session in (0, 1, 5)] == [True, False, True]


def test_an_empty_value_is_a_value(applied: Applied) -> None:
    store = applied(opened(), put(0, 1, "", ""))
    assert store.get(b"") == b""
    copy = applied()
    for record in store.snapshot():
        copy.restore(record)
    assert copy.get(b"") == b""


@pytest.mark.parametrize(
    "record",
    [
        Record(key=b"a", value=b"1"),
        Record(key=b"a", value=b"1", headers=[("session", b"0")]),
        Record(key=b"a", value=b"1", headers=[("session", b"0"), ("sequence", b"x")]),
        Record(key=b"a", headers=[("session", b"0"), ("sequence", b"1")]),
        Record(headers=[("what", None)]),
    ],
)
def test_a_record_of_something_else(record: Record) -> None:
    with pytest.raises(DecodeError):
        Store(MemoryValues()).apply(record)


def test_a_snapshot_of_something_else() -> None:
    with pytest.raises(DecodeError):
        Store(MemoryValues()).restore(Record(key=b"a"))


def test_a_file_goes_when_its_values_are_given_up(tmp_path: Path) -> None:
    make_values = SqliteFiles(str(tmp_path))
    old, new = make_values(), make_values()
    old[b"a"], new[b"a"] = b"1", b"2"
    assert (old.get(b"a"), new.get(b"a"), len(list(tmp_path.iterdir()))) == (b"1", b"2", 2)
    old.close()
    again = make_values()
    assert (again.get(b"a"), new.get(b"a")) == (None, b"2")
    new.close()
    again.close()
    assert list(tmp_path.iterdir()) == []
