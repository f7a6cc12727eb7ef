"""Who watches a simulated cluster meets none of its faults, and leaves alone who is about to end."""

from types import SimpleNamespace
from typing import cast

from penstock.testing.simulator.disk import DiskConditions
from penstock.testing.simulator.machine import Machine
from penstock.testing.simulator.watchman import check_logs


class Watched:
    """A machine whose disk is dead, and what was looked at."""

    def __init__(self, *, has_failed: bool = False) -> None:
        self.is_up, self.is_paused = True, False
        self.disk = SimpleNamespace(conditions=DiskConditions(read_errors=1), crash_in=3, error_in=2)
        self.observer = SimpleNamespace(has_failed=has_failed, check_log=self._check_log)
        self.seen: list[tuple[DiskConditions, int | None, int | None]] = []

    @property
    def faults(self) -> tuple[DiskConditions, int | None, int | None]:
        return self.disk.conditions, self.disk.crash_in, self.disk.error_in

    def _check_log(self) -> None:
        self.seen.append(self.faults)


def test_a_look_at_a_log_meets_no_fault_of_the_disk_and_ends_none() -> None:
    watched = Watched()
    check_logs([cast("Machine", watched)])
    assert watched.seen == [(DiskConditions(), None, None)]
    assert watched.faults == (DiskConditions(read_errors=1), 3, 2)


def test_the_log_of_a_node_that_is_about_to_end_is_left_alone() -> None:
    watched = Watched(has_failed=True)
    check_logs([cast("Machine", watched)])
    assert watched.seen == []
