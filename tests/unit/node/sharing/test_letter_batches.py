"""What dead letters hold: what is said of a record, and a copy of it as far as there is one and it fits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.unit.node.on_disk import topic_records
from tests.unit.node.stopped_node import config

from penstock.metadata.image import ClusterImage
from penstock.node.sharing import letter_batches
from penstock.node.sharing.dead_letter_topics import create, why_not
from penstock.node.sharing.letter_batches import MOST_UNPACKED, Letter, Origin, letter_batch, records_in
from penstock.protocol.batch import HEADER_SIZE
from penstock.protocol.compression import Compression
from penstock.protocol.errors import KafkaError
from penstock.protocol.messages.create_topics import CreatableTopicResult, CreateTopicsResponse
from penstock.protocol.records import Record, decode_batch, encode_batch, iterate_records
from penstock.sharing.dead_letters import Cause, DeadLetter
from penstock.sharing.failures import Failure, Failures, How

ORIGIN = Origin("orders", 3, "g", 1_000_000)
LATE = Failures(Failure(5, How.LOCK_RAN_OUT), Failure(9, How.RELEASED, "busy"))
ABOUT = DeadLetter(7, 9, 5, Cause.DELIVERED_TOO_OFTEN, LATE)
LETTERS = [Letter(offset, ABOUT) for offset in (7, 8, 9)]


def packed(sources: dict[int, Record], max_bytes: int = 10_000) -> list[Record]:
    batch, count = letter_batch(LETTERS, sources, ORIGIN, 77, max_bytes, may_repeat=False)
    records = decode_batch(batch)
    assert len(records) == count
    assert len(batch) <= max_bytes
    return records


def test_how_the_first_delivery_failed_and_what_was_said_last() -> None:
    headers = dict(packed({})[0].headers)
    assert headers["__dlq.errors.message"] == b"Offset delivery count exceeded the threshold."
    assert headers["penstock-dlq-first-failure"] == b"lock ran out"
    assert headers["penstock-dlq-first-failure-at"] == b"1000005"
    assert headers["penstock-dlq-reason"] == b"busy"
    assert "penstock-dlq-may-repeat" not in headers


def test_a_copy_has_its_own_headers_but_not_those_of_a_letter_that_it_was() -> None:
    source = Record(key=b"k", value=b"v", headers=[("trace", b"1"), ("__dlq.errors.offset", b"9"), ("trace", None)])
    letter = packed({7: source})[0]
    assert (letter.key, letter.value, letter.timestamp_ms) == (b"k", b"v", 77)
    assert letter.headers[:2] == [("trace", b"1"), ("trace", None)]
    assert [value for name, value in letter.headers if name == "__dlq.errors.offset"] == [b"7"]


@pytest.mark.parametrize("order", ["deliver-at", "delay", "delay-id", "delay-cancel", "delay-now"])
def test_a_copy_says_nothing_that_a_topic_which_delays_records_would_obey(order: str) -> None:
    source = Record(value=b"v", headers=[(f"penstock-{order}", b"x"), ("penstock-delay-offset", b"3")])
    assert packed({7: source})[0].headers[0] == ("penstock-delay-offset", b"3")


def test_a_batch_has_no_more_than_the_topic_takes() -> None:
    sources = {offset: Record(value=b"x" * 4_000) for offset in (7, 8, 9)}
    assert [len(it.value or b"") for it in packed(sources)] == [4_000, 4_000]


def test_a_copy_that_does_not_fit_is_left_out() -> None:
    sources = {7: Record(value=b"x" * 9_900), 8: Record(value=b"y")}
    assert [it.value for it in packed(sources)] == [None, b"y", None]


@pytest.mark.parametrize("codec", list(Compression))
def test_records_are_found_in_batches_of_any_codec(codec: Compression) -> None:
    some = encode_batch([Record(value=b"a"), Record(value=b"b")], base_offset=6, compression=codec)
    marker = encode_batch([Record(key=b"", value=b"")], base_offset=8, is_control=True)
    broken = encode_batch([Record(value=b"c")], base_offset=9, compression=codec)
    broken[-3:] = b"\xff\xff\xff"
    found, last = records_in(bytes(some + marker + broken), [7, 8, 9])
    assert {offset: it.value for offset, it in found.items()} == {7: b"b"}
    assert last == 9


def test_what_is_too_large_unpacked_is_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    bomb = encode_batch([Record(value=b"0" * 1_000_000)], base_offset=7, compression=Compression.GZIP)
    assert list(records_in(bytes(bomb), [7])[0]) == [7]
    monkeypatch.setattr("penstock.node.sharing.letter_batches.MOST_UNPACKED", 100_000)
    assert records_in(bytes(bomb), [7]) == ({}, 7)


def test_very_many_small_batches_that_unpack_to_very_much_are_not_unpacked_together() -> None:
    large = Record(value=b"0" * (MOST_UNPACKED // 3))
    log = b"".join(encode_batch([large], base_offset=offset, compression=Compression.ZSTD) for offset in range(20))
    assert len(log) < 100_000
    found, last = records_in(log, range(20))
    assert (list(found), last) == ([0, 1, 2], 2)
    assert list(records_in(log, [7])[0]) == [7], "what no letter is about is not unpacked"


def test_what_members_said_keeps_no_letter_from_its_topic() -> None:
    said = Failure(5, How.REJECTED, "\0" * 1_000)
    about = ABOUT.replace(failures=Failures(said, said), cause=Cause.REJECTED)
    batch, count = letter_batch([Letter(7, about)], {}, ORIGIN, 77, 1_000, may_repeat=False)
    ((_, where),) = [(name, value) for name, value in decode_batch(batch)[0].headers if name == "__dlq.errors.offset"]
    assert (where, count, len(batch) <= 1_000) == (b"7", 1, True)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "has no topic of dead letters any more"),
        ("__consumer_offsets", "the cluster's own"),
        ("__own", "the cluster's own"),
        ("dlq.source", "would get its own records"),
        ("orders", "does not begin with 'dlq.'"),
        ("dlq.off", "is not for dead letters"),
        ("dlq.missing", "there is no topic dlq.missing: create it with errors.deadletterqueue.group.enable=true"),
        ("dlq.on", None),
    ],
)
def test_which_topic_takes_them(tmp_path: Path, name: str, reason: str | None) -> None:
    image = ClusterImage()
    for record in (
        *topic_records("dlq.off"),
        *topic_records("dlq.on", errors_deadletterqueue_group_enable="TRUE"),
    ):
        image.apply(record)
    found = why_not(name, "dlq.source", image, config(tmp_path))
    assert (found is None) if reason is None else reason in (found or "")


def test_names_may_begin_as_the_cluster_says_and_topics_may_be_made(tmp_path: Path) -> None:
    made = {"errors.deadletterqueue.topic.name.prefix": "", "errors.deadletterqueue.auto.create.topics.enable": "true"}
    assert why_not("anything", "orders", ClusterImage(), config(tmp_path, **made)) is None


class Controller:
    def __init__(self, error: int) -> None:
        self.error = error
        self.made: list[Any] = []

    async def done(self, job: Any) -> CreateTopicsResponse:
        self.made += job.request.topics
        return CreateTopicsResponse(topics=[CreatableTopicResult(name="dlq.x", error_code=self.error)])


@pytest.mark.parametrize("error", [0, 36])
async def test_a_topic_is_made_for_letters_whose_own_time_counts(error: int) -> None:
    controller = Controller(error)
    await create("dlq.x", controller)  # type: ignore[arg-type]
    (topic,) = controller.made
    assert (topic.name, topic.num_partitions, topic.replication_factor) == ("dlq.x", -1, -1), "as the cluster has it"
    configs = {it.name: it.value for it in topic.configs}
    assert configs == {"errors.deadletterqueue.group.enable": "true", "message.timestamp.type": "CreateTime"}
    with pytest.raises(KafkaError):
        await create("dlq.x", Controller(17))  # type: ignore[arg-type]


def test_a_batch_without_any_of_the_records_is_not_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    unpacked: list[int] = []

    def noted(data: bytes, position: int, *rest: Any, **options: Any) -> Any:
        unpacked.append(position)
        return iterate_records(data, position, *rest, **options)

    monkeypatch.setattr(letter_batches, "iterate_records", noted)
    batches = [encode_batch([Record(value=b"v"), Record(value=b"w")], base_offset=offset) for offset in (0, 2, 4)]
    found, last = records_in(b"".join(batches), [3, 9])
    assert ([*found], last, unpacked) == ([3], 5, [len(batches[0])])


@pytest.mark.parametrize(("beside", "count"), [(-1, 1), (0, 2), (1, 2)])
def test_a_batch_takes_what_just_fits(beside: int, count: int) -> None:
    (one,) = {letter_batches._size(record) for record in packed({})}
    most = HEADER_SIZE + 2 * one + beside
    assert letter_batch(LETTERS, {}, ORIGIN, 77, most, may_repeat=False)[1] == count
