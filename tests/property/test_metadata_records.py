"""Every type of metadata record, with any values, in every version, survives its bytes."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from penstock.metadata.record_frames import RECORD_CLASSES, decode_record, encode_record
from penstock.metadata.records import MetadataRecord
from penstock.protocol.schema import Field, Message

SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "bool": st.booleans(),
    "int8": st.integers(-(2**7), 2**7 - 1),
    "int16": st.integers(-(2**15), 2**15 - 1),
    "uint16": st.integers(0, 2**16 - 1),
    "int32": st.integers(-(2**31), 2**31 - 1),
    "int64": st.integers(-(2**63), 2**63 - 1),
    "float64": st.floats(allow_nan=False),
    "string": st.text(max_size=8),
    "bytes": st.binary(max_size=8),
    "uuid": st.uuids(),
}


def values(field: Field, version: int) -> st.SearchStrategy[Any]:
    one = SCALARS[field.kind] if isinstance(field.kind, str) else messages(field.kind, version)
    value = st.lists(one, max_size=3) if field.is_array else one
    return st.none() | value if field.is_nullable_in(version) else value


def messages(cls: type[Message], version: int) -> st.SearchStrategy[Any]:
    fields = {name: values(field, version) for name, field in cls.__fields__.items() if field.is_in(version)}
    return st.builds(cls, **fields)


def records() -> st.SearchStrategy[tuple[MetadataRecord, int]]:
    return st.one_of(
        [
            st.tuples(messages(cls, version), st.just(version))
            for cls in RECORD_CLASSES.values()
            for version in cls.version_range()
        ]
    )


@given(records())
def test_a_record_survives_its_bytes(case: tuple[MetadataRecord, int]) -> None:
    record, version = case
    assert decode_record(encode_record(record, version)) == record
