"""The transcript of simulated clients with transactions: what lives of some seeds ask, and what they note.

A step is the kind of client, a seed, how many lives, and in brackets how the cluster answers. It answers at once.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.golden.shown import said
from tests.simulation.whole_nodes.test_transactions import THREE
from tests.stand_in import stand_in

from penstock.client.values import OffsetAndMetadata
from penstock.protocol.batch import read_header
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from penstock.protocol.messages.end_txn import EndTxnRequest
from penstock.protocol.messages.find_coordinator import FindCoordinatorResponse
from penstock.protocol.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from penstock.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from penstock.protocol.records import iterate_records
from penstock.testing.simulator import transactions, two_phases
from penstock.testing.simulator.clients import FAILURES, World
from penstock.testing.simulator.transactions import TransactingClient
from penstock.testing.simulator.two_phases import TwoPhaseClient

KINDS: dict[str, type[TransactingClient]] = {"transacting": TransactingClient, "two-phase": TwoPhaseClient}
ANSWERS: dict[type, Any] = {
    FindCoordinatorResponse: lambda: FindCoordinatorResponse(node_id=4),
    AddPartitionsToTxnResponse: lambda: AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=[
            AddPartitionsToTxnTopicResult(results_by_partition=[AddPartitionsToTxnPartitionResult() for _ in range(2)])
        ]
    ),
    ProduceResponse: lambda: ProduceResponse(
        responses=[TopicProduceResponse(partition_responses=[PartitionProduceResponse(base_offset=77)])]
    ),
    TxnOffsetCommitResponse: lambda: TxnOffsetCommitResponse(
        topics=[TxnOffsetCommitResponseTopic(partitions=[TxnOffsetCommitResponsePartition()])]
    ),
}
STEP = re.compile(r"(\S+) (\d+) (\d+)(?: \[(.*)\])?")
CODES = {"busy": ErrorCode.CONCURRENT_TRANSACTIONS, "loading": ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
"""Of each third answer, once; others end a life."""


class Cluster:
    """In the place of a client's, an admin's and a consumer's."""

    def __init__(self, mood: str) -> None:
        self.told: list[str] = []
        self.mood = mood
        self.offset = self.pending = 0
        self.answers = self.looks = 0
        self.kept = (-1, -1)
        self.topics = SimpleNamespace(create=self._create)
        self.features = SimpleNamespace(update=self._update)

    def __call__(self, bootstrap: str, settings: Any = None) -> Cluster:
        if settings is not None:
            self.told.append(f"at {bootstrap}: {settings.client_id}")
        return self

    async def __aenter__(self) -> Cluster:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.told.append("it goes")

    async def _create(self, topic: Any) -> None:
        self.told.append(f"create {topic!r}")
        if self.mood == "it is there":
            raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS)
        if self.mood == "no topic":
            raise KafkaError(ErrorCode.POLICY_VIOLATION)

    async def _update(self, *words: Any) -> None:
        self.told.append(f"update {words}")

    async def topic(self, _: str) -> Any:
        return SimpleNamespace(partitions=[SimpleNamespace(leader=1), SimpleNamespace(leader=2)])

    async def retrying(self, attempt: Any, *, passing: Callable[[Exception], bool]) -> Any:
        while True:
            try:
                return await attempt()
            except Exception as error:
                self.told.append(f"{error} {'passes' if passing(error) else 'does not pass'}")
                if not passing(error):
                    raise

    def forget_coordinator(self, group: str) -> None:
        self.told.append(f"forget the coordinator of {group}")

    async def to_any(self, request: Any, answer: type, newest: int) -> Any:
        return self._answered("any", request, answer, newest)

    async def to_coordinator(self, group: str, request: Any, answer: type, newest: int) -> Any:
        return self._answered(group, request, answer, newest)

    async def to_node(self, node: int, request: Any, answer: type, newest: int) -> Any:
        return self._answered(f"node {node}", request, answer, newest)

    def _answered(self, to: str, request: Any, answer: type, newest: int) -> Any:
        found = ANSWERS.get(answer, answer)()
        text = said(request)
        if answer is ProduceResponse:
            batch = request.topic_data[0].partition_data[0].records
            header = read_header(batch)
            (record,) = iterate_records(batch, 0, header)
            of = header.producer_id, header.producer_epoch, header.base_sequence, header.is_transactional
            text = text.replace(str(batch), f"{record.value!r} at {record.timestamp_ms} of {of}")
        if answer is FindCoordinatorResponse and self.mood == "no coordinator":
            self.looks += 1
            found.error_code = ErrorCode.COORDINATOR_NOT_AVAILABLE if self.looks % 4 == 1 else 0
            self.told.append(said(request))
        if answer is not FindCoordinatorResponse:
            self.told.append(f"{to}, {newest}: {text}")
            self.answers += 1
            self._keep(request)
            if self.answers % 3 == 0:
                _refuse(found, CODES.get(self.mood) or (ErrorCode.INVALID_TXN_STATE if self.mood == "bad" else 0))
        for name, value in (("producer_id", 9), ("producer_epoch", self.answers)):
            if hasattr(found, name):
                setattr(found, name, value)
        if hasattr(found, "ongoing_txn_producer_id"):
            found.ongoing_txn_producer_id, found.ongoing_txn_producer_epoch = self.kept
        return found

    def _keep(self, request: Any) -> None:
        """The last offset that was committed, for the next life."""
        if isinstance(request, TxnOffsetCommitRequest):
            self.pending = request.topics[0].partitions[0].committed_offset
        elif isinstance(request, EndTxnRequest):
            self.offset = self.pending if request.committed and self.pending else self.offset
            self.pending = 0


