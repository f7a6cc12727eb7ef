"""What `penstock verifiable-producer`, `-consumer` and `-share-consumer` tell of what they do, over noting clients."""

import json
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner
from tests.unit.cli.measuring.clocks import Clock

from penstock.cli.main import main
from penstock.cli.measuring import verifiable_consumer, verifiable_producer, verifiable_share_consumer
from penstock.client.assignors import KAFKAS_PACKAGE
from penstock.client.errors import ClientError
from penstock.client.settings import ConsumerSettings, ProducerSettings, ShareConsumerSettings
from penstock.client.values import ConsumedRecord, RecordMetadata, TopicPartition
from penstock.protocol.errors import ErrorCode, KafkaError

NOW_MS = 77
Events = list[dict[str, Any]]
made: list[Any] = []


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made.clear()
    found = Clock()
    monkeypatch.setattr(verifiable_producer, "time", found.module)
    monkeypatch.setattr(verifiable_producer, "wall_clock_ms", lambda: NOW_MS)
    return found


def told(*words: str, exit_code: int = 0) -> Events:
    result = CliRunner().invoke(main, [*words, "--bootstrap-server", "h:1"])
    assert result.exit_code == exit_code, result.output
    events: Events = [json.loads(line) for line in result.stdout.splitlines()]
    assert {event.pop("timestamp") for event in events} == {NOW_MS}
    return events


# -- the producer -----------------------------------------------------------------------------------------------------


class FakeProducer:
    """Refuses the second record, and cannot take the third."""

    def __init__(self, servers: str, settings: ProducerSettings) -> None:
        self.settings = settings
        self.sent: list[Any] = []
        made.append((servers, self))

    async def __aenter__(self) -> "FakeProducer":
        return self

    async def __aexit__(self, *_: Any) -> None:
        pass

    async def send(self, topic: str, value: bytes, *, callback: Callable[..., None], **more: Any) -> None:
        self.sent.append((topic, value, more))
        offset = len(self.sent) + 8
        if len(self.sent) == 3:
            raise ClientError("no room")
        if len(self.sent) == 2:
            callback(None, KafkaError(ErrorCode.MESSAGE_TOO_LARGE))
        else:
            callback(RecordMetadata(topic, 1, offset, 0), None)


def of_producer(clock: Clock, monkeypatch: pytest.MonkeyPatch, *words: str) -> tuple[Events, FakeProducer]:
    clock.step_s = 0.5
    monkeypatch.setattr(verifiable_producer, "Producer", FakeProducer)
    events = told("verifiable-producer", "--topic", "t", *words)
    ((servers, producer),) = made
    assert servers == "h:1"
    return events, producer


