"""A member of a group whose coordinator assigns (KIP-848), as a machine: what it says next, and what an answer means.

| event | what follows |
| --- | --- |
| the first heartbeat, one after another subscription, or after no answer | it says all of itself |
| an answer with an assignment | that is the target, which the application is to come to |
| the application has come to it | the next heartbeat, at once, says what the member owns |
| FENCED_MEMBER_EPOCH, UNKNOWN_MEMBER_ID, or the group is gone | all is lost: it joins again, at epoch 0 |
| a refusal that passes, or no answer | it says all again |
| any other refusal | the end, which the application is told |

What is to be given up is given up, and what has been read of it is committed, before the member says so: till then the
coordinator lets nobody else have it.
"""

from collections.abc import Collection
from typing import Final
from uuid import UUID

from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
    ConsumerGroupHeartbeatResponse,
)

JOINS: Final = 0
LEAVES: Final = -1
LEAVES_FOR_NOW: Final = -2
"""Of static members, which are expected back."""
_LOST: Final = (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID)

Place = tuple[UUID, int]


class Reconciling:
    """`rebalance_timeout_ms` is how long it may take to give something up."""

    def __init__(
        self,
        group_id: str,
        member_id: str,
        *,
        rebalance_timeout_ms: int,
        instance_id: str | None = None,
        rack_id: str | None = None,
        assignor: str | None = None,
    ) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.epoch = JOINS
        self.is_lost = False
        """Whether the application has not heard yet that it owns nothing any more."""
        self.owned: frozenset[Place] = frozenset()
        self.target: frozenset[Place] = frozenset()
        """What the coordinator has assigned last."""
        self.interval_ms = 0
        self._group_id = group_id
        self._rack_id = rack_id
        self._assignor = assignor
        self._rebalance_timeout_ms = rebalance_timeout_ms
        self._names: list[str] = []
        self._expression: str | None = None
        self._says_all = True
        self._says_owned = False

    @property
    def has_news(self) -> bool:
        """Whether the next heartbeat does not wait for its time."""
        return self._says_owned

    def subscribe(self, names: Collection[str], expression: str | None) -> None:
        """An expression is in the syntax of RE2."""
        wanted = sorted(names), expression
        if wanted != (self._names, self._expression):
            self._names, self._expression = wanted
            self._says_all = self._says_owned = True

    # -- heartbeats ---------------------------------------------------------------------------------------------------

    def request(self) -> ConsumerGroupHeartbeatRequest:
        """One is under way at a time: report `answered`, `refused` or `unanswered` before the next one."""
        request = ConsumerGroupHeartbeatRequest(
            group_id=self._group_id,
            member_id=self.member_id,
            member_epoch=self.epoch,
            instance_id=self.instance_id,
        )
        says_all = self._says_all or self.epoch == JOINS
        if says_all:
            request.rack_id = self._rack_id
            request.rebalance_timeout_ms = self._rebalance_timeout_ms
            request.subscribed_topic_names = list(self._names)
            request.subscribed_topic_regex = self._expression or ""
            request.server_assignor = self._assignor
        if says_all or self._says_owned:
            request.topic_partitions = _by_topic(self.owned)
        self._says_all = self._says_owned = False
        return request

    def answered(self, response: ConsumerGroupHeartbeatResponse) -> None:
        self.epoch, self.interval_ms = response.member_epoch, response.heartbeat_interval_ms
        if response.assignment is not None:
            self.target = frozenset(
                (topic.topic_id, index) for topic in response.assignment.topic_partitions for index in topic.partitions
            )

    def unanswered(self) -> None:
        """The coordinator may have heard it, or not."""
        self._says_all = True

    def refused(self, error: KafkaError) -> None:
        """Raises the error if it ends the membership for good."""
        is_gone = error.code is ErrorCode.GROUP_ID_NOT_FOUND and self.epoch > JOINS
        if error.code in _LOST or is_gone:
            self.lose()
        elif error.retriable:
            self.unanswered()
        else:
            raise error

    def leaving(self) -> ConsumerGroupHeartbeatRequest:
        """The last one; what the application owned it has given up."""
        epoch = LEAVES if self.instance_id is None else LEAVES_FOR_NOW
        request = ConsumerGroupHeartbeatRequest(
            group_id=self._group_id, member_id=self.member_id, member_epoch=epoch, instance_id=self.instance_id
        )
        self.forget()
        return request

    # -- what the application does ------------------------------------------------------------------------------------

    @property
    def is_at_target(self) -> bool:
        return self.owned == self.target

    def come_to(self, target: frozenset[Place]) -> None:
        """The application reads these, and nothing else. What it was to come to may be another by now."""
        if self.epoch > JOINS:
            self.owned = target
            self._says_owned = True

    def lose(self) -> None:
        """Others may own what it owned."""
        self.is_lost = self.is_lost or bool(self.owned)
        self.forget()

    def forget(self) -> None:
        self.epoch, self._says_all = JOINS, True
        self.owned = self.target = frozenset()


def _by_topic(owned: frozenset[Place]) -> list[ConsumerGroupHeartbeatRequestTopicPartitions]:
    topics: dict[UUID, list[int]] = {}
    for topic, index in sorted(owned):
        topics.setdefault(topic, []).append(index)
    return [
        ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=topic, partitions=indexes)
        for topic, indexes in topics.items()
    ]
