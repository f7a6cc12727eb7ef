"""How messages name a log of the consensus core: as the partition of a topic that is no topic of clients."""

from typing import Final
from uuid import UUID

from penstock.protocol.internal_topics import CLUSTER_METADATA, CLUSTER_METADATA_ID
from penstock.protocol.value import Value


class LogName(Value):
    """Older versions of messages have the name, newer ones the id of the topic."""

    topic: str
    topic_id: UUID
    partition: int = 0

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


METADATA_LOG: Final = LogName(CLUSTER_METADATA, CLUSTER_METADATA_ID)
"""What messages are about where they name no other log."""
