"""A stream of topic creations that goes on whatever happens, and what must be true of it afterwards."""

import threading
import time
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from types import TracebackType
from typing import Self

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

PARTITIONS = 3
WORKERS = 8
ANSWER_S = 10.0
PATIENCE_S = 120.0
PAUSE_S = 0.02
EXISTS = KafkaError.TOPIC_ALREADY_EXISTS


class Creations:
    """Creates topics of three partitions, several at a time; each is asked for again until it is acknowledged."""

    def __init__(self, bootstrap_servers: str, prefix: str, count: int) -> None:
        """Begin. With `log_level` 0 the client keeps to itself that nodes are gone."""
        self.names = [f"{prefix}-{number}" for number in range(count)]
        self.repeated = 0
        self._bootstrap_servers = bootstrap_servers
        self._own = threading.local()
        self._is_over = False
        self._workers = ThreadPoolExecutor(WORKERS, "creations")
        self._open: set[Future[None]] = {self._workers.submit(self._create, name) for name in self.names}

    def wait_for(self, acknowledged: int) -> None:
        """Wait until so many topics are acknowledged."""
        while len(self.names) - len(self._open) < acknowledged:
            done, self._open = wait(self._open, PATIENCE_S, FIRST_COMPLETED)
            for future in done:
                future.result()

    def finish(self) -> None:
        """Wait until all are. RuntimeError, which names it, for a topic that never is."""
        self.wait_for(len(self.names))

    def __enter__(self) -> Self:
        """The creations, which have begun in the background."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Stop; creations that are not done yet are given up."""
        self._is_over = True
        self._workers.shutdown(cancel_futures=True)

    def _client(self) -> AdminClient:
        """This thread's own client."""
        client: AdminClient | None = getattr(self._own, "client", None)
        if client is None:
            client = self._own.client = AdminClient({"bootstrap.servers": self._bootstrap_servers, "log_level": 0})
        return client

    def _create(self, name: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        client, tries = self._client(), 0
        while True:
            tries += 1
            topic = NewTopic(name, num_partitions=PARTITIONS, replication_factor=1)
            try:
                client.create_topics([topic], operation_timeout=ANSWER_S, request_timeout=ANSWER_S)[name].result()
                return
            except KafkaException as error:
                code: KafkaError = error.args[0]
                if code.code() == EXISTS and tries > 1:
                    return  # an earlier try had no answer, but it had its effect
                if self._is_over or time.monotonic() > deadline:
                    raise RuntimeError(f"{name} was not created within {PATIENCE_S:g} s: {code}") from error
                self.repeated += 1
                time.sleep(PAUSE_S)
                # librdkafka waits for the broker that it once was named as the controller until it comes back.
                self._own.client = None
                client = self._client()


def flaws(addresses: Sequence[str], names: Sequence[str]) -> list[str]:
    """What is wrong with these topics, asked of each node: one is missing, or has not all its partitions."""
    found = []
    for address in addresses:
        topics = topics_of(address)
        for name in names:
            if name not in topics:
                found.append(f"{address}: {name} is lost")
            elif topics[name] != PARTITIONS:
                found.append(f"{address}: {name} has {topics[name]} partitions of {PARTITIONS}")
    return found


def topics_of(bootstrap_servers: str) -> dict[str, int]:
    """All topics, with the number of their partitions."""
    client = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})
    return {name: len(topic.partitions) for name, topic in client.list_topics(timeout=60).topics.items()}


def delete(bootstrap_servers: str, names: Sequence[str]) -> None:
    """Delete topics, and return when all are gone."""
    client = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})
    for future in client.delete_topics(list(names), operation_timeout=60, request_timeout=60).values():
        future.result()
