"""What a transfer asks a consumer and a producer for, and what becomes of it where something fails."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from penstock.client.values import ConsumedRecord, OffsetAndMetadata, TopicPartition
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.work import transfer as module
from penstock.work.transfer import NotOwnedError, Transfer

ZERO, ONE = TopicPartition("words", 0), TopicPartition("words", 1)
RECORD = ConsumedRecord("words", 0, 7, 0, None, b"a")


class World:
    """Both clients; what they are asked for is `told`. Partition 0 goes on at 7, partition 1 begins at 5."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.told: list[str] = []
        self.settings: list[Any] = []
        self.at: dict[TopicPartition, int] = {ZERO: 7}
        self.committed_at: dict[TopicPartition, OffsetAndMetadata | None] = {ZERO: OffsetAndMetadata(7), ONE: None}
        self.records: list[ConsumedRecord] = [RECORD]
        self.fails: Exception | None = None
        self.cluster = self
        monkeypatch.setattr(module, "Consumer", lambda servers, settings: Client(self, "consumer", settings))
        monkeypatch.setattr(module, "Producer", lambda servers, settings: Client(self, "producer", settings))

    def taken(self) -> list[str]:
        told, self.told = self.told, []
        return told


class Client:
    def __init__(self, world: World, name: str, settings: Any) -> None:
        self._world, self._name = world, name
        world.settings.append(settings)

    async def __aenter__(self) -> Client:
        self._world.told.append(f"{self._name} begins")
        return self

    async def __aexit__(self, *_: object) -> None:
        self._world.told.append(f"{self._name} ends")

    async def init_transactions(self) -> None:
        self._world.told.append("fences")

    async def assign(self, partitions: Sequence[TopicPartition]) -> None:
        self._world.told.append(f"assigns {[one.partition for one in partitions]}")

    async def committed(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata | None]:
        return {one: self._world.committed_at.get(one) for one in partitions}

    async def beginning_offsets(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        self._world.told.append(f"looks for the beginning of {[one.partition for one in partitions]}")
        return dict.fromkeys(partitions, 5)

    async def position(self, partition: TopicPartition) -> int:
        return self._world.at[partition]

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self._world.told.append(f"goes to {offset} of {partition.partition}")
        self._world.at[partition] = offset

    async def poll(self, timeout_ms: int, max_records: int | None) -> list[ConsumedRecord]:
        self._world.told.append(f"polls {timeout_ms} {max_records}")
        if self._world.fails is not None:
            raise self._world.fails
        self._world.at[ZERO] += len(self._world.records)
        return self._world.records

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        try:
            yield
        except BaseException:
            self._world.told.append("aborts")
            raise
        self._world.told.append("commits")

    async def send_offsets_to_transaction(self, consumer: Client) -> None:
        assert consumer._name == "consumer"
        self._world.told.append("sends how far it is")

    async def send(self, topic: str, value: bytes | None, *, key: bytes | None, partition: int | None) -> str:
        self._world.told.append(f"sends {topic} {value!r} {key!r} {partition}")
        return "sent"


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


def transfer(*, until_s: float = math.inf, **settings: Any) -> Transfer:
    return Transfer("h:1", "workers", "words-0", [ZERO, ONE], lambda: until_s, **settings)


async def test_it_fences_whoever_had_the_task_and_goes_on_where_that_one_ended(world: World) -> None:
    async with transfer(request_timeout_ms=77):
        assert world.taken() == [
            *("producer begins", "fences", "consumer begins", "assigns [0, 1]"),
            *("looks for the beginning of [1]", "goes to 5 of 1"),
        ]
    assert world.taken() == ["consumer ends", "producer ends"]
    common: dict[str, Any] = {"client_id": "workers-words-0", "request_timeout_ms": 77}
    reads: dict[str, Any] = {
        "group_id": "workers",
        "enable_auto_commit": False,
        "auto_offset_reset": "none",
        "isolation_level": "read_committed",
    }
    writes: dict[str, Any] = {"transactional_id": "workers-words-0"}
    for said, wanted in zip(world.settings, (reads, writes), strict=True):
        assert {name: getattr(said, name) for name in (*common, *wanted)} == common | wanted


async def test_where_all_is_committed_no_beginning_is_looked_for(world: World) -> None:
    world.committed_at[ONE] = OffsetAndMetadata(0)
    async with transfer():
        assert world.taken()[3:] == ["assigns [0, 1]"]


def test_settings_are_those_of_any_client(world: World) -> None:
    with pytest.raises(TypeError, match="linger_ms"):
        transfer(linger_ms=5)


async def test_a_task_that_may_run_elsewhere_is_not_opened(world: World) -> None:
    with pytest.raises(NotOwnedError, match="words-0 may run elsewhere by now"):
        async with transfer(until_s=0.0):
            pass
    assert world.taken() == ["producer begins", "fences", "producer ends"]


@pytest.mark.parametrize("count", [0, 1])
async def test_what_was_sent_and_how_far_was_read_are_one_transaction(world: World, count: int) -> None:
    """Where nothing was read nothing is said of it."""
    world.records = [RECORD] * count
    async with transfer() as one:
        world.taken()
        async with one.batch(50, 3) as records:
            assert records == [RECORD] * count
            sent: object = await one.send("shouted", b"A", key=b"k", partition=4)
            assert sent == "sent"
        assert world.taken() == [
            *("polls 50 3", "sends shouted b'A' b'k' 4"),
            *(["sends how far it is"] * count),
            "commits",
        ]
        assert world.at == {ZERO: 7 + count, ONE: 5}
        async with one.batch():
            pass
        assert world.taken()[0] == "polls 1000 None"


async def test_what_fails_is_read_again(world: World) -> None:
    async with transfer() as one:
        world.taken()
        with pytest.raises(ValueError, match="no"):
            async with one.batch():
                raise ValueError("no")
        assert world.taken() == ["polls 1000 None", "aborts", "goes to 7 of 0", "goes to 5 of 1"]


@pytest.mark.parametrize("code", [ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.TOPIC_AUTHORIZATION_FAILED])
async def test_a_place_that_is_gone_is_an_error_with_what_can_be_done(world: World, code: ErrorCode) -> None:
    async with transfer() as one:
        world.taken()
        world.fails = KafkaError(code, "no such place")
        with pytest.raises(KafkaError, match="no such place") as raised:
            async with one.batch():
                pass
        assert raised.value.code is code
        assert (raised.value is world.fails) is (code is not ErrorCode.OFFSET_OUT_OF_RANGE)
        if code is ErrorCode.OFFSET_OUT_OF_RANGE:
            assert "penstock groups --group workers --reset-offsets" in str(raised.value)
            assert str(raised.value).partition("words-0: ")[1]
        assert world.taken() == ["polls 1000 None"]
