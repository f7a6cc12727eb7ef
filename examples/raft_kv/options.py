"""What a server is told at its start."""

from dataclasses import dataclass, field
from functools import partial

from examples.raft_kv.addresses import ServerAddress
from penstock.raft.settings import RaftSettings

LISTENER = "CONTROLLER"
"""The name of a server's one listener in the log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RaftOptions:
    """The names and defaults are those of the raft-java example that this one follows."""

    data_dir: str
    snapshot_min_log_size: int = 10 * 1024
    """A log of fewer bytes behind the last snapshot is not worth another one."""
    snapshot_period_seconds: float = 30
    """How often it is looked at whether a snapshot is due."""
    max_segment_file_size: int = 1024 * 1024
    """A segment of the log that would become larger ends, and a new one begins."""
    keeps_values_in: str = "memory"
    """`memory` or `sqlite`: see `values`."""
    quorum: RaftSettings = field(default_factory=partial(RaftSettings, leases=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """Who a server is, and whom it knows.

    A server that stands in the list is one of the first voters of a new cluster. One that does not is a newcomer: it
    follows the servers of the list until it is made a voter, too.
    """

    servers: tuple[ServerAddress, ...]
    me: ServerAddress
    raft: RaftOptions

    @property
    def is_first_voter(self) -> bool:
        """Whether it was there from the beginning."""
        return self.me in self.servers
