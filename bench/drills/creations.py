"""A stream of topic creations that goes on whatever happens, and what must be true of it afterwards."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Self

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.cimpl import NewTopic

from bench.drills.traffic import DrillError
from bench.topics import admin_of, delete_topic
from penstock.testing import Cluster

PARTITIONS = 3
WORKERS = 8
ANSWER_S = 10.0
PATIENCE_S = 120.0
PAUSE_S = 0.02
SECONDS_FOR_A_NODE = 60.0
TOPICS = 1000


class Creations:
    """Creates topics of three partitions, several at a time; each is asked for again until it is acknowledged."""

    def __init__(self, bootstrap_servers: str, prefix: str, count: int) -> None:
        """Begin."""
        self.names = [f"{prefix}-{number}" for number in range(count)]
        self.repeated = 0
        self._bootstrap_servers = bootstrap_servers
        self._own = threading.local()
        self._is_over = False
        self._workers = ThreadPoolExecutor(WORKERS, "creations")
        self._open: set[Future[None]] = {self._workers.submit(self._create, name) for name in self.names}

    def wait_for(self, acknowledged: int) -> None:
        """Wait until so many topics are acknowledged. RuntimeError, which names it, for a topic that never is."""
        while len(self.names) - len(self._open) < acknowledged:
            done, self._open = wait(self._open, PATIENCE_S, FIRST_COMPLETED)
            for future in done:
                future.result()

    def finish(self) -> None:
        """Wait until all are."""
        self.wait_for(len(self.names))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Stop; creations that are not done yet are given up."""
        self._is_over = True
        self._workers.shutdown(cancel_futures=True)

    def _create(self, name: str) -> None:
        deadline, tries = time.monotonic() + PATIENCE_S, 0
        topic = NewTopic(name, num_partitions=PARTITIONS, replication_factor=1)
        while True:
            tries += 1
            self._own.client = client = getattr(self._own, "client", None) or admin_of(self._bootstrap_servers)
            try:
                client.create_topics([topic], operation_timeout=ANSWER_S, request_timeout=ANSWER_S)[name].result()
                return
            except KafkaException as error:
                code: KafkaError = error.args[0]
                if code.code() == KafkaError.TOPIC_ALREADY_EXISTS and tries > 1:
                    return  # an earlier try had no answer, but it had its effect
                if self._is_over or time.monotonic() > deadline:
                    raise RuntimeError(f"{name} was not created within {PATIENCE_S:g} s: {code}") from error
                self.repeated += 1
                time.sleep(PAUSE_S)
                # librdkafka waits for the broker that it once was named as the controller until it comes back.
                self._own.client = None


@contextmanager
def creations_on(cluster: Cluster, number: int) -> Iterator[Creations]:
    """A round's creations: some are acknowledged when the block begins, all are there, whole, when it has ended."""
    with Creations(cluster.bootstrap_servers, f"round-{number}", TOPICS) as creations:
        creations.wait_for(TOPICS // 4)
        yield creations
        creations.finish()
        _expect_no_flaws(cluster, creations.names)
    delete_topic(cluster.bootstrap_servers, *creations.names)


def _expect_no_flaws(cluster: Cluster, names: list[str]) -> None:
    """Every node gets a moment to learn the last records; then it has to know all topics, with all partitions."""
    deadline = time.monotonic() + SECONDS_FOR_A_NODE
    while True:
        known = {node.id: topics_of(str(node.address)) for node in cluster.nodes if node.address is not None}
        found = [
            f"{name} at {node}" for node, counts in known.items() for name in names if counts.get(name) != PARTITIONS
        ]
        if not found:
            return
        if time.monotonic() > deadline:
            raise DrillError(f"lost, or without some of their partitions: {', '.join(found[:10])}")
        time.sleep(0.1)


def topics_of(bootstrap_servers: str) -> dict[str, int]:
    """All topics, with the number of their partitions."""
    topics = admin_of(bootstrap_servers).list_topics(timeout=60).topics
    return {name: len(topic.partitions) for name, topic in topics.items()}
