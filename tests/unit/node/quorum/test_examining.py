"""An application that has to wait before it can say that a snapshot is good."""

import asyncio
from typing import Any, cast

from penstock.node.metrics.distribution import Durations
from penstock.node.quorum.applier import Applier
from penstock.node.quorum.ports import Reading, Stores
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.raft.ports import SnapshotId

OLD, NEW = SnapshotId(10, 1), SnapshotId(20, 1)


class Waits:
    """Waits for a future with each snapshot."""

    def __init__(self) -> None:
        self.steps = 0
        self.dropped: list[SnapshotId] = []
        self.futures: dict[SnapshotId, asyncio.Future[None]] = {}

    def read_snapshot(self, content: bytes, snapshot: SnapshotId) -> Reading:
        done = self.futures[snapshot] = asyncio.get_running_loop().create_future()
        self.steps += 1
        try:
            yield done
        except GeneratorExit:
            self.dropped.append(snapshot)
            raise
        self.steps += 1
        return lambda: None


class Host:
    """A driver that follows."""

    def __init__(self, seen: list[SnapshotId]) -> None:
        self.examined = seen.append

    def is_leader(self, epoch: int) -> bool:
        return False

    def fail(self, error: Exception) -> None:
        raise error


def applier_of(application: Waits, examined: list[SnapshotId]) -> Applier:
    stores = Stores(cast("Any", None), cast("Any", None), cast("Any", None))
    return Applier(stores, cast("Any", application), cast("Any", Host(examined)), Durations())


async def turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_it_goes_on_when_what_it_waits_for_is_done() -> None:
    application, examined = Waits(), list[SnapshotId]()
    applier = applier_of(application, examined)
    applier.examine(OLD, b"")
    applier.work()
    await turns()
    assert (application.steps, examined) == (1, [])
    application.futures[OLD].set_result(None)
    await turns()
    assert (application.steps, examined) == (2, [OLD])


async def test_a_newer_snapshot_takes_its_place() -> None:
    application, examined = Waits(), list[SnapshotId]()
    applier = applier_of(application, examined)
    applier.examine(OLD, b"")
    applier.work()
    applier.examine(NEW, b"")
    applier.work()
    assert application.dropped == [OLD]
    for snapshot in (OLD, NEW):
        application.futures[snapshot].set_result(None)
    await turns()
    assert examined == [NEW]


async def test_nothing_is_waited_for_when_the_driver_has_ended() -> None:
    application, examined = Waits(), list[SnapshotId]()
    applier = applier_of(application, examined)
    applier.examine(OLD, b"")
    applier.work()
    applier.end(KafkaError(ErrorCode.NOT_CONTROLLER))
    assert application.dropped == [OLD]
