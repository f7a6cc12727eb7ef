"""How deliveries of a record ended without success: what its dead letter says of that (KIP-1191)."""

from __future__ import annotations

from enum import Enum
from typing import Final

from penstock.protocol.value import Value

MOST_CHARACTERS: Final = 1_000
"""Of a reason that a member gives; the rest is cut off."""


class How(Enum):
    RELEASED = "released"
    LOCK_RAN_OUT = "lock ran out"
    REJECTED = "rejected"


class Failure(Value):
    """`at_ms` by the clock that the share partition is given; `reason` as the member said, perhaps nothing."""

    at_ms: int
    how: How
    reason: str = ""

    @property
    def is_rejection(self) -> bool:
        return self.how is How.REJECTED

    @property
    def text(self) -> str:
        return f"{self.how.value}: {self.reason}" if self.reason else self.how.value


class Failures(Value):
    """Of one record, the first and the last that this leader knows of."""

    first: Failure
    last: Failure


def failed_again(before: Failures | None, failure: Failure) -> Failures:
    return Failures(failure if before is None else before.first, failure)
