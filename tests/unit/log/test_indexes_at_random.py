"""Both indexes of a segment and the epochs of a log, beside plain lists: whatever was done, they say the same."""

from bisect import bisect_right
from pathlib import Path
from random import Random

import pytest
from tests.unit.log.recorded_disk import RecordedDisk

from penstock.log import entry_file
from penstock.log.disk import Disk
from penstock.log.entry_file import CorruptIndexError, EntryFile
from penstock.log.leader_epochs import LeaderEpochs
from penstock.log.offset_index import OFFSET_ENTRY, OffsetIndex
from penstock.log.time_index import TIME_ENTRY, TimeIndex

BASE = 1000
STEPS = 120


@pytest.fixture(autouse=True)
def small_tails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entry_file, "SPILL_BYTES", 8 * TIME_ENTRY.size)


def check_file(entries: EntryFile, model: list[tuple[int, int]], path: Path) -> None:
    assert len(entries) == len(model)
    assert [entries.entry(number) for number in range(len(model))] == model
    assert entries.last() == (model[-1] if model else None)
    assert entries.size_bytes == len(model) * entries._layout.size
    content = path.read_bytes() if path.exists() else b""
    assert len(content) == entries.saved * entries._layout.size
    assert b"".join(entries._layout.pack(*one) for one in model).startswith(content)
    assert len(model) - entries.saved < 12, "the rest lies in memory, and is small"


def change(entries: EntryFile, model: list[tuple[int, int]], random: Random) -> None:
    """What flushing, closing and loading do."""
    match random.randrange(6):
        case 0:
            entries.save(durable=random.random() < 0.5, create=random.random() < 0.5)
            assert entries.saved == len(model)
        case 1:
            entries.save(durable=True, create=True)
            entries.load()
        case 2 if random.random() < 0.2:
            entries.reset()
            model.clear()
        case 3:
            count = random.randrange(len(model) + 3)
            entries.truncate(count)
            del model[count:]


@pytest.mark.parametrize("seed", range(4))
def test_an_offset_index_is_a_list(tmp_path: Path, seed: int) -> None:
    random, path = Random(seed), tmp_path / "a.index"
    index, model = OffsetIndex(Disk(), str(path), BASE), list[tuple[int, int]]()
    for _ in range(STEPS):
        if random.random() < 0.75:
            offset, position = model[-1] if model else (-1, -1)
            offset, position = offset + random.randint(1, 4), position + random.randint(1, 4)
            index.append(BASE + offset, position)
            model.append((offset, position))
        elif random.random() < 0.3:
            cut = random.randint(0, (model[-1][1] if model else 0) + 3)
            index.truncate_to(cut)
            model[:] = [one for one in model if one[1] < cut]
        else:
            change(index.entries, model, random)
        check_file(index.entries, model, path)
        for offset in [-1, 0, *random.choices(range(400), k=5), *([model[-1][0], model[-1][0] + 1] if model else [])]:
            below = [position for one, position in model if one <= offset]
            assert index.position_before(BASE + offset) == (below[-1] if below else 0)


@pytest.mark.parametrize("seed", range(4))
def test_a_time_index_is_a_list_that_grows_in_time(tmp_path: Path, seed: int) -> None:
    random, path = Random(seed), tmp_path / "a.timeindex"
    index, model = TimeIndex(Disk(), str(path), BASE), list[tuple[int, int]]()
    for _ in range(STEPS):
        if random.random() < 0.75:
            time_ms, offset = model[-1] if model else (-1, 0)
            time_ms, offset = time_ms + random.randint(-2, 4), offset + random.randint(0, 4)
            if time_ms > (model[-1][0] if model else -1):
                model.append((time_ms, offset))
            index.maybe_append(time_ms, BASE + offset)
        elif random.random() < 0.3:
            cut = random.randint(0, (model[-1][1] if model else 0) + 3)
            index.truncate_to(BASE + cut)
            model[:] = [one for one in model if one[1] < cut]
        else:
            change(index.entries, model, random)
            index.load() if index.entries.saved == len(model) and not index.entries._tail else index._remember_last()
        check_file(index.entries, model, path)
        assert (index.last_timestamp, index.last_offset - BASE) == (model[-1] if model else (-1, 0))
        for time_ms in [-1, 0, *random.choices(range(200), k=5), *([model[-1][0], model[-1][0] + 1] if model else [])]:
            below = [offset for one, offset in model if one <= time_ms]
            assert index.offset_before(time_ms) == BASE + (below[-1] if below else 0)


