"""What the consensus core asks of the node that runs it.

Effects are carried out in the order in which they come, each before the next: a vote is on the disk before it is sent.
Only `Flush`, `Examine` and `Send` take time of their own; what comes of them is reported later.
"""

from penstock.protocol.value import Value
from penstock.raft.ports import SnapshotId
from penstock.raft.requests import Answer, PeerRequest
from penstock.raft.voters import ReplicaKey

Token = object
"""Stands for a request that waits: the node hands it in with the event and gets it back with the answer."""

ANY_SERVER = -1
"""A destination: any of the bootstrap servers, for a node that knows no voter yet."""


class ElectionState(Value):
    epoch: int = 0
    leader_id: int | None = None
    voted: ReplicaKey | None = None


class Persist(Value):
    """Put the state on the disk before anything else is done."""

    state: ElectionState


class Send(Value):
    """Report the answer with this very request, or `request_failed`."""

    to: int
    request: PeerRequest


class Reply(Value):
    """Answer the request that `token` stands for. Each token is answered exactly once."""

    token: Token
    answer: Answer


class Flush(Value):
    """Bring the log to the disk as it is now, then report `flushed`. At most one is under way."""


class Commit(Value):
    high_watermark: int


class Examine(Value):
    """See that a whole snapshot can be read, and report `examined`. A newer `Examine` takes the place of this one."""

    snapshot: SnapshotId


class LoadSnapshot(Value):
    """The log starts behind this snapshot now: throw away what was applied and load it."""

    snapshot: SnapshotId


class Announce(Value):
    """Tell the application who leads; None: not known."""

    leader_id: int | None
    epoch: int


Effect = Persist | Send | Reply | Flush | Commit | Examine | LoadSnapshot | Announce
