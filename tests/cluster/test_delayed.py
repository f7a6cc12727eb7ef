"""Records that wait outlive their leader: each comes once, whether it is killed, stopped, or all are started again."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from tests.cluster.clients import PATIENCE_S

from penstock.testing import Cluster
from penstock.testing.quorum_view import wait_until

TOPIC = "reminders"
COUNT = 400
SPREAD_MS = 4_000
CANCELLED = range(0, COUNT, 10)


def leader_of(cluster: Cluster) -> int:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    return wait_until(
        lambda: next(iter(admin.list_topics(TOPIC, PATIENCE_S).topics[TOPIC].partitions.values())).leader or None,
        PATIENCE_S,
        "a leader",
    )


def kill(cluster: Cluster) -> None:
    cluster.kill(leader_of(cluster))


def stop(cluster: Cluster) -> None:
    cluster.node(leader_of(cluster)).stop()


def kill_all(cluster: Cluster) -> None:
    cluster.kill()
    cluster.start()


@pytest.mark.soak
@pytest.mark.parametrize("in_transactions", [False, True], ids=["plain", "in transactions"])
@pytest.mark.parametrize("mode", ["isr", "consensus"])
@pytest.mark.parametrize("trouble", [kill, stop, kill_all])
def test_each_comes_once_whatever_becomes_of_its_leader(
    trouble: Callable[[Cluster], None], mode: str, in_transactions: bool
) -> None:
    with Cluster(brokers=3, controllers=1, process=True) as cluster:
        config = {"penstock.delay.enable": "true", "replication.mode": mode}
        if mode == "isr":
            config["min.insync.replicas"] = "2"
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        admin.create_topics([NewTopic(TOPIC, 1, 3, config=config)])[TOPIC].result(PATIENCE_S)
        errors: list[object] = []
        settings = {"transactional.id": TOPIC} if in_transactions else {"enable.idempotence": True}
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 5, **settings})
        if in_transactions:
            producer.init_transactions(PATIENCE_S)
            producer.begin_transaction()
            producer.produce(TOPIC, b"aborted", headers={"penstock-delay": b"100"})
            producer.flush(PATIENCE_S)
            producer.abort_transaction(PATIENCE_S)
            producer.begin_transaction()

        def send(number: int, value: bytes | None, *headers: tuple[str, str | bytes | None]) -> None:
            named = [("penstock-delay-id", b"%d" % number), *headers]
            producer.produce(
                TOPIC, value, headers=named, on_delivery=lambda error, _: errors.append(error) if error else None
            )

        begin_ms = time.time_ns() // 1_000_000 + 2_000
        for number in range(COUNT):
            due = b"%d" % (begin_ms + number * 7919 % SPREAD_MS)
            send(number, b"%d" % number, ("penstock-deliver-at", due))
        for number in CANCELLED:
            send(number, None, ("penstock-delay-cancel", b""))
        assert producer.flush(PATIENCE_S) == 0
        if in_transactions:
            producer.commit_transaction(PATIENCE_S)
        consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "g"})
        consumer.assign([TopicPartition(TOPIC, 0, OFFSET_BEGINNING)])
        seen: Counter[bytes] = Counter()
        is_troubled = False
        while len(seen) < COUNT - len(CANCELLED):
            message = consumer.poll(PATIENCE_S)
            assert message is not None, f"only {len(seen)} come"
            if message.error() is None:
                value, headers = message.value(), dict(message.headers() or [])
                assert value is not None
                assert int(headers["penstock-deliver-at"] or b"") <= message.timestamp()[1]
                seen[value] += 1
                if len(seen) == 50 and not is_troubled:
                    is_troubled = True
                    trouble(cluster)
        consumer.close()
        assert not errors
        assert is_troubled
        assert max(seen.values()) == 1
        assert not {b"%d" % number for number in CANCELLED} & seen.keys()
