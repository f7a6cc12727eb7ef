import asyncio
from random import Random

import pytest

from penstock.testing.simulator.loop import VirtualLoop
from penstock.work.memory import Action, GroupRequest, GroupTask, MemoryQueue, MemoryWorker
from penstock.work.plan import Member, Task


class Listener:
    def __init__(self) -> None:
        self.heard: list[object] = []

    def execute(self, event: object) -> None:
        self.heard.append(event)


async def test_what_no_coordinator_knows_goes_to_all() -> None:
    queue, listeners = MemoryQueue(), [Listener(), Listener()]
    for number, listener in enumerate(listeners):
        queue.workers[f"listener-{number}"] = listener
    queue.start()
    await queue.send("news")
    await queue.stop()
    assert [listener.heard for listener in listeners] == [["news"], ["news"]]


async def test_a_receiver_that_raises_keeps_nothing_from_the_others(caplog: pytest.LogCaptureFixture) -> None:
    class Raising:
        def execute(self, event: object) -> None:
            raise ValueError("not me")

    queue, listener = MemoryQueue(), Listener()
    queue.workers = {"raising": Raising(), "listener": listener}
    queue.start()
    await queue.send("first")
    await queue.send("second")
    await queue.stop()
    assert listener.heard == ["first", "second"]
    assert "raising does not take 'first'" in caplog.text


@pytest.mark.parametrize("size", [1, 100])
async def test_what_was_posted_is_handled_before_it_is_drained(size: int) -> None:
    """Also where there is no room for it yet."""
    queue, listener = MemoryQueue(size), Listener()
    queue.workers["listener"] = listener
    queue.start()
    for _ in range(2):
        for number in range(3):
            queue.post(number)
        await queue.drain()
    assert listener.heard == [0, 1, 2, 0, 1, 2]
    await queue.stop()


async def test_stop_returns_when_all_is_handled() -> None:
    queue, listener = MemoryQueue(), Listener()
    queue.workers["listener"] = listener
    queue.start()
    sending = [asyncio.create_task(queue.send(number)) for number in range(100)]
    await asyncio.gather(*sending)
    await queue.stop()
    assert listener.heard == list(range(100))


async def test_the_queue_is_bounded() -> None:
    queue = MemoryQueue(size=10)
    for number in range(10):
        await queue.send(number)
    one_more = asyncio.create_task(queue.send(10))
    await asyncio.sleep(0)
    assert not one_more.done()
    queue.start()
    await one_more
    await queue.stop()


async def test_groups_have_coordinators_of_their_own() -> None:
    queue = MemoryQueue()
    queue.start()
    for group in ("red", "blue", "blue"):
        await queue.send(GroupRequest(group, Action.JOIN, Member("worker")))
    await queue.stop()
    assert {group: one.generation for group, one in queue.coordinators.items()} == {"red": 1, "blue": 1}


async def test_the_largest_position_leads_and_the_first_of_those_that_are_level() -> None:
    coordinator = MemoryQueue().coordinator("group")
    leaders = []
    for name, position in (("a", 5), ("b", 5), ("c", 9)):
        coordinator.add_member(Member(name, position), 0)
        leaders.append(coordinator.leader)
    assert leaders == ["a", "a", "c"]


async def test_a_task_that_is_added_begins_a_generation() -> None:
    queue = MemoryQueue()
    queue.start()
    worker, ran = MemoryWorker(queue, "group", "worker"), list[str]()
    worker.run = ran.append
    await queue.send(GroupTask("group", Task("one")))
    await worker.start(1)
    await queue.drain()
    assert (queue.coordinator("group").generation, ran) == (1, ["one"])
    await queue.send(GroupTask("group", Task("two")))
    await queue.drain()
    assert (queue.coordinator("group").generation, ran) == (2, ["one", "one", "two"])
    await worker.stop()
    await queue.stop()


async def test_a_worker_that_stops_hears_nothing_more_and_others_take_its_tasks() -> None:
    queue = MemoryQueue()
    queue.start()
    first, second = (MemoryWorker(queue, "group", name) for name in ("first", "second"))
    ended, ran = list[str](), list[str]()
    first.end, second.run = ended.append, ran.append
    await queue.send(GroupTask("group", Task("one")))
    await first.start(1)
    await second.start(2)
    await queue.drain()
    assert ran == []
    await first.stop()
    await queue.drain()
    assert list(queue.workers) == ["second"]
    assert (ended[-1:], ran) == (["one"], ["one"])
    await second.stop()
    await queue.stop()
    assert queue.workers == {}


def test_a_worker_that_hangs_is_replaced_and_comes_back() -> None:
    async def scenario() -> None:
        queue = MemoryQueue()
        queue.start()
        await queue.send(GroupTask("group", Task("one")))
        await queue.send(GroupTask("group", Task("two")))
        hanging, other = (MemoryWorker(queue, "group", name) for name in ("hanging", "other"))
        await hanging.start(1)
        await other.start(2)
        await queue.drain()
        assert list(hanging.machine.running) == ["one"]
        assert hanging._beating is not None
        hanging._beating.cancel()
        await asyncio.sleep(20)
        assert list(queue.coordinator("group").heartbeats) == ["other"]
        assert (list(hanging.machine.running), list(other.machine.running)) == ([], ["one", "two"])
        hanging._beating = asyncio.create_task(hanging._beat())
        await asyncio.sleep(5)
        assert sorted([*hanging.machine.running, *other.machine.running]) == ["one", "two"]
        assert len(queue.coordinator("group").members) == 2
        for worker in (hanging, other):
            await worker.stop()
        await queue.stop()

    VirtualLoop(Random(0)).run_until_complete(scenario())
