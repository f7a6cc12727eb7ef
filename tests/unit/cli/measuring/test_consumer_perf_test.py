"""What `penstock consumer-perf-test` and `share-consumer-perf-test` ask and say, over clients that a test fills."""

import asyncio
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from click.testing import CliRunner
from tests.unit.cli.measuring.clocks import Clock

from penstock.cli.main import main
from penstock.cli.measuring import consumer_perf_test, share_consumer_perf_test
from penstock.cli.measuring.latencies import MEBIBYTE
from penstock.client.settings import ConsumerSettings, ShareConsumerSettings
from penstock.client.values import TopicPartition

ZERO, ONE = TopicPartition("t", 0), TopicPartition("t", 1)
Answer = Callable[["FakeReader"], tuple[int, int]]


class FakeReader:
    """Each poll takes so long and gives so much as an entry says; none asks for more."""

    def __init__(self, clock: Clock, answers: Sequence[Answer]) -> None:
        self.clock = clock
        self.counted: Any = None
        self.done: list[Any] = []
        self._answers = list(answers)

    async def __aenter__(self) -> "FakeReader":
        return self

    async def __aexit__(self, *_: Any) -> None:
        self.done.append("close")

    async def poll(self, most: int) -> tuple[int, int]:
        self.done.append(most)
        return self._answers.pop(0)(self)


def after(seconds: float, records: int = 0, megabytes: float = 0.0) -> Answer:
    def answer(reader: FakeReader) -> tuple[int, int]:
        reader.clock.now_s += seconds
        return records, int(megabytes * MEBIBYTE)

    return answer


def given(*partitions: TopicPartition) -> Answer:
    """After a second, without a record."""

    def answer(reader: FakeReader) -> tuple[int, int]:
        reader.clock.now_s += 1.0
        reader.counted.assigned(partitions)
        return 0, 0

    return answer


def taken(*partitions: TopicPartition) -> Answer:
    def answer(reader: FakeReader) -> tuple[int, int]:
        reader.clock.now_s += 1.0
        reader.counted.revoked(partitions)
        return 0, 0

    return answer


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    for module in (consumer_perf_test, share_consumer_perf_test):
        monkeypatch.setattr(module, "time", found.module)
    return found


def lines(monkeypatch: pytest.MonkeyPatch, reader: FakeReader, *words: str) -> tuple[list[str], ConsumerSettings]:
    known: list[Any] = []

    async def topic_of(servers: str, settings: ConsumerSettings, topic: str, *, create: bool) -> SimpleNamespace:
        known.append((servers, topic, create))
        return SimpleNamespace(name=topic)

    def made(
        client: str | None, servers: str, settings: ConsumerSettings, topics: Sequence[str], counted: Any
    ) -> FakeReader:
        known.extend([client, servers, list(topics), settings])
        reader.counted = counted
        return reader

    monkeypatch.setattr(consumer_perf_test, "topic_of", topic_of)
    monkeypatch.setattr(consumer_perf_test, "reader", made)
    fixed = ["consumer-perf-test", "--topic", "t", "--date-format", "SSS", "--bootstrap-server", "h:1"]
    result = CliRunner().invoke(main, [*fixed, *words])
    assert (result.exit_code, result.stderr) == (0, ""), result.output
    assert known[:2] + known[2:-1] == [("h:1", "t", True), None, "h:1", ["t"]]
    return result.stdout.splitlines(), known[-1]


