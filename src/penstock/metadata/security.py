"""Users, rights and quotas as the metadata log has them: SCRAM credentials, ACLs, delegation tokens, client quotas.

They are kept as the records that set them, go into snapshots, and are shown; nothing acts on them yet.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final
from uuid import UUID

from penstock.metadata.records import MetadataRecord
from penstock.metadata.security_records import (
    AccessControlEntryRecord,
    ClientQuotaRecord,
    DelegationTokenRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)

QuotaEntity = tuple[tuple[str, str | None], ...]
"""Types with names, ordered by type; no name stands for the default."""


class SecurityImage:
    """Only `apply` changes it. Removing an entry that does not exist changes nothing."""

    def __init__(self) -> None:
        self.scram_credentials: dict[tuple[int, str], UserScramCredentialRecord] = {}
        """By mechanism (1 is SCRAM-SHA-256, 2 is SCRAM-SHA-512) and user."""
        self.access_rules: dict[UUID, AccessControlEntryRecord] = {}
        self.delegation_tokens: dict[str, DelegationTokenRecord] = {}
        self.client_quotas: dict[tuple[QuotaEntity, str], ClientQuotaRecord] = {}
        """The keys are entity and limit."""

    def apply(self, record: MetadataRecord) -> None:
        _APPLY[type(record)](self, record)

    def records(self) -> Iterator[MetadataRecord]:
        yield from self.client_quotas.values()
        yield from self.access_rules.values()
        yield from self.scram_credentials.values()
        yield from self.delegation_tokens.values()

    def copy(self) -> "SecurityImage":
        other = SecurityImage()
        other.scram_credentials = dict(self.scram_credentials)
        other.access_rules = dict(self.access_rules)
        other.delegation_tokens = dict(self.delegation_tokens)
        other.client_quotas = dict(self.client_quotas)
        return other

    def __eq__(self, other: object) -> bool:
        return vars(self) == vars(other) if isinstance(other, SecurityImage) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # it changes with each record

    def _set_credential(self, record: UserScramCredentialRecord) -> None:
        self.scram_credentials[record.mechanism, record.name] = record

    def _remove_credential(self, record: RemoveUserScramCredentialRecord) -> None:
        self.scram_credentials.pop((record.mechanism, record.name), None)

    def _add_rule(self, record: AccessControlEntryRecord) -> None:
        self.access_rules[record.id] = record

    def _remove_rule(self, record: RemoveAccessControlEntryRecord) -> None:
        self.access_rules.pop(record.id, None)

    def _set_token(self, record: DelegationTokenRecord) -> None:
        self.delegation_tokens[record.token_id] = record

    def _remove_token(self, record: RemoveDelegationTokenRecord) -> None:
        self.delegation_tokens.pop(record.token_id, None)

    def _set_quota(self, record: ClientQuotaRecord) -> None:
        key = quota_entity(record), record.key
        if record.remove:
            self.client_quotas.pop(key, None)
        else:
            self.client_quotas[key] = record


def quota_entity(record: ClientQuotaRecord) -> QuotaEntity:
    """The pairs are (type, name), in order."""
    return tuple(sorted(((part.entity_type, part.entity_name) for part in record.entity), key=lambda part: part[0]))


_APPLY: Final[dict[type, Callable[[SecurityImage, Any], None]]] = {
    UserScramCredentialRecord: SecurityImage._set_credential,
    RemoveUserScramCredentialRecord: SecurityImage._remove_credential,
    AccessControlEntryRecord: SecurityImage._add_rule,
    RemoveAccessControlEntryRecord: SecurityImage._remove_rule,
    DelegationTokenRecord: SecurityImage._set_token,
    RemoveDelegationTokenRecord: SecurityImage._remove_token,
    ClientQuotaRecord: SecurityImage._set_quota,
}
SECURITY_RECORDS: Final = tuple(_APPLY)
