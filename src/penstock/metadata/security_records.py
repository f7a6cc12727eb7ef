"""The metadata records about users, rights and quotas, in Kafka's own layouts."""

from uuid import UUID

from penstock.metadata.records import MetadataRecord
from penstock.protocol.schema import Message, array, field
from penstock.protocol.uuids import ZERO_UUID


class DelegationTokenRecord(MetadataRecord, versions="0", flexible="0+"):
    """It was made or renewed."""

    record_type = 10

    owner: str = field("string", "0+", default="")
    requester: str = field("string", "0+", default="")
    renewers: list[str] = array("string", "0+", default_factory=list)
    issue_timestamp: int = field("int64", "0+", default=0)
    max_timestamp: int = field("int64", "0+", default=0)
    expiration_timestamp: int = field("int64", "0+", default=0)
    token_id: str = field("string", "0+", default="")


class UserScramCredentialRecord(MetadataRecord, versions="0", flexible="0+"):
    record_type = 11

    name: str = field("string", "0+", default="")
    mechanism: int = field("int8", "0+", default=0)
    salt: bytes = field("bytes", "0+", default=b"")
    stored_key: bytes = field("bytes", "0+", default=b"")
    server_key: bytes = field("bytes", "0+", default=b"")
    iterations: int = field("int32", "0+", default=0)


class EntityData(Message):
    """No name means the default."""

    entity_type: str = field("string", "0+", default="")
    entity_name: str | None = field("string", "0+", nullable="0+", default="")


class ClientQuotaRecord(MetadataRecord, versions="0", flexible="0+"):
    record_type = 14

    entity: list[EntityData] = array(EntityData, "0+", default_factory=list)
    key: str = field("string", "0+", default="")
    value: float = field("float64", "0+", default=0.0)
    remove: bool = field("bool", "0+", default=False)


class AccessControlEntryRecord(MetadataRecord, versions="0", flexible="0+"):
    record_type = 18

    id: UUID = field("uuid", "0+", default=ZERO_UUID)
    resource_type: int = field("int8", "0+", default=0)
    resource_name: str = field("string", "0+", default="")
    pattern_type: int = field("int8", "0+", default=0)
    principal: str = field("string", "0+", default="")
    host: str = field("string", "0+", default="")
    operation: int = field("int8", "0+", default=0)
    permission_type: int = field("int8", "0+", default=0)


class RemoveAccessControlEntryRecord(MetadataRecord, versions="0", flexible="0+"):
    record_type = 19

    id: UUID = field("uuid", "0+", default=ZERO_UUID)


class RemoveUserScramCredentialRecord(MetadataRecord, versions="0", flexible="0+"):
    record_type = 22

    name: str = field("string", "0+", default="")
    mechanism: int = field("int8", "0+", default=0)


class RemoveDelegationTokenRecord(MetadataRecord, versions="0", flexible="0+"):
    record_type = 26

    token_id: str = field("string", "0+", default="")
