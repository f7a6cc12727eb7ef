"""Each record of the metadata that may hold a secret says which of its fields do."""

from collections.abc import Iterator

from penstock.metadata.configs.secrets import SECRET_FIELDS
from penstock.metadata.records import MetadataRecord

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
