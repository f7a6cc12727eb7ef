"""Who is asked for which metrics: six selectors, prefixes of all subscriptions that match, the shortest interval."""

from uuid import UUID

import pytest

from penstock.metadata.image import ClusterImage, ResourceType
from penstock.metadata.records import ConfigRecord
from penstock.node.telemetry.subscriptions import Attributes, _compiled, subscription, subscriptions, wanted_of
from penstock.protocol.uuids import uuid_to_text

CLIENT = Attributes(
    client_instance_id=UUID(int=7),
    client_id="web-1",
    client_software_name="librdkafka",
    client_software_version="2.16.1",
    client_source_address="10.0.0.7",
    client_source_port="4711",
)


@pytest.mark.parametrize(
    ("match", "is_match"),
    [
        ("", True),
        ("client_id=web-.*", True),
        ("client_id=web", False),  # the whole value has to match
        (f"client_instance_id={uuid_to_text(UUID(int=7))}", True),
        ("client_software_name=librdkafka,client_software_version=2\\..*", True),
        ("client_software_name=librdkafka,client_software_version=1\\..*", False),
        ("client_source_address=10\\.0\\.0\\.[0-9]+", True),
        ("client_source_port=4711", True),
        ("client_source_port=4712", False),
        ("client_id=(?=web).*", False),  # an older version has let it in
        (f"client_id={'(' * 5_000}", False),
    ],
)
def test_a_client_matches_where_each_pattern_does(match: str, is_match: bool) -> None:
    assert subscription({"match": match, "metrics": "a"}).matches(CLIENT) == is_match


def test_a_long_value_matches_nothing() -> None:
    assert not subscription({"match": "client_id=a*"}).matches(CLIENT.replace(client_id="a" * 256))


def test_no_pattern_takes_long() -> None:
    hostile = CLIENT.replace(client_id="a" * 255)
    assert not subscription({"match": "client_id=(a+)+b"}).matches(hostile)
    matcher = _compiled("(a+)+b")
    assert matcher is not None
    for _ in range(3):
        assert not subscription({"match": "client_id=(a+)+b"}).matches(hostile)
    assert matcher.work < 5_000


def test_what_is_wanted_is_all_that_matching_subscriptions_name_at_the_shortest_interval() -> None:
    slow = subscription({"metrics": "org.b.,org.a.", "interval.ms": "10000"})
    quick = subscription({"metrics": "org.a.", "interval.ms": "1000"})
    other = subscription({"metrics": "org.c.", "interval.ms": "100", "match": "client_id=batch"})
    wanted = wanted_of(CLIENT, (slow, quick, other))
    assert (wanted.interval_ms, wanted.metrics) == (1000, ("org.a.", "org.b."))
    assert -(1 << 31) <= wanted.number < 1 << 31
    assert wanted_of(CLIENT, (quick, slow)) == wanted, "the order does not matter"
    assert wanted_of(CLIENT, (slow,)).number != wanted.number
    assert wanted_of(CLIENT.replace(client_instance_id=UUID(int=8)), (slow, quick)).number != wanted.number


def test_all_metrics_are_a_star_and_no_subscription_is_none() -> None:
    all_ = subscription({"metrics": "*,org.a."})
    assert wanted_of(CLIENT, (all_, subscription({"metrics": "b"}))).metrics == ("*",)
    assert (wanted_of(CLIENT, ()).metrics, wanted_of(CLIENT, ()).interval_ms) == ((), 300_000)


def test_they_come_from_the_metadata() -> None:
    image = ClusterImage("cluster")

    def change(kind: ResourceType, name: str, key: str, value: str | None) -> None:
        image.apply(ConfigRecord(resource_type=kind, resource_name=name, name=key, value=value))

    for name, key, value in (("b", "metrics", "b"), ("a", "metrics", "a"), ("a", "interval.ms", "500")):
        change(ResourceType.CLIENT_METRICS, name, key, value)
    change(ResourceType.TOPIC, "c", "metrics", "c")
    before = image.copy()
    assert [(one.metrics, one.interval_ms) for one in subscriptions(image)] == [(("a",), 500), (("b",), 300_000)]
    change(ResourceType.CLIENT_METRICS, "b", "metrics", None)
    assert [one.metrics for one in subscriptions(image)] == [("a",)]
    assert [one.metrics for one in subscriptions(before)] == [("a",), ("b",)]


def test_topics_with_configs_are_not_looked_through() -> None:
    image = ClusterImage("cluster")
    image.apply(ConfigRecord(resource_type=ResourceType.CLIENT_METRICS, resource_name="a", name="metrics", value="a"))
    del image.configs
    assert [one.metrics for one in subscriptions(image)] == [("a",)]
