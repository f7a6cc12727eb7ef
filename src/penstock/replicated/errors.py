"""Why a node did not start, did not take an entry, or cannot say what became of one."""

from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.replicated.addresses import ServerAddress


class NodeError(Exception):
    """The node cannot start, or cannot go on; the text says why, and what to do."""


class NotLeaderError(KafkaError):
    """Nothing was proposed or read here: ask `leader`, or again a little later if it is None."""

    def __init__(self, leader: ServerAddress | None) -> None:
        cure = "it knows of no leader, ask again" if leader is None else f"ask {leader}"
        super().__init__(ErrorCode.NOT_CONTROLLER, f"this node does not lead: {cure}")
        self.leader = leader


class OutcomeUnknownError(KafkaError):
    """An entry was proposed, and may or may not be applied some time: this node lost the lead, or its disk, before."""
