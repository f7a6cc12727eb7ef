"""Delays of records that came back: by the loop's clock here, which nobody sets, and by the wall clock when written.

So a leader keeps them to the millisecond, whatever happens to its clock. The next one reads when they are over by the
wall clock: they are as wrong then as the two clocks are apart.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.sharing.values import StateBatch


def shifted(batches: Sequence[StateBatch], by_ms: int) -> Sequence[StateBatch]:
    """The same by a clock that is so far ahead."""
    if not any(it.held_until_ms for it in batches):
        return batches
    return [it.replace(held_until_ms=max(it.held_until_ms + by_ms, 0)) if it.held_until_ms else it for it in batches]
