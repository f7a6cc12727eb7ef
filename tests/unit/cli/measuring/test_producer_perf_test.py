"""What `penstock producer-perf-test` sends, in which transactions, and what it makes of the answers."""

from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result
from tests.unit.cli.measuring.clocks import Clock

from penstock.cli.main import main
from penstock.cli.measuring import producer_perf_test
from penstock.cli.measuring.ports import Told
from penstock.cli.measuring.producer_perf_test import DURATION_MS, Measured, Records, Transactions
from penstock.client.settings import ProducerSettings


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(producer_perf_test, "time", found.module)
    return found


class FakeSender:
    """Notes what it is told, and answers each record at once."""

    def __init__(self, clock: Clock) -> None:
        self.done: list[Any] = []
        self.errors: dict[int, Exception] = {}
        self._clock = clock

    async def __aenter__(self) -> "FakeSender":
        return self

    async def __aexit__(self, *_: Any) -> None:
        self.done.append("close")

    async def send(self, value: bytes, key: bytes | None, told: Told) -> None:
        self.done.append((value, key))
        self._clock.now_s += 0.25
        told(self.errors.get(len(self.done)))

    async def flush(self) -> None:
        self.done.append("flush")

    async def begin(self) -> None:
        self.done.append("begin")

    async def commit(self) -> None:
        self.done.append("commit")


# -- what is sent -----------------------------------------------------------------------------------------------------


def sent(records: Records) -> list[tuple[bytes, bytes | None]]:
    random = Random(records.random_seed)
    return list(zip(records.values(random), records.keys(random), strict=True))


def records(count: int, **fields: Any) -> Records:
    usual: dict[str, Any] = {"payload_delimiter": "\\n", "key_distribution": "none", "payload_monotonic": False}
    usual |= dict.fromkeys(("warmup_records", "random_seed"), 0)
    usual |= dict.fromkeys(("record_size", "payload_file", "record_key_range"))
    return Records(num_records=count, **(usual | fields))


def test_numbers_without_keys() -> None:
    assert sent(records(3, payload_monotonic=True)) == [(b"0", None), (b"1", None), (b"2", None)]


def test_keys_of_a_range_come_in_turn() -> None:
    keys = records(5, payload_monotonic=True, key_distribution="range", record_key_range=3).keys(Random(0))
    assert list(keys) == [b"0", b"1", b"2", b"0", b"1"]


def test_random_keys_are_of_the_range_and_of_the_seed() -> None:
    of_range = records(200, payload_monotonic=True, key_distribution="random", record_key_range=3)
    keys = list(of_range.keys(Random(7)))
    assert set(keys) == {b"0", b"1", b"2"}
    assert keys == list(of_range.keys(Random(7)))
    assert keys != list(of_range.keys(Random(8)))


