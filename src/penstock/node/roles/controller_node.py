"""What a handler of a controller listener sees of the node: the metadata quorum, and the controller that leads it."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.metadata.image import ClusterImage
from penstock.node.environment.environment import wall_clock_ms
from penstock.node.metrics.registry import Registry
from penstock.node.serving.access import ALLOW_ALL, Authorizer
from penstock.node.serving.connections import Throttling
from penstock.node.serving.handler import Handler
from penstock.node.serving.slices import Shared, Slices
from penstock.protocol.schema import Message
from penstock.raft.describe import QuorumDescription
from penstock.raft.log_name import METADATA_LOG, LogName
from penstock.raft.requests import Answer, Request
from penstock.raft.voters import Endpoint, Quorum, ReplicaKey


class Commands(Protocol):
    """The controller of a node: the active one decides, any other refuses."""

    @property
    def is_active(self) -> bool:
        """It leads the quorum, and has applied all that was before."""

    def submit(
        self, command: Message, deadline_s: float, *, asker: str = "", unheard: Callable[[Any], None] | None = None
    ) -> asyncio.Future[Any]:
        """The response, once it is committed. See `ControllerDriver.submit`."""


class QuorumMember(Protocol):
    """This node's replica of the metadata log."""

    @property
    def local_key(self) -> ReplicaKey: ...

    @property
    def leader_id(self) -> int | None:
        """None if it is unknown."""

    @property
    def epoch(self) -> int:
        """The newest epoch that it has heard of."""

    @property
    def quorum(self) -> Quorum: ...

    def is_leader(self, epoch: int) -> bool: ...

    def resign(self, successor_id: int | None = None) -> None:
        """Lead no longer, if it does: another voter shall, `successor_id` if possible."""

    def request(self, request: Request) -> asyncio.Future[Answer]:
        """The answer to what a peer or an administrator asks.

        Fails with KafkaError BROKER_NOT_AVAILABLE if this node takes no part in the quorum any longer.
        """

    def describe(self) -> QuorumDescription:
        """What the leader knows of the others. Raises KafkaError NOT_LEADER_OR_FOLLOWER."""

    def endpoint_of(self, node_id: int, listener: str | None = None) -> Endpoint | None:
        """Where that node's controller listens, if known: by this listener, or by the one that this node asks by."""

    def learn_endpoints(self, node_id: int, endpoints: Sequence[Endpoint]) -> None: ...


class QuorumNode(Protocol):
    """What the handlers of the quorum's own APIs need, whatever it is that the quorum replicates."""

    @property
    def cluster_id(self) -> str: ...

    @property
    def log(self) -> LogName: ...

    @property
    def quorum(self) -> QuorumMember: ...


@dataclass(slots=True, kw_only=True)
class ControllerNode:
    """The controller of this process. Handlers read it and call its parts; it decides nothing itself."""

    config: BrokerConfig
    node_id: int
    cluster_id: str
    image: ClusterImage
    """The committed metadata."""
    controller: Commands
    quorum: QuorumMember
    log: LogName = METADATA_LOG
    handlers: dict[int, Handler] = field(default_factory=dict)
    authorizer: Authorizer = ALLOW_ALL
    throttling: Throttling[Any] = field(default_factory=Throttling)
    hand_over: Callable[[int], Awaitable[None]] | None = None
    """Makes another voter the active controller, if this node has that one."""
    slices: Slices = field(default_factory=Slices)
    described_metadata: Shared[Any] = field(default_factory=Shared)
    gone: dict[int, Callable[[], None]] = field(default_factory=dict)
    metrics: Registry = field(default_factory=Registry)
    now_ms: Callable[[], int] = wall_clock_ms
