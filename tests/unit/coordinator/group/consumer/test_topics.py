"""The hash by which a group sees that its topics have changed, as Kafka reckons it."""

import struct
from collections.abc import Callable, Generator
from uuid import UUID

import pytest
from tests.unit.coordinator.group.consumer.bench import Bench, topic_id

from penstock.coordinator.group.consumer import topic_hashes, xxh3
from penstock.coordinator.group.consumer.topic_hashes import AT_ONCE, TOGETHER_AT_ONCE
from penstock.coordinator.group.consumer.topics import Topics
from penstock.coordinator.group.consumer.xxh3 import xxh3_64
from penstock.coordinator.timers import Timers
from penstock.metadata.image import ClusterImage
from penstock.metadata.topics import TopicImage

KNOWN = {
    0: 0x2D06800538D394C2, 1: 0xC44BDFF4074EECDB, 6: 0x27B56A84CD2D7325, 12: 0xA713DAF0DFBB77E7,
    24: 0xA3FE70BF9D3510EB, 48: 0x397DA259ECBA1F11, 80: 0xBCDEFBBB2C47C90A, 195: 0xCD94217EE362EC3A,
    403: 0xCDEB804D65C6DEA4, 512: 0x617E49599013CB6B, 2048: 0xDD59E2C3A5F038E0, 2240: 0x6E73A90539CF2948,
    2367: 0xCB37AEB9E5D361ED,
}  # fmt: skip
"""From the self-test of xxHash: the hashes of so many bytes of its generated data."""


UNKNOWN = 5


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


