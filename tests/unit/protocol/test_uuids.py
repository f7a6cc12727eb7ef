import random
import uuid

import pytest

from penstock.protocol.uuids import (
    ZERO_UUID,
    began_ms,
    process_uuid,
    random_uuid,
    uuid_from_text,
    uuid_of,
    uuid_to_text,
)


def test_text_is_kafkas_base64() -> None:
    metadata_topic_id = uuid.UUID(int=1)
    assert uuid_to_text(metadata_topic_id) == "AAAAAAAAAAAAAAAAAAAAAQ"
    assert uuid_from_text("AAAAAAAAAAAAAAAAAAAAAQ") == metadata_topic_id
    assert uuid_to_text(ZERO_UUID) == "A" * 22


@pytest.mark.parametrize("text", ["", "AAAA", "A" * 23, "A" * 21 + "B", "A" * 21 + "=", "A" * 21 + "é"])
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"base64|ASCII|bytes"):
        uuid_from_text(text)


def test_a_random_uuid_comes_from_its_source_and_never_looks_like_an_option() -> None:
    first = [random_uuid(random.Random(seed)) for seed in range(300)]
    assert first == [random_uuid(random.Random(seed)) for seed in range(300)]
    assert len(set(first)) == 300
    assert not any(uuid_to_text(drawn).startswith("-") for drawn in first)


def test_a_process_says_in_its_uuid_when_it_began() -> None:
    now_ms = 1_790_000_000_123
    drawn = [process_uuid(now_ms, random.Random(seed)) for seed in range(300)]
    assert len(set(drawn)) == 300
    assert {(one.version, one.variant) for one in drawn} == {(7, uuid.RFC_4122)}
    assert {began_ms(one) for one in drawn} == {now_ms}
    assert not any(uuid_to_text(one).startswith("-") for one in drawn)
    assert began_ms(random_uuid(random.Random(1))) is None


def test_bytes_to_uuid() -> None:
    drawn = random_uuid(random.Random(1))
    assert uuid_of(drawn.bytes) == drawn
