"""Names of directories: what is read is what was written, and nothing else is read."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.log.names import (
    DELETED_DIRECTORY_SUFFIX,
    FUTURE_DIRECTORY_SUFFIX,
    STRAY_DIRECTORY_SUFFIX,
    parse_future_directory,
    parse_partition_directory,
    parse_put_away_directory,
    partition_directory,
    renamed_partition_directory,
    unique_id_of,
)

SUFFIXES = DELETED_DIRECTORY_SUFFIX, STRAY_DIRECTORY_SUFFIX, FUTURE_DIRECTORY_SUFFIX
ID = UUID(int=0xABC)
topics = st.text("abcXYZ019._-", min_size=1, max_size=20)


@given(topics, st.integers(0, 2**31))
def test_a_partition_has_one_name(topic: str, partition: int) -> None:
    assert parse_partition_directory(partition_directory(topic, partition)) == (topic, partition)


@pytest.mark.parametrize(
    "name", ["", "t", "t-", "-0", "-", "3", "t-a", "t-01", "t-+1", "t--", "t-1 ", "t-\u0663", "t-\u00b2", "t-0.0"]
)
def test_what_is_no_name_of_a_partition_is_none(name: str) -> None:
    assert parse_partition_directory(name) is None


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("topic", ["t", "a.b-c", "t.0123456789abcdef0123456789abcdef"])
def test_a_directory_that_was_renamed_says_of_what_and_how(suffix: str, topic: str) -> None:
    name = renamed_partition_directory(suffix, topic, 7, ID)
    assert parse_put_away_directory(name) == (topic, 7)
    assert parse_future_directory(name) == ((topic, 7) if suffix == FUTURE_DIRECTORY_SUFFIX else None)
    assert unique_id_of(name) == ID
    assert parse_partition_directory(name) is None
    for other in (
        name.removesuffix(suffix),
        f"{name}x",
        name.replace(ID.hex, ID.hex[1:]),
        name.replace(ID.hex, "g" * 32),
        f"{topic}-7{suffix}",
        f"{topic}.{ID.hex}{suffix}",
    ):
        assert parse_put_away_directory(other) is None
        assert parse_future_directory(other) is None