def _refuse(answer: Any, code: int) -> None:
    """Where the layout has room for it, in the last row."""
    for rows in ("results_by_topic_v3_and_below", "responses", "topics"):
        if hasattr(answer, rows):
            row = getattr(answer, rows)[0]
            name = {"responses": "partition_responses", "topics": "partitions"}.get(rows, "results_by_partition")
            part = getattr(row, name)[-1]
            setattr(part, "partition_error_code" if rows.startswith("results") else "error_code", code)
            return
    answer.error_code = code


class ClientsLecture:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch

    def handle(self, line: str) -> Iterable[str]:
        found = STEP.fullmatch(line)
        assert found is not None, line
        kind, seed, lives, mood = found.groups()
        return asyncio.run(self._lived(kind, int(seed), int(lives), mood or ""))

    async def _lived(self, kind: str, seed: int, lives: int, mood: str) -> list[str]:
        cluster = Cluster(mood)

        async def sleep(seconds: float) -> None:
            cluster.told.append(f"sleep {seconds:.3f}")

        async def committed(_: Any, group: str, places: Any, *, require_stable: bool) -> Any:
            cluster.told.append(f"offsets of {group} {places} {require_stable}")
            return {place: OffsetAndMetadata(cluster.offset) for place in places} if cluster.offset else {}

        for module in (transactions, two_phases):
            self._monkeypatch.setattr(module, "asyncio", stand_in(asyncio, sleep=sleep))
        for name, other in (("ClusterClient", cluster), ("Admin", cluster), ("fetch_committed", committed)):
            self._monkeypatch.setattr(transactions, name, other)
        random = Random(seed)
        world = World(
            cast("Any", SimpleNamespace(now_ms=lambda: 5)),
            ["h1:1", "h2:2"],
            cast("Any", SimpleNamespace(violated=lambda why: cluster.told.append(f"VIOLATED {why}"), lossy_crashes=0)),
            cast("Any", SimpleNamespace(note=lambda name, what: cluster.told.append(f"{name} notes: {what}"))),
        )
        plan = THREE.replace(by_consensus=seed % 2 == 1)
        client = KINDS[kind](world, "c", random, plan)
        for _ in range(lives):
            try:
                await client._live()
            except FAILURES as error:
                cluster.told.append(f"it fails: {error}")
            cluster.kept = getattr(client, "_prepared", (-1, -1))
        cluster.told.append(f"{client.ended} have ended of {len(client._transactions)}")
        return cluster.told


def test_clients(
    transcript: Callable[[str, Callable[[str], Iterable[object]]], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    transcript("simulated_clients.txt", ClientsLecture(monkeypatch).handle)
