"""Metadata records as bytes: the value of one record of the metadata log (KIP-631).

    uvarint   frame version, always 1
    uvarint   type of the record
    uvarint   version of the record's layout
    …         the record itself, in that layout

Which layout a record is written in follows from the cluster's level of `metadata.version` (Kafka's MetadataVersion):
all nodes of the cluster can read those of its level.
"""

from collections.abc import Sequence
from functools import cache
from typing import Final

from penstock.metadata import records, security_records
from penstock.metadata.features import (
    CONTROLLER_REGISTRATION_LEVEL,
    DELEGATION_TOKEN_LEVEL,
    LOWEST_METADATA_VERSION,
    NEWEST_METADATA_VERSION,
    SCRAM_LEVEL,
    shown_level,
)
from penstock.metadata.records import MetadataRecord
from penstock.protocol.codec import decode, encode
from penstock.protocol.errors import DecodeError, UnsupportedError

FRAME_VERSION = 1
MAX_UVARINT_BYTES = 5

RECORD_CLASSES: dict[int, type[MetadataRecord]] = {
    cls.record_type: cls
    for module in (records, security_records)
    for cls in vars(module).values()
    if isinstance(cls, type) and issubclass(cls, MetadataRecord) and cls is not MetadataRecord
}

_LAYOUTS: Final[dict[type[MetadataRecord], tuple[tuple[int, int], ...]]] = {
    records.RegisterBrokerRecord: ((30, 4), (17, 3), (8, 2), (7, 1)),
    records.BrokerRegistrationChangeRecord: ((30, 3), (17, 2), (7, 1)),
    records.PartitionRecord: ((23, 2), (17, 1), (7, 0)),
    records.PartitionChangeRecord: ((23, 2), (17, 1), (7, 0)),
}
"""The newest layout first, from a level of metadata.version on; other records have one layout."""

_NEWEST_LAYOUTS: Final = 30
"""From this level of metadata.version on all records are written in their newest layouts."""

_FIRST_LEVELS: Final[dict[type[MetadataRecord], int]] = {
    records.RegisterControllerRecord: CONTROLLER_REGISTRATION_LEVEL,
    security_records.UserScramCredentialRecord: SCRAM_LEVEL,
    security_records.DelegationTokenRecord: DELEGATION_TOKEN_LEVEL,
}
"""Lower levels of metadata.version do not have these records."""


class UnsupportedMetadataError(UnsupportedError):
    """This release of Penstock cannot keep the record: nothing is damaged."""

    def __init__(self, what: str, level: int | None = None) -> None:
        """`level` is the cluster's level of metadata.version, where it is known."""
        levels = f"{shown_level(LOWEST_METADATA_VERSION)} to {shown_level(NEWEST_METADATA_VERSION)}"
        here = "" if level is None else f", and the cluster is at {shown_level(level)}"
        super().__init__(f"{what}: this release of Penstock knows metadata.version {levels}{here}")
        self.what = what


_SHORT_FRAME = 3
"""Frame version, type and layout version are one byte each today."""


def has_record(level: int, record: MetadataRecord) -> bool:
    return level >= _FIRST_LEVELS.get(type(record), LOWEST_METADATA_VERSION)


@cache
def layout_at(level: int, cls: type[MetadataRecord]) -> int:
    return next((version for first, version in _LAYOUTS.get(cls, ()) if level >= first), 0)


def as_at(level: int, written: Sequence[MetadataRecord]) -> list[MetadataRecord]:
    """Fields are lost that the layouts of this level of metadata.version do not have."""
    if level >= _NEWEST_LAYOUTS:
        return list(written)
    return [decode_record(encode_record(record, layout_at(level, type(record)))) for record in written]


def encode_record(record: MetadataRecord, version: int | None = None) -> bytes:
    """The newest layout unless `version` names another."""
    if version is None:
        version = record.version_range()[-1]
    # Types and versions stay below 128, so each of the three numbers is one byte of its own value.
    return bytes((FRAME_VERSION, record.record_type, version)) + encode(record, version)


def decode_record(value: bytes | memoryview) -> MetadataRecord:
    """DecodeError if `value` is no frame, or of a type or version not known here."""
    cls, version, position = _frame(value)
    record, end = decode(cls, version, value, position)
    if end != len(value):
        raise DecodeError(f"{len(value) - end} bytes too many after a {cls.__name__}")
    return record


def check_frame(value: bytes | memoryview) -> int:
    """The record's fields are not read; DecodeError as `decode_record`."""
    return _frame(value)[0].record_type


def _frame(value: bytes | memoryview) -> tuple[type[MetadataRecord], int, int]:
    """Returns the version of the layout, and where the record begins, too."""
    if len(value) > _SHORT_FRAME and value[0] == FRAME_VERSION and value[1] | value[2] < 0x80:
        record_type, version, position = value[1], value[2], _SHORT_FRAME
    else:
        record_type, version, position = _decode_frame(value)
    cls = RECORD_CLASSES.get(record_type)
    if cls is None:
        raise UnsupportedMetadataError(f"a metadata record is of the unknown type {record_type}")
    if version not in cls.version_range():
        raise UnsupportedMetadataError(f"a {cls.__name__} is of the unknown version {version}")
    return cls, version, position


def _decode_frame(value: bytes | memoryview) -> tuple[int, int, int]:
    """(type, version, where the record begins)."""
    frame_version, position = _uvarint(value, 0)
    if frame_version != FRAME_VERSION:
        raise DecodeError(f"a metadata record's frame has version {frame_version}, known is {FRAME_VERSION}")
    record_type, position = _uvarint(value, position)
    version, position = _uvarint(value, position)
    return record_type, version, position


def _uvarint(buffer: bytes | memoryview, position: int) -> tuple[int, int]:
    number = 0
    for index in range(MAX_UVARINT_BYTES):
        if position + index >= len(buffer):
            raise DecodeError("a metadata record ends within its frame")
        byte = buffer[position + index]
        number |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return number, position + index + 1
    raise DecodeError("a metadata record's frame has a number of more than 32 bits")
