"""Which partition: Java's murmur2, and a batch's worth in one place."""

from random import Random

from penstock.client.producer.partitioners import DefaultPartitioner


def test_keys_go_where_a_java_producer_sends_them() -> None:
    partitioner = DefaultPartitioner(16_384, Random(1))
    # The signed hashes are those of Kafka's own test of murmur2.
    expected = {b"21": -973932308, b"foobar": -790332482, b"a-little-bit-long-string": -985981536}
    for key, murmur in expected.items():
        assert partitioner.partition("t", key, 10, 1000, []) == (murmur & 0x7FFFFFFF) % 1000


def test_records_without_a_key_stay_in_one_partition_for_a_batch() -> None:
    partitioner = DefaultPartitioner(100, Random(3))
    chosen = [partitioner.partition("t", None, 25, 6, [0, 2, 4]) for _ in range(400)]
    runs = [chosen[start : start + 4] for start in range(0, 400, 4)]
    assert all(len(set(run)) == 1 for run in runs)
    assert set(chosen) == {0, 2, 4}


def test_without_any_leader_all_partitions_are_candidates() -> None:
    partitioner = DefaultPartitioner(1, Random(3))
    assert {partitioner.partition("t", None, 1, 3, []) for _ in range(100)} == {0, 1, 2}
