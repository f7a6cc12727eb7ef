"""The requests of a share consumer by themselves: what they ask is noted, and a test says what is answered."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any
from uuid import UUID

from penstock.client.settings import ShareConsumerSettings
from penstock.client.share.acknowledgements import Acknowledgements, Place
from penstock.client.share.records import Delivered, SharedRecord
from penstock.client.share.requests import ShareRequests
from penstock.client.share.session import ShareSession
from penstock.client.values import TopicPartition
from penstock.protocol.address import Address
from penstock.protocol.messages.share_acknowledge import ShareAcknowledgeResponse
from penstock.protocol.messages.share_fetch import ShareFetchResponse
from penstock.protocol.requests.api import ApiKey
from penstock.protocol.value import fresh

T, U = UUID(int=1), UUID(int=2)
T0, T1, U0 = (T, 0), (T, 1), (U, 0)
NAMES = {T0: TopicPartition("t", 0), T1: TopicPartition("t", 1), U0: TopicPartition("u", 0)}
Answer = Any


class Paced(ShareConsumerSettings, kw_only=True):
    """Notes which attempts it is asked about, and wants no pause."""

    attempts: list[int] = fresh(list)

    def backoff_ms(self, attempt: int) -> float:
        self.attempts.append(attempt)
        return 0.0


class World:
    """`T0` and `T1` are led by node 1, `U0` by node 2. A test gives answers, by node; without one nothing is said."""

    def __init__(self, **settings: Any) -> None:
        self.leaders: dict[TopicPartition, int] = {NAMES[T0]: 1, NAMES[T1]: 1, NAMES[U0]: 2}
        self.version = 2
        self.asked: list[tuple[int, Any, int | None]] = []
        self.answers: dict[int, list[Any]] = {1: [], 2: [], 3: []}
        self.held: set[int] = set()
        self.done: list[tuple[list[Acknowledgements], object]] = []
        self.news = 0
        self.learned: set[TopicPartition] = set()
        self.told: list[tuple[int, dict[TopicPartition, object], list[object]]] = []
        self.refreshed: list[object] = []
        self.refresh_fails: list[Exception] = []
        self.settings = Paced(group_id="g", **settings)
        self.requests = ShareRequests(
            self,  # type: ignore[arg-type]
            self.settings,
            lambda: ShareSession("g", "m"),
            self.held.__contains__,
            self._on_done,
            self._on_news,
        )
        self.requests.topics = ["t", "u"]
        self.requests.assign(NAMES)

    def _on_done(self, some: Sequence[Acknowledgements]) -> None:
        self.done.append((list(some), some[0].error))

    def _on_news(self) -> None:
        self.news += 1

    # What the requests use of a cluster:

    @property
    def metadata(self) -> Any:
        def leader(partition: TopicPartition) -> Any:
            node = self.leaders.get(partition)
            return None if node is None else SimpleNamespace(leader=node)

        return SimpleNamespace(leader=leader)

    def learn(
        self, node_id: int, told: Mapping[TopicPartition, object], endpoints: Sequence[object]
    ) -> set[TopicPartition]:
        self.told.append((node_id, dict(told), list(endpoints)))
        return self.learned

    async def refresh(self, topics: object) -> None:
        self.refreshed.append(topics)
        if self.refresh_fails:
            raise self.refresh_fails.pop(0)

    async def connection(self, node_id: int) -> Any:
        def version_for(key: ApiKey) -> int:
            assert key is ApiKey.SHARE_ACKNOWLEDGE
            return self.version

        async def request(message: Any, answer: type[Any], *, timeout_ms: int | None = None) -> Any:
            self.asked.append((node_id, message, timeout_ms))
            found = self.answers[node_id].pop(0) if self.answers[node_id] else asyncio.Event().wait()
            if isinstance(found, Awaitable):
                found = await found
            if isinstance(found, Exception):
                raise found
            assert isinstance(found, answer)
            return found

        return SimpleNamespace(address=Address("h", node_id), version_for=version_for, request=request)

    # What a test does:

    def opened(self, *nodes: int) -> None:
        """Sessions with these, at epoch 1, in which nothing is fetched."""
        for node_id in nodes:
            session = self.requests._sessions[node_id] = ShareSession("g", "m")
            session._epoch = 1

    def acknowledged(self, place: Place, types: Mapping[int, int], node_id: int = 1) -> Acknowledgements:
        one = Acknowledgements(node_id, place, types)
        self.requests.acknowledge([one])
        return one

    async def settled(self) -> None:
        for _ in range(12):
            await asyncio.sleep(0)

    def sent(self) -> list[tuple[int, str, int]]:
        """Node, kind and session epoch of each request so far."""
        kinds = [(node_id, type(one).__name__, one.share_session_epoch) for node_id, one, _ in self.asked]
        return [(node_id, name.removeprefix("Share").removesuffix("Request"), at) for node_id, name, at in kinds]

    async def ended(self) -> None:
        """Nothing is left behind."""
        for task in list(self.requests._requests.values()):
            task.cancel()
        await self.settled()


def given(node_id: int, place: Place, *offsets: int, error: Any = None) -> Delivered:
    topic, index = NAMES[place]
    records = [SharedRecord(topic, index, offset, 5, None, b"v") for offset in offsets]
    return Delivered(node_id, place, records, {}, error)


def fetched(**more: Any) -> ShareFetchResponse:
    return ShareFetchResponse(**more)


def acknowledged(**more: Any) -> ShareAcknowledgeResponse:
    return ShareAcknowledgeResponse(**more)


Look = Callable[[World], object]
