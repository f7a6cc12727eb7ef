"""What readers of committed records know of a bank: transfers between accounts, each of two records."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Set
from typing import Final

from penstock.client.consumer import Consumer
from penstock.client.settings import ConsumerSettings
from penstock.client.values import TopicPartition

ACCOUNTS: Final = 24
PARTITIONS: Final = 12
DEPOSIT: Final = 1_000
TOPIC: Final = "accounts"
"""Its values are `[transfer, account, change]`, in JSON; the account says in which partition they lie."""


class Ledger:
    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._balances = Counter(dict.fromkeys(range(ACCOUNTS), DEPOSIT))
        self._halves: dict[int, list[int]] = {}
        self._read_to = {TopicPartition(TOPIC, index): 0 for index in range(PARTITIONS)}

    async def problem(self, committed: Set[int], aborted: Set[int]) -> str:
        """Reads on while nobody writes, and says what is wrong, "" if nothing is.

        `committed` and `aborted` are the transfers whose end was acknowledged.
        """
        await self._read()
        halves = self._halves
        torn = {transfer: changes for transfer, changes in halves.items() if len(changes) != 2 or sum(changes) != 0}
        found = {
            "the sum has changed": sum(self._balances.values()) - ACCOUNTS * DEPOSIT,
            "transfers are torn": torn,
            "transfers that were committed are missing": sorted(committed - halves.keys()),
            "transfers that were aborted are read": sorted(aborted & halves.keys()),
        }
        return "; ".join(f"{what}: {value}" for what, value in found.items() if value)

    async def _read(self) -> None:
        """Up to the ends that the partitions have now: to get there, all transactions have to be over."""
        everything = ConsumerSettings(auto_offset_reset="earliest", enable_auto_commit=False)
        committed = everything.replace(isolation_level="read_committed")
        async with Consumer(self._bootstrap, everything) as all_of_it, Consumer(self._bootstrap, committed) as consumer:
            ends = await all_of_it.end_offsets(list(self._read_to))
            await consumer.assign(list(self._read_to))
            for partition, offset in self._read_to.items():
                consumer.seek(partition, offset)
            while any([await consumer.position(partition) < end for partition, end in ends.items()]):
                for record in await consumer.poll(200):
                    transfer, account, change = json.loads(record.value or b"null")
                    self._balances[account] += change
                    self._halves.setdefault(transfer, []).append(change)
            self._read_to = {partition: await consumer.position(partition) for partition in ends}
