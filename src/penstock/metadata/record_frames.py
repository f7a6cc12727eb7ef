"""Metadata records as bytes: the value of one record of the metadata log (KIP-631).

    uvarint   frame version, always 1
    uvarint   type of the record
    uvarint   version of the record's layout
    …         the record itself, in that layout

Records are written in the newest layout that the metadata version which a new cluster is given has.
"""

from penstock.metadata import records, security_records
from penstock.metadata.records import MetadataRecord
from penstock.protocol.codec import decode, encode
from penstock.protocol.errors import DecodeError

FRAME_VERSION = 1
MAX_UVARINT_BYTES = 5

RECORD_CLASSES: dict[int, type[MetadataRecord]] = {
    cls.record_type: cls
    for module in (records, security_records)
    for cls in vars(module).values()
    if isinstance(cls, type) and issubclass(cls, MetadataRecord) and cls is not MetadataRecord
}
"""Every type of record, by its number."""


def encode_record(record: MetadataRecord, version: int | None = None) -> bytes:
    """Returns the frame of `record`, in the newest layout unless `version` names another."""
    if version is None:
        version = record.version_range()[-1]
    # Types and versions stay below 128, so each of the three numbers is one byte of its own value.
    return bytes((FRAME_VERSION, record.record_type, version)) + encode(record, version)


def decode_record(value: bytes | memoryview) -> MetadataRecord:
    """Returns the record whose frame `value` is; DecodeError if it is none, or of a type or version not known here."""
    frame_version, position = _uvarint(value, 0)
    if frame_version != FRAME_VERSION:
        raise DecodeError(f"a metadata record's frame has version {frame_version}, known is {FRAME_VERSION}")
    record_type, position = _uvarint(value, position)
    version, position = _uvarint(value, position)
    cls = RECORD_CLASSES.get(record_type)
    if cls is None:
        raise DecodeError(f"unknown type of metadata record: {record_type}")
    if version not in cls.version_range():
        raise DecodeError(f"unknown version {version} of {cls.__name__}")
    record, end = decode(cls, version, value, position)
    if end != len(value):
        raise DecodeError(f"{len(value) - end} bytes too many after a {cls.__name__}")
    return record


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
