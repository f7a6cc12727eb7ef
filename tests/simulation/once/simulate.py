"""One run from a seed: drivers, workers and the network fail anywhere; what died may go on for a while all the same."""

from __future__ import annotations

from collections import Counter
from random import Random

from tests.simulation.once.cluster import Cluster, FencedError
from tests.simulation.once.drivers import ROWS, TASKS, Checkpoint, Driver, DriverError, Workers

from penstock.pipeline.once.deciding import LostError

STEPS = 1_500


class ViolationError(AssertionError):
    """A row is there twice, or is missing, or something hangs."""


class World:
    def __init__(self, seed: int, *, keeps: bool) -> None:
        self.random = Random(seed)
        self.cluster = Cluster(keeps=keeps)
        self.checkpoint = Checkpoint()
        self.workers = Workers(self.random)
        self.zombies: list[Driver] = []
        self.runs = 0
        self.lost: list[LostError] = []
        self.driver = self._new_driver()

    def _new_driver(self) -> Driver:
        self.runs += 1
        return Driver(self.cluster, self.checkpoint, self.workers, self.random)

    def step(self) -> None:
        chance = self.random.random()
        if chance < 0.01:
            self.zombies.append(self.driver)
            self.driver = self._new_driver()
        elif chance < 0.02:
            self.workers.kill()
        elif chance < 0.1 and self.cluster.late:
            self._arrive()
        elif chance < 0.3 and self.zombies:
            zombie = self.random.choice(self.zombies)
            if self.random.random() < 0.05 or not self._advance(zombie):
                self.zombies.remove(zombie)
        elif chance < 0.302 and self.cluster.ids:
            self.cluster.time_out(self.random.choice(list(self.cluster.ids)))
        elif chance < 0.306:
            self.zombies.append(self._ending())
        elif not self._advance(self.driver):
            self.driver = self._new_driver()

    def _ending(self) -> Driver:
        """A run that was stopped some time ago."""
        driver = self._new_driver()
        driver.steps = driver.end()
        return driver

    def _advance(self, driver: Driver) -> bool:
        try:
            next(driver.steps)
        except (DriverError, FencedError):
            return False
        except LostError as error:
            if self.cluster.is_decision_lost:  # else another run has gone on with the ids
                self.lost.append(error)
            return False
        return True

    def _arrive(self) -> None:
        try:
            self.cluster.arrive(self.random.randrange(len(self.cluster.late)))
        except FencedError:
            pass

    def heal(self) -> None:
        """What is late arrives, one driver is left, does two batches more and is stopped when a task has come late."""
        self.zombies.clear()
        while self.cluster.late:
            self._arrive()
        self.driver, wanted = self._new_driver(), self.checkpoint.done + 2
        self.driver.may_fail = False
        for _ in range(1_000):
            if self.checkpoint.done >= wanted:
                self._check_ends()
                self.driver.leave()
                self.driver.steps = self.driver.end()
                while self._advance(self.driver):
                    pass
                return
            if not self._advance(self.driver):
                if self.lost:
                    return
                self.driver = self._new_driver()
                self.driver.may_fail = False
        raise ViolationError("the query does not go on")

    def check(self) -> None:
        if self.lost and self.cluster.keeps:
            raise ViolationError(f"what was decided is lost: {self.lost[0]}")
        if self.lost:
            return  # it was noticed
        counts = Counter(self.cluster.visible)
        twice = [row for row, count in counts.items() if count > 1]
        if twice:
            raise ViolationError(f"rows are there twice: {twice}")
        wanted = {(batch, row) for batch in range(self.checkpoint.done + 1) for row in range(TASKS * ROWS)}
        if set(counts) != wanted:
            raise ViolationError(f"rows are missing or too many: {sorted(set(counts) ^ wanted)[:4]}")
        self._check_ends()

    def _check_ends(self) -> None:
        if self.cluster.open_ones():
            raise ViolationError(f"{self.cluster.open_ones()} hang")


def simulate(seed: int, *, keeps: bool = True, steps: int = STEPS) -> World:
    """Raises `ViolationError`. Without `keeps` transactions time out, and that a decision is lost has to be noticed."""
    world = World(seed, keeps=keeps)
    for _ in range(steps):
        world.step()
        if world.lost:
            break
    if not world.lost:
        world.heal()
    world.check()
    return world
