"""A run of a streaming query: batches of tasks, which workers do, and the decision about each, step by step."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from random import Random
from typing import Any

from tests.simulation.once.cluster import Cluster, FencedError

from penstock.client.values import TransactionName
from penstock.pipeline.once.deciding import (
    AbortedError,
    End,
    Fence,
    LateError,
    ListOpen,
    Look,
    OutrunError,
    Step,
    Write,
    deciding,
    giving_up,
    settling,
)
from penstock.pipeline.once.names import TaskNames

QUERY = "q"
TASKS, ROWS = 3, 2


class DriverError(Exception):
    """The query fails, and begins again."""


class Checkpoint:
    """What Spark writes down: which batches are over. A second run that comes to the same batch fails there."""

    def __init__(self) -> None:
        self.done = -1

    def commit(self, batch: int) -> None:
        if batch <= self.done:
            raise DriverError("another run has done it")
        self.done = batch


class Workers:
    """Processes on executors, which outlive drivers; new ones come for those that die."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.count = 0
        self.names = [self._new() for _ in range(TASKS)]

    def _new(self) -> TaskNames:
        self.count += 1
        return TaskNames(QUERY, f"worker{self.count}")

    def kill(self) -> None:
        self.names[self.random.randrange(TASKS)] = self._new()


class Driver:
    def __init__(self, cluster: Cluster, checkpoint: Checkpoint, workers: Workers, random: Random) -> None:
        self.cluster, self.checkpoint, self.workers, self.random = cluster, checkpoint, workers, random
        self.epoch = -1
        self.may_fail = True
        self.prepared: list[TransactionName] = []
        self.lost = 0
        self.steps = self._live()

    def happens(self, probability: float) -> bool:
        return self.may_fail and self.random.random() < probability

    def _live(self) -> Iterator[None]:
        batch = self.checkpoint.done + 1
        while True:
            prepared = yield from self._tasks(batch)
            yield from self._decide(batch, prepared)
            self.checkpoint.commit(batch)
            batch += 1
            yield
            if self.happens(0.1):
                yield from self.end()

    def end(self) -> Iterator[None]:
        """As a run that is stopped, whose tasks may go on for a while."""
        self.prepared = []
        yield from self._take(settling())
        raise DriverError("it is over")

    def leave(self) -> None:
        """A task of an attempt that is given up, on an executor that does not know."""
        batch = self.checkpoint.done
        producer = self.cluster.begin(TaskNames(QUERY, f"late{self.random.random()}").take(batch))
        self.cluster.write(producer, (batch, 0))

    def _tasks(self, batch: int) -> Generator[None, None, list[TransactionName]]:
        """Side by side; one that fails is run again, and its transaction stays as it is."""
        prepared: list[TransactionName] = []
        tasks = [self._task(batch, number, prepared) for number in range(TASKS)]
        while tasks:
            task = self.random.choice(tasks)
            try:
                next(task)
            except StopIteration:
                tasks.remove(task)
            except FencedError:  # its time was over
                tasks[tasks.index(task)] = self._task(batch, TASKS - len(tasks), prepared)
                raise DriverError("a task has failed too often") from None
            yield
        if self.happens(0.05):
            yield from self._give_up(batch, prepared)
        return prepared

    def _task(self, batch: int, number: int, prepared: list[TransactionName]) -> Iterator[None]:
        while True:
            name = self.workers.random.choice(self.workers.names).take(batch)
            producer = self.cluster.begin(name)
            yield
            for row in range(ROWS):
                self.cluster.write(producer, (batch, number * ROWS + row))
                yield
            if not self.happens(0.1):
                prepared.append(producer)
                return
            self.workers.kill()

    # -- the decision -------------------------------------------------------------------------------------------------

    def _decide(self, batch: int, prepared: list[TransactionName]) -> Iterator[None]:
        self.prepared = prepared
        try:
            yield from self._take(deciding(batch, prepared))
        except DriverError:
            yield from self._give_up(batch, prepared)

    def _give_up(self, batch: int, prepared: list[TransactionName]) -> Iterator[None]:
        """As Spark does where a task fails or the decision does, which may be there by then."""
        yield from self._take(giving_up(batch, prepared))
        raise DriverError("the job has failed")

    def _take(self, machine: Generator[Step, Any, Any]) -> Iterator[None]:
        answer: object = None
        while True:
            try:
                step = machine.send(answer)
            except StopIteration:
                return
            except (AbortedError, LateError, OutrunError) as error:
                raise DriverError(str(error)) from error
            answer = self._do(step)
            yield

    def _do(self, step: Step) -> object:
        """An order may arrive late, when whoever gave it is gone."""
        cluster = self.cluster
        if isinstance(step, Fence):
            self.epoch = cluster.fence()
        elif isinstance(step, Look):
            return cluster.last
        elif isinstance(step, ListOpen):
            return [one for one in cluster.open_ones() if one in self.prepared or not self.happens(0.1)]
        elif isinstance(step, Write):
            if not step.decision.aborted and self.happens(0.05):  # a run that ends has time
                return False
            epoch = self.epoch
            self._send(lambda: cluster.decide(epoch, step.decision))
            return True
        elif isinstance(step, End):
            self._send(lambda: cluster.end(step.transaction, commits=step.commits))
            return cluster.end(step.transaction, commits=step.commits)
        return None

    def _send(self, order: object) -> None:
        assert callable(order)
        if self.happens(0.05):
            self.cluster.late.append(order)
            raise DriverError("no answer")
        try:
            order()
        except FencedError as error:
            raise DriverError("another process decides") from error