@pytest.mark.parametrize("length", KNOWN)
def test_xxh3_is_the_same_in_steps(length: int) -> None:
    steps = xxh3.xxh3_64_in_steps(generated(length))
    assert drained(steps) == (length // 2_049, KNOWN[length])


def drained(steps: Generator[None, None, int]) -> tuple[int, int]:
    """How many steps there were, and what came of them."""
    count = 0
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            return count, stop.value
        count += 1


def topics_of(bench: Bench) -> Topics:
    return Topics(bench.image, Timers())


def hash_of(bench: Bench, *names: str) -> int:
    return topics_of(bench).hash_of(names, UNKNOWN)


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
    found = hash_of(bench, "foo")
    assert found & (1 << 64) - 1 == xxh3_64(struct.pack("<Q", xxh3_64(described)))


def test_no_topics_have_the_hash_0_and_missing_ones_do_not_count() -> None:
    bench = Bench(a=1)
    assert hash_of(bench) == hash_of(bench, "nowhere") == 0
    assert hash_of(bench, "a", "nowhere") == hash_of(bench, "a") not in (0, UNKNOWN)


def test_whatever_changes_changes_the_hash() -> None:
    bench = Bench(a=1)
    found = [hash_of(bench, "a")]
    bench.grow("a", 1)
    found.append(hash_of(bench, "a"))
    bench.rack(1, "here")
    found.append(hash_of(bench, "a"))
    bench.remove("a")
    bench.grow("a", 2, number=UUID(int=5))
    found.append(hash_of(bench, "a"))
    assert len(set(found)) == 4


def test_only_topics_that_have_changed_are_hashed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(a=1, b=1, c=1)
    names = ["a", "b", "c"]
    followed = topics_of(bench)
    followed.hash_of(names, UNKNOWN)
    hashed: list[str] = []
    described = topic_hashes._described

    def noted(topic: TopicImage, image: ClusterImage) -> Generator[None, None, bytes]:
        hashed.append(topic.name)
        return described(topic, image)

    monkeypatch.setattr(topic_hashes, "_described", noted)
    bench.grow("b", 1)
    followed.changed([topic_id("b")], new_topics=False)
    found = followed.hash_of(names, UNKNOWN)
    assert hashed == ["b"]
    assert found == hash_of(bench, *names)
    hashed.clear()
    followed.changed(None, new_topics=False)
    followed.hash_of(names, UNKNOWN)
    assert hashed == names


class Hashing:
    """Of two topics that are too many to be hashed at once."""

    def __init__(self) -> None:
        self.bench = Bench(a=AT_ONCE, b=1)
        self.timers = Timers()
        self.topics = Topics(self.bench.image, self.timers)
        self.now_ms = 0

    def hash_of(self, *names: str) -> int:
        return self.topics.hash_of(names, UNKNOWN)

    def end(self) -> int:
        """In how many turns all is hashed that is wanted."""
        turns = 0
        while self.timers.next_ms() is not None:
            self.timers.fire_due(self.now_ms)
            self.now_ms, turns = self.now_ms + 1, turns + 1
        return turns

    def expected(self, *names: str) -> int:
        """As it comes of topics that are hashed one by one, a large one in turns."""
        other = Hashing()
        other.topics = Topics(self.bench.image, other.timers)
        for name in names:
            other.hash_of(name)
            other.end()
        return other.hash_of(*names)


def test_very_many_topics_are_hashed_some_at_a_time_and_there_is_another_version_then() -> None:
    hashing = Hashing()
    before = hashing.topics.version
    assert hashing.hash_of("a", "b") == UNKNOWN
    assert hashing.hash_of("a", "b") == UNKNOWN
    assert hashing.topics.version == before
    hashing.end()
    assert hashing.topics.version == before + 1
    assert hashing.hash_of("a", "b") == hashing.expected("a", "b") != UNKNOWN
    assert hashing.end() == 0, "all is known"


def test_a_large_topic_is_hashed_in_several_turns() -> None:
    hashing = Hashing()
    hashing.bench.grow("a", 20 * AT_ONCE)
    assert hashing.hash_of("a") == UNKNOWN
    assert hashing.end() > 2
    assert hashing.hash_of("a") == hashing.expected("a") != UNKNOWN


@pytest.mark.parametrize("changed", [None, "a", "b"])
def test_what_changes_while_it_is_hashed_is_hashed_anew(changed: str | None) -> None:
    hashing = Hashing()
    bench = hashing.bench
    bench.grow("a", 20 * AT_ONCE)
    before = hashing.hash_of("a", "b")
    hashing.timers.fire_due(0)
    bench.rack(1, "here")
    if changed is not None:
        bench.grow(changed, 1)
    hashing.topics.changed(None, new_topics=False)
    hashing.end()
    assert hashing.hash_of("a", "b") == hashing.expected("a", "b") != before


def test_a_topic_that_is_gone_before_it_is_hashed_does_not_count() -> None:
    hashing = Hashing()
    assert hashing.hash_of("a", "b") == UNKNOWN
    hashing.bench.remove("a")
    hashing.topics.changed([topic_id("a")], new_topics=False)
    hashing.end()
    assert hashing.hash_of("a", "b") == hashing.hash_of("b") == hashing.expected("b")


def test_only_if_the_topic_that_is_being_hashed_changes_is_it_hashed_anew() -> None:
    """Whoever changes before its turn is not hashed yet, and whoever was hashed is hashed when it is asked for."""
    hashes = topic_hashes.TopicHashes(Bench(a=20 * AT_ONCE, b=1, c=1).image)
    assert list(hashes._wanted) == []
    topics = [hashes._image.topics[name] for name in ("a", "b")]
    assert hashes.of(topics) is None
    assert list(hashes._wanted) == [topic_id("a"), topic_id("b")]
    assert hashes.make_some()
    for changed, has_changed in [(["c"], False), ([], False), (["b"], False), (["b", "a"], True), (["c"], True)]:
        hashes.changed([topic_id(name) for name in changed])
        assert hashes._has_changed is has_changed
    while hashes.make_some():
        pass
    assert not hashes._has_changed
    hashes.changed([topic_id("a")])
    assert not hashes._has_changed, "nothing is being hashed"
    hashes.changed(None)
    assert hashes._has_changed


@pytest.mark.parametrize(("partitions", "is_at_once"), [(AT_ONCE - 1, True), (AT_ONCE, False)])
def test_so_many_topics_and_partitions_are_hashed_at_once(partitions: int, is_at_once: bool) -> None:
    hashes = topic_hashes.TopicHashes(Bench(a=partitions).image)
    assert (hashes.of([hashes._image.topics["a"]]) is not None) is is_at_once


def some_topics(count: int) -> tuple[topic_hashes.TopicHashes, list[TopicImage]]:
    """All of them are known one by one."""
    image = ClusterImage()
    topics = [TopicImage(f"t{number}", UUID(int=number)) for number in range(count)]
    hashes = topic_hashes.TopicHashes(image)
    for topic in topics:
        assert hashes.of([topic]) is not None
    return hashes, topics


def at_once(hashes: topic_hashes.TopicHashes, topics: list[TopicImage]) -> int:
    joined = b"".join(hashes._hashes[topic.topic_id.int] for topic in topics)
    signed: int = struct.unpack("<q", struct.pack("<Q", xxh3_64(joined)))[0]
    return signed


def end(hashes: topic_hashes.TopicHashes) -> int:
    turns = 1
    while hashes.make_some():
        turns += 1
    return turns


def test_one_hash_of_very_many_known_topics_is_made_some_at_a_time_and_kept() -> None:
    hashes, topics = some_topics(20_000)
    assert hashes.of(topics) is None
    assert hashes.of(topics[:-1]) is None
    assert end(hashes) > 2 * 20_000 * 8 // (topic_hashes.STEPS_AT_ONCE * 2_048)
    assert hashes.of(topics) == at_once(hashes, topics)
    assert hashes.of(topics[:-1]) == at_once(hashes, topics[:-1])
    hashes.changed([topics[0].topic_id])
    assert hashes.of(topics) is not None, "it is as it was"


@pytest.mark.parametrize(("count", "is_at_once"), [(TOGETHER_AT_ONCE, True), (TOGETHER_AT_ONCE + 1, False)])
def test_the_hash_of_not_so_many_is_made_at_once(count: int, is_at_once: bool) -> None:
    hashes, topics = some_topics(count)
    assert hashes.of(topics) == (at_once(hashes, topics) if is_at_once else None)


def test_of_hashes_of_many_topics_some_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_hashes, "TOGETHER_KEPT", 2)
    hashes, topics = some_topics(TOGETHER_AT_ONCE + 3)
    for begin in (0, 1, 0, 2):
        if hashes.of(topics[begin:]) is None:
            end(hashes)
    assert [hashes.of(topics[begin:]) is None for begin in (0, 1, 2)] == [False, True, False]
