"""What `penstock consume` asks of its consumer, and when it ends, over one that notes what it is told."""

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tests.stand_in import stand_in

from penstock.cli.main import main
from penstock.cli.records import consume
from penstock.client.settings import ConsumerSettings
from penstock.client.values import ConsumedRecord, TopicPartition

COUNTS = {"a": 1, "ab": 2, "b": 1}
Poll = tuple[float, int]


class FakeConsumer:
    """Each poll takes so long and gives so many records; `now_s` is the clock of the command's event loop."""

    def __init__(self, polls: Sequence[Poll] = ()) -> None:
        self.done: list[Any] = []
        self.polls = list(polls)
        self.now_s = 0.0
        self.settings = ConsumerSettings()
        self.cluster = SimpleNamespace(refresh=self._refresh)
        self._count = 0

    def __call__(self, servers: str, settings: ConsumerSettings) -> "FakeConsumer":
        self.done.append(servers)
        self.settings = settings
        return self

    async def __aenter__(self) -> "FakeConsumer":
        return self

    async def __aexit__(self, *_: Any) -> None:
        self.done.append("close")

    async def _refresh(self) -> SimpleNamespace:
        return SimpleNamespace(topics=COUNTS)

    async def subscribe(self, topics: Sequence[str] = (), *, pattern: str | None = None) -> None:
        self.done.append(("subscribe", topics or pattern))

    async def partitions_for(self, topic: str) -> list[TopicPartition]:
        return [TopicPartition(topic, number) for number in range(COUNTS[topic])]

    async def assign(self, partitions: Sequence[TopicPartition]) -> None:
        self.done.append([str(one) for one in partitions])

    def seek_to_beginning(self) -> None:
        self.done.append("to the beginning")

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self.done.append((str(partition), offset))

    async def poll(self, wait_ms: int, most: int | None) -> list[ConsumedRecord]:
        self.done.append((wait_ms, most))
        seconds, count = self.polls.pop(0)
        self.now_s += seconds
        first, self._count = self._count, self._count + count
        return [ConsumedRecord("a", 0, n, 0, b"k%d" % n, b"v%d" % n) for n in range(first, self._count)]


def run(monkeypatch: pytest.MonkeyPatch, consumer: FakeConsumer, *words: str) -> tuple[Result, list[Any]]:
    clock = SimpleNamespace(time=lambda: consumer.now_s)
    monkeypatch.setattr(consume, "Consumer", consumer)
    monkeypatch.setattr(consume, "asyncio", stand_in(asyncio, get_running_loop=lambda: clock))
    result = CliRunner().invoke(main, ["consume", "--bootstrap-server", "h:1", *words])
    return result, consumer.done


