"""Figures of the last hour in memory: a time for all, and a value of each name at each time."""

import math
from array import array
from collections.abc import Mapping
from typing import Final

KEPT_S: Final = 3_600.0
MAX_TIMES: Final = 720
MAX_NAMES: Final = 4_000
"""With as many times: 23 MB."""
_NONE: Final = math.nan


class Samples:
    def __init__(self) -> None:
        self._times = array("d")
        self._values: dict[str, array[float]] = {}

    def take(self, now_s: float, values: Mapping[str, float]) -> None:
        """`now_s`: since 1970. Names beyond the limit are left out, and one without any value is forgotten."""
        gone = sum(time < now_s - KEPT_S for time in self._times)
        gone = max(gone, len(self._times) + 1 - MAX_TIMES)
        del self._times[:gone]
        self._times.append(now_s)
        for name in values:
            if name not in self._values and len(self._values) < MAX_NAMES:
                self._values[name] = array("d", [_NONE] * (gone + len(self._times) - 1))
        for name, row in list(self._values.items()):
            del row[:gone]
            row.append(values.get(name, _NONE))
            if all(map(math.isnan, row)):
                del self._values[name]

    def of(self, *names: str) -> tuple[list[int], list[list[float | None]]]:
        """The times in whole seconds, and for each name its values, None where there was none."""
        nothing = array("d", [_NONE] * len(self._times))
        rows = [self._values.get(name, nothing) for name in names]
        return [int(time) for time in self._times], [[None if math.isnan(one) else one for one in row] for row in rows]

    def rates_of(self, *names: str) -> tuple[list[int], list[list[float | None]]]:
        """Of counts: how much they grew per second. A count that fell began anew, and says nothing then."""
        times, rows = self.of(*names)
        return times[1:], [[_rate(times, row, at) for at in range(1, len(row))] for row in rows]


def _rate(times: list[int], row: list[float | None], at: int) -> float | None:
    before, now, passed = row[at - 1], row[at], times[at] - times[at - 1]
    if before is None or now is None or now < before or passed <= 0:
        return None
    return (now - before) / passed
