"""Whether the replicas of a partition hold the same batches."""

from penstock.cli.replicas.replica_comparison import Given, compare, max_lag
from penstock.client.values import TopicPartition
from penstock.protocol.batch import set_base_offset
from penstock.protocol.records import Record, encode_batch

T0 = TopicPartition("t", 0)


def batches(*values: bytes, base_offset: int = 0) -> bytes:
    """One record a batch, one after the other."""
    data = b""
    for offset, value in enumerate(values, base_offset):
        one = bytearray(encode_batch([Record(timestamp_ms=1, value=value)]))
        set_base_offset(one, 0, offset)
        data += bytes(one)
    return data


def test_replicas_that_agree_are_compared_as_far_as_all_have_come() -> None:
    found = compare(T0, 0, {1: Given(batches(b"a", b"b", b"c"), 3), 2: Given(batches(b"a", b"b"), 3)})
    assert (found.next_offset, found.differences) == (2, ())


def test_a_batch_that_is_cut_off_does_not_count() -> None:
    whole = batches(b"a", b"b")
    found = compare(T0, 0, {1: Given(whole, 2), 2: Given(whole[:-1], 2)})
    assert found.next_offset == 1


def test_what_is_not_committed_is_not_compared() -> None:
    found = compare(T0, 0, {1: Given(batches(b"a", b"b"), 2), 2: Given(batches(b"a", b"x"), 1)})
    assert (found.next_offset, found.differences) == (1, ())


def test_other_bytes_are_named_and_the_comparison_goes_on() -> None:
    found = compare(T0, 5, {
        1: Given(batches(b"a", b"b", base_offset=5), 9),
        3: Given(batches(b"x", b"b", base_offset=5), 9),
    })  # fmt: skip
    (difference,) = found.differences
    assert difference.startswith("partition t-0 has unmatched checksum at offset 5; replica 1's checksum ")
    assert (found.next_offset, found.is_apart) == (7, False)


def test_other_offsets_end_it() -> None:
    found = compare(T0, 0, {1: Given(batches(b"a"), 9), 2: Given(batches(b"a", base_offset=4), 9)})
    assert found.differences == ("partition t-0: replica 1's offset 0 doesn't match replica 2's offset 4",)
    assert found.is_apart


def test_the_largest_lag() -> None:
    t1 = TopicPartition("t", 1)
    assert max_lag({T0: 5, t1: 5}, {T0: 6, t1: 9}) == (4, t1)
