"""Values in the usual form are read as all others are; what is not quite of that form is left to who reads all."""

from collections.abc import Iterator
from random import Random
from typing import Any
from uuid import UUID

import pytest
from tests.unit.coordinator.group.consumer.bench import GROUP

from penstock.coordinator.group.consumer import usual_values
from penstock.coordinator.group.consumer.records import CODEC, CURRENT, LAYOUTS, MEMBER, TARGET
from penstock.coordinator.group.consumer.values import Current, Subscription
from penstock.coordinator.group.part_codec import PartCodec
from penstock.protocol.errors import DecodeError

PLAIN = PartCodec({key: layout.replace(usual=None) for key, layout in LAYOUTS.items()})
COUNTS = (0, 1, 1, 1, 2, 31, 32, 130)


def owned(random: Random) -> dict[UUID, dict[int, int]]:
    topics = (UUID(int=random.getrandbits(128)) for _ in range(random.choice((0, 1, 1, 2, 3, 128))))
    return {
        topic: {one: random.randrange(9) for one in random.sample(range(200), random.choice(COUNTS))}
        for topic in topics
    }


def drawn(random: Random) -> Iterator[tuple[int, Any]]:
    has = owned(random)
    yield TARGET, {topic: tuple(sorted(epochs)) for topic, epochs in has.items()}
    yield CURRENT, Current(random.choice((-2, -1, 1, 5)), 4, random.randrange(3), has, owned(random))
    names = tuple(sorted(random.sample("abcdef", random.randrange(4))))
    yield MEMBER, Subscription("i" * random.choice((0, 1, 600)), None, "c", "/10.0.0.1", names, "x.*", 300_000)


def outcome(codec: PartCodec, key: int, key_data: bytes, value: bytes) -> object:
    try:
        return codec.decoded(key, key_data, value)
    except DecodeError:
        return DecodeError


def test_they_are_read_as_all_others_are() -> None:
    for seed in range(20):
        for key, value in drawn(Random(seed)):
            key_data, data = CODEC.encoded(key, GROUP, "m1", value)
            assert data is not None
            assert CODEC.decoded(key, key_data, data) == PLAIN.decoded(key, key_data, data) == (GROUP, "m1", value)


def test_so_are_bytes_that_are_bent_cut_or_longer() -> None:
    small = {UUID(int=7): {3: 5, 1: 4}, UUID(int=8): {0: 2}}
    values = (
        (TARGET, {topic: tuple(epochs) for topic, epochs in small.items()}),
        (CURRENT, Current(5, 4, 1, small, small)),
    )
    for key, value in values:
        key_data, data = CODEC.encoded(key, GROUP, "m1", value)
        assert data is not None
        bent = [
            data[:at] + bytes((data[at] ^ 1 << bit,)) + data[at + 1 :] for at in range(len(data)) for bit in range(8)
        ]
        for one in [data[:end] for end in range(len(data))] + bent + [data + b"\0", b"\0\0\0", b"\0\0\x81\0"]:
            assert outcome(CODEC, key, key_data, one) == outcome(PLAIN, key, key_data, one), one
        for one in [key_data[:end] for end in range(2, len(key_data))] + [key_data + b"\0", key_data[:2] + b"\xff" * 9]:
            assert outcome(CODEC, key, one, data) == outcome(PLAIN, key, one, data), one


@pytest.mark.parametrize("count", [1, 31])
def test_the_usual_form_has_up_to_31_partitions_of_a_topic(count: int) -> None:
    has = {UUID(int=1): dict.fromkeys(range(count), 5)}
    target = {UUID(int=1): tuple(range(count))}
    for key, value, read in (
        (TARGET, target, usual_values.usual_target),
        (CURRENT, Current(5, 4, 0, has, {}), usual_values.usual_current),
    ):
        data = CODEC.encoded(key, GROUP, "m1", value)[1]
        assert data is not None
        assert read(data) == value


def test_members_that_say_the_same_share_it_if_it_is_small() -> None:
    def twice(said: Subscription) -> list[Any]:
        records = [CODEC.encoded(MEMBER, GROUP, name, said) for name in ("m1", "m2")]
        return [CODEC.decoded(MEMBER, *record)[2] for record in records]

    one, other = twice(Subscription(client_id="c"))
    assert one is other
    one, other = twice(Subscription(client_id="c" * 1_000))
    assert one is not other


def test_lengths_of_two_bytes_are_not_taken_for_such_of_one() -> None:
    topic, head = bytes(16) + b"\1", CODEC.encoded(CURRENT, GROUP, "m1", Current())[1]
    assert head is not None
    for key, value in (
        (TARGET, b"\0\0\x81" + 128 * (topic + b"\0") + b"\0"),
        (CURRENT, head[:-3] + b"\x81" + 128 * (topic + b"\1\0\1\1") + b"\1\0"),
    ):
        key_data, _ = CODEC.encoded(key, GROUP, "m1", None)
        assert outcome(CODEC, key, key_data, value) == outcome(PLAIN, key, key_data, value)
