"""The stored log does what the model of the ports does that the consensus core is simulated with.

The same seeded operations go to both; the second test pulls the plug of a simulated disk in between.
"""

from pathlib import Path
from random import Random

import pytest
from tests.simulation.memory import BEGINNING, Contents, MemoryLog, MemorySnapshots
from tests.unit.node.quorum.stores import Store, batch

from penstock.log.config import LogConfig
from penstock.node.quorum.stored_log import StoredLog
from penstock.protocol.records import iterate_batches
from penstock.raft.ports import SnapshotId
from penstock.testing.simulator.disk import HostDisk, SimulatedDisk
from penstock.testing.simulator.loop import KilledError, Process, VirtualLoop

STEPS = 80


class Pair:
    """A stored log and its model."""

    def __init__(self, random: Random, directory: str, disk: SimulatedDisk | None = None) -> None:
        config = LogConfig(segment_bytes=random.choice((150, 400, 2000)), index_interval_bytes=50, retention_ms=-1)
        self.random = random
        self.store = Store(directory, config, disk)
        self.memory = MemoryLog()
        self.snapshots = MemorySnapshots()
        self.epoch = 1
        self.led = {1}
        self.before_cuts: list[Contents] = []
        self.is_cut_covered = False

    def begin_epoch(self) -> None:
        """One in which nobody wrote before; it may be older than what was cut from the log."""
        first = max(self.memory.last_epoch, 1)
        free = [epoch for epoch in range(first, max([first, *self.led]) + 3) if epoch not in self.led]
        self.epoch = self.random.choice(free)
        self.led.add(self.epoch)

    def append(self) -> None:
        random, memory = self.random, self.memory
        if random.random() < 0.3:
            self.begin_epoch()
        data, offset = b"", memory.end_offset
        for _ in range(random.randint(1, 3)):
            count = random.randint(1, 4)
            data += batch(offset, self.epoch, count, bytes(random.randint(0, 60)))
            offset += count
        self.is_cut_covered = True
        memory.append(data)
        self.store.log.append(data)

    def truncate(self) -> None:
        """What is cut is in no snapshot, and another leader has something else in its place."""
        memory, latest = self.memory, self.snapshots.latest
        least = max(memory.start_offset, latest.end_offset if latest else 0)
        end_offset = self.random.randint(least, memory.end_offset)
        if self.random.random() < 0.3:
            end_offset = max(memory.end_offset - 1, least)
        self.before_cuts += [memory.disk, memory.contents()]
        self.is_cut_covered = False
        memory.truncate(end_offset)
        self.store.log.truncate(end_offset)
        self.begin_epoch()

    def take_snapshot(self) -> SnapshotId | None:
        memory = self.memory
        if not memory.batches:
            return None
        last = self.random.choice(memory.batches)
        snapshot = SnapshotId(last.last_offset + 1, last.epoch)
        latest = self.snapshots.latest
        if latest is not None and snapshot.end_offset <= latest.end_offset:
            return None
        self._put(snapshot)
        return snapshot

    def start_behind(self) -> None:
        snapshot = self.take_snapshot()
        if snapshot is not None:
            self.memory.start_behind(snapshot)
            self.store.log.start_behind(snapshot)

    def start_anew(self) -> None:
        """Behind a snapshot that the log does not hold: records of the log may be of newer epochs all the same."""
        memory, latest = self.memory, self.snapshots.latest
        least = max(memory.start_offset, latest.end_offset if latest else 0) + 1
        snapshot = SnapshotId(
            least + self.random.randint(0, 20), self.random.randint(memory.start_epoch, memory.last_epoch + 1)
        )
        if snapshot.end_offset <= memory.end_offset and memory.epoch_at(snapshot.end_offset - 1) == snapshot.epoch:
            return
        memory.start_anew(snapshot)
        self.begin_epoch()
        self._put(snapshot)
        self.store.log.start_anew(snapshot)

    def _put(self, snapshot: SnapshotId) -> None:
        content = self.random.randbytes(self.random.randint(1, 50))
        if self.random.random() < 0.5:
            self.snapshots.store(snapshot, content)
            self.store.snapshots.write(snapshot, [content[:10], content[10:]])
            return
        for side in (self.snapshots, self.store.snapshots):
            side.begin(snapshot)
            side.add(snapshot, content[:20])
            side.add(snapshot, content[20:])
            side.finish(snapshot)

    def flush(self) -> None:
        self.store.log.flush()
        self.memory.flush()
        if self.is_cut_covered:
            self.before_cuts.clear()

    def restart(self) -> None:
        (self.store.restart if self.random.random() < 0.5 else self.store.crash)()
        assert self.store.snapshots.latest == self.snapshots.latest
        for log in (self.store.log, self.memory):
            start_as_the_core_does(log, self.snapshots.latest)

    def step(self) -> None:
        acts = [self.append] * 6 + [self.truncate] * 2 + [self.flush, self.start_behind, self.take_snapshot]
        if self.random.random() < 0.2:
            acts = [self.start_anew, self.restart]
        self.random.choice(acts)()

    def compare(self) -> None:
        mine, model = self.store.log, self.memory
        for name in ("start_offset", "start_epoch", "end_offset", "last_epoch"):
            assert getattr(mine, name) == getattr(model, name), name
        for offset in range(model.start_offset - 1, model.end_offset):
            assert mine.epoch_at(offset) == model.epoch_at(offset), f"epoch at {offset}"
        for epoch in range(max(self.led) + 2):
            assert mine.end_offset_for_epoch(epoch) == model.end_offset_for_epoch(epoch), f"end of epoch {epoch}"
        assert stored_batches(self.store) == [found.data for found in model.batches]
        offset = self.random.randint(model.start_offset, model.end_offset)
        max_bytes = self.random.choice((1, 100, 300, 100_000))
        read, expected = mine.read(offset, max_bytes), model.read(offset, max_bytes)
        assert expected.startswith(read), "a read may end with a segment, but only between batches"
        assert bool(read) == bool(expected)
        assert [header.base_offset for _, header in iterate_batches(read)][:1] == [
            header.base_offset for _, header in iterate_batches(expected)
        ][:1]
        for snapshot in self.snapshots.whole:
            size = self.store.snapshots.size(snapshot)
            if size is not None:
                assert self.store.snapshots.load(snapshot) == self.snapshots.whole[snapshot]
                assert self.store.snapshots.read(snapshot, 3, 9) == self.snapshots.read(snapshot, 3, 9)
        assert self.store.snapshots.latest == self.snapshots.latest


