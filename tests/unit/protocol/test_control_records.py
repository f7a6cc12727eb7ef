"""What a control record's key says."""

import pytest

from penstock.protocol.control.records import ControlType, control_batch, control_record, control_type
from penstock.protocol.records import Record, decode_batch


@pytest.mark.parametrize("kind", ControlType)
def test_a_control_record_comes_back_as_kafka_would_write_it(kind: ControlType) -> None:
    batch = control_batch([control_record(kind, b"value", 5)], base_offset=7, epoch=3)
    (record,) = decode_batch(bytes(batch), 0)
    assert (record.offset, record.timestamp_ms, record.value) == (7, 5, b"value")
    assert record.key == bytes((0, 0, 0, kind))
    assert control_type(record) == kind


@pytest.mark.parametrize("key", [None, b"", b"\0\0\0", b"\0\0\0\0\0"])
def test_what_is_no_control_record_has_no_type(key: bytes | None) -> None:
    assert control_type(Record(key=key)) == -1