def test_all_that_was_read_until_there_was_enough(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = FakeReader(clock, [given(ZERO), after(1.0, 6, 3.0), after(2.0, 4, 5.0)])
    found, _ = lines(monkeypatch, reader, "--num-records", "10")
    assert reader.done == [10, 10, 4, "close"]
    figures = "8.0000, 2.0000, 10, 2.5000, 1000, 3000, 2.6667, 3.3333"
    assert found == [
        "start.time, end.time, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, "
        "rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec",
        f"000, 000, {figures}",
    ]


def test_time_without_partitions_is_time_of_rebalances(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = [given(ZERO), given(ONE), taken(ZERO), taken(ONE), given(ONE), given(ZERO), after(2.0, 8, 8.0)]
    found, _ = lines(monkeypatch, FakeReader(clock, steps), "--num-records", "8", "--hide-header")
    assert found == ["000, 000, 8.0000, 1.0000, 8, 1.0000, 2000, 6000, 1.3333, 1.3333"]


def test_intervals_are_told_instead_of_the_whole(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = [given(ZERO), after(0.9, 1, 1.0), after(0.1, 2, 1.0), after(0.5, 1, 1.0), after(1.5, 4, 3.0)]
    words = ("--num-records", "8", "--show-detailed-stats", "--reporting-interval", "2000")
    found, _ = lines(monkeypatch, FakeReader(clock, steps), *words)
    assert found == [
        "time, threadId, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, "
        "rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec",
        "000, 0, 2.0000, 1.0000, 3, 1.5000, 1000, 1000, 2.0000, 3.0000",
        "000, 0, 6.0000, 2.0000, 8, 2.5000, 0, 2000, 2.0000, 2.5000",
    ]


def test_who_waits_in_vain_gives_up(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = FakeReader(clock, [after(2.0), after(0.5, 1, 1.0), after(2.0), after(0.5)])
    found, _ = lines(monkeypatch, reader, "--num-records", "2", "--timeout", "2000", "--hide-header")
    assert reader.done == [2, 2, 1, 1, "close"]
    assert found == [
        "WARNING: Exiting before consuming the expected number of records: timeout (2000 ms) exceeded. "
        "You can use the --timeout option to increase the timeout.",
        "000, 000, 1.0000, 0.2000, 1, 0.2000, 0, 5000, 0.2000, 0.2000",
    ]


def test_nothing_within_no_time(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    def at_once(reader: FakeReader) -> tuple[int, int]:
        return 1, 5

    found, _ = lines(monkeypatch, FakeReader(clock, [at_once]), "--num-records", "1", "--hide-header")
    assert found == ["000, 000, 0.0000, 0.0000, 1, 0.0000, 0, 0, 0.0000, 0.0000"]


def test_settings_of_the_reader(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    _, usual = lines(monkeypatch, FakeReader(clock, [after(1.0, 1)]), "--num-records", "1")
    assert usual.group_id is not None
    assert usual.group_id.startswith("perf-consumer-")
    assert (usual.client_id, usual.auto_offset_reset, usual.check_crcs) == ("perf-consumer-client", "earliest", False)
    assert usual.max_partition_fetch_bytes == 1 << 20
    words = ("--group", "g", "--fetch-size", "7", "--from-latest", "--command-property", "client.id=me")
    _, other = lines(monkeypatch, FakeReader(clock, [after(1.0, 1)]), "--num-records", "1", *words)
    assert (other.group_id, other.max_partition_fetch_bytes) == ("g", 7)
    assert (other.auto_offset_reset, other.client_id) == ("latest", "me")


# -- share groups -----------------------------------------------------------------------------------------------------

members: list["FakeMember"] = []


class FakeMember:
    """Gives records of so many bytes after so long, one after the other; `plans` are of one member each."""

    plans: ClassVar[list[list[tuple[float, list[int]]]]] = []
    clock: ClassVar[Clock] = Clock()

    def __init__(self, servers: str, settings: ShareConsumerSettings) -> None:
        self.settings = settings
        self.done: list[Any] = [servers]
        self._plan = self.plans.pop(0)
        members.append(self)

    async def __aenter__(self) -> "FakeMember":
        return self

    async def __aexit__(self, *_: Any) -> None:
        self.done.append("close")

    async def subscribe(self, topics: Sequence[str]) -> None:
        self.done.append(topics)

    async def poll(self, wait_ms: int) -> list[Any]:
        self.done.append(wait_ms)
        await asyncio.sleep(0)
        seconds, sizes = self._plan.pop(0) if self._plan else (1.0, [])
        assert self.clock.now_s < 60, "it does not end"
        self.clock.now_s += seconds
        return [
            SimpleNamespace(key=None if one % 2 else b"k", value=b"v" * (one - 1 + one % 2) or None) for one in sizes
        ]

    async def commit_sync(self) -> None:
        self.done.append("commit")


def shared(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, plans: list[list[tuple[float, list[int]]]], *words: str
) -> list[str]:
    members.clear()
    FakeMember.plans, FakeMember.clock = plans, clock
    monkeypatch.setattr(share_consumer_perf_test, "ShareConsumer", FakeMember)
    fixed = ["share-consumer-perf-test", "--topic", "t", "--date-format", "SSS", "--bootstrap-server", "h:1"]
    result = CliRunner().invoke(main, [*fixed, *words])
    assert (result.exit_code, result.stderr) == (0, ""), result.output
    return result.stdout.splitlines()


HEADER = "start.time, end.time, data.consumed.in.MB, MB.sec, nMsg.sec, data.consumed.in.nMsg, fetch.time.ms"
MB = MEBIBYTE


def test_one_member(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    found = shared(clock, monkeypatch, [[(1.0, []), (1.0, [MB, MB]), (2.0, [2 * MB])]], "--num-records", "3")
    assert found == [HEADER, "000, 000, 4.0000, 1.0000, 0.7500, 3, 4000"]
    (member,) = members
    assert member.done == ["h:1", ["t"], 100, 100, 100, "commit", "close"]
    settings = member.settings
    assert (settings.client_id, settings.group_id) == ("perf-share-consumer-client", "perf-share-consumer")
    assert (settings.fetch_max_bytes, settings.check_crcs) == (1 << 20, False)


def test_each_member_and_each_interval(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    plans = [[(1.0, [MB]), (1.0, [MB]), (1.0, [MB])]]
    words = ("--show-detailed-stats", "--show-consumer-stats", "--reporting-interval", "2000", "--hide-header")
    found = shared(clock, monkeypatch, plans, "--num-records", "3", *words)
    whole = "000, 000, 3.0000, 1.0000, 1.0000, 3, 3000"
    assert found == [
        "000, 000, 2.0000, 1.0000, 1.0000, 2, 2000 for share consumer 1",
        f"Share consumer 1 having client id perf-share-consumer-client consumption metrics- {whole}",
        whole,
    ]


def test_intervals_have_what_is_new_in_them(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    plans = [[(1.0, [MB]), (0.5, [MB, MB, MB]), (0.5, [MB])]]
    words = ("--show-detailed-stats", "--reporting-interval", "1000", "--hide-header", "--num-records", "5")
    assert shared(clock, monkeypatch, plans, *words) == [
        "000, 000, 1.0000, 1.0000, 1.0000, 1, 1000 for share consumer 1",
        "000, 000, 5.0000, 4.0000, 4.0000, 5, 1000 for share consumer 1",
        "000, 000, 5.0000, 2.5000, 2.5000, 5, 2000",
    ]


def test_two_members_share_what_is_wanted(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    plans = [[(1.0, [MB])], [(1.0, [2 * MB, MB])]]
    words = ("--threads", "2", "--show-consumer-stats", "--hide-header", "--group", "g", "--fetch-size", "5")
    found = shared(clock, monkeypatch, plans, "--num-records", "3", *words)
    client = "having client id perf-share-consumer-client"
    assert found == [
        f"Share consumer 1 {client}-1 consumption metrics- 000, 000, 1.0000, 0.3333, 0.3333, 1, 3000",
        f"Share consumer 2 {client}-2 consumption metrics- 000, 000, 3.0000, 1.0000, 0.6667, 2, 3000",
        "000, 000, 4.0000, 1.3333, 1.0000, 3, 3000",
    ]
    assert [member.done[-2:] for member in members] == [["commit", "close"]] * 2
    assert [(it.settings.group_id, it.settings.fetch_max_bytes) for it in members] == [("g", 5)] * 2


def test_members_that_wait_in_vain_give_up(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    plans = [[(1.0, [MB]), (1.0, [])]]
    found = shared(clock, monkeypatch, plans, "--num-records", "2", "--timeout", "1000")
    assert found[1:] == [
        "WARNING: Exiting before consuming the expected number of records: timeout (1000 ms) exceeded. "
        "You can use the --timeout option to increase the timeout.",
        "000, 000, 1.0000, 0.3333, 0.3333, 1, 3000",
    ]
    assert members[0].done.count(100) == 3


def test_keys_count_and_no_time_is_a_millisecond(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    found = shared(clock, monkeypatch, [[(0.0, [1, 2])]], "--num-records", "2", "--hide-header")
    assert found == [f"000, 000, 0.0000, {3 / MB / 0.001:.4f}, 2000.0000, 2, 0"]
