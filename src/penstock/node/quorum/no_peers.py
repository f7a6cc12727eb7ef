"""A quorum of one has no peers to ask or to tell."""

from collections.abc import Callable, Sequence

from penstock.node.quorum.ports import PeerAnswer
from penstock.protocol.requests.framing import Traffic
from penstock.raft.requests import PeerRequest
from penstock.raft.voters import Endpoint, Quorum


class NoPeers:
    """`PeerLinks` of a replica that is its whole quorum."""

    def start(
        self,
        quorum: Callable[[], Quorum],
        answered: Callable[[int, PeerRequest, PeerAnswer], None],
        failed: Callable[[int, PeerRequest], None],
    ) -> None: ...

    def send(self, to: int, request: PeerRequest) -> None:
        """A log that names other voters needs a node that has a listener for them."""
        raise AssertionError(f"a quorum of one asks node {to}")

    def learn(self, node_id: int, endpoints: Sequence[Endpoint]) -> None: ...

    def endpoint_of(self, node_id: int, listener: str | None = None) -> Endpoint | None:
        return None

    @property
    def traffic(self) -> Traffic:
        return Traffic()

    def hears(self, node_id: int) -> bool:
        return False

    async def settle(self, kind: type[PeerRequest], timeout_ms: int) -> None: ...

    async def stop(self) -> None: ...
