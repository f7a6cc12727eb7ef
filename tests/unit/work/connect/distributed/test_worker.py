"""A worker that shares connectors, as it is made of its settings, and what it does when the leader changes."""

import asyncio
import os
from types import SimpleNamespace
from typing import Any

import pytest
from tests.stand_in import stand_in

from penstock.work.connect.distributed import worker as module
from penstock.work.connect.distributed.claimed_log import ClaimedLog
from penstock.work.connect.distributed.topic_log import TopicLog
from penstock.work.connect.distributed.worker import RETRY_S, DistributedWorker
from penstock.work.connect.runtime.logs import NotLeadingError
from penstock.work.connect.runtime.needs import machines_memory_mb
from penstock.work.connect.runtime.records import TaskId


def worker(**settings: str) -> DistributedWorker:
    config = {
        "bootstrap.servers": "127.0.0.1:1",
        "group.id": "g",
        "key.converter": "StringConverter",
        "value.converter": "StringConverter",
        "session.timeout.ms": "7000",
        "heartbeat.interval.ms": "2000",
        "rebalance.timeout.ms": "8000",
        "scheduled.rebalance.max.delay.ms": "9000",
        **{f"{store}.storage.topic": f"{store}s" for store in ("config", "offset", "status")},
    }
    return DistributedWorker(config | {key.replace("_", "."): value for key, value in settings.items()}, "w:1")


async def test_its_logs_and_its_group_are_as_the_settings_say() -> None:
    one = worker()
    logs: dict[str, Any] = {"configs": one.config_log, "statuses": one._status_log, "offsets": one.offsets.log}
    assert {name: (log.storage.topic, log._name) for name, log in logs.items()} == {
        "configs": ("configs", "g-w:1-configs"),
        "statuses": ("statuss", "g-w:1-statuses"),
        "offsets": ("offsets", "g-w:1-offsets"),
    }
    own: Any = one._new_own_offset_log("mine", lambda *_: None)
    assert own.storage == logs["offsets"].storage.replace(topic="mine", is_automatic=True)
    assert own._name == "g-w:1-offsets-mine"
    given = one.group.machine.settings
    assert (given.name, given.url, given.cooperative) == ("w:1", "http://w:1/", True)
    assert (given.cores, given.memory_mb) == (os.cpu_count(), machines_memory_mb())
    times = (given.session_timeout_ms, given.heartbeat_interval_ms, given.rebalance_timeout_ms)
    assert (*times, given.scheduled_rebalance_max_delay_ms) == (7_000, 2_000, 8_000, 9_000)
    small = worker(worker_cores="3", worker_memory="2g").group.machine.settings
    assert (small.cores, small.memory_mb) == (3, 2_048)


@pytest.mark.parametrize(("support", "claims"), [("disabled", False), ("preparing", True), ("enabled", True)])
async def test_who_may_write_transactions_claims_the_config_topic(support: str, claims: bool) -> None:
    one = worker(exactly_once_source_support=support)
    assert type(one.config_log) is (ClaimedLog if claims else TopicLog)
    if isinstance(one.config_log, ClaimedLog):
        assert one.config_log._id == "connect-cluster-g"
    assert (one._fencing is not None) is (support == "enabled")


async def test_nothing_is_known_before_it_has_joined() -> None:
    one = worker()
    assert (one.is_ready, one.may_lead(), one.leader_url, one.owner_url(TaskId("c", 0))) == (False, False, None, None)


@pytest.mark.parametrize(
    ("leads", "is_leader", "is_lost", "done"),
    [
        (False, False, False, []),
        (True, True, False, []),
        (True, False, False, ["retire"]),
        (False, True, False, ["lead"]),
        (True, True, True, ["retire", "lead"]),
        (True, False, True, ["retire"]),
    ],
)
@pytest.mark.parametrize("users", ["", "BasicAuthSecurityRestExtension"])
async def test_when_the_leader_changes(
    monkeypatch: pytest.MonkeyPatch, leads: bool, is_leader: bool, is_lost: bool, done: list[str], users: str
) -> None:
    taken, slept, fails = list[str](), list[float](), [NotLeadingError("not yet"), TimeoutError()]

    async def retire() -> None:
        taken.append("retire")
        leading.leads = False

    async def lead() -> None:
        if fails:
            raise fails.pop()
        taken.append("lead")
        leading.leads = True

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    one: Any = worker(rest_extension_classes=users)
    leading = SimpleNamespace(leads=leads, retire=retire, lead=lead)
    one.leading, one.group = leading, SimpleNamespace(machine=SimpleNamespace(leads=is_leader))
    one._fencing = SimpleNamespace(look=lambda: taken.append("fencing"))
    one._keys = SimpleNamespace(look=lambda: taken.append("keys"))
    monkeypatch.setattr(module, "asyncio", stand_in(asyncio, sleep=sleep))
    await one._change_leader(is_lost=is_lost)
    assert taken == [*done, "fencing", *(["keys"] if users else [])]
    assert slept == ([RETRY_S] * 2 if "lead" in done else [])
