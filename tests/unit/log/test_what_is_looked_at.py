"""Which batches a leader looks into: each condition from both sides, with records that make no sense."""

import re
from pathlib import Path
from typing import Any

import pytest
from tests.unit.log.logs import NOW, open_log

from penstock.log.config import LOG_APPEND_TIME, LogConfig
from penstock.log.validation import AppendOrigin
from penstock.protocol.batch import HEADER_SIZE, set_max_timestamp, write_crc
from penstock.protocol.errors import KafkaError
from penstock.protocol.records import Record, encode_batch

CLIENT, PATIENT, LOOKED_AT, COORDINATOR = AppendOrigin
STAMPS = {"message_timestamp_type": LOG_APPEND_TIME}
CASES: list[tuple[dict[str, Any], int, int, int, bool]] = [
    ({}, 1, NOW, NOW, False),
    ({}, 3, NOW, NOW, False),
    ({}, 3, NOW, NOW + 5, False),
    ({}, 1, NOW, NOW + 5, True),
    ({}, 1, NOW, NOW - 5, True),
    ({"message_timestamp_after_max_ms": 100}, 3, NOW, NOW + 100, False),
    ({"message_timestamp_after_max_ms": 100}, 3, NOW, NOW + 101, True),
    ({**STAMPS, "message_timestamp_after_max_ms": 100}, 3, NOW, NOW + 101, False),
    ({"message_timestamp_before_max_ms": 100}, 3, NOW, NOW, True),
    ({**STAMPS, "message_timestamp_before_max_ms": 100}, 3, NOW, NOW, False),
    ({"cleanup_policy": frozenset({"compact"})}, 3, NOW, NOW, True),
    ({"validates_records": True}, 3, NOW, NOW, True),
    ({"penstock_delay_enable": True}, 3, NOW, NOW, True),
    ({"compression_type": "uncompressed"}, 3, NOW, NOW, False),
]
"""The topic, how many records, base and latest timestamp, and whether a client's batch is looked into."""


def senseless(count: int, base_ms: int, latest_ms: int) -> memoryview:
    batch = encode_batch([Record(0, base_ms, b"k", b"value")] * count)
    batch[HEADER_SIZE:] = b"\xff" * (len(batch) - HEADER_SIZE)
    view = memoryview(batch)
    set_max_timestamp(view, 0, latest_ms)
    view[21:23] = bytes(2)  # that has also said that it was stamped
    write_crc(view, 0, len(view))
    return view


def refusal_of(path: Path, config: LogConfig, batch: memoryview, origin: AppendOrigin) -> str:
    """Empty if the batch was written."""
    log = open_log(path, config)
    try:
        log.append_as_leader(batch, leader_epoch=0, now_ms=NOW, origin=origin)
    except KafkaError as error:
        return f"{error.code.name}: {error}"
    return ""


SENSELESS = "INVALID_RECORD: .*the batch's records make no sense"


@pytest.mark.parametrize("origin", AppendOrigin)
@pytest.mark.parametrize(("config", "count", "base_ms", "latest_ms", "is_looked"), CASES)
def test_a_batch_is_looked_into_where_its_header_is_not_enough(
    tmp_path: Path,
    config: dict[str, Any],
    count: int,
    base_ms: int,
    latest_ms: int,
    *,
    is_looked: bool,
    origin: AppendOrigin,
) -> None:
    refusal = refusal_of(tmp_path, LogConfig(**config), senseless(count, base_ms, latest_ms), origin)
    assert bool(refusal) is (is_looked and origin in (CLIENT, PATIENT))
    assert not refusal or re.match(SENSELESS, refusal)


@pytest.mark.parametrize("origin", AppendOrigin)
def test_a_batch_in_another_codec_than_the_topics_is_always_looked_into(tmp_path: Path, origin: AppendOrigin) -> None:
    assert re.match(SENSELESS, refusal_of(tmp_path, LogConfig(compression_type="gzip"), senseless(3, NOW, NOW), origin))
