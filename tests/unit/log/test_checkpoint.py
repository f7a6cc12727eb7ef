"""Small text files of a log: what they hold comes back, and each kind of damage is named."""

from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import pytest

from penstock.log.checkpoint import (
    CorruptCheckpointError,
    decode_leader_epochs,
    decode_offsets,
    decode_partition_metadata,
    encode_leader_epochs,
    encode_offsets,
    encode_partition_metadata,
    read_offsets,
    read_topic_id,
)
from penstock.log.disk import Disk
from penstock.log.names import PARTITION_METADATA

TOPIC_ID = UUID(int=7 << 64 | 5)
OFFSETS = {("orders", 0): 12, ("orders", 1): 0, ("__consumer_offsets", 49): 7}


def test_what_is_written_has_kafkas_layout_and_is_read_again() -> None:
    assert encode_offsets(OFFSETS) == b"0\n3\norders 0 12\norders 1 0\n__consumer_offsets 49 7\n"
    assert decode_offsets(encode_offsets(OFFSETS), "") == OFFSETS
    assert (encode_offsets({}), decode_offsets(b"0\n0\n", "")) == (b"0\n0\n", {})
    assert encode_leader_epochs([(2, 0), (3, 10)]) == b"0\n2\n2 0\n3 10\n"
    assert decode_leader_epochs(b"0\n2\n2 0\n3 10\n", "") == [(2, 0), (3, 10)]
    assert encode_partition_metadata(TOPIC_ID) == b"version: 0\ntopic_id: AAAAAAAAAAcAAAAAAAAABQ"


@pytest.mark.parametrize(
    "content",
    [
        b"version: 0\ntopic_id: AAAAAAAAAAcAAAAAAAAABQ",
        b"version: 0\ntopic_id: AAAAAAAAAAcAAAAAAAAABQ\n",
        b"version:0\ntopic_id:AAAAAAAAAAcAAAAAAAAABQ",
        b"topic_id: AAAAAAAAAAcAAAAAAAAABQ\nversion: 0\n",
        b" version : 0 \n topic_id : AAAAAAAAAAcAAAAAAAAABQ \nmore: x\n",
    ],
)
def test_a_topics_id_is_found_however_it_is_laid_out(content: bytes) -> None:
    assert decode_partition_metadata(content, "") == TOPIC_ID


@pytest.mark.parametrize(
    ("decode", "content", "problem"),
    [
        (decode_offsets, b"", "F ends in the middle of a line"),
        (decode_offsets, b"0\n1\na 0 5", "F ends in the middle of a line"),
        (decode_offsets, b"\n", "F does not begin with the version 0 and a count"),
        (decode_offsets, b"0\n", "F does not begin with the version 0 and a count"),
        (decode_offsets, b"1\n0\n", "F does not begin with the version 0 and a count"),
        (decode_offsets, b"0\n-1\n", "F does not begin with the version 0 and a count"),
        (decode_offsets, b"0\n2\na 0 5\n", "F announces 2 entries and has 1"),
        (decode_offsets, b"0\n0\na 0 5\n", "F announces 0 entries and has 1"),
        (decode_offsets, b"0\n2\na 0 5\na 5\n", "F, line 4: 3 fields are needed, there are 2"),
        (decode_offsets, b"0\n1\na 0 5 6\n", "F, line 3: 3 fields are needed, there are 4"),
        (decode_offsets, b"0\n1\na x 5\n", "F: invalid literal for int() with base 10: 'x'"),
        (decode_offsets, b"0\n1\na 0 x\n", "F: invalid literal for int() with base 10: 'x'"),
        (decode_offsets, b"\xff\n", "F is not text"),
        (decode_leader_epochs, b"0\n1\n1 2 3\n", "F, line 3: 2 fields are needed, there are 3"),
        (decode_leader_epochs, b"0\n1\n1 x\n", "F: invalid literal for int() with base 10: 'x'"),
        (decode_partition_metadata, b"", "F lacks version 0 or a topic_id"),
        (decode_partition_metadata, b"version: 0\n", "F lacks version 0 or a topic_id"),
        (decode_partition_metadata, b"topic_id: AAAAAAAAAAcAAAAAAAAABQ\n", "F lacks version 0 or a topic_id"),
        (decode_partition_metadata, b"version: 1\ntopic_id: AAAAAAAAAAcAAAAAAAAABQ", "F lacks version 0 or a topic_id"),
        (decode_partition_metadata, b"\xff", "F is not text"),
    ],
)
def test_damage_is_named(decode: Callable[[bytes, str], object], content: bytes, problem: str) -> None:
    with pytest.raises(CorruptCheckpointError) as raised:
        decode(content, "F")
    assert str(raised.value) == problem


@pytest.mark.parametrize("text", [b"A" * 21, b"A" * 23, b"!" * 22, b"\xff" * 22, b""])
def test_what_is_no_id_is_damage(text: bytes) -> None:
    with pytest.raises(CorruptCheckpointError, match=r"^F"):
        decode_partition_metadata(b"version: 0\ntopic_id: " + text, "F")


def test_blank_lines_are_passed_over() -> None:
    assert decode_offsets(b"0\n1\n\na 0 5\n\n", "") == {("a", 0): 5}


def test_a_file_that_is_missing_holds_nothing_and_a_damaged_id_is_unknown(tmp_path: Path) -> None:
    assert read_offsets(Disk(), str(tmp_path / "none")) == {}
    (tmp_path / "offsets").write_bytes(encode_offsets(OFFSETS))
    assert read_offsets(Disk(), str(tmp_path / "offsets")) == OFFSETS
    assert read_topic_id(Disk(), str(tmp_path)) is None
    (tmp_path / PARTITION_METADATA).write_bytes(encode_partition_metadata(TOPIC_ID))
    assert read_topic_id(Disk(), str(tmp_path)) == TOPIC_ID
    (tmp_path / PARTITION_METADATA).write_bytes(b"version: 0\n")
    assert read_topic_id(Disk(), str(tmp_path)) is None
