"""What `penstock delayed` shows of records that wait, and what it writes to cancel or hasten one."""

import time
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tests.stand_in import stand_in
from tests.unit.client.fake_cluster import FakeCluster, served_in_a_thread

from penstock.cli.main import main
from penstock.cli.records import delayed
from penstock.cli.records.waiting_records import WaitingRecord
from penstock.client.admin.topics import TopicAdmin
from penstock.client.values import TopicPartition

NOW_MS = 10_000


def waiting(
    partition: int, offset: int, due_ms: int, id_: bytes | None = None, key: bytes | None = None
) -> WaitingRecord:
    return WaitingRecord(
        partition=TopicPartition("t", partition), offset=offset, due_ms=due_ms, id=id_, key=key, size=offset * 10
    )


WAITING = [
    waiting(0, 5, 0, b"a", b"k"),
    waiting(1, 1, 9_000, None, b"\xff"),
    waiting(0, 7, 10_001, b"", None),
    waiting(0, 8, 12_500),
    waiting(1, 2, 13_000),
]


@pytest.fixture
def partitions(monkeypatch: pytest.MonkeyPatch) -> list[list[TopicPartition]]:
    """Of which records were looked up."""
    asked: list[list[TopicPartition]] = []

    async def waiting_records(_: object, of: list[TopicPartition]) -> list[WaitingRecord]:
        asked.append(of)
        return [it for it in WAITING if it.partition in of]

    async def describe(_: object, names: list[str]) -> list[SimpleNamespace]:
        assert names == ["t"]
        return [SimpleNamespace(partitions=dict.fromkeys(range(3)))]

    monkeypatch.setattr(delayed, "waiting_records", waiting_records)
    monkeypatch.setattr(delayed, "time", stand_in(time, time_ns=lambda: NOW_MS * 1_000_000 + 999_999))
    monkeypatch.setattr(TopicAdmin, "describe", describe)
    return asked


def run(*words: str) -> Result:
    with served_in_a_thread(FakeCluster()) as broker:
        return CliRunner().invoke(main, ["delayed", *words, "--topic", "t", "--bootstrap-server", str(broker.address)])


def test_all_that_waits(partitions: list[list[TopicPartition]]) -> None:
    result = run("list")
    assert [[one.partition for one in of] for of in partitions] == [[0, 1, 2]]
    assert result.stdout.splitlines() == [
        "PARTITION  OFFSET  DUE                        IN_MS  ID  KEY  BYTES",
        "        0       5  now                            0  a   k       50",
        "        1       1  1970-01-01T00:00:09+00:00      0  -   �       10",
        "        0       7  1970-01-01T00:00:10+00:00      1      -       70",
        "        0       8  1970-01-01T00:00:12+00:00   2500  -   -       80",
        "        1       2  1970-01-01T00:00:13+00:00   3000  -   -       20",
    ]


@pytest.mark.parametrize(
    ("limit", "offsets", "more"),
    [("3", [5, 1, 7, 8, 2], None), ("2", [5, 1, 7, 2], 1), ("1", [5, 1], 3)],
)
def test_some_of_each_partition(
    limit: str, offsets: list[int], more: int | None, partitions: list[list[TopicPartition]]
) -> None:
    _, *rows = run("list", "--limit", limit).stdout.splitlines()
    if more is not None:
        assert rows.pop() == f"{more} more wait: --limit shows them"
    assert [int(row.split()[1]) for row in rows] == offsets


def test_json_says_nothing_of_others(partitions: list[list[TopicPartition]]) -> None:
    assert run("list", "--limit", "1", "--json").stdout.count('"offset"') == 2
    assert "more wait" not in run("list", "--limit", "1", "--json").output


@pytest.mark.parametrize(("partition", "numbers"), [("0", [0]), ("2", [2])])
def test_one_partition(partition: str, numbers: list[int], partitions: list[list[TopicPartition]]) -> None:
    run("list", "--partition", partition)
    assert [[one.partition for one in of] for of in partitions] == [numbers]


@pytest.mark.parametrize("action", [("list",), ("now", "--id", "a"), ("cancel", "--id", "a")])
def test_a_partition_that_there_is_not(action: tuple[str, ...], partitions: list[list[TopicPartition]]) -> None:
    result = run(*action, "--partition", "3")
    assert (result.exit_code, result.stderr) == (1, "Error: topic 't' has 3 partitions, counted from 0\n")


# -- orders -----------------------------------------------------------------------------------------------------------

sent: list[Any] = []


class FakeProducer:
    def __init__(self, servers: str, settings: Any) -> None:
        sent.append(settings.client_id)

    async def __aenter__(self) -> "FakeProducer":
        return self

    async def __aexit__(self, *_: object) -> None:
        sent.append("close")

    async def send_and_wait(self, topic: str, value: bytes | None, *, headers: Any, partition: int) -> None:
        sent.append((topic, partition, value, headers))


@pytest.fixture
def enabled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The values of the key that lets records of the topic wait."""
    values = ["true"]

    async def describe(*_: Any, keys: list[str]) -> list[SimpleNamespace]:
        assert keys == ["penstock.delay.enable"]
        return [SimpleNamespace(value=value) for value in values]

    sent.clear()
    monkeypatch.setattr(delayed, "Producer", FakeProducer)
    monkeypatch.setattr("penstock.client.admin.configs.ConfigAdmin.describe", describe)
    return values


@pytest.mark.parametrize(
    ("action", "header", "done"),
    [("cancel", "penstock-delay-cancel", "cancelled"), ("now", "penstock-delay-now", "due now")],
)
def test_an_order_goes_to_all_partitions(
    action: str, header: str, done: str, partitions: list[list[TopicPartition]], enabled: list[str]
) -> None:
    result = run(action, "--id", "ü")
    headers = [("penstock-delay-id", "ü".encode()), (header, b"")]
    assert sent == ["penstock-cli", *(("t", number, None, headers) for number in range(3)), "close"]
    assert result.stdout == f"what waits with the id 'ü' in the 3 partitions of t is {done}\n"


def test_an_order_goes_to_one_partition(partitions: list[list[TopicPartition]], enabled: list[str]) -> None:
    result = run("now", "--id", "a", "--partition", "0")
    assert [one[1] for one in sent[1:-1]] == [0]
    assert result.stdout == "what waits with the id 'a' in t-0 is due now\n"


@pytest.mark.parametrize("values", [["false"], []])
def test_where_nothing_can_wait_nothing_is_written(
    values: list[str], partitions: list[list[TopicPartition]], enabled: list[str]
) -> None:
    enabled[:] = values
    result = run("cancel", "--id", "a")
    assert sent == []
    assert result.stderr == "Error: nothing waits in topic 't': it has not penstock.delay.enable=true\n"
