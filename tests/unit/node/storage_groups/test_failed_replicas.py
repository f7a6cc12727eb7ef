import asyncio
from random import Random

import pytest

from penstock.node.storage_groups import failed_replicas
from penstock.node.storage_groups.failed_replicas import FailedReplicas
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.testing.simulator.loop import VirtualLoop

NO_ROOM = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "no room")


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits for a time is due now."""
    monkeypatch.setattr(failed_replicas, "RETRY_S", 0)


@pytest.mark.usefixtures("at_once")
async def test_what_a_disk_refuses_is_tried_again_and_nothing_else() -> None:
    failed = FailedReplicas(lambda: None)
    failed.add(1, NO_ROOM)
    failed.add(2, ValueError("damaged"))
    assert failed.take_due() == [1]
    assert list(failed) == [2]


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("error", [None, NO_ROOM])
async def test_a_replica_is_not_tried_while_it_is_repaired(error: KafkaError | None) -> None:
    woken, repaired = asyncio.Event(), asyncio.Event()

    async def repair() -> None:
        await repaired.wait()
        if error is not None:
            raise error

    failed = FailedReplicas(woken.set)
    failed.add(1, NO_ROOM)
    failed.heal(1, repair())
    assert failed.take_due() == []
    assert 1 in failed
    repaired.set()
    await woken.wait()
    assert failed.take_due() == [1]


async def test_a_repair_that_fails_by_our_own_fault_is_not_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    woken = asyncio.Event()

    async def repair() -> None:
        raise ValueError("a defect")

    failed = FailedReplicas(woken.set)
    failed.heal(1, repair())
    await woken.wait()
    assert failed.take_due() == []
    assert "storage group 1 is not repaired" in caplog.text


async def test_a_complaint_is_logged_once_until_it_takes_part_again(caplog: pytest.LogCaptureFixture) -> None:
    failed = FailedReplicas(lambda: None)
    for _ in range(2):
        failed.complain(1, NO_ROOM)
    assert caplog.messages == ["this node takes no part in storage group 1: no room"]
    failed.forget(1, takes_part=True)
    failed.complain(1, NO_ROOM)
    assert len(caplog.messages) == 2


def test_a_while_passes_before_a_replica_is_tried_again() -> None:
    """After a disk refused it, and after each repair that did not succeed."""
    loop, due = VirtualLoop(Random(1)), dict[float, list[int]]()

    async def repair() -> None:
        raise NO_ROOM

    async def tried() -> None:
        failed = FailedReplicas(lambda: None)
        failed.add(1, NO_ROOM)
        failed.heal(2, repair())
        for part in (0.5, 0.9, 1.1):
            await asyncio.sleep(part * failed_replicas.RETRY_S - loop.time() + begun_s)
            due[part] = failed.take_due()

    begun_s = loop.time()
    loop.run_until_complete(tried())
    assert due == {0.5: [], 0.9: [], 1.1: [1, 2]}
