"""The synchronous client against a node: what it reads and writes, and that lost answers neither lose nor repeat."""

from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AdminClient
from tests.cluster.breaking_proxy import BreakingProxy

from penstock.client.blocking import BlockingCluster, ClusterSettings, UnknownTopicError
from penstock.client.blocking.connection import ClusterUnreachable
from penstock.client.blocking.offsets import commit_offsets, committed_offsets, list_offsets
from penstock.client.blocking.produce import BlockingProducer, new_identity
from penstock.client.values import EARLIEST, LATEST
from penstock.pipeline.datasource.offset_ranges import OffsetRange
from penstock.pipeline.datasource.range_reader import read_ranges
from penstock.pipeline.errors import PipelineError
from penstock.pipeline.options.source import source_options
from penstock.pipeline.options.table import read_options
from penstock.protocol.address import parse_bootstrap_servers
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.records import Record, encode_batch
from penstock.testing import Cluster

T0_MS = 1_700_000_000_000


@pytest.fixture(scope="module")
def proxy() -> Iterator[BreakingProxy]:
    """A node that is reached through a proxy only."""
    with BreakingProxy() as proxy:
        config = {
            "advertised.listeners": f"PLAINTEXT://{proxy.address}",
            "num.partitions": "2",
            "log.retention.ms": "-1",
        }
        with Cluster(config=config) as node:
            proxy.target = node.bootstrap_servers
            yield proxy


@pytest.fixture
def cluster(proxy: BreakingProxy) -> Iterator[BlockingCluster]:
    cluster = BlockingCluster(ClusterSettings(parse_bootstrap_servers(proxy.address)))
    yield cluster
    cluster.close()


def values(count: int) -> list[Record]:
    return [Record(0, T0_MS + number, None, b"v%d" % number) for number in range(count)]


def write(cluster: BlockingCluster, topic: str, batches: int, *, proxy: BreakingProxy | None = None) -> None:
    """Batches of ten records to partition 0; with a proxy every answer to a batch is lost once."""
    cluster.partitions_of([topic], may_create=True)
    identity = new_identity(cluster)
    producer = BlockingProducer(cluster)
    for _ in range(batches):
        sequence = identity.take_sequences((topic, 0), 10)
        batch = encode_batch(
            values(10), producer_id=identity.producer_id, producer_epoch=identity.epoch, base_sequence=sequence
        )
        producer.flush()
        producer.send({(topic, 0): batch})
        if proxy is not None:
            proxy.lose_answers(1)
    producer.flush()
    producer.close()


def test_topics_are_created_where_that_is_asked_for(cluster: BlockingCluster) -> None:
    with pytest.raises(UnknownTopicError, match="has no topic 'made'"):
        cluster.partitions_of(["made"])
    assert cluster.partitions_of(["made"], may_create=True) == {"made": [0, 1]}
    assert cluster.all_topics()["made"] == [0, 1]
    with pytest.raises(KafkaError) as raised:
        cluster.partitions_of(["no/name"], may_create=True)
    assert raised.value.code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_offsets_by_time_and_name(cluster: BlockingCluster) -> None:
    write(cluster, "timed", 3)
    one, two = ("timed", 0), ("timed", 1)

    def offsets(at: int) -> dict[tuple[str, int], int]:
        return {partition: place.offset for partition, place in list_offsets(cluster, {one: at, two: at}).items()}

    assert offsets(EARLIEST) == {one: 0, two: 0}
    assert offsets(LATEST) == {one: 30, two: 0}
    assert offsets(T0_MS + 4) == {one: 4, two: -1}


def test_a_group_without_members_keeps_offsets(cluster: BlockingCluster) -> None:
    cluster.partitions_of(["kept"], may_create=True)
    assert committed_offsets(cluster, "g", [("kept", 0)]) == {}
    commit_offsets(cluster, "g", {("kept", 0): 7})
    assert committed_offsets(cluster, "g", [("kept", 0), ("kept", 1)]) == {("kept", 0): 7}


def test_a_batch_whose_answer_was_lost_is_stored_once(cluster: BlockingCluster, proxy: BreakingProxy) -> None:
    lost_before = proxy.answers_lost
    write(cluster, "retried", 5, proxy=proxy)
    assert proxy.answers_lost > lost_before
    assert list_offsets(cluster, {("retried", 0): LATEST})["retried", 0].offset == 50


def test_a_read_goes_on_where_the_connection_broke(cluster: BlockingCluster, proxy: BreakingProxy) -> None:
    write(cluster, "broken", 20)
    options = {"bootstrap.servers": proxy.address, "subscribe": "broken", "max.partition.fetch.bytes": "600"}
    source = source_options(read_options(options), streaming=False)
    offsets: list[int] = []
    lost_before = proxy.answers_lost
    for batch in read_ranges(source, [OffsetRange("broken", 0, 5, 195)]):
        offsets += batch.column("offset").to_pylist()
        proxy.lose_answers(1)
    assert offsets == list(range(5, 195))
    assert proxy.answers_lost > lost_before


@pytest.mark.parametrize("fails", ["true", "false"])
def test_a_topic_that_is_created_again_while_it_is_read_is_noticed(
    cluster: BlockingCluster, proxy: BreakingProxy, fails: str
) -> None:
    topic = f"again-{fails}"
    write(cluster, topic, 20)
    options = {
        "bootstrap.servers": proxy.address,
        "subscribe": topic,
        "max.partition.fetch.bytes": "600",
        "failOnDataLoss": fails,
    }
    source = source_options(read_options(options), streaming=False)
    planned = OffsetRange(topic, 0, 0, 200, cluster.topic_ids[topic])
    batches = read_ranges(source, [planned])
    seen = next(batches).column("offset").to_pylist()
    admin = AdminClient({"bootstrap.servers": proxy.address})
    for done in admin.delete_topics([topic]).values():
        done.result(30)
    write(cluster, topic, 20)
    assert cluster.topic_ids[topic] != planned.topic_id
    if fails == "true":
        with pytest.raises(PipelineError, match=f"Data is lost: offsets .* to 199 of partition 0 of topic '{topic}'"):
            list(batches)
    else:
        rest = sum(batch.num_rows for batch in batches)
        assert len(seen) + rest < 200, "one fetch was on its way; the rest is not read from another topic"
    anew = planned.replace(topic_id=cluster.topic_ids[topic])
    assert sum(batch.num_rows for batch in read_ranges(source, [anew])) == 200


def test_an_advertised_address_that_nobody_reaches_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.client.blocking.FIRST_CONTACT_MS", 0)
    with Cluster(config={"advertised.listeners": "PLAINTEXT://127.0.0.1:1"}) as node:
        settings = ClusterSettings(parse_bootstrap_servers(node.bootstrap_servers), retry_timeout_ms=0)
        cluster = BlockingCluster(settings)
        cluster.partitions_of(["t"], may_create=True)
        with pytest.raises(ClusterUnreachable, match=r"listens at 127.0.0.1:1, but .*advertised.listeners"):
            list_offsets(cluster, {("t", 0): LATEST})
        cluster.close()


def test_a_cluster_that_nobody_reaches_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.client.blocking.FIRST_CONTACT_MS", 0)
    cluster = BlockingCluster(ClusterSettings(parse_bootstrap_servers("127.0.0.1:1")))
    with pytest.raises(ClusterUnreachable, match=r"No broker answers at 127.0.0.1:1 \(.*refused\)"):
        cluster.all_topics()
