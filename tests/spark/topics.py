"""Topics with records in them, and frames that read them."""

import json
from collections.abc import Iterable, Mapping
from uuid import uuid4

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from pyspark.sql import DataFrame, SparkSession

from penstock.client.blocking import BlockingCluster, ClusterSettings
from penstock.client.blocking.produce import BlockingProducer
from penstock.protocol.address import parse_bootstrap_servers
from penstock.protocol.compression import Compression
from penstock.protocol.records import Record, encode_batch

KEEP = {"retention.ms": "-1"}
T0_MS = 1_700_000_000_000


def new_topic(servers: str, partitions: int = 2, replicas: int = 1) -> str:
    """An empty topic with a name that nobody else has; it keeps records however old they say they are."""
    topic = f"t-{uuid4().hex[:10]}"
    admin = AdminClient({"bootstrap.servers": servers})
    for done in admin.create_topics([NewTopic(topic, partitions, replicas, config=KEEP)]).values():
        done.result()
    return topic


def cluster_at(servers: str) -> BlockingCluster:
    """A client."""
    return BlockingCluster(ClusterSettings(parse_bootstrap_servers(servers)))


def write(
    servers: str,
    topic: str,
    partition: int,
    records: list[Record],
    *,
    compression: Compression = Compression.NONE,
    batch_size: int = 7,
) -> None:
    """Write records in small batches, so that ranges begin and end within batches."""
    cluster = cluster_at(servers)
    producer = BlockingProducer(cluster)
    for begin in range(0, len(records), batch_size):
        producer.send({(topic, partition): encode_batch(records[begin : begin + batch_size], compression=compression)})
    producer.flush()
    producer.close()
    cluster.close()


def json_records(*values: object) -> list[Record]:
    return [Record(0, 0, b"k", value if isinstance(value, bytes) else json.dumps(value).encode()) for value in values]


def numbered(numbers: Iterable[int]) -> list[Record]:
    """Records whose key and value say their number, a second apart."""
    return [Record(0, T0_MS + 1000 * number, b"k%d" % number, b"v%d" % number) for number in numbers]


def filled_topic(servers: str, counts: Iterable[int]) -> str:
    """A topic with so many numbered records in each partition; the numbers go on from partition to partition."""
    sizes = list(counts)
    topic = new_topic(servers, len(sizes))
    first = 0
    for partition, count in enumerate(sizes):
        write(servers, topic, partition, numbered(range(first, first + count)))
        first += count
    return topic


def batch_frame(spark: SparkSession, servers: str, topic: str, options: Mapping[str, str] | None = None) -> DataFrame:
    """All of a topic, unless options say otherwise."""
    reader = spark.read.format("penstock").option("kafka.bootstrap.servers", servers).option("subscribe", topic)
    return reader.options(**dict(options or {})).load()


def stream_frame(spark: SparkSession, servers: str, topic: str, options: Mapping[str, str] | None = None) -> DataFrame:
    """A topic from its beginning on, unless options say otherwise."""
    reader = spark.readStream.format("penstock").option("bootstrap.servers", servers).option("subscribe", topic)
    return reader.options(**({"startingOffsets": "earliest"} | dict(options or {}))).load()


def offsets_json(topic: str, *offsets: int) -> str:
    """One offset for each partition from 0 on, as options take them."""
    return json.dumps({topic: dict(enumerate(offsets))})


def values_of(frame: DataFrame) -> list[str]:
    """The values as text, in the order of partitions and offsets."""
    ordered = frame.orderBy("partition", "offset").selectExpr("cast(value as string) AS value")
    return [row.value for row in ordered.collect()]
