from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.metadata.configs.effective import (
    ConfigEntry,
    ConfigSource,
    Synonym,
    broker_entries,
    client_metrics_entries,
    default_broker_entries,
    group_entries,
    topic_entries,
    topic_values,
)
from penstock.metadata.configs.topic import TOPIC_CONFIGS

DAY_MS = 86_400_000


def config(**overrides: str) -> BrokerConfig:
    return BrokerConfig.embedded({key.replace("_", "."): value for key, value in overrides.items()})


def topic_entry(name: str, overrides: dict[str, str], broker: BrokerConfig) -> ConfigEntry:
    return {entry.definition.name: entry for entry in topic_entries(overrides, broker.layers)}[name]


def test_a_topic_shows_every_key_in_order() -> None:
    entries = list(topic_entries({}, config().layers))
    assert [entry.definition.name for entry in entries] == list(TOPIC_CONFIGS)
    assert all(entry.value == entry.definition.default for entry in entries)
    assert all(entry.source is ConfigSource.DEFAULT for entry in entries)


def test_retention_comes_from_the_first_broker_key_that_is_set() -> None:
    assert topic_values({}, config(log_retention_hours="1").layers)["retention.ms"] == 3_600_000
    assert (
        topic_values({}, config(log_retention_hours="1", log_retention_minutes="2").layers)["retention.ms"] == 120_000
    )
    assert topic_values({}, config(log_retention_minutes="2", log_retention_ms="3").layers)["retention.ms"] == 3
    assert topic_values({}, config(log_retention_minutes="-1").layers)["retention.ms"] == -1


def test_the_synonyms_of_a_topic_key_are_all_values_behind_it() -> None:
    broker = config(log_retention_minutes="2")
    broker.apply_dynamic(broker={"log.retention.ms": "7"}, default={"log.retention.ms": "8"})
    entry = topic_entry("retention.ms", {"retention.ms": "5"}, broker)
    assert (entry.value, entry.source) == ("5", ConfigSource.DYNAMIC_TOPIC)
    assert entry.synonyms == (
        Synonym("retention.ms", "5", ConfigSource.DYNAMIC_TOPIC),
        Synonym("log.retention.ms", "7", ConfigSource.DYNAMIC_BROKER),
        Synonym("log.retention.ms", "8", ConfigSource.DYNAMIC_DEFAULT_BROKER),
        Synonym("log.retention.minutes", "2", ConfigSource.STATIC_BROKER),
        Synonym("log.retention.hours", "168", ConfigSource.DEFAULT),
    )
    inherited = topic_entry("retention.ms", {}, broker)
    assert (inherited.value, inherited.source) == ("7", ConfigSource.DYNAMIC_BROKER)


def test_a_key_without_a_broker_key_has_its_own_default() -> None:
    entry = topic_entry("remote.storage.enable", {}, config())
    assert (entry.value, entry.source, entry.synonyms) == ("false", ConfigSource.DEFAULT, ())


def test_an_internal_key_shows_only_where_it_is_set() -> None:
    names = [entry.definition.name for entry in topic_entries({"internal.segment.bytes": "99"}, config().layers)]
    assert "internal.segment.bytes" in names
    assert topic_values({"internal.segment.bytes": "99"}, config().layers)["internal.segment.bytes"] == 99


def test_only_the_finest_unit_of_a_time_has_others_behind_it() -> None:
    broker = config(log_retention_hours="2")
    broker.apply_dynamic(broker={"log.retention.ms": "5000"}, default={})
    entries = {entry.definition.name: entry for entry in broker_entries(broker.layers)}
    assert entries["log.retention.ms"].synonyms == (
        Synonym("log.retention.ms", "5000", ConfigSource.DYNAMIC_BROKER),
        Synonym("log.retention.hours", "2", ConfigSource.STATIC_BROKER),
        Synonym("log.retention.hours", "168", ConfigSource.DEFAULT),
    )
    hours, minutes = entries["log.retention.hours"], entries["log.retention.minutes"]
    assert (hours.value, hours.source) == ("2", ConfigSource.STATIC_BROKER), "it is not dynamic"
    assert (minutes.value, minutes.source, minutes.synonyms) == (None, ConfigSource.DEFAULT, ())


def test_both_names_of_a_nodes_id_are_told() -> None:
    for name in ("node.id", "broker.id"):
        broker = BrokerConfig.embedded({name: "7"})
        assert (broker.text("node.id"), broker.text("broker.id"), broker.node_id) == ("7", "7", 7)


def test_a_broker_shows_the_file_and_the_default_behind_it() -> None:
    entries = {entry.definition.name: entry for entry in broker_entries(config(num_partitions="4").layers)}
    entry = entries["num.partitions"]
    assert (entry.value, entry.source, entry.read_only) == ("4", ConfigSource.STATIC_BROKER, True)
    assert entry.synonyms == (
        Synonym("num.partitions", "4", ConfigSource.STATIC_BROKER),
        Synonym("num.partitions", "1", ConfigSource.DEFAULT),
    )
    assert not entries["message.max.bytes"].read_only
    assert entries["log.flush.interval.ms"].value is None


def test_a_secret_is_never_shown() -> None:
    entries = {entry.definition.name: entry for entry in broker_entries(config(ssl_key_password="hush").layers)}
    entry = entries["ssl.key.password"]
    assert entry.value is None
    assert entry.synonyms == (Synonym("ssl.key.password", None, ConfigSource.STATIC_BROKER),)


def test_the_default_of_all_brokers_shows_only_what_was_set() -> None:
    (entry,) = default_broker_entries({"message.max.bytes": "5"})
    assert (entry.definition.name, entry.value, entry.source) == (
        "message.max.bytes",
        "5",
        ConfigSource.DYNAMIC_DEFAULT_BROKER,
    )


def test_a_group_inherits_from_the_broker() -> None:
    broker = config(group_consumer_heartbeat_interval_ms="6000")
    entries = {entry.definition.name: entry for entry in group_entries({}, broker.layers)}
    entry = entries["consumer.heartbeat.interval.ms"]
    assert (entry.value, entry.source) == ("6000", ConfigSource.STATIC_BROKER)
    assert entries["share.auto.offset.reset"].value == "latest"
    own = {e.definition.name: e for e in group_entries({"consumer.heartbeat.interval.ms": "9000"}, broker.layers)}
    assert own["consumer.heartbeat.interval.ms"].source is ConfigSource.GROUP


def test_client_metrics_show_what_was_set_and_what_was_not() -> None:
    entries = client_metrics_entries({"interval.ms": "500"})
    assert {entry.definition.name: (entry.value, entry.source) for entry in entries} == {
        "interval.ms": ("500", ConfigSource.CLIENT_METRICS),
        "match": ("", ConfigSource.DEFAULT),
        "metrics": ("", ConfigSource.DEFAULT),
    }