# -- what is read -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "steps"),
    [
        (("--topic", "ab"), [["ab-0", "ab-1"]]),
        (("--include", "a.*"), [["a-0", "ab-0", "ab-1"]]),
        (("--include", "b,a"), [["a-0", "b-0"]]),
        (("--topic", "ab", "--partition", "1"), [["ab-1"]]),
        (("--topic", "ab", "--partition", "0"), [["ab-0"]]),
        (("--topic", "ab", "--partition", "1", "--offset", "earliest"), [["ab-1"], "to the beginning"]),
        (("--topic", "ab", "--partition", "1", "--offset", "latest"), [["ab-1"]]),
        (("--topic", "ab", "--partition", "1", "--offset", "0"), [["ab-1"], ("ab-1", 0)]),
        (("--topic", "ab", "--partition", "1", "--offset", "17"), [["ab-1"], ("ab-1", 17)]),
        (("--topic", "ab", "--group", "g"), [("subscribe", ["ab"])]),
        (("--include", "a.*,b", "--group", "g"), [("subscribe", "a.*|b")]),
    ],
)
def test_where_it_reads(words: tuple[str, ...], steps: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    result, done = run(monkeypatch, FakeConsumer([(0.0, 1)]), *words, "--max-messages", "1")
    assert done == ["h:1", *steps, (1_000, 1), "close"]
    assert (result.exit_code, result.stdout, result.stderr) == (0, "v0\n", "processed 1 records\n")


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("--include", "c"), "no topic matches 'c'"),
        (("--topic", "ab", "--partition", "2"), "topic 'ab' has no partition 2: it has 2, from 0 on"),
    ],
)
def test_what_is_not_there(words: tuple[str, ...], complaint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    result, done = run(monkeypatch, FakeConsumer(), *words)
    assert (result.exit_code, result.stderr) == (1, f"Error: {complaint}\n")
    assert done == ["h:1", "close"]


@pytest.mark.parametrize(
    ("words", "group_id", "reset", "isolation"),
    [
        ((), None, "latest", "read_uncommitted"),
        (("--group", "g"), "g", "latest", "read_uncommitted"),
        (("--from-beginning",), None, "earliest", "read_uncommitted"),
        (("--isolation-level", "read_committed"), None, "latest", "read_committed"),
        (("--consumer-property", "auto.offset.reset=none"), None, "none", "read_uncommitted"),
        (("--consumer-property", "auto.offset.reset=none", "--from-beginning"), None, "earliest", "read_uncommitted"),
    ],
)
def test_settings_of_the_reader(
    words: tuple[str, ...], group_id: str | None, reset: str, isolation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    consumer = FakeConsumer([(0.0, 1)])
    run(monkeypatch, consumer, "--topic", "a", *words, "--max-messages", "1")
    settings = consumer.settings
    assert (settings.group_id, settings.auto_offset_reset, settings.isolation_level) == (group_id, reset, isolation)
    assert settings.client_id == "console-consumer"


# -- when it ends -----------------------------------------------------------------------------------------------------


def test_it_asks_for_what_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    polls = [(0.0, 3), (0.0, 0), (9.0, 500), (0.0, 99)]
    result, done = run(monkeypatch, FakeConsumer(polls), "--topic", "a", "--max-messages", "602")
    assert done[2:-1] == [(1_000, 500), (1_000, 500), (1_000, 500), (1_000, 99)]
    assert result.stdout.splitlines() == [f"v{number}" for number in range(602)]
    assert result.stderr == "processed 602 records\n"


@pytest.mark.parametrize(
    ("timeout", "wait_ms", "polls", "count"),
    [
        ("2000", 1_000, [(1.0, 0), (0.5, 1), (1.0, 0), (1.0, 0)], 1),
        ("2000", 1_000, [(1.0, 0), (1.0, 0)], 0),
        ("2000", 1_000, [(1.0, 0), (0.9, 0), (0.2, 0)], 0),
        ("300", 300, [(0.3, 0)], 0),
        ("300", 300, [(9.0, 2), (0.3, 0)], 2),
        ("0", 0, [(0.0, 0)], 0),
    ],
)
def test_it_ends_when_nothing_came_for_so_long(
    timeout: str, wait_ms: int, polls: list[Poll], count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    consumer = FakeConsumer(polls)
    result, done = run(monkeypatch, consumer, "--topic", "a", "--timeout-ms", timeout)
    assert done[2:-1] == [(wait_ms, None)] * len(polls)
    assert (consumer.polls, result.stderr) == ([], f"processed {count} records\n")


def test_records_that_cannot_be_shown_are_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    def writer(_: object, *, as_json: bool) -> Any:
        def write(record: ConsumedRecord) -> bytes:
            if record.offset == 1:
                raise ValueError("it cannot be shown")
            return b"%d\n" % record.offset

        return consume._passing_over(write)

    monkeypatch.setattr(consume.Shape, "writer", writer)
    result, _ = run(monkeypatch, FakeConsumer([(0.0, 3)]), "--topic", "a", "--max-messages", "3")
    assert result.stdout == "0\n2\n"
    assert result.stderr == "a-0 at offset 1: it cannot be shown\nprocessed 3 records\n"


def test_as_json(monkeypatch: pytest.MonkeyPatch) -> None:
    result, _ = run(monkeypatch, FakeConsumer([(0.0, 1)]), "--topic", "a", "--max-messages", "1", "--json")
    assert '"key": "k0"' in result.stdout


def test_only_who_wants_it_passes_over_records(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records whose keys are no numbers."""
    shape = ("--property", "print.key=true", "--key-deserializer", "LongDeserializer")
    words = ("--topic", "a", "--max-messages", "2", *shape)
    result, _ = run(monkeypatch, FakeConsumer([(0.0, 2)]), *words, "--skip-message-on-error")
    assert (result.exit_code, result.stdout) == (0, "")
    assert [line.partition(":")[0] for line in result.stderr.splitlines()] == [
        "a-0 at offset 0",
        "a-0 at offset 1",
        "processed 2 records",
    ]
    result, _ = run(monkeypatch, FakeConsumer([(0.0, 2)]), *words)
    assert (result.exit_code, "a-0 at offset" in result.stderr) == (1, False)


def test_settings_are_only_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("--show-config", "--group", "g", "--from-beginning")
    result, done = run(monkeypatch, FakeConsumer(), *words)
    assert (result.exit_code, done) == (0, [])
    assert {tuple(line.split()[:2]) for line in result.stdout.splitlines()} >= {
        ("group.id", "g"),
        ("auto.offset.reset", "earliest"),
    }
