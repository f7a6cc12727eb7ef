"""What has arrived is forgotten, and how far a source is goes on with it."""

import asyncio
from typing import Any
from weakref import WeakSet

import pytest
from tests.unit.client.fake_cluster import TOPIC
from tests.unit.work.connect.runtime.test_running_tasks import Host, kafka_and_setting

from penstock.client.producer import Producer
from penstock.client.values import RecordMetadata
from penstock.work.connect.api import SourceRecord, SourceTask
from penstock.work.connect.runtime.deliveries import Deliveries, Delivery, Submitted
from penstock.work.connect.runtime.running_tasks import RunningSource
from penstock.work.connect.runtime.supervisor import Attempt

LIMIT_S = 20


def on_its_way() -> Delivery:
    return asyncio.get_running_loop().create_future()


async def arrive(*deliveries: Delivery) -> None:
    for one in deliveries:
        one.set_result(RecordMetadata("t", 0, 0, 0))
    await asyncio.sleep(0)


async def fail(delivery: Delivery) -> None:
    delivery.set_exception(ValueError("too large"))
    await asyncio.sleep(0)


def record(partition: str, at: int) -> SourceRecord:
    return SourceRecord("t", source_partition={"of": partition}, source_offset={"at": at})


def safe(submitted: Submitted) -> dict[str, int]:
    return {partition["of"]: offset["at"] for partition, offset in submitted.take_safe().values()}


async def test_an_offset_is_safe_when_all_before_it_of_its_partition_are_there() -> None:
    submitted, sent = Submitted(), [on_its_way() for _ in range(4)]
    for number, (partition, delivery) in enumerate(zip("aaab", sent, strict=True), start=1):
        submitted.moved_on(record(partition, number), delivery)
    submitted.moved_on(record("a", 5), None)
    submitted.moved_on(record("c", 6), None)
    await arrive(sent[1], sent[3])
    assert safe(submitted) == {"b": 4, "c": 6}
    await arrive(sent[0])
    assert safe(submitted) == {"a": 2}, "the third is on its way, and so is what was not sent behind it"
    await arrive(sent[2])
    assert safe(submitted) == {"a": 5}
    assert safe(submitted) == {}


async def test_what_could_not_be_stored_comes_again_unless_there_is_something_newer() -> None:
    submitted = Submitted()
    for partition in "ab":
        submitted.moved_on(record(partition, 1), None)
    taken = submitted.take_safe()
    submitted.moved_on(record("a", 2), None)
    submitted.give_back(taken)
    assert safe(submitted) == {"a": 2, "b": 1}


async def test_behind_a_record_that_failed_nothing_is_safe_and_nothing_is_sent() -> None:
    submitted, first, second = Submitted(), on_its_way(), on_its_way()
    submitted.moved_on(record("a", 1), first)
    submitted.moved_on(record("a", 2), second)
    first.set_exception(ValueError("too large"))
    await arrive(second)
    assert safe(submitted) == {}
    for doing in (submitted.settled(), submitted.settled()):
        with pytest.raises(ValueError, match="too large"):
            await doing
    with pytest.raises(ValueError, match="too large"):
        submitted.moved_on(record("a", 3), on_its_way())


async def test_it_is_settled_when_all_have_arrived_or_one_has_failed() -> None:
    deliveries, sent = Deliveries(), [on_its_way() for _ in range(3)]
    await deliveries.settled()
    for one in sent:
        deliveries.add(one)
    waiting = asyncio.create_task(deliveries.settled())
    await arrive(*sent[:2])
    assert not waiting.done()
    await arrive(sent[2])
    await waiting
    for one in (sent := [on_its_way(), on_its_way()]):
        deliveries.add(one)
    waiting = asyncio.create_task(deliveries.settled())
    await asyncio.sleep(0)
    await fail(sent[0])
    with pytest.raises(ValueError, match="too large"):
        await waiting


class Endless(SourceTask):
    """A record at each poll, until it is to stop; `polled` is called before each."""

    def __init__(self, attempt: Attempt, polled: Any) -> None:
        self.attempt, self.polled = attempt, polled
        self.polls = self.commits = 0

    async def start(self, config: Any, context: Any) -> None: ...

    async def poll(self) -> list[SourceRecord]:
        self.polls += 1
        await self.polled(self.polls)
        return [] if self.attempt.stopping.is_set() else [record("a", self.polls).replace(topic=TOPIC, value="v")]

    async def commit(self) -> None:
        self.commits += 1

    async def stop(self) -> None: ...


async def test_between_two_flushes_nothing_is_kept_of_what_has_arrived(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: WeakSet[Delivery] = WeakSet()
    send = Producer.send

    async def noted(producer: Producer, *arguments: Any, **more: Any) -> Delivery:
        delivery = await send(producer, *arguments, **more)
        kept.add(delivery)
        return delivery

    monkeypatch.setattr(Producer, "send", noted)
    async with kafka_and_setting() as (kafka, setting):

        async def polled(count: int) -> None:
            if count > 20:
                async with asyncio.timeout(LIMIT_S):
                    while len(kept) > 1:  # the task's own variable has the last one
                        await asyncio.sleep(0)
                setting.attempt.stopping.set()

        host = Host(kafka)
        seldom = setting.task.replace(environment=setting.task.environment.replace(flush_interval_ms=10**9))
        await RunningSource(seldom, Endless(setting.attempt, polled), host, setting.attempt).run()
        assert [offsets for _, offsets in host.stored] == [[{"at": 20}]]


async def test_what_is_in_kafka_is_stored_though_not_all_is(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A topic that takes nothing holds up a flush until its time is over."""
    sent: list[Delivery] = []

    async def send(*_: object, **__: object) -> Delivery:
        sent.append(on_its_way())
        if len(sent) < 3:
            await arrive(sent[-1])
        return sent[-1]

    monkeypatch.setattr(Producer, "send", send)
    async with kafka_and_setting() as (kafka, setting):
        host = Host(kafka)
        task = Endless(setting.attempt, None)

        async def polled(count: int) -> None:
            assert task.commits == min(count - 1, 2), "not all is in Kafka at the third flush"
            if count == 4:
                await arrive(sent[-1])
                setting.attempt.stopping.set()

        task.polled = polled
        impatient = setting.task.replace(environment=setting.task.environment.replace(flush_timeout_s=0.05))
        running = RunningSource(impatient, task, host, setting.attempt)
        await running.run()
        assert [offsets for _, offsets in host.stored] == [[{"at": 1}], [{"at": 2}], [{"at": 3}]]
        assert task.commits == 3
        assert "offset.flush.timeout.ms" in caplog.text


async def test_of_what_has_arrived_nothing_is_kept() -> None:
    submitted = Submitted()
    deliveries = [on_its_way() for _ in range(4)]
    for number, delivery in enumerate(deliveries):
        record = SourceRecord("t", source_partition={"p": number % 2}, source_offset={"at": number})
        submitted.moved_on(record, delivery)
    submitted.moved_on(SourceRecord("t", source_partition={"p": 2}, source_offset={"at": 9}), None)
    assert sorted(submitted._waiting) == ['{"p": 0}', '{"p": 1}']
    await arrive(*deliveries)
    await submitted.settled()
    assert submitted._waiting == {}
    assert [offset for _, offset in submitted.take_safe().values()] == [{"at": 9}, {"at": 2}, {"at": 3}]
    assert submitted.take_safe() == {}
