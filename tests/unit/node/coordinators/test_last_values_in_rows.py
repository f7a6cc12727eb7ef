"""Last values: rows of batches with one record, shapes that are learnt, and how very many are put in order."""

from random import Random

import pytest

from penstock.node.coordinators import last_values
from penstock.node.coordinators.last_values import AT_ONCE, SORTED_AT_ONCE, LastValues
from penstock.protocol.batch import HEADER_SIZE, read_header
from penstock.protocol.records import Record, encode_batch


def single(value: bytes, base_offset: int = 0, *, key: bytes = b"kk", producer_id: int = -1) -> bytes:
    """One record; of a transaction if there is a producer."""
    return bytes(
        encode_batch(
            [Record(0, 0, key, value)],
            base_offset=base_offset,
            producer_id=producer_id,
            producer_epoch=0 if producer_id >= 0 else -1,
            is_transactional=producer_id >= 0,
        )
    )


def learnt() -> LastValues:
    latest = LastValues()
    for _ in range(2):
        batch = single(b"0")
        latest.take(batch, 0, read_header(batch, 0))
    return latest


def in_order(latest: LastValues) -> list[tuple[bytes, bytes | None]]:
    return [pair for some in latest.in_order() for pair in some]


@pytest.mark.parametrize("before", [0, 1, 7, 1_000])
@pytest.mark.parametrize("behind", [0, 1, 68, 1_000])
def test_a_row_is_taken_wherever_it_lies(before: int, behind: int) -> None:
    batches = [single(b"%d" % number, number, key=b"k%d" % number) for number in range(5)]
    data = b"x" * before + b"".join(batches) + b"\0" * behind
    latest = learnt()
    assert latest.take_again(data, before, -1) == (before + sum(map(len, batches)), 5)
    assert in_order(latest) == [(b"kk", b"0"), *((b"k%d" % number, b"%d" % number) for number in range(5))]


def test_a_row_ends_before_what_is_not_to_be_taken_though_others_come_behind_it() -> None:
    """A batch of a transaction, one whose record has other attributes, and one that says that it has two records."""
    batches = [single(b"1", 1), single(b"2", 2), single(b"3", 3)]
    strange = bytearray(single(b"x", 2))
    strange[HEADER_SIZE + 1] ^= 2
    of_two = single(b"x", 2)[: HEADER_SIZE - 4] + b"\0\0\0\2" + single(b"x", 2)[HEADER_SIZE:]
    for other in (single(b"x", 2, producer_id=7), bytes(strange), of_two):
        assert len(other) == len(batches[0])
        latest = learnt()
        data = b"".join([batches[0], other, *batches[1:]])
        assert latest.take_again(data, 0, -1) == (len(other), 2)
        assert in_order(latest) == [(b"kk", b"1")]


def test_of_a_batch_from_which_records_have_gone_the_offset_behind_it_counts() -> None:
    """Compaction leaves its last offset as it was."""
    batch = bytearray(single(b"1", 10))
    batch[23:27] = (5).to_bytes(4, "big")
    latest = learnt()
    assert latest.take_again(bytes(batch), 0, -1) == (len(batch), 16)


def test_what_has_no_key_or_no_value_does_not_wait_for_the_end_of_its_transaction() -> None:
    records = [(b"k", b"1"), (None, b"2"), (b"l", None), (None, None), (b"m", b"3")]
    batch = bytes(encode_batch([Record(0, 0, key, value) for key, value in records], producer_id=7, producer_epoch=0))
    latest = LastValues()
    latest.take_pending(batch, 0, read_header(batch, 0))
    assert list(latest.pending()) == [(7, b"k", b"1", False), (7, b"m", b"3", False)]


def test_a_shape_is_learnt_when_it_comes_again() -> None:
    latest, batch = LastValues(), single(b"0")
    for shapes in ([False], [True], [True]):
        latest.take(batch, 0, read_header(batch, 0))
        assert [shape is not None for shape in latest._shapes.values()] == shapes


def test_a_form_is_kept_as_soon_as_its_shape_is_known() -> None:
    def two(*keys: bytes) -> bytes:
        return bytes(encode_batch([Record(0, 0, key, b"v") for key in keys]))

    latest, batch = LastValues(), two(b"ka", b"kb")
    for forms in (0, 1, 1):
        latest.take(batch, 0, read_header(batch, 0))
        assert len(latest._forms) == forms
    for other in (two(b"kc", b"kd"), two(b"ke", b"ke")):
        assert latest.take_again(other, 0, -1) == (len(other), 2)
    assert len(latest._forms) == 2, "in the last one is one key twice"
    assert in_order(latest) == [(key, b"v") for key in (b"ka", b"kb", b"kc", b"kd", b"ke")]


def test_all_shapes_are_forgotten_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(last_values, "MOST_SHAPED", 4)
    latest, kept = LastValues(), list[int]()
    for size in range(15):
        batch = single(b"v" * size)
        latest.take(batch, 0, read_header(batch, 0))
        kept.append(len(latest._shapes))
    assert kept == [1, 2, 3, 4, 1, 2, 3, 4, 5, 1, 2, 3, 4, 5, 1]


@pytest.mark.parametrize("count", [0, 1, AT_ONCE, AT_ONCE + 1, SORTED_AT_ONCE, SORTED_AT_ONCE + 1, 5_000])
@pytest.mark.parametrize("begins", [0, 10**6])
def test_very_many_are_sorted_by_parts(count: int, begins: int) -> None:
    """They lie all along the log, nearly all at its end, or in two places."""
    at_end = range(begins + 10 * count, begins + 11 * count)
    for numbers in (
        Random(1).sample(range(begins, begins + 11 * count), count),
        Random(2).sample(at_end, count),
        [*range(begins, begins + count // 2), *at_end[: count - count // 2]],
    ):
        written = [(number, b"%d" % number, None) for number in numbers]
        found = list(last_values._in_order(written, count, range(begins, begins + 11 * count)))
        assert [one for some in found for one in some] == sorted(written)
        assert max(map(len, found), default=0) <= AT_ONCE
        passes = sum(not some for some in found)
        assert passes == 0 if count <= SORTED_AT_ONCE else passes >= count / SORTED_AT_ONCE
        assert passes <= 4 + 4 * (count // SORTED_AT_ONCE)
        assert len(found) <= passes + 1 + 4 * (count // AT_ONCE)
