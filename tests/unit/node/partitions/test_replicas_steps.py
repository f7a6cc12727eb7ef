"""Each step by which replicas become what the metadata say, as tables in which each condition counts alone."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from tests.unit.node.on_disk import NODE_ID
from tests.unit.node.stepped_delivery import Told
from tests.unit.node.stepped_replicas import (
    ELSEWHERE,
    ID,
    OTHER_ID,
    PLACE,
    One,
    Table,
    image_of,
    log_of,
    replicas_of,
    topic_of,
)

from penstock.metadata.image import ResourceType
from penstock.metadata.records import ClearElrRecord, ConfigRecord, PartitionChangeRecord, RemoveTopicRecord
from penstock.metadata.topics import UNASSIGNED_DIRECTORY
from penstock.node.partitions import replicas as module
from penstock.node.partitions.found_logs import lies_elsewhere
from penstock.protocol.errors import ErrorCode, KafkaError

OTHER = NODE_ID + 1
NO_ROOM = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "no room")


def names(told: Told) -> list[str]:
    return [name for name, *_ in told]


async def nothing(*_: object) -> None: ...


@pytest.mark.parametrize("offline", [{}, {(ID, 3): None, (ID, 2): None}])
def test_what_may_wait_at_a_start_does(offline: dict[Any, None]) -> None:
    """The log of 0 is to be made, 1 is there already, 2 has records."""
    told, logs = Told(), {("t", index): log_of(index) for index in (1, 2, 3, 4)}
    one = replicas_of(told, Table(One(told, 1)), topic_of(*[image_of()] * 5), offline=dict(offline))
    one._directories.logs = logs
    one._may_wait = lambda log, image: log.partition != 2
    one._begin_with(ID, [0, 1, 2, 3, 4])
    assert [given for name, *given in told if name == "to do"] == [[[(ID, index)]] for index in (0, 1, 2)]
    waiting = [("untouched", ID, logs["t", index]) for index in (3, 4)]
    assert told[3:] == waiting
    assert [log.config for log in logs.values()] == ["old", "old", "log of t", "log of t"]
    assert one.offline == ({(ID, 2): None} if offline else {})
    told.clear()
    one._begin_with(OTHER_ID, [0])
    assert not told, "it was removed meanwhile"


@pytest.mark.parametrize("is_offline", [True, False])
async def test_a_start_takes_in_a_few_at_a_time(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, is_offline: bool
) -> None:
    told, slept = Told(), list[float]()

    async def sleep(s: float) -> None:
        slept.append(s)

    monkeypatch.setattr(module, "FOUND_AT_ONCE", 2)
    monkeypatch.setattr(module, "settle_twins", told.does("twins"))
    monkeypatch.setattr(module, "set_aside_strays", told.does("strays", nothing()))
    monkeypatch.setattr(module, "asyncio", SimpleNamespace(sleep=sleep))
    images = [image_of(), image_of(OTHER), image_of(OTHER, NODE_ID), image_of(), image_of(), image_of()]
    one = replicas_of(told, topic=topic_of(*images), _begin_with=told.does("begins"), settled=nothing)
    one._image.topics["no"] = topic_of(image_of(), topic_id=OTHER_ID, has_replicas=False)
    one._directories.roots.offline = {"/c": None} if is_offline else {}
    one._directories.checkpoints = SimpleNamespace(high_watermarks=lambda logs: {("t", 0): 5})
    one._groups.is_member = None
    await one.open_all()
    begins = [("begins", ID, [0, 2]), ("begins", ID, [3, 4]), ("begins", ID, [5])]
    assert [it for it in told if it[0] in ("begins", "work")] == [*begins, ("work",)]
    assert [name for name in names(told) if name in ("twins", "strays")] == ["twins", "strays"]
    assert (slept, one._high_watermarks) == ([0, 0], {})
    assert list(one.offline) == ([(ID, index) for index in (0, 2, 3, 4, 5)] if is_offline else [])
    assert bool(caplog.records) is is_offline


@pytest.mark.parametrize(
    ("is_known", "fields", "replicas", "is_held", "is_nothing"),
    [
        (True, {}, (NODE_ID,), False, True),
        (False, {}, (NODE_ID,), False, False),
        (True, {"replicas": [NODE_ID]}, (NODE_ID,), False, False),
        (True, {"directories": [PLACE]}, (NODE_ID,), False, False),
        (True, {}, (NODE_ID, OTHER), False, False),
        (True, {}, (NODE_ID,), True, False),
    ],
)
def test_which_change_wakes_nobody(
    is_known: bool, fields: dict[str, Any], replicas: tuple[int, ...], is_held: bool, is_nothing: bool
) -> None:
    told = Told()
    one = replicas_of(
        told, Table(*([One(told)] if is_held else [])), topic_of(image_of(*replicas)) if is_known else None
    )
    change = PartitionChangeRecord(topic_id=ID, partition_id=0, **fields)
    assert one._is_nothing_to_obey(change) is is_nothing
    one.on_metadata([change])
    assert told == ([] if is_nothing else [("to do", [(ID, 0)])]) + [("work",)]


@pytest.mark.parametrize(("held", "waiting", "holds"), [(0, 1, True), (1, 0, True), (1, 1, False)])
def test_what_is_held(held: int, waiting: int, holds: bool) -> None:
    one = replicas_of(Told(), Table(One(Told(), held), untouched=((ID, log_of(waiting)),)))
    assert one.holds(topic_of(), 0) is holds


def test_what_metadata_bring_about() -> None:
    told = Told()
    table = Table(One(told, 0), One(told, 1, OTHER_ID))
    table.held[1].topic = "u"
    one = replicas_of(told, table, _configure=told.does("configured"), _on_topic_removed=told.does("gone", 7))
    one.on_metadata(
        [
            ClearElrRecord(topic_name="t"),
            ClearElrRecord(),
            RemoveTopicRecord(topic_id=ID),
            RemoveTopicRecord(topic_id=OTHER_ID),
            ConfigRecord(resource_type=ResourceType.TOPIC, resource_name="t", name="a", value="b"),
            ConfigRecord(resource_type=ResourceType.BROKER, resource_name="1", name="a", value="b"),
        ]
    )
    both = [(ID, 0), (OTHER_ID, 1)]
    gone = [("gone", ID, module.DROPPED_AT_ONCE), ("gone", OTHER_ID, module.DROPPED_AT_ONCE - 7)]
    assert told == [("to do", both[:1]), ("to do", both), *gone, ("configured", "t"), ("work",)]


@pytest.mark.parametrize(("room", "dropped"), [(2, 2), (3, 3), (9, 3), (0, 0)])
def test_of_a_removed_topic_so_many_go_at_once(room: int, dropped: int) -> None:
    told = Told()
    held = [One(told, index) for index in range(3)]
    table = Table(*held, untouched=((ID, log_of(5)), (OTHER_ID, log_of(6))))
    one = replicas_of(told, table, _drop=told.does("drop"), offline={(ID, 7): None, (OTHER_ID, 7): None})
    assert one._on_topic_removed(ID, room) == dropped
    later = [[(ID, index) for index in range(dropped, 3)], [(ID, 5)], [(ID, 7)]]
    assert told == [("nameless", ID), *[("drop", it) for it in held[:dropped]], *[("to do", it) for it in later]]


def test_a_new_image_is_obeyed_as_a_whole() -> None:
    told = Told()
    table = Table(One(told, 0), One(told, 9), untouched=((ID, log_of(1)), (ID, log_of(8)), (OTHER_ID, log_of(0))))
    one = replicas_of(told, table, topic_of(image_of(), image_of()), offline={(ID, 1): None, (OTHER_ID, 7): None})
    one._drop, one._drop_untouched, one.configure_all = (told.does(name) for name in ("drop", "untouched", "configure"))
    one.on_new_image()
    gone = [("drop", table.held[1]), ("untouched", ID, 8), ("untouched", OTHER_ID, 0)]
    todo = [("to do", [(ID, 0), (ID, 1)]), ("to do", [(OTHER_ID, 7)])]
    assert told == [("nothing to do",), *gone, ("configure",), *todo, ("work",)]
    told.clear()
    one.stop()
    assert told == [("stop",), ("delivers no more", 0), ("delivers no more", 9)]


def test_what_lies_in_a_directory_that_fails_is_offline() -> None:
    told = Told()
    table = Table(
        *(One(told, index, parent=parent) for index, parent in enumerate(("/a", "/b", "/a"))),
        untouched=((ID, log_of(3, "/b")), (ID, log_of(4, "/a"))),
    )
    one = replicas_of(told, table)
    one.on_directory_failed("/a")
    failed = table.held[0], table.held[2]
    each = [
        [("removed", it), ("kept up no more", it), ("left", it), ("abandoned",), ("ends", it.index)] for it in failed
    ]
    assert told == [*each[0], *each[1], ("forgotten", ID, 4), ("settled",)]
    assert list(one.offline) == [(ID, 0), (ID, 2), (ID, 4)]


def test_segments_before_the_beginning_go() -> None:
    told = Told()
    partition = One(told)
    replicas_of(told).on_log_start_moved(partition)
    assert told == [("retired below", 1_000, 6), ("retired", partition, 3), ("begins later", 0)]


@pytest.mark.parametrize(
    ("topic", "is_held", "fails", "does"),
    [
        (None, True, False, ["drop"]),
        (None, False, False, ["drop untouched"]),
        (topic_of(image_of(), has_replicas=False), True, False, []),
        (topic_of(image_of(OTHER)), True, False, ["drop"]),
        (topic_of(image_of(OTHER)), False, False, ["drop untouched"]),
        (topic_of(image_of(OTHER, NODE_ID)), False, False, ["hold"]),
        (topic_of(image_of()), True, False, ["obey", "needs in sync"]),
        (topic_of(image_of()), True, True, ["left", "resigns", "put off"]),
    ],
)
def test_what_becomes_of_a_replica(topic: Any, is_held: bool, fails: bool, does: list[str]) -> None:
    told = Told()
    partition = One(told)

    def obey(*given: Any) -> None:
        if fails:
            raise NO_ROOM
        told.append(("obey", *given))

    one = replicas_of(told, Table(*([partition] if is_held else [])), topic, _obey=obey, offline={(ID, 0): None})
    one._drop, one._drop_untouched, one._hold = (told.does(it) for it in ("drop", "drop untouched", "hold"))
    one._put_off, one.misplaced = told.does("put off"), {(ID, 0): PLACE}
    one._obey_metadata((ID, 0))
    assert names(told) == does
    is_elsewhere = topic is not None and topic.has_replicas and NODE_ID not in topic.partitions[0].replicas
    assert [*one.offline] == [*one.misplaced] == ([] if topic is None or is_elsewhere else [(ID, 0)])


@pytest.mark.parametrize(("has_log", "is_lent"), [(False, False), (True, False), (True, True)])
async def test_what_cannot_be_obeyed_is_put_off(caplog: pytest.LogCaptureFixture, has_log: bool, is_lent: bool) -> None:
    told, log = Told(), log_of()
    log.is_lent = is_lent
    one = replicas_of(told, obey_late=told.does("again"))
    one._directories.logs = {("t", 0): log} if has_log else {}
    one._put_off("t", 0, ID, NO_ROOM)
    assert one._late.taken() == [(ID, 0)]
    assert caplog.messages == ([] if is_lent else ["t-0: no room"])
    for go_on in log.back:
        go_on()
    assert told == [], "others that wait for it come first"
    await asyncio.sleep(0)
    assert told == ([("again",)] if is_lent else [])


def test_what_was_put_off_is_tried_again() -> None:
    told = Told()
    one = replicas_of(told)
    one._late.add((ID, 0), NO_ROOM)
    module.LocalReplicas.obey_late(one)
    assert (told, one._late.taken()) == ([("to do", [(ID, 0)]), ("work",), ("settled",)], [])


@pytest.mark.parametrize("replicas", [(NODE_ID,), (OTHER,)])
def test_who_asks_for_one_that_is_missing_has_it_made(replicas: tuple[int, ...]) -> None:
    told, table = Told(), Table()

    def make(*given: object) -> None:
        table.held.append(One(told))
        told.append(given)

    one = replicas_of(told, table, _make=make)
    topic = topic_of(image_of(*replicas))
    found = one.hold_missing(topic, 0)
    is_ours = replicas == (NODE_ID,)
    assert (found is not None, told) == (is_ours, [("t", 0, ID, topic.partitions[0])] if is_ours else [])


@pytest.mark.parametrize(
    ("has_log", "may_wait", "fails", "is_offline", "does", "stays_offline"),
    [
        (True, True, False, True, ["untouched"], False),
        (True, False, False, True, ["make"], True),
        (False, True, False, True, ["make"], True),
        (True, False, True, False, ["make", "put off"], False),
        (True, False, True, True, ["make"], True),
    ],
)
def test_a_replica_is_held(
    has_log: bool, may_wait: bool, fails: bool, is_offline: bool, does: list[str], stays_offline: bool
) -> None:
    told, log = Told(), log_of()

    def make(*given: Any) -> None:
        told.append(("make", *given))
        if fails:
            raise NO_ROOM

    one = replicas_of(told, _make=make, _may_wait=lambda *_: may_wait, _put_off=told.does("put off"))
    one.offline |= {(ID, 0): None} if is_offline else {}
    one._directories.logs = {("t", 0): log} if has_log else {}
    one._hold("t", 0, ID, image_of())
    assert (names(told), bool(one.offline)) == (does, stays_offline)
    assert log.config == ("log of t" if does == ["untouched"] else "old")


@pytest.mark.parametrize(
    "changes",
    [
        {}, {"is_untouched": False}, {"topic": "__consumer_offsets"}, {"by_consensus": True}, {"failure": OSError()},
        {"replicas": (NODE_ID, OTHER)}, {"has_copy": True}, {"place": ELSEWHERE},
    ],
)  # fmt: skip
def test_who_may_wait_until_it_is_asked_for(changes: dict[str, Any]) -> None:
    log = log_of()
    log.topic, log.is_untouched = changes.get("topic", "t"), changes.get("is_untouched", True)
    log.health.failure = changes.get("failure")
    topic = topic_of(by_consensus=changes.get("by_consensus", False), name=log.topic)
    one = replicas_of(Told(), topic=topic)
    one._directories.futures = {("t", 0): None} if "has_copy" in changes else {}
    image = image_of(*changes.get("replicas", (NODE_ID,)), place=changes.get("place", PLACE))
    assert one._may_wait(log, image) is (not changes)


@pytest.mark.parametrize("by_consensus", [True, False])
@pytest.mark.parametrize("is_there", [True, False])
def test_a_replica_is_made(by_consensus: bool, is_there: bool) -> None:
    told = Told()
    partition, image = One(told), image_of()
    one = replicas_of(told, topic=topic_of(image, by_consensus=by_consensus), offline={(ID, 0): None})
    one._by_consensus = told.does("by consensus", partition if is_there else None)
    one._by_isr, one._obey = told.does("by isr", partition), told.does("obey")
    one._make("t", 0, ID, image)
    if by_consensus and not is_there:
        assert (names(told), list(one.offline)) == (["by consensus"], [(ID, 0)])
        return
    made = ["by consensus"] if by_consensus else ["by isr"]
    assert names(told) == [*made, "needs in sync", "throttled", "added", "watched", "obey", "remembered"]
    config: Any = partition.log.config
    assert (one.offline, config) == ({}, "log of t")
    assert told[1] == ("needs in sync", 0, 2)


@pytest.mark.parametrize("is_offline", [True, False])
@pytest.mark.parametrize("known", [5, None])
def test_a_replica_in_sync_begins_with_what_was_written_down(is_offline: bool, known: int | None) -> None:
    told = Told()
    one = replicas_of(told, offline={(ID, 0): None} if is_offline else {})
    one._high_watermarks |= {} if known is None else {("t", 0): known}
    made = one._by_isr("t", 0, ID, image_of(), "config")
    assert told == [("created", "t", 0, ID, "config", PLACE, not is_offline)]
    assert (made.high_watermark, one._high_watermarks, made.in_sync) == (known or 0, {}, "in sync")
    assert made.dirty is one._upkeep.dirty


@pytest.mark.parametrize(
    ("leads", "leader", "is_new_epoch", "does"),
    [
        (True, NODE_ID, True, ["led", "left"]),
        (True, NODE_ID, False, ["left"]),
        (False, OTHER, True, ["led", "followed"]),
        (False, 0, True, ["led", "followed"]),
        (False, OTHER, False, []),
        (False, -1, True, ["led", "left"]),
        (False, -1, False, ["left"]),
    ],
)
def test_whom_a_replica_follows(leads: bool, leader: int, is_new_epoch: bool, does: list[str]) -> None:
    told = Told()
    partition: Any = One(told)
    image = image_of(leader=leader)

    def obey(node_id: int, said: Any, now_ms: int) -> None:
        assert (node_id, said, now_ms) == (NODE_ID, image, 1_000)
        partition.leader, partition.leader_epoch = "leader" if leads else None, 4 + is_new_epoch

    class Obeys(One):
        def obey(self, *given: Any) -> None:
            obey(*given)

    partition.__class__ = Obeys
    one = replicas_of(told, _compare_directories=told.does("compared"))
    one._obey(partition, image)
    assert names(told) == ["compared", "delivers", *does]
    assert told[-1:] == [("followed", partition, leader)] or "followed" not in does
    other: Any = SimpleNamespace(leader_epoch=4, obey=told.does("obeys"), deliver=told.does("delivers"))
    told.clear()
    one._obey(other, image)
    assert names(told) == ["compared", "obeys", "delivers"], "its group follows"


@pytest.mark.parametrize(
    ("said", "directories", "elsewhere"),
    [
        (PLACE, 2, None),
        (ELSEWHERE, 2, PLACE),
        (ELSEWHERE, 1, PLACE),
        (UNASSIGNED_DIRECTORY, 2, PLACE),
        (UNASSIGNED_DIRECTORY, 1, None),
    ],
)
def test_where_a_log_lies_that_the_image_expects_elsewhere(said: UUID, directories: int, elsewhere: Any) -> None:
    told = Told()
    partition, image = One(told), image_of(place=said)
    one = replicas_of(told, topic=topic_of(image), misplaced={(ID, 0): ELSEWHERE, (ID, 9): ELSEWHERE})
    one._directories.roots.for_data = ["/a"] * directories
    assert lies_elsewhere(one._directories, NODE_ID, partition.log, image) == elsewhere
    one.on_moved(partition)
    assert one.misplaced == ({(ID, 9): ELSEWHERE} | ({(ID, 0): elsewhere} if elsewhere else {}))
    assert told == ([("misplaced",)] if elsewhere else [])


@pytest.mark.parametrize("owns_log", [True, False])
def test_what_is_dropped_is_nobodys_any_more(owns_log: bool) -> None:
    told = Told()
    partition: Any = SimpleNamespace(topic_id=ID, index=0, owns_log=owns_log, log="log", end=told.does("ends"))
    one = replicas_of(told, misplaced={(ID, 0): PLACE, (ID, 1): PLACE}, _delete=told.does("delete"))
    one._drop(partition)
    delete = [("delete", "log", ID)] if owns_log else []
    rest = [("kept up no more", partition), ("left", partition), ("ends",)]
    assert told == [("removed", partition), ("dropped", partition), *delete, *rest]
    assert one.misplaced == {(ID, 1): PLACE}


def test_what_nobody_has_asked_for_goes() -> None:
    told, log = Told(), log_of(1)
    one = replicas_of(told, Table(untouched=((ID, log),)), _delete=told.does("delete"))
    one._drop_untouched(ID, 0)
    assert told == []
    one._drop_untouched(ID, 1)
    assert told == [("forgotten", ID, 1), ("delete", log, ID)]


@pytest.mark.parametrize("is_ours", [True, False])
def test_a_log_is_deleted_when_no_thread_has_it(caplog: pytest.LogCaptureFixture, is_ours: bool) -> None:
    told, log = Told(), log_of()
    one = replicas_of(told)
    one._directories.claim, log.is_lent = told.does("claimed", is_ours), True
    one._delete(log, ID)
    assert told == []
    log.is_lent = False
    log.back.pop()()
    assert told == [("claimed", log, ID), *([("deleted", log, 1_000)] if is_ours else [])]
    one._directories.claim = told.fails(NO_ROOM)
    one._delete(log, ID)
    assert caplog.messages == ["no room"], "the next start tries again"


@pytest.mark.parametrize("is_known", [True, False])
def test_settings_are_obeyed(is_known: bool) -> None:
    told = Told()
    held = [One(told, index) for index in range(2)]
    table = Table(*held, untouched=((ID, log_of(5)), (OTHER_ID, log_of(6))))
    one = replicas_of(told, table, topic_of() if is_known else None)
    settings = SimpleNamespace(log=held[0].log.config, min_insync_replicas=2)
    held[1].log.config = other = "another"  # type: ignore[assignment]
    one._settings.settings = lambda config: settings
    one._configure("t")
    each = [[("to do", [(ID, it.index)]), ("throttled", it, settings)] for it in held]
    assert told == [*each[0], *each[1], ("watched", held[1], 1_000), ("delivers", 1)]
    assert (other, held[1].log.config) == ("another", settings.log)
    settings.log = "new"
    told.clear()
    one._configure("t")
    assert [log.config for _, log in table.waiting] == (["new", "old"] if is_known else ["old", "old"])
    settings.min_insync_replicas = 1
    told.clear()
    one.configure_all()
    assert ("forget settings",) in told
    assert told[-1] == ("work",)
    assert "to do" not in names(told), "so many are needed already"
