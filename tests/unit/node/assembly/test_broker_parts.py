"""In which order a broker begins and ends, which of its parts hear of what, and when it hands over."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.node.assembly.broker_start import BrokerParts

STARTS = ["replica_directories", "coordinators", "upkeep", "in_sync", "hand_overs", "moves", "cleaner"]
STOPS = [
    *("hand_overs", "group_keeper", "sharing", "coordinators", "_added_listeners", "_server", "replica_directories"),
    *("broker", "_errands", "moves", "fetchers", "in_sync", "cleaner", "upkeep", "channel"),
]


class Told:
    """An event or a configuration: notes who listens."""

    def __init__(self) -> None:
        self.listeners: list[Any] = []

    def listen(self, *who: Any) -> None:
        self.listeners += who

    def __getattr__(self, name: str) -> Any:
        return self.listen


class Parts:
    """All parts of a broker, and what they did in which order."""

    def __init__(
        self,
        *,
        is_unprotected: bool = False,
        controlled: bool = True,
        failure: Exception | None = None,
        handover_ms: int = 9,
        fails: str = "",
    ) -> None:
        self.did: list[str] = []
        self.fails = fails
        self.it = cast("Any", BrokerParts.__new__(BrokerParts))
        it = self.it
        config = SimpleNamespace(controlled_shutdown_enable=controlled, leader_handover_timeout_ms=handover_ms)
        self.log, self.channel = Told(), self.part("channel")
        self.channel.await_follower = lambda who: self.did.append(f"awaits {who}")
        it._parts = SimpleNamespace(
            is_unprotected=is_unprotected,
            context=SimpleNamespace(config=config),
            quorum=SimpleNamespace(failure=failure),
            channel=self.channel,
            log=self.log,
            watch=SimpleNamespace(begin=lambda: self.did.append("watch")),
        )
        for name in (*STARTS, *STOPS, "lifecycle", "replicas", "dynamic_configs", "_neighbours", "connections"):
            setattr(it, name, self.part(name))
        it._listeners = ["A"]
        it.replicas.stop = lambda: self.did.append("stop replicas")
        it.replicas.has_settled, it.replicas.found_misplaced, self.changed = Told(), Told(), Told()
        it.dynamic_configs.on_change = self.changed.listen
        it.broker.coordinators = it.coordinators
        it.broker.stop_sharing = self.does("stop sharing")
        for name in STARTS:
            getattr(it, name).start = lambda name=name: self.did.append(f"start {name}")

    def does(self, what: str) -> Any:
        async def do(*_: object, **how: object) -> None:
            self.did.append(" ".join([what, *(f"{key}={value}" for key, value in how.items())]))
            if what == self.fails:
                raise OSError(what)

        return do

    def part(self, name: str) -> Any:
        async_names = (
            "stop",
            "start",
            "register",
            "unfence",
            "open_all",
            "listen",
            "resign",
            "settle",
            "settle_groups",
        )
        done = {did: self.does(f"{did} {name}") for did in (*async_names, "give_away", "leave")}
        heard = {it: f"{name}.{it}" for it in ("on_metadata", "on_new_image", "wake", "settled", "beat_soon")}
        others = {it: f"{name}.{it}" for it in ("configure_all", "set_limits")}
        reload = lambda: self.did.append(f"reload {name}")  # noqa: E731
        follow = lambda: self.did.append(f"follow {name}")  # noqa: E731
        return SimpleNamespace(**done, **heard, **others, reload=reload, follow=follow)


def stopped(*, hands_over: bool, gives_away: bool) -> list[str]:
    parts = [f"stop {name}" for name in STOPS]
    first = [f"resign group_keeper hand_over={hands_over}", "settle_groups hand_overs"]
    away = ["give_away hand_overs"] if gives_away else []
    return [*first, *away, f"leave lifecycle hand_over={hands_over}", "settle hand_overs", "stop replicas", *parts]


@pytest.mark.parametrize(
    ("how", "hands_over", "gives_away"),
    [
        ({}, True, True),
        ({"handover_ms": 0}, True, False),
        ({"controlled": False}, False, False),
        ({"failure": OSError()}, False, False),
        ({"controlled": False, "failure": OSError()}, False, False),
    ],
)
async def test_what_it_leads_is_handed_over_before_its_parts_end(
    how: dict[str, Any], hands_over: bool, gives_away: bool
) -> None:
    parts = Parts(**how)
    await parts.it.stop()
    assert parts.did == stopped(hands_over=hands_over, gives_away=gives_away)


async def test_who_may_serve_no_client_serves_none_while_it_hands_over() -> None:
    parts = Parts(is_unprotected=True)
    await parts.it.stop()
    assert parts.did == ["stop _server", *stopped(hands_over=True, gives_away=True)]


async def test_each_part_is_stopped_though_another_cannot_be() -> None:
    parts = Parts(fails="stop sharing")
    with pytest.raises(OSError, match="stop sharing"):
        await parts.it.stop()
    assert parts.did == stopped(hands_over=True, gives_away=True)


BEGINS = [
    *("register lifecycle", "watch", "reload dynamic_configs", "awaits replicas.settled", "open_all replicas"),
    *("unfence lifecycle", *(f"start {name}" for name in STARTS), "start group_keeper", "listen _server"),
]


async def test_clients_are_served_once_all_is_at_work() -> None:
    parts = Parts()
    await parts.it.start()
    assert parts.did == [*BEGINS, "follow _added_listeners"]


@pytest.mark.parametrize("fails", ["register lifecycle", "open_all replicas", "listen _server"])
async def test_nothing_is_left_at_work_where_it_cannot_begin(fails: str) -> None:
    parts = Parts(fails=fails)
    with pytest.raises(OSError, match=fails):
        await parts.it.start()
    begun = BEGINS[: BEGINS.index(fails) + 1]
    assert parts.did == [*begun, *stopped(hands_over=False, gives_away=False)]


async def test_who_hears_of_metadata_and_of_configurations() -> None:
    parts = Parts()
    parts.it._listen_to_metadata()
    dynamic = parts.it.dynamic_configs
    assert parts.log.listeners == [
        *(dynamic.on_metadata, dynamic.reload),
        *("group_keeper.on_metadata", "group_keeper.on_new_image"),
        *("replicas.on_metadata", "replicas.on_new_image"),
        *("coordinators.on_metadata", "coordinators.on_new_image"),
        *("_neighbours.on_metadata", "_neighbours.on_new_image"),
        *("_errands.on_metadata", "_errands.on_new_image"),
    ]
    assert parts.changed.listeners[:2] == ["replicas.configure_all", "lifecycle.beat_soon"]
    assert len(parts.changed.listeners) == 3, "limits of connections as well"
    assert parts.it.replicas.has_settled.listeners == [parts.it.coordinators.follow]
    assert parts.it.replicas.found_misplaced.listeners == ["replica_directories.wake"]


async def test_it_ends_once_for_the_first_reason() -> None:
    parts, first = Parts(), OSError("first")
    parts.it.ended = asyncio.get_running_loop().create_future()
    parts.it._end(first)
    parts.it._end(OSError("second"))
    assert parts.it.ended.result() is first
