"""A quorum of one has no peers: nobody is asked, and nobody tells anything."""

from collections.abc import Callable

from penstock.node.quorum.ports import PeerAnswer
from penstock.raft.requests import PeerRequest
from penstock.raft.voters import Endpoint, Quorum


class NoPeers:
    """`PeerLinks` that reach nobody: those of a replica that is its whole quorum."""

    def start(
        self,
        quorum: Callable[[], Quorum],
        answered: Callable[[int, PeerRequest, PeerAnswer], None],
        failed: Callable[[int, PeerRequest], None],
    ) -> None:
        """See `PeerLinks`."""

    def send(self, to: int, request: PeerRequest) -> None:
        """See `PeerLinks`; a log that names other voters needs a node that has a listener for them."""
        raise AssertionError(f"a quorum of one asks node {to}")

    def learn(self, node_id: int, host: str, port: int) -> None:
        """See `PeerLinks`."""

    def endpoint_of(self, node_id: int) -> Endpoint | None:
        """See `PeerLinks`."""
        return None

    def hears(self, node_id: int) -> bool:
        """See `PeerLinks`."""
        return False

    async def settle(self, kind: type[PeerRequest], timeout_ms: int) -> None:
        """See `PeerLinks`."""

    async def stop(self) -> None:
        """See `PeerLinks`."""
