"""What a node is told at its start."""

from typing import Final

from penstock.protocol.value import Value
from penstock.raft.settings import RaftSettings
from penstock.replicated.addresses import ServerAddress

LISTENER: Final = "CONTROLLER"
"""The name of a node's one listener in the log."""


class NodeOptions(Value, kw_only=True):
    """Who a node is, whom it knows, when it takes snapshots and ends segments.

    A node that stands in the list is one of the first voters of a new cluster. One that does not is a newcomer: it
    follows the servers of the list until it is made a voter, too.
    """

    servers: tuple[ServerAddress, ...]
    me: ServerAddress
    directory: str
    cluster_id: str = "penstock-replicated"
    """A node of another cluster is refused, and so is the directory of one."""
    max_entry_bytes: int = 1024 * 1024
    """An entry with its key is refused if it is larger."""
    snapshot_min_log_size: int = 10 * 1024
    """A log of fewer bytes behind the last snapshot is not worth another one."""
    snapshot_period_seconds: float = 30
    """How often it is looked at whether a snapshot is due."""
    max_segment_file_size: int = 1024 * 1024
    """A segment of the log that would become larger ends, and a new one begins."""
    quorum: RaftSettings = RaftSettings(leases=True)

    @property
    def is_first_voter(self) -> bool:
        """Whether it was there from the beginning."""
        return self.me in self.servers
