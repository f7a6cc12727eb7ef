import pickle

import pytest

from penstock.client.blocking.transactions import WITHOUT_TIMEOUT_MS
from penstock.client.credentials import Credentials
from penstock.client.values import IsolationLevel
from penstock.pipeline.errors import PipelineError
from penstock.pipeline.options.boundaries import AtOffsets, AtTimestamps, Subscription, Word
from penstock.pipeline.options.sink import SinkOptions, sink_options
from penstock.pipeline.options.source import MAX_BYTES_PER_TRIGGER, SourceOptions, source_options
from penstock.pipeline.options.table import cluster_settings, read_options, shown
from penstock.protocol.address import Address

NEEDED = {"kafka.bootstrap.servers": "127.0.0.1:9092", "subscribe": "flights"}


def stream(**more: str) -> SourceOptions:
    return source_options(read_options(NEEDED | more), streaming=True)


def batch(**more: str) -> SourceOptions:
    return source_options(read_options(NEEDED | more), streaming=False)


def test_a_stream_starts_at_the_end_and_a_batch_reads_all() -> None:
    assert (stream().starting, stream().ending) == (Word.LATEST, Word.LATEST)
    assert (batch().starting, batch().ending) == (Word.EARLIEST, Word.LATEST)


@pytest.mark.parametrize("name", ["kafka.bootstrap.servers", "bootstrap.servers", "Kafka.Bootstrap.Servers"])
def test_names_have_a_prefix_or_none_and_any_case(name: str) -> None:
    options = read_options({name: "[::1]:1,b:2", "SUBSCRIBE": "a, b,a"})
    source = source_options(options, streaming=True)
    assert source.settings.bootstrap_servers == (Address("::1", 1), Address("b", 2))
    assert source.subscription == Subscription(topics=("a", "b"))


def test_the_first_batch_is_never_unlimited_unless_somebody_says_so() -> None:
    assert stream().max_bytes_per_trigger == MAX_BYTES_PER_TRIGGER
    assert stream(maxOffsetsPerTrigger="7").max_bytes_per_trigger == 0
    assert stream(maxBytesPerTrigger="2m").max_bytes_per_trigger == 2 << 20
    assert stream(maxBytesPerTrigger="0").max_bytes_per_trigger == 0


def test_boundaries_are_words_offsets_or_times() -> None:
    assert stream(startingOffsets="earliest").starting == Word.EARLIEST
    assert stream(startingOffsets='{"flights": {"0": 23, "1": -2}}').starting == AtOffsets(
        {("flights", 0): 23, ("flights", 1): -2}
    )
    assert stream(startingTimestamp="5", startingOffsets="earliest").starting == AtTimestamps(5, {})
    assert batch(endingOffsetsByTimestamp='{"flights": {"0": 9}}').ending == AtTimestamps(None, {("flights", 0): 9})


def test_a_named_group_gets_commits_unless_they_are_switched_off() -> None:
    assert not stream().commits_offsets
    assert stream(**{"kafka.group.id": "g"}).commits_offsets
    assert not stream(**{"kafka.group.id": "g"}, commitOffsets="false").commits_offsets


def test_isolation_and_times() -> None:
    assert stream(**{"kafka.isolation.level": "read_committed"}).isolation == IsolationLevel.READ_COMMITTED
    assert stream(maxTriggerDelay="30s").max_trigger_delay_ms == 30_000
    assert stream().max_trigger_delay_ms == 15 * 60_000


def test_keys_of_tls_go_to_the_client_and_are_not_told() -> None:
    keys = {"kafka.security.protocol": "ssl", "kafka.ssl.truststore.location": "/ca", "ssl.keystore.key": "hidden"}
    settings = stream(**keys).settings
    assert settings.security_protocol == "SSL"
    assert settings.security.properties == {"ssl.truststore.location": "/ca", "ssl.keystore.key": "hidden"}
    assert pickle.loads(pickle.dumps(settings)) == settings
    assert "hidden" not in repr(settings)
    with pytest.raises(PipelineError, match=r"ssl\.keystore\.key is set twice\.$"):
        stream(**keys, **{"kafka.ssl.keystore.key": "other"})


