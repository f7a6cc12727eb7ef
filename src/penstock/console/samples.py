"""Figures of the last hour in memory: a time for all, and a value of each name at each time."""

import math
from array import array
from collections.abc import Iterable, Mapping
from typing import Final

KEPT_S: Final = 3_600.0
APART_S: Final = 5.0
"""What comes sooner after the last ones is passed over."""
MAX_NAMES: Final = 4_000
"""With 720 times each: 23 MB."""
_NONE: Final = math.nan

Row = list[float | None]


class Samples:
    def __init__(self) -> None:
        self._times = array("d")
        self._values: dict[str, array[float]] = {}

    def take(self, now_s: float, values: Mapping[str, float]) -> None:
        """`now_s`: since 1970. Names beyond the limit are left out, and one without any value is forgotten."""
        if self._times and 0 <= now_s - self._times[-1] < APART_S:
            return
        gone = sum(not now_s - KEPT_S <= time <= now_s for time in self._times)  # a clock that was set back begins anew
        del self._times[:gone]
        for name in values:
            if name not in self._values and len(self._values) < MAX_NAMES:
                self._values[name] = array("d", [_NONE] * (gone + len(self._times)))
        self._times.append(now_s)
        for name, row in list(self._values.items()):
            del row[:gone]
            row.append(values.get(name, _NONE))
            if all(map(math.isnan, row)):
                del self._values[name]

    def of(self, name: str) -> tuple[list[int], Row]:
        """The times in whole seconds, and the values, None where there was none."""
        row = self._values.get(name, array("d", [_NONE] * len(self._times)))
        return [int(time) for time in self._times], [None if math.isnan(one) else one for one in row]

    def rates_of(self, names: Iterable[str]) -> Row:
        """Of counts, from the second time on: how much those that are known grew per second, together."""
        rows = [self._values[name] for name in names if name in self._values]
        return [self._rate(rows, at) for at in range(1, len(self._times))]

    def _rate(self, rows: list["array[float]"], at: int) -> float | None:
        """A count that fell began anew, and says nothing then."""
        grown = [row[at] - row[at - 1] for row in rows]
        known = [one for one in grown if one >= 0]
        return sum(known) / (self._times[at] - self._times[at - 1]) if known else None
