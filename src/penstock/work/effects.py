"""What a worker's machine asks of whoever runs it, to be carried out in the order in which it comes."""

from collections.abc import Mapping

from penstock.protocol.value import Value, fresh
from penstock.work.messages import Assignment, Metadata


class Join(Value):
    """Take part in the next generation. The answer is reported with this attempt; an earlier one is given up.

    An empty `member_id` joins as somebody new.
    """

    attempt: int
    member_id: str
    metadata: Metadata


class Sync(Value):
    """Hand in what is decided for each member, by their ids (the leader), or only ask for it (nothing is handed in)."""

    attempt: int
    member_id: str
    generation: int
    decided: Mapping[str, Assignment] = fresh(dict)


class Beat(Value):
    """Tell the coordinator that this member lives, and report its answer with `sent_ms`."""

    member_id: str
    generation: int
    sent_ms: int


class Leave(Value):
    """Tell the coordinator that this member goes."""

    member_id: str


class Start(Value):
    """Run these tasks."""

    tasks: tuple[str, ...]


class Stop(Value):
    """End these tasks in good order and report each that has ended."""

    tasks: tuple[str, ...]


class Abandon(Value):
    """End these tasks at once, for others may run them already: nothing of theirs may be committed any more."""

    tasks: tuple[str, ...]


class Complain(Value):
    """Tell whoever looks after this worker."""

    reason: str


Effect = Join | Sync | Beat | Leave | Start | Stop | Abandon | Complain