def test_a_query_logs_in_and_shows_no_password() -> None:
    keys = {
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "SCRAM-SHA-256",
        "kafka.sasl.username": "ada",
        "kafka.sasl.password": "hush",
    }
    options = read_options(NEEDED | keys)
    settings = cluster_settings(options)
    assert isinstance(settings.security.credentials, Credentials)
    assert settings.security.credentials.password.text == "hush"
    assert "hush" not in f"{options!r} {settings!r} {settings.security.credentials!r}"
    for key in ("kafka.sasl.mechanism", "kafka.sasl.password"):
        with pytest.raises(PipelineError, match=r"^Log-in: ") as raised:
            cluster_settings(read_options(NEEDED | {name: text for name, text in keys.items() if name != key}))
        assert "hush" not in str(raised.value)


def test_an_unknown_option_is_refused_with_the_nearest_known_one() -> None:
    with pytest.raises(PipelineError) as raised:
        read_options(NEEDED | {"startingOfsets": "earliest"})
    assert str(raised.value).endswith("has no option 'startingOfsets'. Did you mean startingOffsets?")


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"kafka.security.protocol": "TLS"}, "security.protocol=TLS is not supported yet"),
        ({"kafka.security.providers": "x"}, "kafka.security.providers is not supported yet"),
        ({"bootstrap.servers": "other:1"}, "bootstrap.servers is set twice"),
        ({"kafka.auto.offset.reset": "earliest"}, "auto.offset.reset is not supported: .* startingOffsets says"),
        ({"kafka.enable.auto.commit": "false"}, "commitOffsets=false switches that off"),
        ({"zzz": "1"}, "no option 'zzz'. docs/spark.md lists its options."),
    ],
)
def test_names_that_are_refused(more: dict[str, str], text: str) -> None:
    with pytest.raises(PipelineError, match=text):
        read_options(NEEDED | more)


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"maxOffsetsPerTrigger": "many"}, "maxOffsetsPerTrigger=many: it must be a whole number"),
        ({"failOnDataLoss": "no"}, "failOnDataLoss=no: it must be true or false"),
        ({"maxBytesPerTrigger": "5x"}, "maxBytesPerTrigger=5x: it must be a size"),
        ({"startingOffsets": "{"}, "startingOffsets={: it must be JSON"),
        ({"startingOffsets": '{"a": {"0": "5"}}'}, "it must be JSON"),
        ({"startingOffsets": '{"a": {"0": -3}}'}, "it must be JSON"),
        ({"startingOffsetsByTimestamp": '{"a": {"0": -1}}'}, "it must be JSON"),
        ({"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"}, "minOffsetsPerTrigger=9 is more than"),
        ({"subscribePattern": "*"}, "subscribe and subscribePattern is set"),
        ({"startingOffsets": "begin"}, "it must be earliest or latest or committed"),
        ({"startingOffsets": "committed"}, "needs the option kafka.group.id"),
        ({"endingOffsets": "latest"}, "a stream has no end"),
        ({"assign": '{"a": [0]}'}, "subscribe and assign is set"),
        ({"kafka.isolation.level": "dirty"}, "isolation.level=dirty: it must be"),
    ],
)
def test_values_that_are_refused_in_a_stream(more: dict[str, str], text: str) -> None:
    with pytest.raises(PipelineError, match=text.replace("{", r"\{")):
        stream(**more)


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"startingOffsets": "latest"}, r"startingOffsets=latest \(or -1\) is for streams"),
        ({"startingOffsets": '{"a": {"0": -1}}'}, r"startingOffsets=latest \(or -1\) is for streams"),
        ({"endingOffsets": '{"a": {"0": -2}}'}, "nothing lies before"),
        ({"endingOffsets": "earliest"}, "nothing lies before"),
    ],
)
def test_values_that_are_refused_in_a_batch(more: dict[str, str], text: str) -> None:
    with pytest.raises(PipelineError, match=text):
        batch(**more)


@pytest.mark.parametrize("servers", ["localhost", "a:b", ":9092", "a:70000", " , "])
def test_addresses_that_are_none(servers: str) -> None:
    with pytest.raises(PipelineError, match="bootstrap"):
        source_options(read_options({"bootstrap.servers": servers, "subscribe": "a"}), streaming=True)


