"""The last value of each key, whatever form its batches have."""

from random import Random
from typing import Any

import pytest

from penstock.node.coordinators import last_values
from penstock.node.coordinators.last_values import LastValues
from penstock.protocol.batch import ATTRIBUTES_AT, HEADER_SIZE, MAGIC_AT, read_header
from penstock.protocol.compression import Compression
from penstock.protocol.errors import DecodeError
from penstock.protocol.records import Record, encode_batch, iterate_records, keys_and_values

Pair = tuple[bytes | None, bytes | None]


def take(
    latest: LastValues, pairs: list[Pair], timestamp_ms: int = 0, compression: Compression = Compression.NONE
) -> None:
    """Lay a batch between others, as it comes from a log. Of a known form it needs no look."""
    batch = encode_batch([Record(0, timestamp_ms, key, value) for key, value in pairs], compression=compression)
    data = b"before" + batch + b"behind"
    end, behind = latest.take_again(data, 6, -1)
    if end == 6:
        assert behind == -1
        latest.take(data, 6, read_header(batch, 0))
    else:
        assert (end, behind) == (6 + len(batch), len(pairs))


def in_order(latest: LastValues) -> list[tuple[bytes, bytes | None]]:
    return [pair for some in latest.in_order() for pair in some]


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
    for first in range(0, random.choice((0, 8)), 2):  # of one shape, and each key once, or in two of them
        forms.append([b"%03d" % (first + number) for number in random.sample(range(4), 4)])
        forms += [[b"%03d" % (100 * first + number) for number in range(count)] for count in (1, 3, 70)]
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


@pytest.mark.parametrize("most_fields", [3, 100, 1_000_000])
def test_all_is_as_a_dictionary_has_it(monkeypatch: pytest.MonkeyPatch, most_fields: int) -> None:
    """With values in open transactions as well."""
    monkeypatch.setattr(last_values, "MOST_FIELDS", most_fields)
    monkeypatch.setattr(last_values, "MOST_SHAPED", most_fields)
    for seed in range(60):
        random, latest = Random(seed), LastValues()
        batches, pending = drawn(random), list[tuple[int, bytes]]()
        of_transactions = random.choice((0.0, 0.1))
        for number, pairs in enumerate(batches):
            if random.random() < of_transactions and pairs[0][0] is not None:
                pending.append((number, pairs[0][0]))
                batch = encode_batch([Record(key=pairs[0][0], value=b"pending")], producer_id=number, producer_epoch=0)
                latest.take_pending(bytes(batch), 0, read_header(batch, 0))
            take(latest, pairs, random.choice((0, 0, 1 << 40)), random.choice(list(Compression)))
        assert in_order(latest) == expected(batches), seed
        assert list(latest.pending()) == [
            (number, key, b"pending", any(key == later for pairs in batches[number:] for later, _ in pairs))
            for number, key in pending
        ], seed


def test_a_form_that_comes_again_is_not_taken_apart_record_by_record(monkeypatch: pytest.MonkeyPatch) -> None:
    latest = LastValues()
    for value in (b"1", b"2"):
        take(latest, [(b"k", value), (b"l", value)])
    monkeypatch.setattr(last_values, "keys_and_values", None)
    take(latest, [(b"k", b"3"), (b"l", b"3")])
    take(latest, [(b"k", b"4"), (b"l", b"4")], compression=Compression.GZIP)
    assert in_order(latest) == [(b"k", b"4"), (b"l", b"4")]


def test_batches_of_known_forms_are_taken_up_to_the_first_other_one() -> None:
    latest, known = LastValues(), [Record(0, 0, b"k", b"1"), Record(0, 0, b"l", b"1")]
    for _ in range(2):
        take(latest, [(b"k", b"0"), (b"l", b"0")])
    again = [bytes(encode_batch(known, base_offset=base)) for base in (10, 20)]
    assert latest.take_again(b"".join(again), 0, -1) == (2 * len(again[0]), 22), "the last one ends where the data do"
    others = [
        encode_batch(known, base_offset=30, producer_id=7, producer_epoch=0, is_transactional=True),
        encode_batch(known, base_offset=30, compression=Compression.GZIP),
        encode_batch(known[:1], base_offset=30),
        encode_batch(known, base_offset=30)[:-1],
    ]
    for other in others:
        data = b"".join([*again, bytes(other)])
        assert latest.take_again(data, 0, -1) == (2 * len(again[0]), 22)
    assert in_order(latest) == [(b"k", b"1"), (b"l", b"1")]


