"""What one reader has fetched, the others find."""

import os
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
    (kept,) = tmp_path.glob("*-*/*-*")
    assert kept.name.lstrip("0").startswith("15-")


def kept(folder: Path) -> list[str]:
    return sorted(f"{file.parent.name[33:]} {file.name}" for file in folder.glob("*-*/*-*"))


def named(partition: int, begin: int, end: int, isolation: int = 1) -> str:
    return f"{partition}-{isolation} {begin:020}-{end:020}"


def test_what_is_found_is_what_was_kept(tmp_path: Path) -> None:
    broker = Broker()
    reader(tmp_path).fetched(7, broker.at(5))
    assert kept(tmp_path) == [named(0, 7, 10)]
    (file,) = tmp_path.glob("*-*/*-*")
    assert file.parent.name == f"{UUID(int=7).hex}-0-1"
    assert file.read_bytes() == b"[[3, 5]]\n" + bytes(answer(5).records)
    found = reader(tmp_path).fetched(9, broker.at(9))
    assert (found.high_watermark, found.last_stable_offset, found.log_start_offset) == (-1, -1, -1)
    assert (found.current_leader, found.node_endpoints) == (None, ())
    reader(tmp_path).fetched(10, broker.at(5))
    assert kept(tmp_path) == [named(0, 7, 10)], "all of it lies before what was asked for"
    reader(tmp_path, isolation=IsolationLevel.READ_UNCOMMITTED).fetched(9, broker.at(5))
    assert kept(tmp_path) == [named(0, 9, 10, 0), named(0, 7, 10)]


@pytest.mark.parametrize(("room", "left"), [(3, [15, 20, 25]), (2.99, [20, 25]), (2, [20, 25]), (0.5, [25])])
def test_partitions_have_equal_parts_of_the_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: float, left: list[int]
) -> None:
    """The newest one stays, however little there is."""
    size = len(b"[[3, 10]]\n") + len(answer(10).records)
    (tmp_path / "another partition").mkdir()
    monkeypatch.setattr(shared_fetches, "KEPT_BYTES", round(2 * room * size))
    broker = Broker()
    for number, offset in enumerate((10, 15, 20, 25)):
        reader(tmp_path).fetched(offset, broker.at(offset))
        for file in tmp_path.glob(f"*-*/*{offset:020}-*"):
            os.utime(file, ns=(number, number))
    assert kept(tmp_path) == [named(0, begin, begin + 5) for begin in left]


def test_what_nobody_reads_any_more_goes_and_its_room_is_that_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker, size = Broker(), len(b"[[3, 10]]\n") + len(answer(10).records)
    reader(tmp_path, partition=1).fetched(10, broker.at(10))
    reader(tmp_path, partition=2).fetched(10, broker.at(10))
    (left,) = tmp_path.glob("*-1-1")
    os.utime(left, (0, 0))
    monkeypatch.setattr(shared_fetches, "KEPT_BYTES", 4 * size)
    reader(tmp_path, partition=2).fetched(15, broker.at(15))
    assert named(1, 10, 15) in kept(tmp_path), "somebody has just looked"
    for number, offset in enumerate((10, 15, 20)):
        os.utime(tmp_path / "locks", (0, 0))
        reader(tmp_path).fetched(offset, broker.at(offset))
        for file in tmp_path.glob(f"*-0-1/*{offset:020}-*"):
            os.utime(file, ns=(number, number))
    assert kept(tmp_path) == [named(0, 15, 20), named(0, 20, 25), named(2, 10, 15), named(2, 15, 20)]
    reader(tmp_path, partition=1).fetched(10, broker.at(10))
    assert named(1, 10, 15) in kept(tmp_path), "somebody reads it again"