def test_a_sink_writes_exactly_once_where_it_says_so() -> None:
    sink = sink_options(read_options({"bootstrap.servers": "a:1"}))
    assert (sink.is_exactly_once, sink.name, sink.decisions_topic) == (False, "", "penstock-sink-decisions")
    once = {"bootstrap.servers": "a:1", "penstock.sink.delivery": "Exactly-Once", "kafka.transaction.timeout.ms": "5"}
    sink = sink_options(read_options({**once, "penstock.sink.id": "daily"}))
    assert (sink.is_exactly_once, sink.name, sink.transaction_timeout_ms) == (True, "daily", 5)
    longest = sink_options(read_options(once | {"kafka.transaction.timeout.ms": str(WITHOUT_TIMEOUT_MS)}))
    assert longest.transaction_timeout_ms < WITHOUT_TIMEOUT_MS, "by that a transaction is known that is kept"
    with pytest.raises(PipelineError, match="it must be at-least-once or exactly-once"):
        sink_options(read_options(once | {"penstock.sink.delivery": "once"}))
    for more in ({"kafka.acks": "1"}, {"kafka.enable.idempotence": "false"}):
        with pytest.raises(PipelineError, match=r"needs kafka\.acks=all and kafka\.enable\.idempotence=true"):
            sink_options(read_options(once | more))


def test_what_must_be_set() -> None:
    with pytest.raises(PipelineError, match="none of them is set"):
        source_options(read_options({"bootstrap.servers": "a:1"}), streaming=True)
    with pytest.raises(PipelineError, match=r"kafka.bootstrap.servers is missing"):
        source_options(read_options({"subscribe": "a"}), streaming=True)


def test_what_spark_adds_to_a_table_is_no_option() -> None:
    of_table = {"provider": "penstock", "owner": "me", "option.subscribe": "flights", "option.kafka.group.id": "g"}
    assert read_options(NEEDED | {"kafka.group.id": "g"} | of_table).text("group.id") == "g"


def test_the_options_of_a_table_are_lost_by_spark() -> None:
    with pytest.raises(PipelineError, match="CREATE TEMPORARY VIEW"):
        source_options(read_options({"provider": "penstock"}), streaming=False)


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("linger.ms", "kafka.linger.ms"), ("groupIdPrefix", "groupIdPrefix"), ("startingOffsets", "startingOffsets"),
        ("request.timeout.ms", "kafka.request.timeout.ms"), ("sasl.mechanism", "kafka.sasl.mechanism"),
    ],
)  # fmt: skip
def test_settings_of_clients_are_shown_with_their_prefix(name: str, written: str) -> None:
    assert shown(name) == written


@pytest.mark.parametrize(("said", "acks"), [({}, -1), ({"kafka.acks": "all"}, -1), ({"kafka.acks": "1"}, 1)])
def test_how_many_replicas_a_write_waits_for(said: dict[str, str], acks: int) -> None:
    made = sink_options(read_options({"kafka.bootstrap.servers": "a:1", **said}))
    assert (made.acks, made.is_idempotent) == (acks, acks == -1)
    for refused in ({"kafka.enable.idempotence": "true"}, {"penstock.sink.delivery": "exactly-once"}):
        if acks == 1:
            with pytest.raises(PipelineError, match=r"kafka\.acks=all"):
                sink_options(read_options({"kafka.bootstrap.servers": "a:1", **said, **refused}))


@pytest.mark.parametrize("name", ["batch.size", "delivery.timeout.ms", "transaction.timeout.ms"])
def test_numbers_of_a_sink_begin_at_one(name: str) -> None:
    def made(number: str) -> SinkOptions:
        return sink_options(read_options({"kafka.bootstrap.servers": "a:1", f"kafka.{name}": number}))

    found = made("1")
    assert 1 in (found.batch_bytes, found.delivery_timeout_ms, found.transaction_timeout_ms)
    with pytest.raises(PipelineError, match="it must be a whole number of at least 1"):
        made("0")