def test_a_row_of_single_records_ends_where_anything_but_keys_and_values_differs() -> None:
    batch = bytes(encode_batch([Record(0, 0, b"key", b"value", [("h", b"x")])], base_offset=7))
    key_at, value_at = batch.index(b"key"), batch.index(b"value")
    free = {*range(key_at, key_at + 3), *range(value_at, value_at + 5)}
    looked_at = {*range(8, 12), MAGIC_AT, ATTRIBUTES_AT, ATTRIBUTES_AT + 1, *range(HEADER_SIZE - 4, HEADER_SIZE)}
    for at in (*sorted(looked_at), *range(HEADER_SIZE, len(batch))):
        for bit in range(8):
            latest, bent = LastValues(), bytearray(batch)
            for _ in range(2):
                latest.take(batch, 0, read_header(batch, 0))
            bent[at] ^= 1 << bit
            taken = 3 if at in free else 2
            assert latest.take_again(batch * 2 + bytes(bent), 0, -1) == (taken * len(batch), 8), (at, bit)
            pairs = dict(in_order(latest))
            bent_pair = bytes(bent[key_at : key_at + 3]), bytes(bent[value_at : value_at + 5])
            assert pairs == {b"key": b"value", **({bent_pair[0]: bent_pair[1]} if at in free else {})}, (at, bit)


def test_a_header_that_differs_in_what_counts_is_looked_at() -> None:
    batch = bytes(encode_batch([Record(0, 0, b"k", b"1"), Record(0, 0, b"l", b"1")]))
    latest = LastValues()
    for _ in range(2):
        take(latest, [(b"k", b"0"), (b"l", b"0")])
    for at in (*range(8, 12), MAGIC_AT, ATTRIBUTES_AT, ATTRIBUTES_AT + 1, *range(HEADER_SIZE - 4, HEADER_SIZE)):
        for bit in range(8):
            bent = bytearray(batch)
            bent[at] ^= 1 << bit
            assert latest.take_again(bytes(bent), 0, -1) == (0, -1), (at, bit)


def test_of_too_many_forms_the_oldest_are_forgotten_and_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """To enter what came in all of them took half a second at once."""
    monkeypatch.setattr(last_values, "MOST_FIELDS", 100)
    entered = list[int]()
    enter = LastValues._enter

    def counted(self: LastValues, form: Any) -> None:
        entered.append(len(form.keys))
        enter(self, form)

    monkeypatch.setattr(LastValues, "_enter", counted)
    latest = LastValues()
    for number in range(100):
        for value in (b"1", b"2", b"3"):
            entered.clear()
            take(latest, [(b"%03d-%d" % (number, one), value) for one in range(10)])
            assert sum(entered) <= 10
            assert latest._fields <= 100
    assert [form.keys[0] for form in latest._forms.values()] == [b"%03d-0" % number for number in range(90, 100)]
    take(latest, [(b"090-%d" % one, b"4") for one in range(10)])
    take(latest, [(b"0x0-%d" % one, b"4") for one in range(10)])
    assert [form.keys[0] for form in latest._forms.values()][-3:] == [b"099-0", b"090-0", b"0x0-0"]
    assert [value for _, value in in_order(latest)] == [b"3"] * 990 + [b"4"] * 20


def test_a_key_in_two_forms_counts_where_it_came_last() -> None:
    """Of a shape that is known: no record of these keys was ever taken by itself."""
    latest = LastValues()
    for value in (b"1", b"2"):
        take(latest, [(b"k0", value), (b"k1", value)])
    batch = encode_batch([Record(key=key, value=b"pending") for key in (b"ka", b"kb")], producer_id=7, producer_epoch=0)
    take(latest, [(b"ka", b"3"), (b"kb", b"3")])
    latest.take_pending(bytes(batch), 0, read_header(batch, 0))
    take(latest, [(b"kb", b"4"), (b"kc", b"4")])
    assert in_order(latest) == [(b"k0", b"2"), (b"k1", b"2"), (b"ka", b"3"), (b"kb", b"4"), (b"kc", b"4")]
    assert [(key, is_overtaken) for _, key, _, is_overtaken in latest.pending()] == [(b"ka", False), (b"kb", True)]


def test_large_values_that_were_overtaken_are_not_kept_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """As of members that come and go: each batch has other keys, and what takes them away is of no form."""
    monkeypatch.setattr(last_values, "MOST_FIELDS", 1_000)
    latest = LastValues()
    for number in range(300):
        keys = [b"%03d-%d" % (number, one) for one in range(2)]
        for value in (b"v" * 1_000, None):
            take(latest, [(key, value) for key in keys])
        assert sum(len(form.records) for form in latest._forms.values()) <= 1_000 * (last_values.USUAL_BYTES + 1)
    assert [value for _, value in in_order(latest)] == [None] * 600
    assert latest._fields == 0


