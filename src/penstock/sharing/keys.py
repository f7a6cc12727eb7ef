"""What names a share partition."""

from typing import NamedTuple
from uuid import UUID

from penstock.protocol.uuids import uuid_to_text


class ShareKey(NamedTuple):
    group_id: str
    topic_id: UUID
    partition: int

    @property
    def text(self) -> str:
        """As FindCoordinator is asked, and as its hash says which share coordinator keeps it."""
        return f"{self.group_id}:{uuid_to_text(self.topic_id)}:{self.partition}"
