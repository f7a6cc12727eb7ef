"""The decisions of one fetch by themselves, each condition alone: what is news, who may read how far, who is near."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.node.api import fetching
from penstock.node.api.fetching import FetchReader, _divergence, _is_news
from penstock.node.serving.access import ALLOW_ALL, CLUSTER_ACTION, READ_TOPIC
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.replication.read_replica import NO_REPLICA, RACK_AWARE

NEWS: dict[str, Any] = {
    "records": b"",
    "error_code": 0,
    "diverging_epoch": None,
    "preferred_replica": NO_REPLICA,
    "high_watermark": 5,
    "log_start_offset": 2,
}


@pytest.mark.parametrize(
    ("changes", "is_news"),
    [
        ({}, False),
        ({"records": b"a"}, True),
        ({"error_code": 3}, True),
        ({"diverging_epoch": (0, 0)}, True),
        ({"preferred_replica": 0}, True),
        ({"high_watermark": 6}, True),
        ({"high_watermark": 4}, True),
        ({"log_start_offset": 3}, True),
    ],
)
def test_what_is_news(changes: dict[str, Any], is_news: bool) -> None:
    wanted = SimpleNamespace(told_high_watermark=5, told_log_start_offset=2)
    result = SimpleNamespace(**NEWS | changes)
    assert _is_news(cast("Any", wanted), cast("Any", result)) is is_news
    assert wanted.told_high_watermark == (-1 if result.error_code else result.high_watermark)
    assert wanted.told_log_start_offset == result.log_start_offset
    assert _is_news(cast("Any", wanted), cast("Any", result)) is bool(
        {"records", "error_code", "diverging_epoch", "preferred_replica"} & changes.keys()
    )


def reader(
    replica_id: int = -1,
    *,
    selector: str = "",
    is_incremental: bool = False,
    max_bytes: int = 100,
    most_fetched: int | None = None,
    isolation: int = 0,
    version: int = 17,
    authorizer: object = ALLOW_ALL,
    **broker: Any,
) -> FetchReader:
    config = SimpleNamespace(replica_selector_class=selector, fetch_max_bytes=80)
    charge = None if most_fetched is None else SimpleNamespace(most_fetched=most_fetched)
    request = SimpleNamespace(
        replica_id=replica_id,
        isolation_level=isolation,
        max_bytes=max_bytes,
        rack_id="r",
        min_bytes=10,
        max_wait_ms=500,
        replica_epoch=6,
    )
    context = SimpleNamespace(
        authorizer=authorizer,
        charge=charge,
        api_version=version,
        session=SimpleNamespace(listener="L"),
        allows=lambda right, name=None: (right, name) in ((READ_TOPIC, "t"), (CLUSTER_ACTION, None)),
    )
    lease = SimpleNamespace(is_over=broker.pop("lease_is_over", False))
    node = SimpleNamespace(config=config, lease=lease, now_ms=lambda: 9, **broker)
    plan = SimpleNamespace(is_incremental=is_incremental)
    return FetchReader(cast("Any", node), cast("Any", context), cast("Any", request), cast("Any", plan))


@pytest.mark.parametrize(
    ("how", "flags"),
    [
        ({}, ("", False, False, False, False, None)),
        ({"selector": RACK_AWARE}, ("r", False, False, False, False, None)),
        ({"selector": RACK_AWARE, "replica_id": 3}, ("", False, False, False, False, None)),
        ({"is_incremental": True}, ("", True, False, False, False, None)),
        ({"is_incremental": True, "selector": RACK_AWARE}, ("r", False, False, False, False, None)),
        ({"is_incremental": True, "replica_id": 0}, ("", True, True, False, False, None)),
        ({"is_incremental": True, "replica_id": 3, "selector": RACK_AWARE}, ("", True, True, True, False, None)),
        ({"isolation": 1}, ("", False, False, False, True, ())),
    ],
)
def test_what_a_request_is(how: dict[str, Any], flags: tuple[Any, ...]) -> None:
    it = reader(**how)
    assert flags == (
        it._rack,
        it._skips_quiet,
        it._tells_starts,
        it._tells_watermarks,
        it._reads_committed,
        it._none_aborted,
    )
    assert it._is_judged is False
    assert reader(authorizer=object())._is_judged is True


@pytest.mark.parametrize(
    ("asked", "quota", "most"), [(100, None, 80), (50, None, 50), (100, 60, 60), (50, 60, 50), (100, 2**63 - 1, 80)]
)
def test_how_much_it_may_have(asked: int, quota: int | None, most: int) -> None:
    assert reader(max_bytes=asked, most_fetched=quota)._max_bytes == most


@pytest.mark.parametrize(
    ("total_bytes", "is_urgent", "is_enough"), [(9, False, False), (10, False, True), (0, True, True)]
)
def test_when_it_is_enough(total_bytes: int, is_urgent: bool, is_enough: bool) -> None:
    it = reader()
    it.total_bytes, it.is_urgent = total_bytes, is_urgent
    assert it.is_enough is is_enough


@pytest.mark.parametrize(("replica_id", "wait_s"), [(-1, 0.5), (0, 0.2), (3, 0.2)])
def test_how_long_it_may_wait(replica_id: int, wait_s: float) -> None:
    did: list[tuple[Any, ...]] = []
    awaited = SimpleNamespace(
        wait_ms=lambda replica, longest_ms: 200 if (replica, longest_ms) == (replica_id, 500) else 0,
        wait=lambda *of: did.append(("waits", *of)),
        over=lambda *of: did.append(("over", *of)),
    )
    it = reader(replica_id, replicas=SimpleNamespace(awaited=awaited))
    it.waits(cast("Any", "poll"))
    it.waits_no_longer(cast("Any", "poll"))
    assert it.longest_wait_s == wait_s
    assert did == ([] if replica_id < 0 else [("waits", replica_id, "poll"), ("over", replica_id, "poll")])


@pytest.mark.parametrize(
    ("replica_id", "topic", "key", "may"),
    [
        (-1, "t", "u", True),
        (-1, "u", "t", False),
        (-1, None, "t", True),
        (-1, None, "u", False),
        (-1, None, "none", True),
        (0, "u", "u", True),
        (3, None, "u", True),
    ],
)
def test_who_may_read(replica_id: int, topic: str | None, key: str, may: bool) -> None:
    it = reader(replica_id, topic_name=lambda name: None if name == "none" else name)
    partition = None if topic is None else SimpleNamespace(topic=topic)
    wanted = SimpleNamespace(key=(key, 0))
    if may:
        it._check_right(cast("Any", wanted), cast("Any", partition))
    else:
        with pytest.raises(KafkaError) as refused:
            it._check_right(cast("Any", wanted), cast("Any", partition))
        assert refused.value.code == ErrorCode.TOPIC_AUTHORIZATION_FAILED


ROLE = object()


@pytest.mark.parametrize(
    ("replica_id", "role", "isr", "is_late", "is_known"),
    [
        (-1, ROLE, None, False, True),
        (-1, None, None, False, False),
        (-1, object(), None, False, False),
        (-1, ROLE, None, True, False),
        (3, ROLE, (1, 3), False, True),
        (3, ROLE, (1, 2), False, False),
        (3, ROLE, None, False, False),
        (0, ROLE, (0,), False, True),
    ],
)
def test_what_is_known_already(
    replica_id: int, role: object | None, isr: tuple[int, ...] | None, is_late: bool, is_known: bool
) -> None:
    it = reader(replica_id)
    it._is_late = is_late
    leader = None if isr is None else SimpleNamespace(isr=isr)
    partition = SimpleNamespace(role=ROLE, leader=leader)
    assert it._is_known(cast("Any", SimpleNamespace(role=role)), cast("Any", partition)) is is_known


@pytest.mark.parametrize(
    ("is_known", "has_quota", "is_exceeded", "is_awaited", "leads", "upper", "notes"),
    [
        (True, False, True, False, True, 90, False),
        (False, False, True, False, True, 90, True),
        (True, True, False, False, True, 90, False),
        (True, True, True, True, True, 90, False),
        (True, True, True, False, True, 7, False),
        (False, True, True, True, False, 7, True),
    ],
)
def test_how_far_a_follower_may_read(
    is_known: bool, has_quota: bool, is_exceeded: bool, is_awaited: bool, leads: bool, upper: int, notes: bool
) -> None:
    noted: list[tuple[int, ...]] = []
    partition = SimpleNamespace(
        on_fetched=lambda *of: noted.append(of),
        leader_quota=SimpleNamespace(is_exceeded=lambda now_ms: is_exceeded) if has_quota else None,
        leader=SimpleNamespace(waits_for=lambda replica: is_awaited and replica == 3) if leads else None,
        log=SimpleNamespace(log_end_offset=90),
        log_start_offset=7,
    )
    request = SimpleNamespace(fetch_offset=50, log_start_offset=4)
    assert reader(3)._follow(cast("Any", partition), cast("Any", request), is_known) == upper
    assert noted == ([(3, 50, 6, 9, 4)] if notes else [])


@pytest.mark.parametrize(
    ("how", "leads", "asked"),
    [
        ({"replica_id": 3}, True, ["follower 3 8"]),
        ({"replica_id": 0, "lease_is_over": True}, True, ["follower 0 8"]),
        ({}, True, ["replica 8"]),
        ({"version": 10}, True, ["leader 8"]),
        ({"version": 11}, True, ["replica 8"]),
        ({"replica_id": -2}, True, ["any 8"]),
        ({"lease_is_over": True}, True, ["lease", "replica 8"]),
        ({"lease_is_over": True}, False, ["lease", "replica 8"]),
        ({"lease_is_over": True, "authorizer": object()}, True, ["lease", "replica 8"]),
        ({"lease_is_over": True, "authorizer": object()}, False, ["lease", "refused"]),
    ],
)
def test_what_is_asked_of_a_partition(how: dict[str, Any], leads: bool, asked: list[str]) -> None:
    did: list[str] = []
    it = reader(**how, check_lease=lambda partition: did.append("lease"))
    partition = SimpleNamespace(
        leader=object() if leads else None,
        check_follower=lambda replica, epoch: did.append(f"follower {replica} {epoch}"),
        check_any=lambda epoch: did.append(f"any {epoch}"),
        check_replica=lambda epoch: did.append(f"replica {epoch}"),
        check_leader=lambda epoch: did.append(f"leader {epoch}"),
    )
    try:
        it._check(cast("Any", partition), 8)
    except KafkaError as error:
        did.append("refused")
        assert error.code == ErrorCode.NOT_LEADER_OR_FOLLOWER  # noqa: PT017
    assert did == asked


@pytest.mark.parametrize("wrong", [None, "rack", "fenced", "endpoint", "unknown", "leader"])
def test_which_replica_is_near(monkeypatch: pytest.MonkeyPatch, wrong: str | None) -> None:
    broker = SimpleNamespace(
        rack="other" if wrong == "rack" else "r",
        fenced=wrong == "fenced",
        endpoint=lambda listener: None if wrong == "endpoint" or listener != "L" else "there",
    )
    brokers = {} if wrong == "unknown" else {4: broker}
    it = reader(selector=RACK_AWARE, image=SimpleNamespace(brokers=brokers))
    monkeypatch.setattr(fetching, "nearest_replica", lambda leader, offset, is_near: 4 if is_near(4) else NO_REPLICA)
    partition = SimpleNamespace(leader=None if wrong == "leader" else object())
    assert it._nearest_replica(cast("Any", partition), 5) == (4 if wrong is None else NO_REPLICA)


@pytest.mark.parametrize(
    ("latest_epoch", "end", "of_epoch", "asked", "leads", "found"),
    [
        (3, 10, None, (3, 10), True, None),
        (3, 10, (3, 10), (3, 11), True, (3, 10)),
        (3, 10, (2, 6), (2, 6), True, None),
        (3, 10, (2, 6), (2, 7), True, (2, 6)),
        (3, 10, (1, 6), (2, 5), True, (1, 6)),
        (3, 10, (2, 6), (2, 7), False, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (3, 10, (-1, -1), (2, 7), True, ErrorCode.OFFSET_OUT_OF_RANGE),
        (3, 10, (1, 0), (2, 7), True, (1, 0)),
    ],
)
def test_where_logs_part(
    latest_epoch: int, end: int, of_epoch: Any, asked: tuple[int, int], leads: bool, found: Any
) -> None:
    partition = SimpleNamespace(
        log=SimpleNamespace(latest_epoch=latest_epoch, log_end_offset=end),
        end_offset_for_epoch=lambda epoch: of_epoch if epoch == asked[0] else None,
        leader=object() if leads else None,
    )
    if isinstance(found, ErrorCode):
        with pytest.raises(KafkaError) as refused:
            _divergence(cast("Any", partition), *asked)
        assert refused.value.code == found
    else:
        assert _divergence(cast("Any", partition), *asked) == found
