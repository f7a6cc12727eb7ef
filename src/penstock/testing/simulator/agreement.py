"""What all nodes of a cluster must agree upon, over all their lives: a producer id is given once."""

from __future__ import annotations

from collections.abc import Callable


class Agreement:
    """Keeps what was seen anywhere; `violated` is told what does not go together."""

    def __init__(self, violated: Callable[[str], None]) -> None:
        self._violated = violated
        self._producer_ids: dict[int, str] = {}

    def producer_id(self, producer_id: int, owner: str) -> None:
        """A producer was given an id."""
        first = self._producer_ids.setdefault(producer_id, owner)
        if first != owner:
            self._violated(f"producer id {producer_id} was given to {first} and to {owner}")
