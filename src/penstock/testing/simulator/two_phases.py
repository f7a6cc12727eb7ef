"""Clients whose transactions are decided elsewhere (KIP-939): prepared, decided, carried out, by drivers that die.

A decision lies where it outlives its driver. One that dies leaves a prepared transaction, with a decision about it or
without; the next one finds it, soon or long after the time that transactions have otherwise. What is decided it carries
out, and what is not it aborts.

| what                           | rule                                                       |
| ------------------------------ | ---------------------------------------------------------- |
| a transaction that is prepared | is found as it was, until somebody has asked for its end   |
| one that was decided to commit | is there in the end, as those that clients have committed  |
| one that nobody decided about  | is not there, once its end is acknowledged                 |
"""

import asyncio
from random import Random
from typing import Final

from penstock.client.errors import ClientError
from penstock.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from penstock.testing.simulator.clients import World
from penstock.testing.simulator.plan import Plan
from penstock.testing.simulator.transactions import PARTITIONS, TIMEOUT_MS, Fate, TransactingClient

DIES: Final = 0.3
"""How likely it is that a driver dies, before and after its decision."""
LONG_S: Final = 1.5 * TIMEOUT_MS / 1000
NOBODY: Final = (-1, -1)


class DriverDiedError(ClientError):
    pass


class TwoPhaseClient(TransactingClient):
    def __init__(self, world: World, name: str, random: Random, plan: Plan) -> None:
        super().__init__(world, name, random, plan)
        self._epochs_rise = True
        self._prepared: tuple[int, int] = NOBODY
        """The producer of the transaction that is prepared, for whose end nobody has asked yet."""
        self._decided = 0
        """The last transaction that was decided to commit."""

    async def _begin_life(self) -> None:
        request = InitProducerIdRequest(transactional_id=self.name, enable2_pc=True, keep_prepared_txn=True)
        began = await self._coordinated(request, InitProducerIdResponse, newest=6)
        self._producer = began.producer_id, began.producer_epoch
        self._sequences = dict.fromkeys(range(PARTITIONS), 0)
        kept = began.ongoing_txn_producer_id, began.ongoing_txn_producer_epoch
        number = len(self._transactions)
        if self._prepared not in (NOBODY, kept) and not self._may_be_lost:
            self._world.ledger.violated(
                f"{self.name}: transaction {number} was prepared by {self._prepared}, and {kept} is found"
            )
        if kept != NOBODY:
            self._note(f"transaction {number} of {kept} is found, {'' if number == self._decided else 'not '}decided")
            await self._carry_out(number)

    async def _transact(self) -> None:
        number = await self._write()
        self._prepared = self._producer
        await self._live_on()
        if self._random.random() < 0.6:
            self._decided = number
            self._transactions[number].fate = Fate.COMMITTED
            self._note(f"transaction {number} is decided")
            await self._live_on()
        await self._carry_out(number)

    async def _live_on(self) -> None:
        """Or die, and be missed for a while."""
        await asyncio.sleep(self._random.expovariate(4))
        if self._random.random() < DIES:
            await asyncio.sleep(self._random.choice((0, LONG_S)))
            raise DriverDiedError

    async def _carry_out(self, number: int) -> None:
        self._prepared = NOBODY
        await self._end(number, is_commit=number == self._decided)
