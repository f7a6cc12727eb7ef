"""`penstock demo`: small programs that show how something works."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from functools import partial

import click

from penstock.cli.terminal.lines import say
from penstock.cli.terminal.options import declared, option
from penstock.cli.terminal.session import run
from penstock.testing import Cluster
from penstock.work.memory import GroupTask, MemoryQueue, MemoryWorker
from penstock.work.plan import Task, even
from penstock.work.wire import Group
from penstock.work.worker import State, WorkerSettings

GROUP = "test"
TASKS = tuple(Task(f"test{number}") for number in range(1, 6))
WORKERS = ("test-1", "test-2", "test-3")


@click.group("demo")
def command() -> None:
    """Show how something works, by a small program."""


@command.command("two-level")
@declared
def two_level(
    over_wire: bool = option("Over a node that is started for it, instead of a queue in memory."),
    bootstrap_server: str | None = option("With --over-wire: over this cluster instead.", metavar="HOST:PORT,..."),
) -> None:
    """Three workers share five tasks: the broker elects their leader, and the leader says who runs what.

    The one whose position is the largest leads. They join one after the other with positions 1, 2 and 3, and leave in
    the opposite order; each time the group goes into another generation.
    """
    if not over_wire:
        run(_in_memory())
    elif bootstrap_server is not None:
        run(_over_wire(bootstrap_server))
    else:
        with Cluster() as cluster:
            run(_over_wire(cluster.bootstrap_servers))


async def _in_memory() -> None:
    queue = MemoryQueue()
    workers = [MemoryWorker(queue, GROUP, name) for name in WORKERS]
    for worker in workers:
        queue.workers[worker.name] = worker
        worker.on_leading = partial(_print_leader, worker.name)
        worker.on_assigned = partial(_print_tasks, worker.name)
    queue.start()
    for task in TASKS:
        await queue.send(GroupTask(GROUP, task))
    await queue.drain()
    for position, worker in enumerate(workers, start=1):
        await worker.start(position)
    await queue.drain()
    for worker in reversed(workers):
        await worker.stop()
        await queue.drain()
    await queue.stop()


class _Printed:
    """Its tasks are words: they begin and end at once."""

    group: Group

    def start(self, task: str) -> None: ...

    def stop(self, task: str) -> None:
        asyncio.get_running_loop().call_soon(self.group.ended, task)

    def abandon(self, task: str) -> None:
        self.stop(task)

    def complain(self, reason: str) -> None:
        say(reason, err=True)


async def _over_wire(bootstrap_server: str) -> None:
    """As in memory, but that each generation is whole before the next one begins."""
    groups: list[Group] = []
    for position, name in enumerate(WORKERS, start=1):
        runner = _Printed()
        settings = WorkerSettings(name=name, planner=even, cooperative=False, heartbeat_interval_ms=100)
        runner.group = group = Group(bootstrap_server, f"demo-{GROUP}", settings, runner)
        group.set_tasks(TASKS)
        await group.start(position)
        groups.append(group)
        await _print_generation(groups)
    while groups:
        await groups.pop().stop()
        await _print_generation(groups)


async def _print_generation(groups: list[Group]) -> None:
    """Waits until all of them are in one generation without other members."""
    names = {group.machine.settings.name for group in groups}
    news = asyncio.Event()
    for group in groups:
        group.on_generation = news.set
    while not _is_whole(groups, names):
        await news.wait()
        news.clear()
        for group in groups:
            if group.failure is not None:
                raise group.failure
    for group in groups:
        if group.machine.leads:
            _print_leader(group.machine.settings.name, group.machine.generation)
    for group in groups:
        assert group.machine.assignment is not None
        name = group.machine.settings.name
        _print_tasks(name, group.machine.generation, group.machine.assignment.step.plan[name])


def _is_whole(groups: list[Group], names: set[str]) -> bool:
    return len({group.machine.generation for group in groups}) <= 1 and all(
        group.machine.state is State.MEMBER
        and group.machine.assignment is not None
        and group.machine.assignment.step.plan.keys() == names
        for group in groups
    )


def _print_leader(name: str, generation: int) -> None:
    say(f"Generation [{generation}] leaderID [{name}]")


def _print_tasks(name: str, generation: int, tasks: Iterable[str]) -> None:
    say(f"Generation [{generation}] worker [{name}] run tasks: [{'||'.join(tasks)}]")
