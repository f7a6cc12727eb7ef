"""What in metadata records is secret: values of sensitive configs, and what helps to guess a password."""

from collections.abc import Callable
from typing import Any, Final

from penstock.metadata.configs.resources import is_sensitive
from penstock.metadata.records import ConfigRecord, MetadataRecord
from penstock.metadata.security_records import UserScramCredentialRecord

REDACTED: Final = "[redacted]"
SECRET_FIELDS: Final[dict[type[MetadataRecord], Callable[[Any], tuple[str, ...]]]] = {
    ConfigRecord: lambda record: ("value",) if is_sensitive(record.resource_type, record.name) else (),
    UserScramCredentialRecord: lambda _: ("salt", "stored_key", "server_key"),
}


def secret_fields(record: MetadataRecord) -> tuple[str, ...]:
    found = SECRET_FIELDS.get(type(record))
    return () if found is None else found(record)
