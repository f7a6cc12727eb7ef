"""Each of three nodes is killed while a program works on them, which is killed beside it and begins anew."""

from collections.abc import Iterable
from random import Random
from typing import Final, Protocol

from bench.hand_in_hand.node import HandError, Say
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Message, Producer, TopicPartition
from tests.java.programs import LIMIT_S

from penstock.testing import Cluster

PARTITIONS: Final = 4
"""Of each topic."""
BETWEEN: Final = 1_500
"""So many new results come between one death and the next."""
ROUNDS: Final = 2
"""In which each node is killed, and the program before and after it comes back."""


class Sender:
    """Sends to a topic; all that it sends has to be acknowledged."""

    def __init__(self, servers: str, topic: str) -> None:
        settings = {"bootstrap.servers": servers, "log_level": 3, "enable.idempotence": True, "linger.ms": 5}
        self._producer = Producer(settings)
        self._topic = topic
        self._failed: list[object] = []

    def send(self, values: Iterable[str]) -> None:
        for value in values:
            self._producer.produce(self._topic, value, on_delivery=self._acknowledged)
        self._producer.poll(0)

    def _acknowledged(self, error: object, _: object) -> None:
        if error is not None:
            self._failed.append(error)

    def finish(self) -> None:
        """Raises HandError for what was not acknowledged."""
        if self._producer.flush(LIMIT_S) or self._failed:
            raise HandError(f"not all that was sent was acknowledged: {self._failed[:3]}")


class CommittedReader:
    """Reads a topic from its beginning, without what was aborted."""

    def __init__(self, servers: str, topic: str) -> None:
        settings = {"bootstrap.servers": servers, "log_level": 3}
        self._consumer = Consumer(settings | {"group.id": "reader", "isolation.level": "read_committed"})
        self._consumer.assign([TopicPartition(topic, index, OFFSET_BEGINNING) for index in range(PARTITIONS)])

    def read(self) -> list[Message]:
        """What has come meanwhile."""
        messages = self._consumer.consume(2_000, 0.2)
        for message in messages:
            error = message.error()
            if error is not None:
                raise KafkaException(error)
        return messages

    def close(self) -> None:
        self._consumer.close()


class Work(Protocol):
    @property
    def results(self) -> int:
        """How many have been read."""

    def go_on(self, count: int) -> None:
        """Until there are so many more results."""

    def change_lives(self) -> None:
        """The program is killed, and begins anew."""


def kill_each_node(cluster: Cluster, work: Work, random: Random, say: Say) -> None:
    for number in [1, 2, 3] * ROUNDS:
        work.go_on(BETWEEN)
        cluster.node(number).kill()
        work.go_on(random.randrange(BETWEEN))
        work.change_lives()
        work.go_on(BETWEEN)
        cluster.node(number).start()
        work.go_on(random.randrange(BETWEEN))
        work.change_lives()
        say(f"node {number} was killed, and the program before and after it came back: {work.results} results")
