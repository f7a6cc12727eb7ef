"""The clients that measure: which one is taken, and what the one of this package is asked."""

import importlib.util
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import click
import pytest
from tests.stand_in import stand_in

from penstock.cli.measuring import clients
from penstock.cli.measuring.clients import OwnReader, OwnSender, reader, sender, topic_of
from penstock.client.settings import ConsumerSettings, ProducerSettings
from penstock.client.values import TopicPartition

PLAIN, OWN_PARTITIONER = ProducerSettings(), ProducerSettings(partitioner_class="RoundRobin")
PLACE = TopicPartition("t", 0)


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], None]:
    def be(is_there: bool) -> None:
        spec = SimpleNamespace() if is_there else None
        util = stand_in(importlib.util, find_spec=lambda name: spec if name == "confluent_kafka" else 1 / 0)
        monkeypatch.setattr(clients, "importlib", stand_in(importlib, util=util))

    made = SimpleNamespace(LibrdkafkaSender=lambda *given: ("sender", *given), LibrdkafkaReader=lambda *given: given)
    monkeypatch.setattr(clients, "_librdkafka", lambda: made)
    return be


@pytest.mark.parametrize(
    ("client", "is_there", "settings", "is_librdkafka"),
    [
        (None, True, PLAIN, True),
        (None, False, PLAIN, False),
        (None, True, OWN_PARTITIONER, False),
        ("confluent-kafka", True, PLAIN, True),
        ("penstock", True, PLAIN, False),
        ("penstock", False, PLAIN, False),
        ("penstock", True, OWN_PARTITIONER, False),
    ],
)
def test_who_sends(
    client: str | None,
    is_there: bool,
    settings: ProducerSettings,
    is_librdkafka: bool,
    installed: Callable[[bool], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    installed(is_there)
    monkeypatch.setattr(clients, "OwnSender", lambda *given: ("own", *given))
    which = "sender" if is_librdkafka else "own"
    assert sender(client, "h:1", settings, "t") == (which, "h:1", settings, "t")  # type: ignore[comparison-overlap]


@pytest.mark.parametrize(
    ("is_there", "settings", "complaint"),
    [
        (False, PLAIN, "--client confluent-kafka: it is not installed: pip install confluent-kafka"),
        (True, OWN_PARTITIONER, "--client confluent-kafka has no partitioner.class: give --client penstock"),
        (False, OWN_PARTITIONER, "--client confluent-kafka has no partitioner.class: give --client penstock"),
    ],
)
def test_who_cannot_send(
    is_there: bool, settings: ProducerSettings, complaint: str, installed: Callable[[bool], None]
) -> None:
    installed(is_there)
    with pytest.raises(click.UsageError) as raised:
        sender("confluent-kafka", "h:1", settings, "t")
    assert raised.value.message == complaint


@pytest.mark.parametrize(
    ("client", "is_there", "is_own"), [(None, True, False), (None, False, True), ("penstock", True, True)]
)
def test_who_reads(client: str | None, is_there: bool, is_own: bool, installed: Callable[[bool], None]) -> None:
    installed(is_there)
    settings, rebalances = ConsumerSettings(group_id="g"), Rebalances()
    found: Any = reader(client, "h:1", settings, ["t"], rebalances)
    if is_own:
        assert isinstance(found, OwnReader)
    else:
        assert found == ("h:1", settings, ["t"], rebalances)


async def test_a_topic_is_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    class Cluster:
        def __init__(self, servers: str, settings: ProducerSettings) -> None:
            asked.extend([servers, settings])

        async def __aenter__(self) -> "Cluster":
            return self

        async def __aexit__(self, *_: Any) -> None:
            asked.append("close")

        async def topic(self, name: str, *, create: bool) -> str:
            asked.append((name, create))
            return "found"

    monkeypatch.setattr(clients, "ClusterClient", Cluster)
    assert await topic_of("h:1", PLAIN, "t", create=True) == "found"
    await topic_of("h:1", PLAIN, "t", create=False)
    assert asked == ["h:1", PLAIN, ("t", True), "close", "h:1", PLAIN, ("t", False), "close"]


# -- our own ----------------------------------------------------------------------------------------------------------


class FakeProducer:
    def __init__(self, servers: str, settings: ProducerSettings) -> None:
        self.done: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        async def note(*given: Any, **more: Any) -> None:
            self.done.append((name, *given, *more.values()) if given or more else name)

        return note

    async def __aexit__(self, *cause: Any) -> None:
        self.done.append("close")

    async def send(self, topic: str, value: bytes, *, key: bytes | None, callback: Any) -> None:
        self.done.append((topic, value, key))
        callback(None, ValueError("full") if value == b"b" else None)


@pytest.mark.parametrize(
    ("settings", "begins"), [(PLAIN, []), (ProducerSettings(transactional_id="x"), ["init_transactions"])]
)
async def test_our_own_sender(settings: ProducerSettings, begins: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "Producer", FakeProducer)
    told: list[BaseException | None] = []
    async with OwnSender("h:1", settings, "t") as sending:
        producer: Any = sending._producer
        await sending.begin()
        await sending.send(b"a", b"k", told.append)
        await sending.send(b"b", None, told.append)
        await sending.commit()
        await sending.flush()
    steps = ["begin_transaction", ("t", b"a", b"k"), ("t", b"b", None), "commit_transaction", "flush", "close"]
    assert producer.done == ["start", *begins, *steps]
    assert [str(error) for error in told] == ["None", "full"]


class Rebalances:
    def __init__(self) -> None:
        self.done: list[Any] = []

    def assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self.done.append(("assigned", *partitions))

    def revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self.done.append(("revoked", *partitions))


class FakeConsumer:
    def __init__(self, servers: str, settings: ConsumerSettings) -> None:
        self.done: list[Any] = []

    async def start(self) -> None:
        self.done.append("start")

    async def subscribe(self, topics: Sequence[str], *, listener: Any) -> None:
        self.done.append(topics)
        await listener.on_assigned([PLACE])
        await listener.on_revoked([PLACE])

    async def poll(self, wait_ms: int, most: int) -> list[Any]:
        self.done.append((wait_ms, most))
        pairs: list[tuple[bytes | None, bytes | None]] = [(b"k", b"value"), (None, b"v"), (b"key", None)]
        return [SimpleNamespace(key=key, value=value) for key, value in pairs]

    async def __aexit__(self, *cause: Any) -> None:
        self.done.append("close")


async def test_our_own_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "Consumer", FakeConsumer)
    rebalances = Rebalances()
    async with OwnReader("h:1", ConsumerSettings(max_poll_records=7), ["t"], rebalances) as reading:
        consumer: Any = reading._consumer
        assert await reading.poll(9) == (3, 10)
        assert await reading.poll(5) == (3, 10)
    assert consumer.done == ["start", ["t"], (100, 7), (100, 5), "close"]
    assert rebalances.done == [("assigned", PLACE), ("revoked", PLACE)]