def start_as_the_core_does(log: StoredLog | MemoryLog, latest: SnapshotId | None) -> None:
    """See `Replica.start`; the model does not know by itself where a log begins that a snapshot was taken of."""
    if latest is None:
        return
    if log.end_offset < latest.end_offset or log.epoch_at(latest.end_offset - 1) != latest.epoch:
        log.start_anew(latest)
    elif latest.end_offset > log.start_offset:
        log.start_behind(latest)


def stored_batches(store: Store) -> list[bytes]:
    found: list[bytes] = []
    offset = store.log.start_offset
    while offset < store.log.end_offset:
        data = store.log.read(offset, 200)
        assert data, f"nothing at {offset}"
        for position, header in iterate_batches(data):
            assert header.base_offset == offset, f"a hole at {offset}"
            found.append(data[position : position + header.size_in_bytes])
            offset = header.last_offset + 1
    return found


@pytest.mark.parametrize("seed", range(20))
def test_it_agrees_with_the_model(seed: int, tmp_path: Path) -> None:
    pair = Pair(Random(seed), str(tmp_path))
    for _ in range(STEPS):
        pair.step()
        pair.compare()


class Plug:
    """A pair on a simulated disk, whose process dies in the middle of a call and mostly takes the power with it."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.host = HostDisk(VirtualLoop(self.random), self.random)
        self.host.add_root("/data")
        self.host.root.sync()
        self.pair = Pair(self.random, "/data", self._process())
        self.checkpoint = (0, 0)
        self.states: list[tuple[Contents, Contents]] = []
        self.latest: SnapshotId | None = None

    def _process(self) -> SimulatedDisk:
        process = Process("host")
        self.host.on_crash = process.kill
        return SimulatedDisk(self.host, process)

    def step(self) -> None:
        random, pair = self.random, self.pair
        self.states = [(pair.memory.disk, pair.memory.contents())]
        self.latest = pair.snapshots.latest
        if random.random() < 0.15:
            self.host.crash_in = random.randint(1, 12)
        try:
            pair.step()
            pair.compare()
            if random.random() < 0.1:
                partition = pair.store.partition
                self.checkpoint = partition.recovery_point, partition.start_to_checkpoint or 0
        except KilledError:
            self._come_back()

    def _come_back(self) -> None:
        pair, store = self.pair, self.pair.store
        power_lost = self.random.random() < 0.7
        if power_lost:
            self.host.lose_power()
        self.host.crash_in = None
        store.disk = self._process()
        store.open(recovery_point=self.checkpoint[0], log_start_offset=self.checkpoint[1])
        latest = store.snapshots.latest
        start_as_the_core_does(store.log, latest)
        found = stored_batches(store)
        start = latest or BEGINNING
        assert start >= (self.latest or BEGINNING), "a whole snapshot was lost"
        assert (store.log.start_offset, store.log.start_epoch) == (start.end_offset, start.epoch)
        self.states.append((pair.memory.disk, pair.memory.contents()))
        self.states += [(cut, pair.memory.contents()) for cut in pair.before_cuts]  # a cut alone needs not be durable
        assert any(may_be_left(found, start, *state) for state in self.states), "more was lost than may be"
        if power_lost:
            pair.before_cuts.clear()
        flushed = tuple(each for each in pair.memory.disk.batches if each.base_offset >= start.end_offset)
        pair.memory = MemoryLog(Contents(start))
        if found:
            pair.memory.append(b"".join(found))
        pair.memory.disk = pair.memory.contents() if power_lost else Contents(start, flushed)
        pair.begin_epoch()
        pair.snapshots.partial = {}
        for snapshot in [each for each in pair.snapshots.whole if store.snapshots.size(each) is None]:
            del pair.snapshots.whole[snapshot]
        pair.compare()


def may_be_left(found: list[bytes], start: SnapshotId, disk: Contents, live: Contents) -> bool:
    """What was flushed and not cut since must be there; of the rest anything that once was a log."""
    flushed, written = behind(start, disk), behind(start, live)
    common = 0
    while common < min(len(flushed), len(written)) and flushed[common] == written[common]:
        common += 1
    return len(found) >= common and found in (flushed[: len(found)], written[: len(found)])


def behind(start: SnapshotId, contents: Contents) -> list[bytes]:
    batches = [each for each in contents.batches if each.base_offset >= start.end_offset]
    return [each.data for each in batches] if batches and batches[0].base_offset == start.end_offset else []


@pytest.mark.parametrize("seed", range(60))
def test_nothing_is_lost_that_was_flushed(seed: int) -> None:
    plug = Plug(seed)
    for _ in range(STEPS):
        plug.step()
