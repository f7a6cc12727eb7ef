"""What a worker's machine asks of its driver, to be carried out in the order in which it comes."""

from collections.abc import Mapping

from penstock.protocol.value import Value, fresh
from penstock.work.messages import Assignment, Metadata


class Join(Value):
    """The answer is reported with this attempt; an earlier one is given up.

    An empty `member_id` joins as a new member.
    """

    attempt: int
    member_id: str
    metadata: Metadata


class Sync(Value):
    """The leader hands in the assignment of each member, by their ids; others only ask."""

    attempt: int
    member_id: str
    generation: int
    decided: Mapping[str, Assignment] = fresh(dict)


class Beat(Value):
    """The answer is reported with `sent_ms`."""

    member_id: str
    generation: int
    sent_ms: int


class Leave(Value):
    member_id: str


class Start(Value):
    tasks: tuple[str, ...]


class Stop(Value):
    """End in good order, and report each task that has ended."""

    tasks: tuple[str, ...]


class Abandon(Value):
    """End at once, for others may run the tasks already: nothing of theirs may be committed any more."""

    tasks: tuple[str, ...]


class Complain(Value):
    """For the worker's operator."""

    reason: str


Effect = Join | Sync | Beat | Leave | Start | Stop | Abandon | Complain
