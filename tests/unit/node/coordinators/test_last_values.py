"""The last value of each key, whatever form its batches have."""

from random import Random

import pytest

from penstock.node.coordinators import last_values
from penstock.node.coordinators.last_values import LastValues
from penstock.protocol.batch import HEADER_SIZE, read_header
from penstock.protocol.compression import Compression
from penstock.protocol.errors import DecodeError
from penstock.protocol.records import Record, encode_batch, iterate_records, keys_and_values

Pair = tuple[bytes | None, bytes | None]


def take(
    latest: LastValues, pairs: list[Pair], timestamp_ms: int = 0, compression: Compression = Compression.NONE
) -> None:
    """Lay a batch between others, as it comes from a log."""
    batch = encode_batch([Record(0, timestamp_ms, key, value) for key, value in pairs], compression=compression)
    latest.take(b"before" + batch + b"behind", 6, read_header(batch, 0))


def expected(batches: list[list[Pair]]) -> list[tuple[bytes, bytes | None]]:
    table: dict[bytes, bytes | None] = {}
    for pairs in batches:
        for key, value in pairs:
            if key is not None:
                table.pop(key, None)
                table[key] = value
    return list(table.items())


def drawn(random: Random) -> list[list[Pair]]:
    """Batches of a few forms that come again and again, whose keys overlap, and others in between."""
    names = [b"a", b"bb", b"c" * 70, b"d", b"e" * 200, b""]
    forms = [random.choices(names, k=random.choice((1, 2, 5, 60))) for _ in range(3)]
    forms += [[b"a", key, *forms[0]] for key in (b"b", b"c")]  # of one length, with the same beginning
    found: list[list[Pair]] = []
    for _ in range(30):
        keys: list[bytes | None] = list(random.choice(forms))
        size = random.choice((0, 3, 3, 3, 90))
        values: list[bytes | None] = [random.randbytes(size) for _ in keys]
        if random.random() < 0.2:
            values[0] = None
        if random.random() < 0.1:
            keys[-1] = None
        found.append(list(zip(keys, values, strict=True)))
    return found


@pytest.mark.parametrize("most_fields", [3, 1_000_000])
def test_all_is_as_a_dictionary_has_it(monkeypatch: pytest.MonkeyPatch, most_fields: int) -> None:
    monkeypatch.setattr(last_values, "MOST_FIELDS", most_fields)
    for seed in range(60):
        random, latest = Random(seed), LastValues()
        batches = drawn(random)
        for pairs in batches:
            take(latest, pairs, random.choice((0, 0, 1 << 40)), random.choice(list(Compression)))
        assert latest.pairs() == expected(batches), seed


def test_a_form_that_comes_again_is_not_taken_apart_record_by_record(monkeypatch: pytest.MonkeyPatch) -> None:
    latest = LastValues()
    for value in (b"1", b"2"):
        take(latest, [(b"k", value), (b"l", value)])
    monkeypatch.setattr(last_values, "keys_and_values", None)
    take(latest, [(b"k", b"3"), (b"l", b"3")])
    assert latest.pairs() == [(b"k", b"3"), (b"l", b"3")]


def test_bytes_that_differ_anywhere_but_in_values_are_looked_at() -> None:
    batch = encode_batch([Record(0, 0, b"key", b"value"), Record(0, 0, b"other", b"more", [("h", b"x")])])
    header = read_header(batch, 0)
    for at in range(HEADER_SIZE, len(batch)):
        for bit in range(8):
            bent = bytearray(batch)
            bent[at] ^= 1 << bit
            latest = LastValues()
            for _ in range(2):
                latest.take(bytes(batch), 0, header)
            try:
                pairs = keys_and_values(bytes(bent[HEADER_SIZE:]), header)
            except DecodeError:
                with pytest.raises(DecodeError):
                    latest.take(bytes(bent), 0, header)
                continue
            latest.take(bytes(bent), 0, header)
            assert latest.pairs() == expected(
                [[(one.key, one.value) for one in iterate_records(batch, 0, header)], pairs]
            )
