"""Settings from text, under Kafka's names."""

import pytest

from penstock.client.errors import UnusableSettingsError
from penstock.client.properties import as_properties, with_properties
from penstock.client.settings import ClientSettings, ConsumerSettings, ProducerSettings
from penstock.protocol.compression import Compression


@pytest.mark.parametrize("kind", [ClientSettings, ProducerSettings, ConsumerSettings])
def test_settings_as_text_are_read_as_they_were(kind: type[ClientSettings]) -> None:
    text = {key: value for key, value in as_properties(kind()).items() if value}
    assert as_properties(with_properties(kind(), text)) == as_properties(kind())


def test_each_type_is_read() -> None:
    settings = with_properties(
        ProducerSettings(),
        {"acks": "all", "linger.ms": "7", "compression.type": "zstd", "enable.idempotence": "false", "client.id": "me"},
    )
    assert (settings.acks, settings.linger_ms, settings.compression_type) == (-1, 7, Compression.ZSTD)
    assert (settings.enable_idempotence, settings.client_id) == (False, "me")
    consumer = with_properties(ConsumerSettings(), {"partition.assignment.strategy": "sticky, range", "group.id": "g"})
    assert consumer.partition_assignment_strategy == ("sticky", "range")
    assert consumer.group_id == "g"
    by_duration = with_properties(ConsumerSettings(), {"auto.offset.reset": "by_duration:PT1H"})
    assert by_duration.auto_offset_reset == "by_duration:PT1H"
    with pytest.raises(ValueError, match=r"auto\.offset\.reset=by_duration:1D: '1D' is no duration"):
        with_properties(ConsumerSettings(), {"auto.offset.reset": "by_duration:1D"})


@pytest.mark.parametrize(
    ("key", "value", "complaint"),
    [
        ("linger_mz", "1", r"linger_mz is not a setting of this client; did you mean linger\.ms\?"),
        ("acks", "2", "acks=2: allowed are 0, 1 and all"),
        ("linger.ms", "soon", r"linger\.ms=soon: a whole number is needed"),
        ("enable.idempotence", "yes", r"enable\.idempotence=yes: allowed are true and false"),
        ("compression.type", "rar", r"compression\.type=rar: allowed are none, gzip, snappy, lz4, zstd"),
        ("now.ms", "1", r"now\.ms is not a setting"),
    ],
)
def test_a_mistake_is_named_with_its_cure(key: str, value: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        with_properties(ProducerSettings(), {key: value})


def test_a_choice_is_checked() -> None:
    with pytest.raises(ValueError, match=r"auto\.offset\.reset=first: allowed are earliest, latest, none"):
        with_properties(ConsumerSettings(), {"auto.offset.reset": "first"})


def test_back_off_doubles_up_to_its_bound() -> None:
    settings = ClientSettings(retry_backoff_ms=100, retry_backoff_max_ms=1_000)
    for attempt, full in enumerate([100, 200, 400, 800, 1_000, 1_000]):
        assert 0.8 * full <= settings.backoff_ms(attempt) <= 1.2 * full
    assert settings.backoff_ms(10_000) <= 1_200


def test_idempotence_needs_all_acknowledgements() -> None:
    assert ProducerSettings().is_idempotent
    assert not ProducerSettings(acks=1).is_idempotent


def test_what_is_for_a_partitioner_needs_one() -> None:
    with pytest.raises(ValueError, match=r"partitioner\.regions is not a setting"):
        with_properties(ProducerSettings(), {"partitioner.regions": "eu"})
    settings = with_properties(ProducerSettings(), {"partitioner.class": "mine:Mine", "partitioner.regions": "eu"})
    assert (settings.partitioner_class, settings.partitioner_settings) == ("mine:Mine", {"partitioner.regions": "eu"})


def test_keys_of_security_are_read_and_shown_nowhere() -> None:
    keys = {"security.protocol": "SSL", "ssl.keystore.location": "/k", "ssl.keystore.password": "hunter2"}
    settings = with_properties(ClientSettings(), keys)
    assert settings.security_protocol == "SSL"
    assert settings.security.properties == {"ssl.keystore.location": "/k", "ssl.keystore.password": "hunter2"}
    more = with_properties(settings, {"ssl.keystore.location": "/other"})
    assert more.security.properties == settings.security.properties | {"ssl.keystore.location": "/other"}
    assert "hunter2" not in repr(more) + repr(as_properties(more))
    for key, complaint in (("ssl.keystor.location", "did you mean ssl.keystore.location?"), ("ssl.x", "not a setting")):
        with pytest.raises(ValueError, match=complaint):
            with_properties(ClientSettings(), {key: "hunter2"})
    with pytest.raises(ValueError, match=r"security.protocol=TLS: allowed are PLAINTEXT, SSL"):
        with_properties(ClientSettings(), {"security.protocol": "TLS"})
    with pytest.raises(UnusableSettingsError, match="/k cannot be used") as raised:
        more.replace(security=settings.security).security.context()
    assert "hunter2" not in str(raised.value)
