from random import Random

import pytest

from penstock.protocol.hashing import _begun_hash, coordinator_partition, java_string_hash, murmur2, partition_for_key


@pytest.mark.parametrize(
    ("key", "expected"),
    [(b"21", -973932308), (b"foobar", -790332482), (b"a-little-bit-long-string", -985981536),
     (b"a-little-bit-longer-string", -1486304829), (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
     (b"abc", 479470107)],
)  # fmt: skip
def test_murmur2_is_that_of_java(key: bytes, expected: int) -> None:
    assert murmur2(key) == expected & 0xFFFFFFFF
    assert partition_for_key(key, 7) == (expected & 0x7FFFFFFF) % 7


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", 0), ("a", 97), ("hello", 99162322), ("polygenelubricants", -(2**31)), ("Aa", 2112), ("BB", 2112),
     ("\N{GRINNING FACE}", 0xD83D * 31 + 0xDE00)],
)  # fmt: skip
def test_java_string_hash(text: str, expected: int) -> None:
    assert java_string_hash(text) == expected


@pytest.mark.parametrize("length", [255, 256, 257, 511, 512, 1_300])
def test_a_long_text_is_hashed_in_portions(length: int) -> None:
    text = "".join(Random(length).choice("ab\u00e9\u4e2d\uffff") for _ in range(length))
    expected = 0
    for character in text:
        expected = (31 * expected + ord(character)) % (1 << 32)
    assert java_string_hash(text) % (1 << 32) == expected


def test_the_coordinator_of_a_group() -> None:
    assert coordinator_partition("hello", 50) == 99162322 % 50
    assert coordinator_partition("polygenelubricants", 50) == 0
    assert 0 <= coordinator_partition("a group with a negative hash: zzzzzz", 50) < 50


def test_long_keys_that_end_differently_are_looked_at_at_their_ends() -> None:
    random = Random(1)
    for length in (201, 240, 241, 5_000):
        text = "".join(random.choice("ab\u00e9\u4e2d\N{GRINNING FACE}") for _ in range(length))
        hashed = java_string_hash(text)
        assert coordinator_partition(text, 1 << 30) == abs(hashed) % (1 << 30)
    before = _begun_hash.cache_info()
    for number in range(1_000):
        coordinator_partition(f"{'g' * 32_000}:AAAAAAAAAAAAAAAAAAAAAA:{number}", 50)
    after = _begun_hash.cache_info()
    assert after.misses - before.misses == 3, "one for each number of digits"
    assert (after.maxsize or 0) * 32_000 < 10_000_000
