"""What the share coordinator has of a share partition in its world."""

from penstock.sharing.in_flight import RecordState
from penstock.sharing.values import StateBatch, Write, Written

NOTHING = (0, RecordState.AVAILABLE, 0)


class Store:
    """The share coordinator: of each record the state that was written last, and who may write."""

    def __init__(self) -> None:
        self.leader_epoch = 0
        self.start_offset = 0
        self.records: dict[int, tuple[int, RecordState, int]] = {}
        """How often it was delivered, and until when it is held."""

    def read(self, leader_epoch: int) -> Written:
        self.leader_epoch = leader_epoch
        batches = [
            StateBatch(offset, offset, state, count, held)
            for offset, (count, state, held) in sorted(self.records.items())
        ]
        return Written(self.start_offset, 0, [it for it in batches if it.first >= self.start_offset])

    def is_over(self, record: int) -> bool:
        """Nobody gets it again."""
        if record < self.start_offset:
            return True
        _, state, _ = self.records.get(record, NOTHING)
        return state in (RecordState.ARCHIVING, RecordState.ARCHIVED)

    def write(self, leader_epoch: int, write: Write) -> bool:
        if leader_epoch < self.leader_epoch:
            return False
        self.start_offset = max(self.start_offset, write.start_offset)
        for batch in write.batches:
            for offset in range(batch.first, batch.last + 1):
                self.records[offset] = max(
                    (batch.delivery_count, batch.state, batch.held_until_ms), self.records.get(offset, NOTHING)
                )
        self.records = {offset: it for offset, it in self.records.items() if offset >= self.start_offset}
        return True