def test_a_time_index_that_goes_back_in_time_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.timeindex"
    for times, is_good in (((5, 5), True), ((5, 6), True), ((5, 4), False), ((), True)):
        path.write_bytes(b"".join(TIME_ENTRY.pack(time, 0) for time in times))
        index = TimeIndex(Disk(), str(path), BASE)
        if is_good:
            index.load()
        else:
            with pytest.raises(CorruptIndexError, match="goes back in time"):
                index.load()


def test_an_index_is_made_and_synced_where_that_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "a.index"
    entries = EntryFile(Disk(), str(path), OFFSET_ENTRY)
    entries.save()
    entries.save(durable=True)
    assert not path.exists()
    entries.save(create=True)
    assert path.read_bytes() == b""


def test_what_a_file_has_is_synced_once_after_each_change(tmp_path: Path) -> None:
    disk = RecordedDisk(tmp_path)
    entries = EntryFile(disk, f"{tmp_path}/a", OFFSET_ENTRY)

    def saved(*, durable: bool) -> list[str]:
        entries.save(durable=durable)
        return [call.removesuffix(" a") for call in disk.take()]

    assert saved(durable=True) == []
    for number in range(4):
        entries.append(number, number)
    assert saved(durable=False) == ["write"]
    assert [saved(durable=True), saved(durable=True)] == [["sync"], []]
    entries.append(4, 4)
    assert [saved(durable=True), saved(durable=True)] == [["write", "sync"], []]
    entries.append(5, 5)
    entries.truncate(5)
    assert saved(durable=True) == [], "it was in memory alone"
    entries.truncate(2)
    assert [disk.take(), saved(durable=False), saved(durable=True)] == [["truncate a"], [], ["sync"]]
    entries.reset()
    assert [disk.take(), saved(durable=True), saved(durable=True)] == [["truncate a"], ["sync"], []]
    entries.reset()
    assert [disk.take(), saved(durable=True)] == [[], []]


@pytest.mark.parametrize("seed", range(4))
def test_epochs_are_a_list_that_grows_in_both(tmp_path: Path, seed: int) -> None:
    random, path = Random(seed), str(tmp_path / "leader-epoch-checkpoint")
    epochs, model = LeaderEpochs(Disk(), path), list[tuple[int, int]]()
    for _ in range(STEPS):
        epoch, start = model[-1] if model else (0, 0)
        kind, saves = random.randrange(10), random.random() < 0.5
        if kind < 6:
            epoch, start = epoch + random.randint(-1, 3), max(start + random.randint(-3, 10), 0)
            epochs.assign(epoch, start, save=saves)
            if epoch > (model[-1][0] if model else -1):
                model = [*(one for one in model if one[1] < start), (epoch, start)]
        elif kind == 6:
            end = random.randint(max(start - 5, 0), start + 2)
            epochs.truncate_from_end(end, save=saves)
            model = [one for one in model if one[1] < end]
        elif kind == 7:
            first = random.randint(0, start + 2)
            epochs.truncate_from_start(first)
            model = begun_at(model, first)
        elif kind == 8:
            epochs.write()
            epochs.sync()
            again = LeaderEpochs(Disk(), path)
            assert again.load() is bool(model or again.entries or Path(path).exists())
            assert (again.entries, again.latest) == (model, model[-1][0] if model else -1)
        elif random.random() < 0.1:
            epochs.clear()
            model = []
        check_epochs(epochs, model, random.choices(range(start + 5), k=4), start + 50)


def check_epochs(epochs: LeaderEpochs, model: list[tuple[int, int]], offsets: list[int], log_end: int) -> None:
    latest = model[-1][0] if model else -1
    assert (epochs.entries, epochs.latest) == (model, latest)
    for offset in offsets:
        number = bisect_right([one for _, one in model], offset) - 1
        assert epochs.epoch_at(offset) == (model[number][0] if number >= 0 else -1)
    for asked in range(-1, latest + 4):
        assert epochs.end_offset_for(asked, log_end) == expected_end(model, asked, log_end)


def begun_at(model: list[tuple[int, int]], first: int) -> list[tuple[int, int]]:
    before = [one for one in model if one[1] <= first]
    return [(before[-1][0], first), *model[len(before) :]] if before else model


def expected_end(model: list[tuple[int, int]], asked: int, log_end: int) -> tuple[int, int]:
    if asked == -1 or not model or asked > model[-1][0]:
        return -1, -1
    later = [start for epoch, start in model if epoch > asked]
    known = [epoch for epoch, _ in model if epoch <= asked]
    return (known[-1] if known else asked), (later[0] if later else log_end)
