"""Transactional ids that nobody has used for long are forgotten (`transactional.id.expiration.ms`)."""

from penstock.coordinator.timers import Timer
from penstock.coordinator.transaction.records import TransactionRecord
from penstock.coordinator.transaction.table import TransactionTable


def schedule_expiry(table: TransactionTable, now_ms: int) -> None:
    def fire(now_ms: int) -> None:
        table.in_turns(list(table.image.transactions), forget_if_expired, now_ms)
        schedule_expiry(table, now_ms)

    def forget_if_expired(transactional_id: str, now_ms: int) -> None:
        known = table.known(transactional_id)
        if known is None or transactional_id in table.image.open:
            return
        if known.updated_ms <= now_ms - table.settings.expiration_ms:
            table.forget_timer(transactional_id)
            table.append([TransactionRecord(transactional_id, None)], now_ms)

    table.timers.set(Timer(fire), now_ms + table.settings.expiration_interval_ms)
