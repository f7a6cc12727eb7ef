"""A hand-over in any order of events: who gave up appends nothing, and each request is appended and answered once."""

import asyncio
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.unit.node.on_disk import Node, batch, produce_request
from tests.unit.node.partitions.test_hand_over import OTHER, VERSION, Giving, replicated_node

from penstock.client.errors import ConnectionFailedError
from penstock.leadership.transfer import Answer
from penstock.log.validation import AppendResult
from penstock.node.links.hand_over import Held, Outcome
from penstock.node.partitions.hand_over import PartitionHandOver
from penstock.node.partitions.isr_partition import IsrPartition
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from penstock.protocol.records import decode_batch, iterate_batches

STEPS = 40
SEEDS = range(40)


class Story:
    """Producers, followers, the controller, the metadata and the new leader act in an order that is drawn."""

    def __init__(self, node: Node, random: Random) -> None:
        self.node = node
        self.random = random
        self.giving = Giving(node)
        self.tasks: list[asyncio.Task[PartitionProduceResponse]] = []
        self.gave_up_at: int | None = None
        self.is_told = False
        self.taken: list[int] = []
        """What the new leader has appended."""

    async def play(self) -> None:
        acts = (self._produce, self._produce, self._follow, self._decide, self._tell, self._take)
        for _ in range(STEPS):
            self.random.choice(acts)()
            for _ in range(4):
                await asyncio.sleep(0)
            end = self.giving.partition.log.log_end_offset
            assert self.gave_up_at in (None, end), "it appends after it gave up"
        while not self.giving.successor.got.empty():
            self._take()
            for _ in range(4):
                await asyncio.sleep(0)
        await self.giving.hand_over.stop()
        if self.gave_up_at is None:
            self.giving.follow(self.giving.partition.log.log_end_offset)
        else:
            self._tell()
        answers = [await asyncio.wait_for(task, 10) for task in self.tasks]
        self._compare([ErrorCode(answer.error_code) for answer in answers])

    def _compare(self, codes: list[ErrorCode]) -> None:
        stored = [*self._in_log(), *self.taken]
        assert stored == sorted(set(stored)), "each once, and in order"
        for number, code in enumerate(codes):
            if code == ErrorCode.NONE:
                assert number in stored
            elif code == ErrorCode.NOT_LEADER_OR_FOLLOWER and number not in self._in_log():
                assert number not in self.taken, "refused, and appended all the same"

    def _in_log(self) -> list[int]:
        log = self.giving.partition.log
        data = log.read(0, 1 << 20, upper_offset=log.log_end_offset).read()
        return [int(record.value or b"") for at, _ in iterate_batches(data) for record in decode_batch(data, at)]

    def _produce(self) -> None:
        value = str(len(self.tasks)).encode()
        request = produce_request(batch(value), topic="copied", acks=self.random.choice((1, -1)))
        self.tasks.append(self.giving.answered(request, self.node.dispatch(request, VERSION)))

    def _follow(self) -> None:
        if self.giving.partition.leader is not None:
            self.giving.follow(self.giving.partition.log.log_end_offset)

    def _decide(self) -> None:
        if self.giving.asked.empty():
            return
        _, future = self.giving.asked.get_nowait()
        is_made = self.random.random() < 0.7
        if is_made and self.gave_up_at is None:
            self.gave_up_at = self.giving.partition.log.log_end_offset
        said = Answer.MADE if is_made else Answer.REFUSED
        if not future.done():
            future.set_result(Answer.UNKNOWN if is_made and self.random.random() < 0.3 else said)

    def _tell(self) -> None:
        if self.gave_up_at is not None and not self.is_told:
            self.is_told = True
            self.giving.lead(OTHER)

    def _take(self) -> None:
        """The new leader gets the next request: it has not heard that it leads, appends, or is gone."""
        if self.giving.successor.got.empty():
            return
        request, future = self.giving.successor.got.get_nowait()
        if future.done():
            return
        row = PartitionProduceResponse(error_code=ErrorCode.NONE)
        luck = self.random.random()
        if luck < 0.2 and not self.taken:
            row.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        else:
            data = request.topic_data[0].partition_data[0].records
            assert data is not None
            self.taken.append(int(decode_batch(data)[0].value or b""))
        if luck > 0.95:
            future.set_exception(ConnectionFailedError("gone"))
            return
        future.set_result(ProduceResponse(responses=[TopicProduceResponse(partition_responses=[row])]))


def play(directory: Path, seed: int) -> None:
    with replicated_node(directory / str(seed)) as node:

        async def scene() -> None:
            failures: list[Any] = []
            asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context))
            await Story(node, Random(seed)).play()
            assert not failures

        asyncio.run(scene())


@pytest.mark.parametrize("seed", SEEDS)
def test_each_is_appended_and_answered_once(tmp_path: Path, seed: int) -> None:
    play(tmp_path, seed)


def found(directory: Path) -> str:
    """What the first seed says that finds something."""
    for seed in SEEDS:
        try:
            play(directory, seed)
        except (AssertionError, KeyError, TimeoutError) as error:
            return repr(error)
    return ""


def test_a_leader_that_appends_after_it_gave_up_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    append = IsrPartition.append

    def append_on(self: IsrPartition, batches: memoryview, **how: Any) -> AppendResult:
        self.appender = self.leader
        return append(self, batches, **how)

    monkeypatch.setattr(IsrPartition, "append", append_on)
    assert "it appends after it gave up" in found(tmp_path)


def test_an_answer_that_is_given_twice_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    answered = PartitionHandOver._answered

    def twice(self: PartitionHandOver, one: Held, outcome: Outcome) -> None:
        answered(self, one, outcome)
        self._sent[one] = None
        answered(self, one, outcome)

    monkeypatch.setattr(PartitionHandOver, "_answered", twice)
    found(tmp_path)
    assert "failed by our own fault" in caplog.text


def test_what_is_sent_on_twice_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    send_on = PartitionHandOver._send_on

    def sent_twice(self: PartitionHandOver, one: Held) -> None:
        send_on(self, one)
        send_on(self, one)

    monkeypatch.setattr(PartitionHandOver, "_send_on", sent_twice)
    assert "each once" in found(tmp_path)
