"""What `penstock dump-log` makes of a key and value: text, metadata, offsets and groups, share states, markers …"""

import base64
import re
from collections.abc import Callable, Mapping
from uuid import UUID

from penstock.client.consumer_protocol import decode_assignment
from penstock.coordinator.group import records as group_records
from penstock.coordinator.group.consumer import records as consumer_records
from penstock.coordinator.group.group_log import GroupLog
from penstock.coordinator.group.part_codec import PartCodec
from penstock.coordinator.group.share import records as share_group_records
from penstock.coordinator.group.streams import records as streams_records
from penstock.coordinator.group.streams.description import DESCRIPTION
from penstock.coordinator.share import records as share_records
from penstock.coordinator.transaction import records as transaction_records
from penstock.metadata.configs.secrets import REDACTED, secret_fields
from penstock.metadata.record_frames import decode_record
from penstock.metadata.records import MetadataRecord
from penstock.protocol.codec import decode
from penstock.protocol.control.records import ControlType, control_type
from penstock.protocol.errors import DecodeError
from penstock.protocol.messages.k_raft_version_record import KRaftVersionRecord
from penstock.protocol.messages.leader_change_message import LeaderChangeMessage
from penstock.protocol.messages.snapshot_footer_record import SnapshotFooterRecord
from penstock.protocol.messages.snapshot_header_record import SnapshotHeaderRecord
from penstock.protocol.messages.voters_record import VotersRecord
from penstock.protocol.records import Record
from penstock.protocol.schema import Field, Message
from penstock.protocol.uuids import uuid_to_text

Decoder = Callable[[Record], dict[str, object]]
MARKERS = (ControlType.ABORT, ControlType.COMMIT)
"""They end a transaction."""
CONTROL_RECORDS: dict[int, tuple[str, type[Message]]] = {
    ControlType.LEADER_CHANGE: ("LeaderChange", LeaderChangeMessage),
    ControlType.SNAPSHOT_HEADER: ("SnapshotHeader", SnapshotHeaderRecord),
    ControlType.SNAPSHOT_FOOTER: ("SnapshotFooter", SnapshotFooterRecord),
    ControlType.KRAFT_VERSION: ("KRaftVersion", KRaftVersionRecord),
    ControlType.KRAFT_VOTERS: ("KRaftVoters", VotersRecord),
}
"""Their names in Kafka's tools, and their layouts."""
OF_SHARE_GROUPS = {
    share_group_records.MEMBER: "share_group_member_metadata",
    share_group_records.GROUP: "share_group_metadata",
    share_group_records.ASSIGNMENT: "share_group_target_assignment_metadata",
    share_group_records.TARGET: "share_group_target_assignment_member",
    share_group_records.CURRENT: "share_group_current_member_assignment",
    share_group_records.PARTITIONS: "share_group_state_partition_metadata",
}
"""By the versions of their keys, as Kafka calls them."""

OF_CONSUMER_GROUPS = {
    consumer_records.GROUP: "consumer_group_metadata",
    consumer_records.LEGACY: "consumer_group_partition_metadata",
    consumer_records.MEMBER: "consumer_group_member_metadata",
    consumer_records.ASSIGNMENT: "consumer_group_target_assignment_metadata",
    consumer_records.TARGET: "consumer_group_target_assignment_member",
    consumer_records.CURRENT: "consumer_group_current_member_assignment",
    consumer_records.EXPRESSION: "consumer_group_regular_expression",
}
"""By the versions of their keys, as Kafka names them."""
OF_STREAMS_GROUPS = {
    streams_records.GROUP: "streams_group_metadata",
    streams_records.MEMBER: "streams_group_member_metadata",
    streams_records.ASSIGNMENT: "streams_group_target_assignment_metadata",
    streams_records.TARGET: "streams_group_target_assignment_member",
    streams_records.CURRENT: "streams_group_current_member_assignment",
    streams_records.TOPOLOGY: "streams_group_topology",
    DESCRIPTION: "streams_group_topology_description",
}
"""By the versions of their keys, as Kafka names them; the last is our own."""
OF_GROUPS: tuple[tuple[PartCodec, Mapping[int, str]], ...] = (
    (consumer_records.CODEC, OF_CONSUMER_GROUPS),
    (streams_records.CODEC, OF_STREAMS_GROUPS),
    (share_group_records.CODEC, OF_SHARE_GROUPS),
)
NAMES_ARE = {consumer_records.EXPRESSION: "regularExpression"}
"""What a key names besides the group, where that is no member."""


def decode_text(record: Record) -> dict[str, object]:
    """Bytes that are not UTF-8 become base64."""
    decoded: dict[str, object] = {}
    for name, data in (("key", record.key), ("payload", record.value)):
        if data is not None:
            decoded[name] = _text(data)
    return decoded


def decode_metadata(record: Record) -> dict[str, object]:
    """Without secrets. Raises DecodeError if it is no record of the metadata log."""
    return _metadata(record, secret_fields)


def decode_metadata_with_secrets(record: Record) -> dict[str, object]:
    return _metadata(record, lambda _: ())


def _metadata(record: Record, hidden: Callable[[MetadataRecord], tuple[str, ...]]) -> dict[str, object]:
    if record.value is None:
        return {}
    message = decode_record(record.value)
    version = record.value[2]
    data = as_dictionary(message, version) | {_camel(name): REDACTED for name in hidden(message)}
    return {"payload": {"type": _type_name(message), "version": version, "data": data}}


