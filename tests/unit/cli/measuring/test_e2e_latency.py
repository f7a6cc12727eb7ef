"""What `penstock e2e-latency` sends, what it takes for the same record, and what it says."""

from pathlib import Path
from random import Random
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tests.unit.cli.measuring.clocks import Clock

from penstock.cli.main import main
from penstock.cli.measuring import e2e_latency
from penstock.cli.measuring.e2e_latency import Shape
from penstock.client.admin.topics import NewTopic
from penstock.client.settings import ConsumerSettings, ProducerSettings
from penstock.client.values import ConsumedRecord, TopicPartition

PLACE = TopicPartition("t", 0)


class FakeCluster:
    """Stands for the admin client, the producer and the consumer: what is sent is read after some ms."""

    def __init__(self, clock: Clock, *, topics: list[str]) -> None:
        self.done: list[Any] = []
        self.topics = self
        self.settings: list[ProducerSettings | ConsumerSettings] = []
        self.took_ms = [4.5]
        self.other: dict[int, Any] = {}
        """By number, what is read instead of a record."""
        self._names = topics
        self._clock = clock
        self._sent: list[ConsumedRecord] = []

    def __call__(self, servers: str, settings: ProducerSettings | ConsumerSettings) -> "FakeCluster":
        self.settings.append(settings)
        self.done.append(servers)
        return self

    async def __aenter__(self) -> "FakeCluster":
        return self

    async def __aexit__(self, *_: Any) -> None:
        self.done.append("close")

    async def names(self) -> list[str]:
        return self._names

    async def create(self, topic: NewTopic) -> None:
        self.done.append(topic)

    async def wait_until_led(self, topic: str) -> None:
        self.done.append(("led", topic))

    async def partitions_for(self, topic: str) -> list[TopicPartition]:
        return [TopicPartition(topic, 0)]

    async def assign(self, partitions: list[TopicPartition]) -> None:
        self.done.append(partitions)

    async def end_offsets(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 9)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self.done.append((partition, offset))

    async def send_and_wait(self, topic: str, value: bytes, *, key: bytes | None, headers: Any) -> None:
        self._sent.append(ConsumedRecord(topic, 0, len(self._sent), 0, key, value, headers=headers))

    async def poll(self, patience_ms: int) -> list[ConsumedRecord]:
        assert patience_ms == 60_000
        number = len(self._sent) - 1
        self._clock.now_s += self.took_ms[number % len(self.took_ms)] / 1000
        found: list[ConsumedRecord] = self.other.get(number, self._sent[-1:])
        return found


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(e2e_latency, "time", found.module)
    return found


def run(monkeypatch: pytest.MonkeyPatch, cluster: FakeCluster, *words: str, count: int = 1) -> Result:
    for name in ("Admin", "Consumer", "Producer"):
        monkeypatch.setattr(e2e_latency, name, cluster)
    fixed = ["e2e-latency", "--topic", "t", "--record-size", "2", "--bootstrap-server", "h:1", "--producer-acks", "all"]
    return CliRunner().invoke(main, [*fixed, "--num-records", str(count), *words])


def test_a_topic_that_is_not_there_is_made(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = FakeCluster(clock, topics=["other"])
    result = run(monkeypatch, cluster)
    made = NewTopic(name="t", partitions=1, replication_factor=1)
    assert cluster.done == [
        "h:1", made, ("led", "t"), "close", "h:1", "h:1", [PLACE], (PLACE, 9), "close", "close",
    ]  # fmt: skip
    assert result.stdout.splitlines() == [
        'Topic "t" does not exist. Will create topic with 1 partition(s) and replication factor = 1',
        "0\t4.5",
        "Avg latency: 4.5000 ms",
        "Percentiles: 50th = 4, 99th = 4, 99.9th = 4",
    ]


def test_every_thousandth_is_told_and_all_are_summed_up(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = FakeCluster(clock, topics=["t"])
    cluster.took_ms = [1.5] * 988 + [8.5] * 10 + [32.5] * 2 + [2.5]
    result = run(monkeypatch, cluster, count=1_001)
    first, thousandth, mean, shares = result.stdout.splitlines()
    told = [float(one) for line in (first, thousandth) for one in line.split("\t")]
    assert told == pytest.approx([0, 1.5, 1_000, 2.5])
    assert mean == f"Avg latency: {(988 * 1.5 + 85 + 65 + 2.5) / 1001:.4f} ms"
    assert shares == "Percentiles: 50th = 1, 99th = 8, 99.9th = 32"


@pytest.mark.parametrize(
    ("found", "complaint"),
    [
        ([], "the record was not read within 60000 ms"),
        ("twice", "other records were read than the one that was sent: who else writes to t?"),
        ("value", "other records were read than the one that was sent: who else writes to t?"),
        ("key", "other records were read than the one that was sent: who else writes to t?"),
        ("headers", "other records were read than the one that was sent: who else writes to t?"),
    ],
)
def test_what_is_not_the_record_that_was_sent(
    found: Any, complaint: str, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = ConsumedRecord("t", 0, 0, 0, None, b"MM", headers=[])
    others: dict[str, list[ConsumedRecord]] = {
        "twice": [right, right],
        "value": [ConsumedRecord("t", 0, 0, 0, None, b"M", headers=[])],
        "key": [ConsumedRecord("t", 0, 0, 0, b"", b"MM", headers=[])],
        "headers": [ConsumedRecord("t", 0, 0, 0, None, b"MM", headers=[("a", b"")])],
    }
    cluster = FakeCluster(clock, topics=["t"])
    cluster.other = {0: others.get(found, []) if found else []}
    result = run(monkeypatch, cluster)
    assert (result.exit_code, result.stderr) == (1, f"Error: {complaint}\n")
    same = FakeCluster(clock, topics=["t"])
    same.other = {0: [right]}
    assert run(monkeypatch, same).exit_code == 0, "this is the one that was sent"


def shape(**sizes: int) -> dict[str, Any]:
    usual = dict.fromkeys(("record_size", "record_key_size", "num_headers", "record_header_key_size"), 0)
    return Shape(**(usual | {"record_header_size": 0} | sizes)).record(Random(0))


def test_what_is_sent() -> None:
    assert shape(record_size=3) == {"value": b"MMM", "key": None, "headers": []}
    assert shape(record_key_size=1)["key"] == b"M"
    assert shape(num_headers=2, record_header_key_size=2, record_header_size=1)["headers"] == [
        ("YY", b"M"),
        ("BB", b"N"),
    ]
    assert shape(num_headers=1, record_header_size=-1)["headers"] == [("", None)]
    assert shape(num_headers=1, record_header_size=0)["headers"] == [("", b"")]


def test_each_client_takes_of_the_file_what_it_knows(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "properties"
    path.write_text("fetch.min.bytes=3\nbatch.size=5\nclient.id=me\nsasl.jaas.config=x\nnonsense=1\n")
    cluster = FakeCluster(clock, topics=["t"])
    run(monkeypatch, cluster, "--command-config", str(path))
    admin, reads, sends = cluster.settings
    assert admin == sends
    assert isinstance(reads, ConsumerSettings)
    assert isinstance(sends, ProducerSettings)
    assert (reads.fetch_min_bytes, reads.client_id, reads.fetch_max_wait_ms) == (3, "me", 0)
    assert (sends.batch_size, sends.client_id, sends.linger_ms, sends.acks) == (5, "me", 0, -1)
    assert reads.enable_auto_commit is False
