"""Where the last decision of a query is found: a log by hand stands for the topic; and how the topic is made."""

from collections.abc import Callable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.client.blocking import ClusterSettings, TopicPartition
from penstock.client.blocking.produce import ProducerIdentity
from penstock.client.values import EARLIEST, LATEST, IsolationLevel, TransactionName
from penstock.pipeline.arrow.record_spans import whole_batches
from penstock.pipeline.datasource import decisions_topic
from penstock.pipeline.datasource.decisions_topic import (
    CONFIGS,
    DELIVERY_TIMEOUT_MS,
    FIRST_LOOK,
    GROWTH,
    LONGEST_WAIT_MS,
    PARTITIONS,
    DecisionsTopic,
    check_configs,
    new_topic,
)
from penstock.pipeline.errors import PipelineError
from penstock.pipeline.once.decision import Decision
from penstock.protocol.address import Address
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.hashing import partition_for_key
from penstock.protocol.records import Record, decode_batch, encode_batch
from penstock.protocol.requests.api import ApiKey

QUERY = "query"
PLACE = ("t", 3)


class Log:
    """Of partitions: batches by their offsets, and how far each is settled. Notes what is read."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.batches: dict[TopicPartition, dict[int, bytes]] = {}
        self.begins: dict[TopicPartition, int] = {}
        self.ends: dict[TopicPartition, int] = {}
        self.settled: list[int] = []
        self.aborted: list[tuple[int, int]] = []
        self.read: list[tuple[TopicPartition, int, int]] = []
        self.listed: list[tuple[TopicPartition, int, IsolationLevel]] = []
        monkeypatch.setattr(decisions_topic, "list_offsets", self._list)
        monkeypatch.setattr(decisions_topic, "RangeFetcher", self._fetch)

    def put(self, offset: int, key: str, value: Decision | None, place: TopicPartition = PLACE, **how: Any) -> None:
        content = None if value is None else value.encode()
        record = Record(timestamp_ms=0, key=key.encode(), value=content)
        self.batches.setdefault(place, {})[offset] = bytes(encode_batch([record], base_offset=offset, **how))
        self.ends[place] = max(self.ends.get(place, 0), offset + 1)

    def _list(
        self,
        _: object,
        wanted: Mapping[TopicPartition, int],
        isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    ) -> dict[TopicPartition, Any]:
        ((place, what),) = wanted.items()
        self.listed.append((place, what, isolation))
        if what == EARLIEST:
            return {place: SimpleNamespace(offset=self.begins.get(place, 0))}
        assert what == LATEST
        end = self.ends.get(place, 0)
        if isolation is IsolationLevel.READ_COMMITTED and self.settled:
            end = self.settled.pop(0)
        return {place: SimpleNamespace(offset=end)}

    def _fetch(self, _: object, source: Any, wanted: Any) -> Iterator[tuple[Any, Any]]:
        assert source.isolation is IsolationLevel.READ_COMMITTED
        place = (wanted.topic, wanted.partition)
        self.read.append((place, wanted.start, wanted.end))
        for offset, batch in sorted(self.batches.get(place, {}).items()):
            if wanted.start <= offset < wanted.end:
                records = memoryview(batch)
                yield SimpleNamespace(records=records, aborted=self.aborted), list(whole_batches(records))


class Cluster:
    """As much of one as makes a topic: answers by the API."""

    def __init__(self, there: int | None = PARTITIONS, brokers: int = 3, **results: Any) -> None:
        self.settings = ClusterSettings((Address("a", 1),))
        self.metadata = SimpleNamespace(brokers=range(brokers))
        self.asked: list[Any] = []
        self._there, self._results = there, results

    def partitions_there(self, topics: object) -> Mapping[str, list[int]]:
        return {} if self._there is None else self.partitions_of(topics)

    def partitions_of(self, topics: object) -> Mapping[str, list[int]]:
        return {"t": list(range(self._there or PARTITIONS))}

    def retried(self, attempt: Callable[[], Any]) -> Any:
        return attempt()

    def any_broker(self) -> "Cluster":
        return self

    def request(self, api: ApiKey, request: Any, _: object) -> Any:
        self.asked.append(request)
        code = self._results.get(api.name.lower(), ErrorCode.NONE)
        configs = [SimpleNamespace(name="cleanup.policy", value=self._results.get("policy", "compact"))]
        row = SimpleNamespace(error_code=code, error_message=None, configs=configs)
        return SimpleNamespace(topics=[row], results=[row])


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Log:
    return Log(monkeypatch)


def topic() -> DecisionsTopic:
    return DecisionsTopic(cast("Any", Cluster()), "t", QUERY, PLACE)


def decision(batch: int) -> Decision:
    return Decision(batch, (TransactionName("id", 1, 2, True),))


def test_the_last_one_of_the_query_counts(log: Log) -> None:
    assert topic().last() is None
    for offset, (key, value) in enumerate(((QUERY, 1), ("other", 8), (QUERY, 2), ("other", 9))):
        log.put(offset, key, decision(value))
    assert topic().last() == decision(2)
    log.put(4, QUERY, None)
    assert topic().last() is None, "it is forgotten"
    log.put(5, QUERY, decision(0))
    assert topic().last() == decision(0), "and began anew"


def test_what_is_forgotten_is_not_looked_for_where_it_was_before(log: Log) -> None:
    log.put(0, QUERY, None)
    earlier = next(number for number in range(PARTITIONS) if number == partition_for_key(QUERY.encode(), 1))
    log.put(0, QUERY, decision(5), ("t", earlier))
    assert topic().last() is None


def test_it_is_looked_for_from_the_end_backwards(log: Log) -> None:
    end = 100_000
    log.begins[PLACE] = 10
    log.put(10, QUERY, decision(1))
    log.put(end - 1, "other", decision(2))
    assert topic().last() == decision(1)
    looks, size = [], FIRST_LOOK
    while end > 10:
        looks.append((PLACE, max(10, end - size), end))
        end, size = max(10, end - size), size * GROWTH
    assert log.read == looks
    log.read.clear()
    log.put(100_000, QUERY, decision(3))
    assert topic().last() == decision(3)
    assert log.read == [(PLACE, 100_001 - FIRST_LOOK, 100_001)]


def test_it_may_lie_where_the_topic_had_it_with_fewer_partitions(log: Log) -> None:
    places = sorted({partition_for_key(QUERY.encode(), count) for count in range(1, PARTITIONS)} - {PLACE[1]})
    assert len(places) > 2
    for batch, number in enumerate(places):
        log.put(0, QUERY, decision(9 - batch), ("t", number))
    assert topic().last() == decision(9), "the one of the latest batch"
    assert [place for place, _, _ in log.read] == [("t", number) for number in places]


def test_what_is_aborted_was_never_decided(log: Log) -> None:
    log.put(0, QUERY, decision(1), producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
    log.put(1, QUERY, decision(2), producer_id=8, producer_epoch=0, base_sequence=0, is_transactional=True)
    log.aborted = [(8, 1)]
    assert topic().last() == decision(1)
    log.aborted = []
    assert topic().last() == decision(2)


def test_what_others_decide_at_this_moment_is_waited_for(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    log.put(4, QUERY, decision(1))
    log.settled, now_ms, pauses = [2, 4, 5], [0], list[int]()
    monkeypatch.setattr(decisions_topic, "now_ms", lambda: now_ms[0])
    waits = SimpleNamespace(take=lambda: pauses.append(1))
    monkeypatch.setattr(decisions_topic, "Pauses", lambda: waits)
    assert topic().last() == decision(1)
    assert len(pauses) == 2
    log.settled = [2] * 9
    waits.take = lambda: now_ms.__setitem__(0, now_ms[0] + LONGEST_WAIT_MS // 2)
    with pytest.raises(KafkaError, match="a transaction is open in t-3, so what was decided last is not known"):
        topic().last()
    assert now_ms[0] == LONGEST_WAIT_MS // 2 * 3


def test_what_does_not_come_may_be_the_last(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> Iterator[Any]:
        raise PipelineError("Data is lost")
        yield

    log.put(4, QUERY, decision(1))
    monkeypatch.setattr(decisions_topic, "RangeFetcher", fails)
    with pytest.raises(PipelineError, match=r"^What was decided last is not known: offsets 0 to 4 of partition 3"):
        topic().last()


@pytest.mark.parametrize(
    ("brokers", "replicas", "least"), [(0, 1, "1"), (1, 1, "1"), (2, 2, "1"), (3, 3, "2"), (9, 3, "2")]
)
def test_the_topic_as_it_is_made(brokers: int, replicas: int, least: str) -> None:
    made = new_topic("t", brokers)
    assert (made.name, made.num_partitions, made.replication_factor) == ("t", PARTITIONS, replicas)
    configs = {config.name: config.value for config in made.configs}
    assert configs == {**CONFIGS, "min.insync.replicas": least}
    assert CONFIGS["cleanup.policy"] == "compact"


def test_it_is_made_where_it_is_not_there() -> None:
    cluster = Cluster(None, brokers=2)
    made = DecisionsTopic(cast("Any", cluster), "t", QUERY)
    assert made.partition == ("t", partition_for_key(QUERY.encode(), PARTITIONS))
    create, configs = cluster.asked
    assert create.topics == [new_topic("t", 2)]
    assert create.timeout_ms == cluster.settings.request_timeout_ms
    ((resource,),) = [configs.resources]
    assert (resource.resource_type, resource.resource_name, resource.configuration_keys) == (2, "t", ["cleanup.policy"])
    there = Cluster()
    assert DecisionsTopic(cast("Any", there), "t", QUERY).partition == made.partition
    assert len(there.asked) == 1
    known = Cluster()
    assert DecisionsTopic(cast("Any", known), "t", QUERY, ("t", 6)).partition == ("t", 6)
    assert known.asked == []


@pytest.mark.parametrize(
    ("cluster", "words"),
    [
        (Cluster(None, create_topics=ErrorCode.TOPIC_ALREADY_EXISTS), None),
        (Cluster(describe_configs=ErrorCode.TOPIC_AUTHORIZATION_FAILED, policy="delete"), None),
        (Cluster(PARTITIONS + 4), None),
        (Cluster(None, create_topics=ErrorCode.POLICY_VIOLATION), "making the topic 't' for decisions"),
        (Cluster(describe_configs=ErrorCode.CLUSTER_AUTHORIZATION_FAILED), "the configs of the topic 't'"),
        (Cluster(policy="delete"), "is for decisions, and has cleanup.policy=delete"),
        (Cluster(policy="compact,delete"), "is for decisions, and has cleanup.policy=compact,delete"),
        (Cluster(PARTITIONS - 1), f"has fewer than {PARTITIONS} partitions"),
    ],
)
def test_which_topics_are_taken(cluster: Cluster, words: str | None) -> None:
    if words is None:
        DecisionsTopic(cast("Any", cluster), "t", QUERY)
        return
    with pytest.raises(KafkaError) as raised:
        DecisionsTopic(cast("Any", cluster), "t", QUERY)
    assert words in str(raised.value)


def test_configs_that_are_not_told_are_good() -> None:
    check_configs("t", {})
    check_configs("t", {"cleanup.policy": "compact", "segment.bytes": "1"})
    with pytest.raises(KafkaError):
        check_configs("t", {"cleanup.policy": None})
    assert DELIVERY_TIMEOUT_MS == 30_000


def test_a_topic_of_one_partition_had_it_in_the_first(log: Log) -> None:
    query = "query-2"
    assert 0 not in {partition_for_key(query.encode(), count) for count in range(2, PARTITIONS + 1)}
    log.put(0, query, decision(5), ("t", 0))
    assert DecisionsTopic(cast("Any", Cluster()), "t", query, PLACE).last() == decision(5)


def test_a_decision_is_a_record_of_its_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[tuple[bytes, Any]] = []
    added: list[Any] = []
    monkeypatch.setattr(
        decisions_topic,
        "TransactionCoordinators",
        lambda cluster: SimpleNamespace(add=lambda identity, partitions: added.append(partitions)),
    )
    monkeypatch.setattr(
        decisions_topic.DecisionsTopic, "_send", lambda _, batch, name: sent.append((bytes(batch), name))
    )
    identity = ProducerIdentity(7, 3, "id")
    for _ in range(2):
        topic().write(identity, decision(5))
    topic().forget()
    assert added == [[PLACE]] * 2
    headers = [next(iter(whole_batches(memoryview(batch)))).header for batch, _ in sent]
    told = [(one.producer_id, one.producer_epoch, one.base_sequence, one.is_transactional) for one in headers]
    assert told == [(7, 3, 0, True), (7, 3, 1, True), (-1, -1, -1, False)]
    assert [name for _, name in sent] == ["id", "id", None]
    records = [record for batch, _ in sent for record in decode_batch(memoryview(batch), 0)]
    assert [(record.key, record.value) for record in records] == [
        (b"query", decision(5).encode()),
        (b"query", decision(5).encode()),
        (b"query", None),
    ]
