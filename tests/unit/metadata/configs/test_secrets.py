"""Each record of the metadata that may hold a secret says which of its fields do."""

from collections.abc import Callable, Iterator

import pytest

from penstock.metadata.configs.broker import BROKER_CONFIGS
from penstock.metadata.configs.definitions import ConfigError, parse_value
from penstock.metadata.configs.resources import check_change, check_settings, definition_of, is_sensitive
from penstock.metadata.configs.secrets import SECRET_FIELDS, secret_fields
from penstock.metadata.records import ConfigRecord, MetadataRecord, TopicRecord
from penstock.metadata.resources import ConfigResource, ResourceType
from penstock.metadata.security_records import UserScramCredentialRecord

NO_SECRET = {
    ("DelegationTokenRecord", "token_id"): "its name; what is secret is made of it and of the brokers' own key",
    ("RemoveDelegationTokenRecord", "token_id"): "as above",
    ("ClientQuotaRecord", "key"): "the name of a limit",
    ("ClientQuotaRecord", "value"): "a number",
}


def suspects() -> Iterator[tuple[type[MetadataRecord], str]]:
    for record in MetadataRecord.__subclasses__():
        for name, field in record.__fields__.items():
            words = name.split("_")
            if field.kind == "bytes" or {"value", "key", "salt", "token", "password", "secret"} & set(words):
                yield record, name


def test_what_looks_like_a_secret_is_one_or_has_a_reason() -> None:
    found = list(suspects())
    assert {(record.__name__, name) for record, name in found if record not in SECRET_FIELDS} == set(NO_SECRET)
    assert {record for record, _ in found} >= set(SECRET_FIELDS)


def test_which_fields_of_a_record_are_secret() -> None:
    sensitive = ConfigRecord(resource_type=4, resource_name="", name="ssl.keystore.password", value="x")
    assert secret_fields(sensitive) == ("value",)
    assert secret_fields(sensitive.replace(name="log.retention.ms")) == ()
    assert secret_fields(UserScramCredentialRecord()) == ("salt", "stored_key", "server_key")
    assert secret_fields(TopicRecord()) == ()


SECRET = "sesame-open"
KEYS = [
    *BROKER_CONFIGS,
    *(f"listener.name.{listener}{key}" for listener in ("a.", "a.plain.") for key in BROKER_CONFIGS),
    "ssl.keystore.pasword",
    "listener.name.a.ssl.keystore.pasword",
    "of.a.plugin.password",
    "confluent.password",
]


@pytest.mark.parametrize("kind", [ResourceType.BROKER, ResourceType.TOPIC, ResourceType.GROUP])
def test_no_refusal_tells_a_secret(kind: ResourceType) -> None:
    told: list[str] = []
    for name in ("", "1"):
        resource = ConfigResource(kind, name)
        for key in filter(lambda key: is_sensitive(kind, key), KEYS):
            told += refusals(resource, key)
    assert told
    assert not [text for text in told if SECRET in text]


def refusals(resource: ConfigResource, key: str) -> Iterator[str]:
    definition = definition_of(resource, key)
    checks: tuple[Callable[[], object], ...] = (
        lambda: check_settings(resource, {key: SECRET}, ()),
        lambda: check_change(resource, key, SECRET),
        lambda: None if definition is None else parse_value(definition, SECRET),
    )
    for check in checks:
        try:
            check()
        except ConfigError as error:
            yield f"{error} {error.value}"
