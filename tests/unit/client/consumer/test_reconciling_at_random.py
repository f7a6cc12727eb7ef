"""A member of the consumer protocol beside plain words: which of its fields a heartbeat has, and what it owns."""

from __future__ import annotations

from random import Random
from uuid import UUID

import pytest

from penstock.client.consumer.reconciling import Place, Reconciling
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatResponseTopicPartitions,
)

A, B = UUID(int=1), UUID(int=2)
ALL = [(A, 0), (A, 1), (B, 0)]
PASSES, FENCED = ErrorCode.NOT_COORDINATOR, (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID)
NONE: frozenset[Place] = frozenset()


class Beside:
    """`on_way` is the target that the application comes to; `tells` what the next heartbeat has beside its epoch."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.real = Reconciling("g", "m", rebalance_timeout_ms=7, instance_id="i", rack_id="r", assignor="uniform")
        self.epoch, self.interval_ms = 0, 0
        self.names: list[str] = []
        self.expression: str | None = None
        self.owned = self.target = NONE
        self.on_way: frozenset[Place] | None = None
        self.stale: list[frozenset[Place]] = []
        self.tells = {"itself"}
        self.is_lost = False

    def subscribe(self) -> None:
        names, expression = self.random.choice((["t"], ["u", "t"], [])), self.random.choice((None, None, "a.*"))
        self.real.subscribe(names, expression)
        if (sorted(names), expression) != (self.names, self.expression):
            self.names, self.expression = sorted(names), expression
            self.tells = {"itself", "what it owns"}

    def expected(self) -> ConsumerGroupHeartbeatRequest:
        request = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=self.epoch, instance_id="i")
        if "itself" in self.tells or not self.epoch:
            request.rack_id, request.rebalance_timeout_ms, request.server_assignor = "r", 7, "uniform"
            request.subscribed_topic_names, request.subscribed_topic_regex = self.names, self.expression or ""
        if not self.epoch or (self.tells and self.on_way is None):
            topics: dict[UUID, list[int]] = {}
            for topic, index in sorted(self.owned):
                topics.setdefault(topic, []).append(index)
            request.topic_partitions = [
                ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=topic, partitions=rows)
                for topic, rows in topics.items()
            ]
            self.tells.discard("what it owns")
        self.tells.discard("itself")
        return request

    def beat(self) -> None:
        expected = self.expected()
        assert self.real.request() == expected
        fate = self.random.choice(("answered", "answered", "answered", "unanswered", "passes", "lost", "gone", "final"))
        if fate == "answered":
            self.answer()
        elif fate == "unanswered":
            self.real.unanswered()
            self.tells.add("itself")
        elif fate == "passes":
            self.real.refused(KafkaError(PASSES))
            self.tells.add("itself")
        elif fate == "lost" or (fate == "gone" and self.epoch):
            code = self.random.choice(FENCED) if fate == "lost" else ErrorCode.GROUP_ID_NOT_FOUND
            self.real.refused(KafkaError(code))
            self.is_lost = self.is_lost or bool(self.owned) or self.on_way is not None
            self.forgotten()
        else:
            code = ErrorCode.GROUP_ID_NOT_FOUND if fate == "gone" else ErrorCode.GROUP_AUTHORIZATION_FAILED
            with pytest.raises(KafkaError):
                self.real.refused(KafkaError(code))

    def answer(self) -> None:
        self.epoch, self.interval_ms = self.random.randrange(1, 9), self.random.randrange(9)
        response = ConsumerGroupHeartbeatResponse(member_epoch=self.epoch, heartbeat_interval_ms=self.interval_ms)
        if self.random.random() < 0.5:
            some = self.random.sample(ALL, self.random.randrange(4))
            rows = [
                ConsumerGroupHeartbeatResponseTopicPartitions(topic_id=topic, partitions=[index])
                for topic, index in some
            ]
            response.assignment = Assignment(topic_partitions=rows)
            self.target = frozenset(some)
        self.real.answered(response)

    def begin(self) -> None:
        if self.on_way is not None:
            return
        target = self.real.begin()
        assert target == (None if self.owned == self.target else self.target)
        self.on_way = target

    def come(self) -> None:
        if self.on_way is not None:
            self.real.come_to(self.on_way)
            self.owned, self.on_way = self.on_way, None
            self.tells.add("what it owns")
        elif self.stale:
            self.real.come_to(self.stale.pop())  # of a former membership

    def forgotten(self) -> None:
        if self.on_way is not None:
            self.stale.append(self.on_way)
        self.epoch, self.owned, self.target, self.on_way = 0, NONE, NONE, None
        self.tells.add("itself")

    def leave(self) -> None:
        expected = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=-2, instance_id="i")
        assert self.real.leaving() == expected
        self.forgotten()

    def hears_of_its_loss(self) -> None:
        self.real.is_lost = self.is_lost = False

    def compare(self) -> None:
        real = self.real
        assert (real.epoch, real.interval_ms, real.is_lost) == (self.epoch, self.interval_ms, self.is_lost)
        assert (real.owned, real.target, real.is_at_target) == (self.owned, self.target, self.owned == self.target)
        assert real.has_news == ("what it owns" in self.tells and self.on_way is None)


@pytest.mark.parametrize("seed", range(6))
def test_heartbeats_are_those_of_plain_words(seed: int) -> None:
    both = Beside(seed)
    steps = (*[both.beat] * 4, *[both.begin] * 3, *[both.come] * 3, both.subscribe, both.hears_of_its_loss)
    both.compare()
    for number in range(400):
        both.random.choice(steps)()
        if number % 40 == 39:
            both.leave()
        both.compare()
