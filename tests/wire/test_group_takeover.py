"""Three consumers of one group share 12 partitions; one is killed; the rest take over and miss nothing."""

import json
import queue
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from penstock.testing import Cluster

ROOT = Path(__file__).resolve().parents[2]
PARTITIONS = 12
LIMIT_S = 90
SHORT_SESSIONS = {"group.min.session.timeout.ms": "500", "group.initial.rebalance.delay.ms": "500"}


class Member:
    """A consumer in a process of its own, and what it has said so far."""

    def __init__(self, client: str, address: str, group: str, topic: str, heard: "queue.Queue[None]") -> None:
        command = [sys.executable, "-m", "tests.wire.group_member", client, address, group, topic]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        self.assigned: set[int] = set()
        self.records: list[tuple[int, int]] = []
        self._heard = heard
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            fact = json.loads(line)
            if "assigned" in fact:
                self.assigned = set(fact["assigned"])
            else:
                self.records.append(tuple(fact["record"]))
            self._heard.put(None)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self._thread.join()
        self.assigned = set()

    def leave(self) -> None:
        self.process.terminate()
        self.process.wait(LIMIT_S)
        self._thread.join()


class Group:
    """All members, and a way to wait until they have said enough."""

    def __init__(self, client: str, address: str, topic: str) -> None:
        self._heard: queue.Queue[None] = queue.Queue()
        self.members = [Member(client, address, f"shared-by-{client}", topic, self._heard) for _ in range(3)]

    def await_that(self, condition: Callable[[], bool]) -> None:
        while not condition():
            try:
                self._heard.get(timeout=LIMIT_S)
            except queue.Empty:
                state = [(sorted(member.assigned), len(member.records)) for member in self.members]
                pytest.fail(f"the members went silent at {state}")

    def shares(self) -> list[int]:
        return sorted(len(member.assigned) for member in self.members)

    def covers_all(self) -> bool:
        held = Counter(partition for member in self.members for partition in member.assigned)
        return held == Counter(range(PARTITIONS))

    def has_all(self, count: int) -> bool:
        return len({record for member in self.members for record in member.records}) == count


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(config=SHORT_SESSIONS) as running:
        yield running


@pytest.fixture(params=["confluent-kafka", "kafka-python", "aiokafka"])
def group(request: pytest.FixtureRequest, cluster: Cluster) -> Iterator[Group]:
    topic = f"work-{request.param}"
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    for future in admin.create_topics([NewTopic(topic, PARTITIONS, 1)]).values():
        future.result(LIMIT_S)
    produce(cluster.bootstrap_servers, topic, 600)
    group = Group(request.param, cluster.bootstrap_servers, topic)
    yield group
    for member in group.members:
        member.kill()


def produce(address: str, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": address, "acks": "all"})
    for number in range(count):
        producer.produce(topic, value=str(number), partition=number % PARTITIONS)
    assert producer.flush(LIMIT_S) == 0


def test_members_share_and_take_over(group: Group, cluster: Cluster, request: pytest.FixtureRequest) -> None:
    group.await_that(lambda: group.covers_all() and group.shares() == [4, 4, 4])
    group.await_that(lambda: group.has_all(600))

    victim = group.members[0]
    victim.kill()
    group.await_that(lambda: group.covers_all() and group.shares() == [0, 6, 6])
    produce(cluster.bootstrap_servers, f"work-{request.node.callspec.params['group']}", 120)
    group.await_that(lambda: group.has_all(720))

    group.members[1].leave()
    group.members[1].assigned = set()
    group.await_that(lambda: group.shares() == [0, 0, PARTITIONS])