def decode_offsets(record: Record) -> dict[str, object]:
    """A key of another kind is shown as it is."""
    if record.key is None:
        return decode_text(record)
    version = group_records.key_version_of(record.key)
    for codec, names in OF_GROUPS:
        if version in names:
            return _part_of_group(codec, names, record, version)
    decoded = group_records.decode_record(record.key, record.value)
    if isinstance(decoded, group_records.OffsetRecord):
        key = {
            "type": "offset_commit",
            "group": decoded.group_id,
            "topic": decoded.topic,
            "partition": decoded.partition,
        }
        value = decoded.value
        return {
            "key": key,
            "payload": value
            and {
                "offset": value.offset,
                "leaderEpoch": value.leader_epoch,
                "metadata": value.metadata,
                "commitTimestamp": value.commit_timestamp_ms,
            },
        }
    if isinstance(decoded, group_records.GroupRecord):
        payload = decoded.value and as_dictionary(decoded.value)
        return {"key": {"type": "group_metadata", "group": decoded.group_id}, "payload": payload}
    if isinstance(decoded, group_records.HistoryRecord):
        told = None if decoded.value is None else GroupLog(decoded.group_id, {0: decoded.value}, 1).last()
        key = {"type": "group_history", "group": decoded.group_id, "slot": decoded.slot}
        return {"key": key, "payload": told and as_dictionary(told)}
    return decode_text(record)


def _part_of_group(codec: PartCodec, names: Mapping[int, str], record: Record, version: int) -> dict[str, object]:
    assert record.key is not None
    group_id, name, message = codec.decoded_message(version, record.key, record.value)
    named = {NAMES_ARE.get(version, "memberId"): name} if name else {}
    payload = message and as_dictionary(message, 0)
    return {"key": {"type": names[version], "group": group_id} | named, "payload": payload}


def decode_share_states(record: Record) -> dict[str, object]:
    """A key of another kind is shown as it is."""
    decoded = None if record.key is None else share_records.decode_record(record.key, record.value)
    if decoded is None:
        return decode_text(record)
    kind, key = "share_snapshot" if isinstance(decoded, share_records.Snapshot) else "share_update", decoded.key
    layout = decoded.layout
    return {
        "key": {
            "type": kind,
            "group": key.group_id,
            "topicId": uuid_to_text(key.topic_id),
            "partition": key.partition,
        },
        "payload": None if layout is None else as_dictionary(layout, 0),
    }


def decode_transactions(record: Record) -> dict[str, object]:
    """A key of another kind is shown as it is."""
    decoded = None if record.key is None else transaction_records.decode_record(record.key, record.value)
    if decoded is None:
        return decode_text(record)
    value = decoded.value
    payload = value and {
        "producerId": value.producer_id,
        "previousProducerId": value.previous_producer_id,
        "nextProducerId": value.next_producer_id,
        "producerEpoch": value.producer_epoch,
        "transactionTimeoutMs": value.timeout_ms,
        "transactionStatus": value.state.shown,
        "transactionPartitions": [f"{topic}-{partition}" for topic, partition in value.partitions],
        "transactionLastUpdateTimestampMs": value.updated_ms,
        "transactionStartTimestampMs": value.start_ms,
        "clientTransactionVersion": value.client_version,
    }
    return {"key": {"type": "transaction", "transactionalId": decoded.transactional_id}, "payload": payload}


def decode_control(record: Record) -> dict[str, object]:
    kind = control_type(record)
    if kind in MARKERS:
        return {"endTxnMarker": ControlType(kind).name}
    if kind not in CONTROL_RECORDS or record.value is None:
        return {"controlType": kind} | decode_text(record)
    name, cls = CONTROL_RECORDS[kind]
    version = int.from_bytes(record.value[:2], "big")
    message, _ = decode(cls, version, record.value, 0)
    return {name: as_dictionary(message, version)}


def as_dictionary(message: Message, version: int | None = None) -> dict[str, object]:
    """As Kafka's tools print it; with a version only its fields, and of tagged fields those that were written."""
    return {
        _camel(name): _plain(name, getattr(message, name), version)
        for name, field in message.__fields__.items()
        if version is None or _is_written(field, getattr(message, name), version)
    }


def _is_written(field: Field, value: object, version: int) -> bool:
    if not field.is_in(version):
        return False
    default = field.default if field.default_factory is None else field.default_factory()
    return field.tag is None or value != default


def _plain(name: str, value: object, version: int | None) -> object:
    if isinstance(value, Message):
        return as_dictionary(value, version)
    if isinstance(value, list):
        return [_plain(name, item, version) for item in value]
    if isinstance(value, UUID):
        return uuid_to_text(value)
    if isinstance(value, bytes):
        return _assignment(value) if name == "assignment" else base64.b64encode(value).decode()
    return value


def _assignment(data: bytes) -> object:
    try:
        return [str(partition) for partition in decode_assignment(data)]
    except DecodeError:
        return base64.b64encode(data).decode()


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return base64.b64encode(data).decode()


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.title() for part in rest)


def _type_name(message: MetadataRecord) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", type(message).__name__).upper()
