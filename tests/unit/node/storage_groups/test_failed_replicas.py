import asyncio
from functools import partial
from random import Random

import pytest
from tests.unit.node.turns import until

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
    failed.add(3, KafkaError(ErrorCode.CORRUPT_MESSAGE))
    assert failed.take_due() == [1]
    assert failed.take_due() == []
    assert (list(failed), len(failed)) == ([2, 3], 2)


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
    failed.heal(1, repair)
    assert failed.take_due() == []
    assert 1 in failed
    repaired.set()
    await until(woken.is_set)
    assert failed.take_due() == [1]


async def test_a_repair_that_fails_by_our_own_fault_is_not_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    woken = asyncio.Event()

    async def repair() -> None:
        raise ValueError("a defect")

    failed = FailedReplicas(woken.set)
    failed.heal(1, repair)
    await until(woken.is_set)
    assert failed.take_due() == []
    assert "storage group 1 is not repaired" in caplog.text


async def test_a_repair_ends_when_its_group_goes_elsewhere_and_another_may_begin() -> None:
    woken, repaired, begun = asyncio.Event(), asyncio.Event(), list[int]()

    async def repair(number: int) -> None:
        begun.append(number)
        await repaired.wait()
        begun.append(-number)

    failed = FailedReplicas(woken.set)
    for number in (1, 2):
        failed.heal(7, partial(repair, number))
        await until(lambda number=number: number in begun)  # type: ignore[misc]
        if number == 1:
            failed.forget(7)
    repaired.set()
    await until(woken.is_set)
    assert begun == [1, 2, -2]
    assert failed.take_due() == [7]
    failed.heal(7, partial(repair, 3))
    failed.forget(7)
    await failed.stop()
    assert 7 not in failed


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
    loop, due = VirtualLoop(Random(1)), list[list[int]]()

    async def repair() -> None:
        raise NO_ROOM

    async def tried() -> None:
        failed = FailedReplicas(lambda: None)
        failed.add(1, NO_ROOM)
        failed.heal(2, repair)
        for after_s in (2.5, 4.5, 5.5):
            await asyncio.sleep(after_s - loop.time() + begun_s)
            due.append(failed.take_due())

    begun_s = loop.time()
    loop.run_until_complete(tried())
    assert due == [[], [], [1, 2]]


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (NO_ROOM, "no room"),
        (KafkaError(ErrorCode.CORRUPT_MESSAGE), "CORRUPT_MESSAGE"),
        (ValueError("damaged"), "damaged"),
        (ValueError(), "ValueError()"),
    ],
)
async def test_an_operator_is_told_why(caplog: pytest.LogCaptureFixture, error: Exception, why: str) -> None:
    failed = FailedReplicas(lambda: None)
    failed.complain(1, error)
    failed.complain(1, KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "another reason"))
    failed.complain(2, KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "another reason"))
    start = "this node takes no part in storage group"
    assert caplog.messages == [f"{start} 1: {why}", f"{start} 1: another reason", f"{start} 2: another reason"]


async def test_what_is_forgotten_is_not_tried_and_was_told_all_the_same(caplog: pytest.LogCaptureFixture) -> None:
    failed = FailedReplicas(lambda: None)
    failed.add(1, NO_ROOM)
    failed.complain(1, NO_ROOM)
    failed.forget(1)
    failed.complain(1, NO_ROOM)
    assert (1 in failed, len(failed), len(caplog.messages)) == (False, 0, 1)
    failed.forget(2, takes_part=True)