def test_what_became_of_each_record(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("--max-messages", "4", "--value-prefix", "7", "--repeating-keys", "3", "--message-create-time", "1000")
    events, producer = of_producer(clock, monkeypatch, *words)
    refused = {"exception": "KafkaError", "message": "MESSAGE_TOO_LARGE"}
    no_room = {"exception": "ClientError", "message": "no room"}
    assert events == [
        {"name": "startup_complete"},
        {"name": "producer_send_success", "key": "0", "value": "7.0", "topic": "t", "partition": 1, "offset": 9},
        {"name": "producer_send_error", "key": "1", "value": "7.1", "topic": "t", **refused},
        {"name": "producer_send_error", "key": "2", "value": "7.2", "topic": "t", **no_room},
        {"name": "producer_send_success", "key": "0", "value": "7.3", "topic": "t", "partition": 1, "offset": 12},
        {"name": "shutdown_complete"},
        {"name": "tool_data", "sent": 4, "acked": 2, "target_throughput": -1, "avg_throughput": 2 / 3.0},
    ]
    keys = [b"0", b"1", b"2", b"0"]
    assert producer.sent == [
        ("t", b"7.%d" % number, {"key": key, "timestamp_ms": 1500 + 500 * number}) for number, key in enumerate(keys)
    ]


def test_what_is_sent_without_options(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    events, producer = of_producer(clock, monkeypatch, "--max-messages", "1")
    assert producer.sent == [("t", b"0", {"key": None, "timestamp_ms": None})]
    assert events[1] == {
        "name": "producer_send_success", "key": None, "value": "0", "topic": "t", "partition": 1, "offset": 9,
    }  # fmt: skip
    settings = producer.settings
    assert (settings.client_id, settings.retries, settings.enable_idempotence) == ("verifiable-producer", 0, False)
    assert settings.acks == -1


def test_nothing_is_sent_where_nothing_is_asked_for(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    events, producer = of_producer(clock, monkeypatch, "--max-messages", "0", "--acks", "1", "--throughput", "9")
    assert producer.sent == []
    assert producer.settings.acks == 1
    assert events[-1] == {"name": "tool_data", "sent": 0, "acked": 0, "target_throughput": 9, "avg_throughput": 0.0}


# -- the consumer -----------------------------------------------------------------------------------------------------


def record(partition: int, offset: int, key: bytes | None, value: bytes | None) -> ConsumedRecord:
    return ConsumedRecord("t", partition, offset, 0, key, value)


class FakeConsumer:
    def __init__(self, servers: str, settings: ConsumerSettings) -> None:
        self.settings = settings
        self.done: list[Any] = [servers]
        self.polls: list[list[ConsumedRecord]] = [
            [],
            [record(0, 4, b"k", b"v"), record(1, 9, None, None), record(0, 6, b"", b"\xff")],
            [record(1, 10, None, b"w")],
        ]
        self.failures = [ClientError("gone"), None]
        made.append(self)

    async def start(self) -> None:
        self.done.append("start")

    async def subscribe(self, topics: Sequence[str], *, listener: Any) -> None:
        self.done.append(topics)
        await listener.on_assigned([TopicPartition("t", 0), TopicPartition("t", 1)])
        await listener.on_revoked([TopicPartition("t", 1)])

    async def poll(self, wait_ms: int, most: int) -> list[ConsumedRecord]:
        self.done.append((wait_ms, most))
        return self.polls.pop(0)

    async def commit(self, offsets: dict[TopicPartition, Any]) -> None:
        self.done.append({place.partition: it.offset for place, it in offsets.items()})
        if error := self.failures.pop(0):
            raise error

    async def close(self, timeout_ms: int) -> None:
        self.done.append(("close", timeout_ms))


def of_consumer(clock: Clock, monkeypatch: pytest.MonkeyPatch, *words: str) -> tuple[Events, FakeConsumer]:
    monkeypatch.setattr(verifiable_consumer, "Consumer", FakeConsumer)
    events = told("verifiable-consumer", "--topic", "t", "--group-id", "g", *words)
    (consumer,) = made
    return events, consumer


ZERO, ONE = {"topic": "t", "partition": 0}, {"topic": "t", "partition": 1}


def test_each_step_of_a_reader(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    events, consumer = of_consumer(clock, monkeypatch, "--max-messages", "4", "--verbose", "--close-timeout", "9")
    assert events == [
        {"name": "startup_complete"},
        {"name": "partitions_assigned", "partitions": [ZERO, ONE]},
        {"name": "partitions_revoked", "partitions": [ONE]},
        {"name": "record_data", "key": "k", "value": "v", **ZERO, "offset": 4},
        {"name": "record_data", "key": None, "value": None, **ONE, "offset": 9},
        {"name": "record_data", "key": "", "value": "�", **ZERO, "offset": 6},
        {
            "name": "records_consumed",
            "count": 3,
            "partitions": [
                {**ZERO, "count": 2, "minOffset": 4, "maxOffset": 6},
                {**ONE, "count": 1, "minOffset": 9, "maxOffset": 9},
            ],
        },
        {
            "name": "offsets_committed",
            "offsets": [{**ZERO, "offset": 7}, {**ONE, "offset": 10}],
            "error": "gone",
            "success": False,
        },
        {"name": "record_data", "key": None, "value": "w", **ONE, "offset": 10},
        {"name": "records_consumed", "count": 1, "partitions": [{**ONE, "count": 1, "minOffset": 10, "maxOffset": 10}]},
        {"name": "offsets_committed", "offsets": [{**ONE, "offset": 11}], "success": True},
        {"name": "shutdown_complete"},
    ]
    polls = [(1_000, 4), (1_000, 4), {0: 7, 1: 10}, (1_000, 1), {1: 11}]
    assert consumer.done == ["h:1", "start", ["t"], *polls, ("close", 9)]


def test_a_reader_that_commits_by_itself_and_tells_no_records(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    events, consumer = of_consumer(clock, monkeypatch, "--max-messages", "1", "--enable-autocommit")
    assert [event["name"] for event in events[3:]] == ["records_consumed", "shutdown_complete"]
    assert consumer.done == ["h:1", "start", ["t"], (1_000, 1), (1_000, 1), ("close", 30_000)]
    settings = consumer.settings
    assert (settings.group_id, settings.group_instance_id, settings.client_id) == ("g", None, "verifiable-consumer")
    assert (settings.enable_auto_commit, settings.auto_offset_reset) == (True, "earliest")
    assert settings.partition_assignment_strategy == (f"{KAFKAS_PACKAGE}RangeAssignor",)


def test_settings_that_a_reader_is_given(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("--group-instance-id", "i", "--session-timeout", "7000", "--reset-policy", "none")
    _, consumer = of_consumer(clock, monkeypatch, *words, "--max-messages", "0")
    settings = consumer.settings
    assert (settings.group_instance_id, settings.session_timeout_ms) == ("i", 7_000)
    assert (settings.enable_auto_commit, settings.auto_offset_reset) == (False, "none")
    assert consumer.done == ["h:1", "start", ["t"], ("close", 30_000)]


# -- the consumer of a share group ------------------------------------------------------------------------------------


def shared(offset: int, value: bytes | None = b"v") -> Any:
    return SimpleNamespace(topic_partition=TopicPartition("t", 0), offset=offset, key=None, value=value)


class FakeShareConsumer:
    """Acknowledges what it gave before when it is asked for more, and when it is told to."""

    def __init__(self, servers: str, settings: ShareConsumerSettings) -> None:
        self.settings = settings
        self.done: list[Any] = [servers]
        self.polls: list[list[Any]] = [[], [shared(3), shared(1), shared(2, None)], [shared(2)]]
        self.answers: list[Any] = [None, None]
        self._given: list[int] = []
        self._tell: Callable[..., None] = lambda *_: None
        made.append(self)

    async def start(self) -> None:
        self.done.append("start")

    async def close(self) -> None:
        self.done.append("close")

    async def subscribe(self, topics: Sequence[str]) -> None:
        self.done.append(topics)

    def set_acknowledgement_commit_callback(self, tell: Callable[..., None]) -> None:
        self._tell = tell

    def acknowledge(self, one: Any, kind: Any) -> None:
        self.done.append((one.offset, kind.name))

    async def poll(self, wait_ms: int) -> list[Any]:
        self.done.append(wait_ms)
        found = self.polls.pop(0) if self.polls else []
        assert len(self.done) < 50, "it does not end"
        self._acknowledged()
        self._given = [one.offset for one in found]
        return found

    async def commit_sync(self) -> None:
        self.done.append("sync")
        self._acknowledged()

    def commit_async(self) -> None:
        self.done.append("async")
        self._acknowledged()

    def _acknowledged(self) -> None:
        if self._given:
            self._tell(TopicPartition("t", 0), self._given, self.answers.pop(0))
            self._given = []


def of_sharer(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, *words: str, kind: type[FakeShareConsumer] = FakeShareConsumer
) -> tuple[Events, FakeShareConsumer]:
    monkeypatch.setattr(verifiable_share_consumer, "ShareConsumer", kind)
    events = told("verifiable-share-consumer", "--topic", "t", "--group-id", "g", *words)
    (consumer,) = made
    return events, consumer


def consumed(*offsets: int) -> dict[str, Any]:
    rows = [{**ZERO, "count": len(offsets), "offsets": sorted(offsets)}]
    return {"count": len(offsets), "partitions": rows}


def test_records_are_accepted_with_the_next_poll(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    events, consumer = of_sharer(clock, monkeypatch, "--max-messages", "3")
    assert events == [
        {"name": "startup_complete"},
        {"name": "records_consumed", **consumed(3, 1, 2)},
        {"name": "offsets_acknowledged", **consumed(3, 1, 2), "success": True},
        {"name": "records_consumed", **consumed(2)},
        {"name": "shutdown_complete"},
    ]
    assert consumer.done == ["h:1", "start", ["t"], 5_000, 5_000, 5_000, "close"]
    assert (consumer.settings.group_id, consumer.settings.client_id) == ("g", "verifiable-share-consumer")
    assert consumer.settings.share_acknowledgement_mode == "implicit"


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_records_are_acknowledged_by_a_pattern(mode: str, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    pattern = ("--ack-pattern", "release, accept,renew", "--acknowledgement-mode", mode)
    events, consumer = of_sharer(clock, monkeypatch, "--max-messages", "4", "--verbose", *pattern)
    assert events == [
        {"name": "startup_complete"},
        *(
            {"name": "record_data", "key": None, "value": value, **ZERO, "offset": offset}
            for offset, value in ((3, "v"), (1, "v"), (2, None))
        ),
        {"name": "records_consumed", **consumed(3, 1, 2)},
        {
            "name": "offsets_acknowledged", **consumed(3, 1, 2), "success": True,
            "ackTypeCounts": {"RELEASE": 1, "ACCEPT": 1, "RENEW": 1},
        },
        {"name": "record_data", "key": None, "value": "v", **ZERO, "offset": 2},
        {"name": "records_consumed", **consumed(2)},
        {"name": "offsets_acknowledged", **consumed(2), "success": True, "ackTypeCounts": {"RELEASE": 1}},
        {"name": "shutdown_complete"},
    ]  # fmt: skip
    first = [5_000, 5_000, (3, "RELEASE"), (1, "ACCEPT"), (2, "RENEW"), mode]
    assert consumer.done == ["h:1", "start", ["t"], *first, 5_000, (2, "RELEASE"), mode, "close"]
    assert consumer.settings.share_acknowledgement_mode == "explicit"


class Refusing(FakeShareConsumer):
    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.answers = [KafkaError(ErrorCode.INVALID_RECORD_STATE), None]


def test_what_was_not_acknowledged_does_not_count(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("--max-messages", "1", "--ack-pattern", "accept", "--acknowledgement-mode", "SYNC")
    events, _ = of_sharer(clock, monkeypatch, *words, kind=Refusing)
    assert [event for event in events if event["name"] == "offsets_acknowledged"] == [
        {"name": "offsets_acknowledged", **consumed(3, 1, 2), "success": False, "error": "INVALID_RECORD_STATE"},
        {"name": "offsets_acknowledged", **consumed(2), "success": True, "ackTypeCounts": {"ACCEPT": 1}},
    ]