def test_shapes_are_forgotten_where_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(last_values, "MOST_SHAPED", 100)
    latest = LastValues()
    for size in range(200):
        for value in (b"1", b"2", b"3"):
            take(latest, [(b"%03d" % size, value * size)])
            assert len(latest._shapes) <= 100
    assert in_order(latest) == [(b"%03d" % size, b"3" * size) for size in range(200)]


def test_large_records_have_forms_by_their_first_keys_as_small_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    latest, size = LastValues(), 100
    for value in (b"1", b"2"):
        for key in (b"k", b"l"):
            take(latest, [(key, value * size), (b"m", value * size)])
    monkeypatch.setattr(last_values, "keys_and_values", None)
    for key in (b"k", b"l"):
        take(latest, [(key, b"3" * size), (b"m", b"3" * size)])
    assert in_order(latest) == [(key, b"3" * size) for key in (b"k", b"l", b"m")]


@pytest.mark.parametrize("most", [1_000, 10_000])
def test_very_many_are_put_in_order_some_at_a_time(most: int) -> None:
    """Whether they lie all along the log, or most of them were written last."""
    latest = LastValues()
    keys = [b"%d" % number for number in range(10_000)]
    Random(1).shuffle(keys)
    written = list[bytes]()
    for begin in range(0, len(keys), 100):
        for _ in range(3):
            take(latest, [(b"again", b""), *((key, b"") for key in keys[begin : begin + 100])])
        written += keys[begin : begin + 100]
    for begin in range(0, most, 500):
        take(latest, [(key, b"last") for key in keys[begin : begin + 500]])
    some = list(latest.in_order())
    assert max(map(len, some)) <= last_values.AT_ONCE
    assert len([one for one in some if not one]) >= len(keys) // last_values.SORTED_AT_ONCE
    assert [key for one in some for key, _ in one if key != b"again"] == [*written[most:], *written[:most]]


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
                assert latest.take_again(bytes(bent), 0, -1) == (0, -1)
                with pytest.raises(DecodeError):
                    latest.take(bytes(bent), 0, header)
                continue
            if latest.take_again(bytes(bent), 0, -1)[0] == 0:
                latest.take(bytes(bent), 0, header)
            assert in_order(latest) == expected(
                [[(one.key, one.value) for one in iterate_records(batch, 0, header)], pairs]
            )


@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize("size", [5, 40, 60, 70, 200, 9_000])
def test_batches_are_of_one_form_wherever_they_lie(count: int, size: int) -> None:
    """By their length, how many records they have, and how they begin up to the end of the first key."""

    def laid(first: bytes, before: int, values: bytes = b"v") -> tuple[bytes, int, int]:
        pairs = [(first, values), *((b"k%d" % number, values) for number in range(1, count))]
        batch = encode_batch([Record(0, 0, key, value) for key, value in pairs])[HEADER_SIZE:]
        return b"x" * before + batch + b"behind", before, before + len(batch)

    one = laid(b"a" * size, 0)
    for name in (last_values._name_of_form, last_values._name_of_shape):
        assert name(*one, count) == name(*laid(b"a" * size, 7), count)
        assert name(*one, count) == name(*laid(b"a" * size, 0, b"w"), count), "values may be others"
        assert name(*one, count) != name(*laid(b"a" * size, 0, b"vv"), count)
        assert name(*one, count) != name(*one, count + 1)
    form = last_values._name_of_form(*one, count)[2]
    assert form.endswith(b"aaaaa")
    if size < 64:
        assert form.endswith(b"a" * size)
        assert form != last_values._name_of_form(*laid(b"a" * (size - 1) + b"b", 0), count)[2]
    shape = last_values._name_of_shape
    assert shape(*one, count) == shape(*laid(b"a" + b"b" * (size - 1), 0), count), "keys of a shape may be others"


@pytest.mark.parametrize("length", [0, 1, 4, 5, 6])
def test_what_is_too_short_to_have_a_key_is_named_as_it_is(length: int) -> None:
    data = b"\x01\x02\x03\x04\x05\x06"[:length]
    assert last_values._name_of_form(data, 0, length, 2)[:2] == (length, 2)
    assert data.startswith(last_values._name_of_form(data, 0, length, 2)[2])
