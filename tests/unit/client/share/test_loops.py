"""Who stops in the middle of a loop over records, or is interrupted, leaves the rest to others."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.stand_in import stand_in
from tests.unit.client.share.brokers import ACCEPT, RELEASE, TOPIC, brokers_that_share
from tests.unit.client.share.consumers import (
    PATIENCE_S,
    T0,
    consumer,
    happens,
    records,
    settings,
)

from penstock.client import background
from penstock.client.share.blocking import BlockingShareConsumer


@pytest.mark.parametrize("mode", ["implicit", "explicit"])
async def test_a_loop_that_stops_accepts_what_it_came_to_and_releases_the_rest(mode: str) -> None:
    async with (
        brokers_that_share() as brokers,
        consumer(brokers, share_acknowledgement_mode=mode, fetch_max_wait_ms=1) as one,
        consumer(brokers) as other,
    ):
        brokers.produce(0, b"a", b"b", b"c")
        await one.subscribe([TOPIC])
        async for record in one:
            if mode == "explicit":
                one.acknowledge(record)
            break
        await happens(lambda: set(brokers.partitions[0].owners) <= {0})
        await other.subscribe([TOPIC])
        assert [(r.value, r.delivery_count) for r in await records(other, 2)] == [(b"b", 2), (b"c", 2)]
        await one.commit_sync()
        assert brokers.partitions[0].said == {0: [ACCEPT], 1: [RELEASE], 2: [RELEASE]}


async def test_the_loop_after_one_that_stopped_gets_what_that_did_not_come_to() -> None:
    async with brokers_that_share() as brokers, consumer(brokers) as one:
        brokers.produce(0, b"a", b"b")
        await one.subscribe([TOPIC])
        async for _ in one:
            break
        assert [(r.value, r.delivery_count) for r in await records(one, 1)] == [(b"b", 2)]
        await one.commit_sync()
        assert brokers.partitions[0].said == {0: [ACCEPT], 1: [RELEASE, ACCEPT]}


async def test_a_commit_within_a_loop_is_of_what_it_has_come_to() -> None:
    async with brokers_that_share() as brokers, consumer(brokers) as one:
        brokers.produce(0, b"a", b"b", b"c")
        await one.subscribe([TOPIC])
        accepted = []
        async for record in one:
            assert await one.commit_sync() == {T0: None}
            accepted.append(dict(brokers.partitions[0].said))
            if record.value == b"c":
                break
        assert accepted == [{offset: [ACCEPT] for offset in range(count)} for count in (1, 2, 3)]


def interrupted_once(monkeypatch: pytest.MonkeyPatch, *, at_last: bool) -> None:
    """The next call that waits for the consumer's thread is interrupted, after it has come to its end or before."""
    submit, interrupts = asyncio.run_coroutine_threadsafe, [KeyboardInterrupt()]

    def submitted(*work: Any) -> Any:
        future = submit(*work)
        result = future.result

        def interrupted() -> Any:
            future.result = result  # type: ignore[method-assign]
            if at_last:
                result()
            raise interrupts.pop()

        if interrupts:
            future.result = interrupted  # type: ignore[assignment, method-assign]
        return future

    monkeypatch.setattr(background, "asyncio", stand_in(asyncio, run_coroutine_threadsafe=submitted))


@pytest.mark.parametrize("loops", [False, True])
@pytest.mark.parametrize("at_last", [False, True])
async def test_a_program_that_is_interrupted_leaves_records_to_others_and_can_go_on(
    monkeypatch: pytest.MonkeyPatch, *, loops: bool, at_last: bool
) -> None:
    loop = asyncio.get_running_loop()

    def work(address: str) -> None:
        with BlockingShareConsumer(address, settings()) as one:
            one.subscribe([TOPIC])
            while not one._consumer._member.assignment:
                assert one.poll(1) == []
            if at_last:
                loop.call_soon_threadsafe(brokers.produce, 0, b"a")
            interrupted_once(monkeypatch, at_last=at_last)
            with pytest.raises(KeyboardInterrupt):
                next(iter(one)) if loops else one.poll(PATIENCE_S * 1000)
            loop.call_soon_threadsafe(brokers.produce, 0, b"b")
            values: list[bytes | None] = []
            for _ in range(PATIENCE_S):
                values += [record.value for record in one.poll()]
                if len(values) == 1 + at_last:
                    break
            assert set(values) == ({b"a", b"b"} if at_last else {b"b"})
            one.commit_sync()

    async with brokers_that_share() as brokers:
        await asyncio.to_thread(work, brokers.bootstrap)
        assert brokers.partitions[0].said == ({0: [RELEASE, ACCEPT], 1: [ACCEPT]} if at_last else {0: [ACCEPT]})