def test_random_letters_of_a_size() -> None:
    found = list(records(50, record_size=40).values(Random(0)))
    assert {len(value) for value in found} == {40}
    assert len(set(found)) == len(found)
    assert set(b"".join(found)) == set(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ")


@pytest.mark.parametrize(
    ("text", "delimiter", "payloads"),
    [
        ("a\nbb\nccc\n", "\\n", ["a", "bb", "ccc"]),
        ("a\nbb", "\\n", ["a", "bb"]),
        ("a\n\n", "\\n", ["a", ""]),
        ("a;ü;", ";", ["a", "ü"]),
        ("a\nb;c", "; ", ["a\nb;c"]),
    ],
)
def test_payloads_of_a_file(
    text: str, delimiter: str, payloads: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "payloads"
    path.write_text(text, encoding="utf-8")
    found = set(records(100, payload_file=path, payload_delimiter=delimiter).values(Random(0)))
    assert found == {payload.encode() for payload in payloads}
    said = f"Reading payloads from: {path}\nNumber of records read: {len(payloads)}\n"
    assert capsys.readouterr().out == said


@pytest.mark.parametrize(
    ("content", "complaint"),
    [(b"", "the file is empty"), (b"\xff", "'utf-8' codec can't decode byte 0xff in position 0: invalid start byte")],
)
def test_a_file_that_is_no_payload(content: bytes, complaint: str, tmp_path: Path) -> None:
    path = tmp_path / "payloads"
    path.write_bytes(content)
    with pytest.raises(click.ClickException) as raised:
        records(1, payload_file=path).values(Random(0))
    assert raised.value.format_message() == f"{path}: {complaint}"


# -- in transactions --------------------------------------------------------------------------------------------------


async def in_transactions(clock: Clock, transactional_id: str | None, duration_ms: int | None, count: int) -> list[Any]:
    sender = FakeSender(clock)
    transactions = Transactions(sender, ProducerSettings(transactional_id=transactional_id), duration_ms)
    for _ in range(count):
        await transactions.before_record()
        await sender.send(b"", None, lambda _: None)
        await transactions.after_record()
    await transactions.end()
    return [it if isinstance(it, str) else "send" for it in sender.done]


@pytest.mark.parametrize(
    ("duration_ms", "done"),
    [
        (500, "begin send send commit begin send send commit"),
        (501, "begin send send send commit begin send commit"),
        (1, "begin send commit begin send commit begin send commit begin send commit"),
        (1_001, "begin send send send send commit"),
    ],
)
async def test_a_transaction_is_committed_when_it_is_old_enough(clock: Clock, duration_ms: int, done: str) -> None:
    assert await in_transactions(clock, "x", duration_ms, 4) == done.split()


async def test_without_an_id_there_are_none(clock: Clock) -> None:
    assert await in_transactions(clock, None, 1, 2) == ["send", "send"]


async def test_a_duration_that_is_not_said(clock: Clock) -> None:
    found = await in_transactions(clock, "x", None, DURATION_MS // 250 + 1)
    assert found == ["begin", *["send"] * 12, "commit", "begin", "send", "commit"]


async def test_no_record_needs_no_transaction(clock: Clock) -> None:
    assert await in_transactions(clock, "x", 1, 0) == []


# -- what is measured -------------------------------------------------------------------------------------------------


def test_the_steady_state_begins_behind_the_warm_up(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    measured = Measured(records(3, warmup_records=1, payload_monotonic=True), 1_000)
    measured.begin()
    tell = [measured.sent(1, 1 << 20)]
    clock.now_s = 1.0
    tell += [measured.sent(number, 1 << 20) for number in (2, 3)]
    clock.now_s = 2.0
    for one in tell:
        one(None)
    clock.now_s = 3.0
    measured.end()
    assert measured.failed == 0
    assert capsys.readouterr().out.splitlines() == [
        "Warmup first 1 records. Steady state results will print after the complete test summary.",
        "In steady state.",
        "1 records sent, 1.0 records/sec (1.00 MB/sec), 1000.0 ms avg latency, 1000.0 ms max latency.",
        "3 records sent, 1.000000 records/sec (1.00 MB/sec), 1333.33 ms avg latency, 2000.00 ms max latency, "
        "1000 ms 50th, 2000 ms 95th, 2000 ms 99th, 2000 ms 99.9th.",
        "2 steady state records sent, 1.000000 records/sec (1.00 MB/sec), 1000.00 ms avg latency, "
        "1000.00 ms max latency, 1000 ms 50th, 1000 ms 95th, 1000 ms 99th, 1000 ms 99.9th.",
    ]


def test_failures_are_counted_and_the_first_is_told(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    measured = Measured(records(3, payload_monotonic=True), 1_000)
    measured.begin()
    for number, error in enumerate((ValueError("one"), None, ValueError("two")), 1):
        measured.sent(number, 5)(error)
    clock.now_s = 1.0
    measured.end()
    out, err = capsys.readouterr()
    assert measured.failed == 2
    assert err == "Error: one\n"
    assert [line.split(",")[0] for line in out.splitlines()] == ["1 records sent"]


# -- the whole command ------------------------------------------------------------------------------------------------

Run = Callable[..., tuple[Result, list[Any]]]


@pytest.fixture
def run(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Run:
    def invoke(*words: str, errors: Iterable[int] = ()) -> tuple[Result, list[Any]]:
        sender = FakeSender(clock)
        sender.errors = {number: ValueError("full") for number in errors}
        known: list[Any] = []

        async def topic_of(*given: Any, create: bool) -> None:
            known.append((given[0], given[2], create))

        def made(client: str | None, servers: str, settings: ProducerSettings, topic: str) -> FakeSender:
            known.append((client, servers, settings.transactional_id, settings.client_id, topic))
            return sender

        monkeypatch.setattr(producer_perf_test, "topic_of", topic_of)
        monkeypatch.setattr(producer_perf_test, "sender", made)
        fixed = ["producer-perf-test", "--topic", "t", "--throughput", "-1", "--bootstrap-server", "h:1"]
        return CliRunner().invoke(main, [*fixed, *words]), [*known, *sender.done]

    return invoke


def test_all_is_sent_and_summed_up(run: Run) -> None:
    result, done = run(
        "--num-records", "2", "--payload-monotonic", "--key-distribution", "range", "--record-key-range", "1"
    )
    assert done == [
        ("h:1", "t", True),
        (None, "h:1", None, "perf-producer-client", "t"),
        (b"0", b"0"),
        (b"1", b"0"),
        "flush",
        "close",
    ]
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith("2 records sent, 4.000000 records/sec (0.00 MB/sec), 250.00 ms avg latency")


def test_transactions_are_of_the_id(run: Run) -> None:
    words = ("--num-records", "3", "--payload-monotonic", "--transactional-id", "x", "--transaction-duration-ms", "500")
    _, done = run(*words, "--client", "penstock", "--producer-props", "allow.auto.create.topics=false")
    assert done[:2] == [("h:1", "t", False), ("penstock", "h:1", "x", "perf-producer-client", "t")]
    sends = [(b"%d" % number, None) for number in range(3)]
    assert done[2:] == ["begin", *sends[:2], "commit", "begin", sends[2], "commit", "flush", "close"]


def test_a_duration_alone_makes_an_id(run: Run) -> None:
    _, done = run("--num-records", "1", "--payload-monotonic", "--transaction-duration-ms", "500")
    assert done[1][2].startswith("performance-producer-")
    _, done = run(
        "--num-records", "1", "--payload-monotonic", "--transaction-duration-ms", "500",
        "--producer-props", "transactional.id=mine",
    )  # fmt: skip
    assert done[1][2] == "mine"


def test_the_command_fails_when_records_have(run: Run) -> None:
    result, _ = run("--num-records", "3", "--record-size", "4", errors=(1, 3))
    assert (result.exit_code, result.stderr) == (1, "Error: full\nError: 2 of 3 records could not be sent\n")
