"""The hash by which a group sees that its topics have changed, as Kafka reckons it."""

import struct
from collections.abc import Callable
from uuid import UUID

import pytest
from tests.unit.coordinator.group.consumer.bench import Bench, topic_id

from penstock.coordinator.group.consumer import topics, xxh3
from penstock.coordinator.group.consumer.topics import Topics
from penstock.coordinator.group.consumer.xxh3 import xxh3_64
from penstock.metadata.image import ClusterImage
from penstock.metadata.topics import TopicImage

KNOWN = {
    0: 0x2D06800538D394C2, 1: 0xC44BDFF4074EECDB, 6: 0x27B56A84CD2D7325, 12: 0xA713DAF0DFBB77E7,
    24: 0xA3FE70BF9D3510EB, 48: 0x397DA259ECBA1F11, 80: 0xBCDEFBBB2C47C90A, 195: 0xCD94217EE362EC3A,
    403: 0xCDEB804D65C6DEA4, 512: 0x617E49599013CB6B, 2048: 0xDD59E2C3A5F038E0, 2240: 0x6E73A90539CF2948,
    2367: 0xCB37AEB9E5D361ED,
}  # fmt: skip
"""From the self-test of xxHash: the hashes of so many bytes of its generated data."""


def generated(length: int) -> bytes:
    found, state = bytearray(), 2_654_435_761
    for _ in range(length):
        found.append(state >> 56)
        state = state * 11_400_714_785_074_694_797 & (1 << 64) - 1
    return bytes(found)


@pytest.mark.parametrize("length", KNOWN)
def test_xxh3_is_what_its_authors_say(length: int) -> None:
    assert xxh3_64(generated(length)) == KNOWN[length]


@pytest.mark.parametrize(
    ("length", "by"),
    [
        (16, xxh3._up_to_16), (17, xxh3._up_to_128), (128, xxh3._up_to_128), (129, xxh3._up_to_240),
        (240, xxh3._up_to_240), (241, xxh3._long),
    ],
)  # fmt: skip
def test_xxh3_has_another_way_from_each_limit_on(length: int, by: Callable[[bytes], int]) -> None:
    assert xxh3_64(generated(length)) == by(generated(length))


def text(value: str) -> bytes:
    return value.encode("utf-16-le") + struct.pack("<i", len(value))


def test_a_topic_is_hashed_with_its_id_name_partitions_and_racks() -> None:
    """Laid out as in Kafka's UtilsTest."""
    bench = Bench()
    number = UUID(int=(7 << 64) + 9)
    bench.grow("foo", 2, number=number, replicas=(2, 1))
    bench.rack(1, "rack1")
    bench.rack(2, "rack0")
    rack = struct.pack("<i", 5)
    racks = rack + text("rack0") + rack + text("rack1")
    described = b"\0" + struct.pack("<qq", 7, 9) + text("foo") + struct.pack("<ii", 2, 0) + racks
    described += struct.pack("<i", 1) + racks
    found = Topics(bench.image).hash_of(["foo"])
    assert found & (1 << 64) - 1 == xxh3_64(struct.pack("<Q", xxh3_64(described)))


def test_no_topics_have_the_hash_0_and_missing_ones_do_not_count() -> None:
    bench = Bench(a=1)
    found = Topics(bench.image)
    assert found.hash_of([]) == found.hash_of(["nowhere"]) == 0
    assert found.hash_of(["a", "nowhere"]) == found.hash_of(["a"]) != 0


def test_whatever_changes_changes_the_hash() -> None:
    bench = Bench(a=1)
    found = [Topics(bench.image).hash_of(["a"])]
    bench.grow("a", 1)
    found.append(Topics(bench.image).hash_of(["a"]))
    bench.rack(1, "here")
    found.append(Topics(bench.image).hash_of(["a"]))
    bench.remove("a")
    bench.grow("a", 2, number=UUID(int=5))
    found.append(Topics(bench.image).hash_of(["a"]))
    assert len(set(found)) == 4


def test_only_topics_that_have_changed_are_hashed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(a=1, b=1, c=1)
    names = ["a", "b", "c"]
    followed = Topics(bench.image)
    followed.hash_of(names)
    hashed: list[str] = []
    described = topics._described

    def noted(topic: TopicImage, image: ClusterImage) -> bytes:
        hashed.append(topic.name)
        return described(topic, image)

    monkeypatch.setattr(topics, "_described", noted)
    bench.grow("b", 1)
    followed.changed([topic_id("b")], new_topics=False)
    found = followed.hash_of(names)
    assert hashed == ["b"]
    assert found == Topics(bench.image).hash_of(names)
    hashed.clear()
    followed.changed(None, new_topics=False)
    followed.hash_of(names)
    assert hashed == names
