"""The users that a secured cluster begins with: passwords that are drawn, and what they may do."""

import secrets
from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Final

from penstock.metadata.features import NEWEST_METADATA_VERSION, first_levels
from penstock.metadata.records import FeatureLevelRecord, MetadataRecord
from penstock.metadata.security_records import AccessControlEntryRecord, UserScramCredentialRecord
from penstock.protocol.acls import WILDCARD, Operation, PatternType, Permission, Resource
from penstock.protocol.sasl.mechanism import SCRAM_SHA_512
from penstock.protocol.sasl.scram import MECHANISMS, MIN_ITERATIONS, SALT_BYTES
from penstock.protocol.secret import Secret
from penstock.protocol.uuids import random_uuid

ADMIN: Final = "admin"
"""May do everything."""
APP: Final = "app"
MECHANISM: Final = SCRAM_SHA_512
PASSWORD_BYTES: Final = 24
ALLOWED: Final[Mapping[Resource, Sequence[Operation]]] = {
    Resource.TOPIC: (Operation.CREATE, Operation.READ, Operation.WRITE, Operation.DESCRIBE_CONFIGS),
    Resource.GROUP: (Operation.READ,),
    Resource.TRANSACTIONAL_ID: (Operation.WRITE,),
}
"""To each user but the administrator, on all of that kind; READ and WRITE bring DESCRIBE along."""


def drawn_passwords(users: Sequence[str]) -> dict[str, Secret]:
    """The administrator first."""
    return {name: Secret(secrets.token_urlsafe(PASSWORD_BYTES)) for name in dict.fromkeys((ADMIN, *users))}


def check_names(users: Sequence[str]) -> None:
    """ValueError: the name is also that of a folder, and of a principal."""
    for name in users:
        if not name or not name.isascii() or not name.replace("-", "").replace("_", "").replace(".", "").isalnum():
            raise ValueError(f"{name!r} is no name of a user: letters, digits, dots, - and _ make one")


def first_records(passwords: Mapping[str, Secret], random: Random) -> list[MetadataRecord]:
    """What the cluster is formatted with."""
    levels = first_levels(NEWEST_METADATA_VERSION)
    records: list[MetadataRecord] = [FeatureLevelRecord(name=name, feature_level=levels[name]) for name in levels]
    records += (_credential(name, password, random) for name, password in passwords.items())
    for name in passwords:
        if name != ADMIN:
            records += _rules(name, random)
    return records


def _credential(name: str, password: Secret, random: Random) -> UserScramCredentialRecord:
    mechanism, salt = MECHANISMS[MECHANISM], random.randbytes(SALT_BYTES)
    salted = mechanism.salted(password.text, salt, MIN_ITERATIONS)
    return UserScramCredentialRecord(
        name=name,
        mechanism=mechanism.number,
        salt=salt,
        stored_key=mechanism.stored_key(salted),
        server_key=mechanism.server_key(salted),
        iterations=MIN_ITERATIONS,
    )


def _rules(name: str, random: Random) -> Iterator[AccessControlEntryRecord]:
    for resource, operations in ALLOWED.items():
        for operation in operations:
            yield AccessControlEntryRecord(
                id=random_uuid(random),
                resource_type=resource,
                resource_name=WILDCARD,
                pattern_type=PatternType.LITERAL,
                principal=f"User:{name}",
                host=WILDCARD,
                operation=operation,
                permission_type=Permission.ALLOW,
            )
