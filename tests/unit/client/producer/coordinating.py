"""A coordinator of transactions that notes all that it is asked, and answers as a test says."""

from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

from penstock.client.producer.sequences import Sequences
from penstock.client.producer.transactions import TWO_PHASES_SINCE, Transactions
from penstock.client.settings import ProducerSettings
from penstock.protocol.errors import KafkaError
from penstock.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from penstock.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from penstock.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from penstock.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from penstock.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from penstock.protocol.schema import Message

GOOD: dict[type[Message], Message] = {
    InitProducerIdRequest: InitProducerIdResponse(producer_id=7, producer_epoch=3),
    AddPartitionsToTxnRequest: AddPartitionsToTxnResponse(),
    AddOffsetsToTxnRequest: AddOffsetsToTxnResponse(),
    TxnOffsetCommitRequest: TxnOffsetCommitResponse(),
    EndTxnRequest: EndTxnResponse(producer_id=7, producer_epoch=4),
}
MAX_BLOCK_MS = 4_321


class Asked(SimpleNamespace):
    """`name` is the key of the coordinator, `kind` its type."""

    name: str
    request: Any
    newest: int | None
    kind: int


class Coordinating:
    """In the place of a cluster: at a transaction.version, with one newest version of InitProducerId."""

    def __init__(self, version: int = 2, two_phases: int = TWO_PHASES_SINCE) -> None:
        self.version, self.two_phases = version, two_phases
        self.scripts: dict[type[Message], list[Message | Exception]] = {}
        """Answers that come before the good ones."""
        self.asked: list[Asked] = []
        self.forgotten: list[tuple[object, ...]] = []
        self.tries = 0

    async def coordinator_connection(self, *about: object) -> Any:
        assert about == ("id", 1)
        features = {"transaction.version": self.version} if self.version else {}
        return SimpleNamespace(features=features, version_for=lambda key: self.two_phases)

    async def to_coordinator(
        self, name: str, request: Message, answer: type[Message], newest: int | None = None, *, key_type: int = 0
    ) -> Message:
        self.asked.append(Asked(name=name, request=request, newest=newest, kind=key_type))
        scripted = self.scripts.get(type(request))
        found = scripted.pop(0) if scripted else GOOD[type(request)]
        if isinstance(found, Exception):
            raise found
        assert isinstance(found, answer)
        return found

    def forget_coordinator(self, *about: object) -> None:
        self.forgotten.append(about)

    async def retrying(
        self,
        attempt: Callable[[], Awaitable[Any]],
        *,
        timeout_ms: int,
        passing: Callable[[Exception], bool] | None = None,
    ) -> Any:
        """What may pass is tried once more."""
        assert timeout_ms == MAX_BLOCK_MS
        self.tries += 1
        try:
            return await attempt()
        except KafkaError as error:
            if passing is None or not passing(error):
                raise
            return await attempt()

    def of(self, kind: type[Message]) -> list[Asked]:
        return [one for one in self.asked if isinstance(one.request, kind)]


def transactions_of(cluster: Coordinating, sequences: Sequences | None = None, **more: Any) -> Transactions:
    settings = ProducerSettings(transactional_id="id", transaction_timeout_ms=9_876, max_block_ms=MAX_BLOCK_MS, **more)
    return Transactions(cluster, settings, sequences or Sequences())  # type: ignore[arg-type]
