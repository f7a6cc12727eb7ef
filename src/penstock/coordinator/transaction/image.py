"""What the records of a partition of `__transaction_state` add up to: the transactional ids and their transactions."""

from penstock.coordinator.machine import LogImage
from penstock.coordinator.transaction.records import TransactionRecord
from penstock.coordinator.transaction.transaction import OPEN, Transaction


class TransactionImage(LogImage[TransactionRecord]):
    def __init__(self) -> None:
        self.transactions: dict[str, Transaction] = {}
        """By transactional id. Read only."""
        self.open: dict[str, None] = {}
        """The ids whose transaction is ongoing or prepared. Read only."""

    def apply(self, record: TransactionRecord) -> Transaction | None:
        transactional_id, value = record.transactional_id, record.value
        before = self.transactions.pop(transactional_id, None)
        self.open.pop(transactional_id, None)
        if value is not None:
            self.transactions[transactional_id] = value
            if value.state in OPEN:
                self.open[transactional_id] = None
        return before

    def undoing(self, record: TransactionRecord, before: Transaction | None) -> TransactionRecord:
        return record.replace(value=before)
