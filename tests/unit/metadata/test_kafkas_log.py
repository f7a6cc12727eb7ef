"""The metadata log of a node that Apache Kafka 4.4.0 formatted, founded and stopped, byte for byte as it left it.

It was formatted with `--add-scram` and `CREDENTIAL`; then a topic was created and a setting of the broker changed.
"""

from pathlib import Path

from penstock.cli.metadata_shell.source import read_view
from penstock.cli.nodes.scram import parse_credential
from penstock.metadata.features import KAFKAS_FEATURES, KRAFT_VERSION, METADATA_VERSION, default_level
from penstock.metadata.image import ClusterImage
from penstock.metadata.resources import ResourceType
from penstock.metadata.snapshot import decode_snapshot, encode_snapshot

LOG = Path(__file__).with_name("kafka_4_4_metadata.log")
CREDENTIAL = "SCRAM-SHA-256=[name=user,password=pencil,salt=W22ZaJ0SNY7soEsUEjb6gQ==]"


def test_all_that_kafka_wrote_is_in_the_image() -> None:
    image = read_view(LOG).image
    others = KAFKAS_FEATURES.keys() - {KRAFT_VERSION}
    assert image.features == {METADATA_VERSION: 33} | {name: default_level(name, 33) for name in others}
    assert list(image.security.scram_credentials.values()) == [parse_credential(CREDENTIAL, bytes)]
    assert image.config_of(ResourceType.BROKER, "") == {"min.insync.replicas": "1"}
    assert image.config_of(ResourceType.BROKER, "1") == {"log.retention.ms": "5000000"}
    assert image.config_of(ResourceType.TOPIC, "clicks") == {"retention.ms": "604800001"}
    assert (image.brokers[1].fenced, image.brokers[1].cordoned_directories) == (True, ())
    for partition in image.topics["clicks"].partitions.values():
        assert (partition.leader, partition.isr, partition.eligible_leader_replicas) == (-1, (), (1,))


def test_a_snapshot_of_it_makes_the_same_image() -> None:
    image = read_view(LOG).image
    chunks = encode_snapshot(
        image.records(), leader_epoch=1, last_timestamp_ms=1, now_ms=1, level=image.metadata_version
    )
    again = ClusterImage(image.cluster_id)
    for record in decode_snapshot(b"".join(chunks)):
        again.apply(record)
    assert again == image
    assert again.checksum() == image.checksum()
