"""Peers that say what a test lets them say."""

from collections.abc import Callable, Sequence

from penstock.node.quorum.ports import PeerAnswer
from penstock.protocol.requests.framing import Traffic
from penstock.raft.requests import PeerRequest
from penstock.raft.voters import Endpoint, Quorum


class ScriptedPeers:
    """Keeps what was sent; the test answers."""

    def __init__(self) -> None:
        self.sent: list[tuple[int, PeerRequest]] = []
        self.is_stopped = False
        self.quorum: Callable[[], Quorum] = Quorum
        self.answered: Callable[[int, PeerRequest, PeerAnswer], None]
        self.failed: Callable[[int, PeerRequest], None]
        self.settled: list[type[PeerRequest]] = []

    def start(
        self,
        quorum: Callable[[], Quorum],
        answered: Callable[[int, PeerRequest, PeerAnswer], None],
        failed: Callable[[int, PeerRequest], None],
    ) -> None:
        self.quorum, self.answered, self.failed = quorum, answered, failed

    def learn(self, node_id: int, endpoints: Sequence[Endpoint]) -> None:
        raise AssertionError("nobody says so")

    @property
    def traffic(self) -> Traffic:
        return Traffic(len(self.sent))

    def hears(self, node_id: int) -> bool:
        return True

    def endpoint_of(self, node_id: int, listener: str | None = None) -> Endpoint | None:
        voter = self.quorum().voter(node_id)
        return None if voter is None else voter.endpoints[0]

    def send(self, to: int, request: PeerRequest) -> None:
        self.sent.append((to, request))

    async def settle(self, kind: type[PeerRequest], timeout_ms: int) -> None:
        self.settled.append(kind)

    async def stop(self) -> None:
        self.is_stopped = True
