"""Users, rights and quotas as the metadata log has them: SCRAM credentials, ACLs, delegation tokens, client quotas.

They are kept as the records that set them, go into snapshots, and are shown. Listeners with SASL let SCRAM's users in,
and tokens; where a node has an authorizer it obeys the ACLs, and brokers obey the quotas.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from penstock.metadata.records import ConfigRecord, MetadataRecord
from penstock.metadata.resources import ResourceType
from penstock.metadata.security_records import (
    AccessControlEntryRecord,
    ClientQuotaRecord,
    DelegationTokenRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from penstock.protocol.acls import AclBinding

if TYPE_CHECKING:
    from penstock.metadata.scram_looks import ScramLooks

QuotaEntity = tuple[tuple[str, str | None], ...]
"""Types with names, ordered by type; no name stands for the default."""


def binding_of(record: AccessControlEntryRecord) -> AclBinding:
    return AclBinding(*(getattr(record, name) for name in AclBinding._fields))


@dataclass
class SecurityImage:
    """Only `apply` changes it. Removing an entry that does not exist changes nothing."""

    scram_credentials: dict[tuple[int, str], UserScramCredentialRecord] = field(default_factory=dict)
    """By mechanism (1 is SCRAM-SHA-256, 2 is SCRAM-SHA-512) and user."""
    access_rules: dict[UUID, AccessControlEntryRecord] = field(default_factory=dict)
    rule_ids: dict[AclBinding, UUID] = field(default_factory=dict)
    """By what they say."""
    delegation_tokens: dict[str, DelegationTokenRecord] = field(default_factory=dict)
    client_quotas: dict[tuple[QuotaEntity, str], ClientQuotaRecord] = field(default_factory=dict)
    """The keys are entity and limit."""
    scram_looks: "ScramLooks | None" = field(default=None, compare=False)
    """It follows from the credentials; None if there never was one."""

    def apply(self, record: MetadataRecord) -> None:
        table, key_of = _TABLES[type(record)]
        entries: dict[object, MetadataRecord] = getattr(self, table)
        if table == "access_rules":
            self._note_rule(record)
        elif table == "scram_credentials":
            self._note_user(record)
        if isinstance(record, _REMOVALS) or (isinstance(record, ClientQuotaRecord) and record.remove):
            entries.pop(key_of(record), None)
        else:
            entries[key_of(record)] = record

    def _note_rule(self, record: Any) -> None:
        before = self.access_rules.get(record.id)
        if before is not None and self.rule_ids.get(binding_of(before)) == record.id:
            del self.rule_ids[binding_of(before)]
        if isinstance(record, AccessControlEntryRecord):
            self.rule_ids[binding_of(record)] = record.id

    def _note_user(self, record: Any) -> None:
        if self.scram_looks is None:
            from penstock.metadata.scram_looks import ScramLooks

            self.scram_looks = ScramLooks()
        now = record if isinstance(record, UserScramCredentialRecord) else None
        self.scram_looks.note(self.scram_credentials.get((record.mechanism, record.name)), now)

    def records(self) -> Iterator[MetadataRecord]:
        yield from self.client_quotas.values()
        yield from self.access_rules.values()
        yield from self.scram_credentials.values()
        yield from self.delegation_tokens.values()

    def copy(self) -> "SecurityImage":
        looks = None if self.scram_looks is None else self.scram_looks.copy()
        return SecurityImage(
            scram_looks=looks,
            **{table: dict(entries) for table, entries in vars(self).items() if table != "scram_looks"},
        )


def quota_entity(record: ClientQuotaRecord) -> QuotaEntity:
    """The pairs are (type, name), in order."""
    return tuple(sorted(((part.entity_type, part.entity_name) for part in record.entity), key=lambda part: part[0]))


_REMOVALS: Final = (RemoveUserScramCredentialRecord, RemoveAccessControlEntryRecord, RemoveDelegationTokenRecord)
_TABLES: Final[dict[type, tuple[str, Callable[[Any], object]]]] = {
    UserScramCredentialRecord: ("scram_credentials", lambda record: (record.mechanism, record.name)),
    RemoveUserScramCredentialRecord: ("scram_credentials", lambda record: (record.mechanism, record.name)),
    AccessControlEntryRecord: ("access_rules", lambda record: record.id),
    RemoveAccessControlEntryRecord: ("access_rules", lambda record: record.id),
    DelegationTokenRecord: ("delegation_tokens", lambda record: record.token_id),
    RemoveDelegationTokenRecord: ("delegation_tokens", lambda record: record.token_id),
    ClientQuotaRecord: ("client_quotas", lambda record: (quota_entity(record), record.key)),
}
"""By a record: the table that it changes, and the key of its entry."""
SECURITY_RECORDS: Final = tuple(_TABLES)
SCRAM_RECORDS: Final = (UserScramCredentialRecord, RemoveUserScramCredentialRecord)
TOKEN_RECORDS: Final = (DelegationTokenRecord, RemoveDelegationTokenRecord)
_RIGHTS_RECORDS: Final = (
    AccessControlEntryRecord,
    RemoveAccessControlEntryRecord,
    *SCRAM_RECORDS,
    *TOKEN_RECORDS,
)
LOG_INS: Final = ("sasl.jaas.config", "sasl.enabled.mechanisms")
"""So end the keys of brokers that say who logs in, and how."""


def is_gone_by(record: MetadataRecord) -> bool:
    """Whether a change of it is answered when brokers go by it."""
    if isinstance(record, ConfigRecord):
        return record.resource_type == ResourceType.BROKER and record.name.endswith(LOG_INS)
    return isinstance(record, _RIGHTS_RECORDS)
