"""What one reader has fetched, the others find."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from uuid import UUID

import pytest

from penstock.client.blocking.fetch import FetchedRecords
from penstock.client.values import IsolationLevel
from penstock.pipeline.datasource import shared_fetches
from penstock.pipeline.datasource.shared_fetches import SharedFetches
from penstock.protocol.errors import ErrorCode
from penstock.protocol.records import Record, encode_batch


def reader(
    folder: Path, partition: int = 0, isolation: IsolationLevel = IsolationLevel.READ_COMMITTED
) -> SharedFetches:
    return SharedFetches(folder, UUID(int=7), partition, isolation)


def answer(offset: int, count: int = 5, error: ErrorCode = ErrorCode.NONE) -> FetchedRecords:
    batch = encode_batch([Record(0, 0, None, b"v")] * count, base_offset=offset) if count else b""
    return FetchedRecords(error, 9, 9, 0, [(3, offset)], memoryview(batch))


class Broker:
    def __init__(self) -> None:
        self.asked: list[int] = []

    def at(self, offset: int, count: int = 5, error: ErrorCode = ErrorCode.NONE) -> Callable[[], FetchedRecords]:
        def fetch() -> FetchedRecords:
            self.asked.append(offset)
            return answer(offset, count, error)

        return fetch


def test_who_is_behind_finds_what_was_fetched_also_from_its_middle(tmp_path: Path) -> None:
    broker = Broker()
    first = reader(tmp_path).fetched(10, broker.at(10))
    for offset in (10, 14):
        found = reader(tmp_path).fetched(offset, broker.at(offset))
        assert bytes(found.records) == bytes(first.records)
        assert (found.aborted, found.error_code) == ([(3, 10)], ErrorCode.NONE)
    reader(tmp_path).fetched(15, broker.at(15))
    reader(tmp_path).fetched(9, broker.at(9, 1))
    reader(tmp_path, partition=1).fetched(10, broker.at(10))
    reader(tmp_path, isolation=IsolationLevel.READ_UNCOMMITTED).fetched(10, broker.at(10))
    assert broker.asked == [10, 15, 9, 10, 10]


def test_two_at_a_time_ask_once(tmp_path: Path) -> None:
    broker, barrier = Broker(), Barrier(2)

    def read(_: int) -> int:
        barrier.wait()
        return len(reader(tmp_path).fetched(0, broker.at(0)).records)

    with ThreadPoolExecutor(2) as pool:
        one, two = pool.map(read, range(2))
    assert one == two
    assert broker.asked == [0]


def test_a_refusal_and_an_answer_without_records_are_not_kept(tmp_path: Path) -> None:
    broker = Broker()
    for fetch in (broker.at(0, error=ErrorCode.NOT_LEADER_OR_FOLLOWER), broker.at(0, 0), broker.at(0)):
        reader(tmp_path).fetched(0, fetch)
    assert broker.asked == [0, 0, 0]


def test_the_oldest_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker()
    monkeypatch.setattr(shared_fetches, "KEPT_FILES", 2)
    for offset in (0, 5, 10, 10, 5, 0):
        reader(tmp_path).fetched(offset, broker.at(offset))
    assert broker.asked == [0, 5, 10, 0]
    monkeypatch.setattr(shared_fetches, "KEPT_BYTES", 1)
    reader(tmp_path).fetched(15, broker.at(15))
    (kept,) = tmp_path.glob("*/*-*")
    assert kept.name.lstrip("0").startswith("15-")
