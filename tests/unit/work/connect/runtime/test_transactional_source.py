"""When transactions of a source end, by the time that has passed; all that a task asks is in `tests/golden`."""

from types import SimpleNamespace
from typing import Any

import pytest
from tests.unit.work.connect.runtime.test_running_tasks import CONFIG, Host, Kafka, Setting

from penstock.work.connect.runtime import transactional_source
from penstock.work.connect.runtime.transactional_source import LONGEST_MS, PATIENCE_MS, TransactionalSource


class Clients:
    """Notes what producers are made with, and what one does."""

    def __init__(self) -> None:
        self.made: list[dict[str, Any]] = []
        self.done: list[str] = []

    def producer(self, properties: dict[str, str], **more: Any) -> "Clients":
        self.made.append({**properties, **more})
        return self

    def __getattr__(self, name: str) -> Any:
        async def call(*_: object, **__: object) -> None:
            self.done.append(name)

        return call


class Task:
    async def commit(self) -> None: ...


def source(clients: Clients, **config: str) -> tuple[TransactionalSource, Setting]:
    setting, any_clients = Setting(""), clients
    generations: Any = SimpleNamespace(transactional_id=lambda connector, number: f"{connector}/{number}")
    environment = setting.task.environment.replace(
        clients=any_clients, generations=generations, flush_interval_ms=2_000, config={"producer.acks": "0"}
    )
    named = {key.replace("_", "."): value for key, value in config.items()}
    own = {"producer.override.acks": "1", "producer.override.transactional.id": "x", "producer.override.linger.ms": "5"}
    task: Any = Task()
    host = Host(Kafka())
    host.copy = lambda offsets: None  # type: ignore[method-assign]
    one = setting.task.replace(config=CONFIG | own | named, environment=environment)
    return TransactionalSource(one, task, host, setting.attempt), setting


@pytest.mark.parametrize(
    ("config", "interval_ms"),
    [
        ({"transaction_boundary": "interval"}, 2_000),
        ({"transaction_boundary": "interval", "transaction_boundary_interval_ms": "500"}, 500),
    ],
)
async def test_a_transaction_lasts_for_its_interval(
    monkeypatch: pytest.MonkeyPatch, config: dict[str, str], interval_ms: int
) -> None:
    clients, now_s = Clients(), [100.0]
    running, setting = source(clients, **config)
    loop = SimpleNamespace(time=lambda: now_s[0])
    monkeypatch.setattr(transactional_source, "asyncio", SimpleNamespace(get_running_loop=lambda: loop))
    producer: Any = clients
    running._ended_at_s = now_s[0]
    for passed_ms, commits in (
        (0, 0),
        (interval_ms - 1, 0),
        (interval_ms, 1),
        (2 * interval_ms - 1, 1),
        (2 * interval_ms, 2),
    ):
        now_s[0] = 100.0 + passed_ms / 1000
        running._offsets = {"p": ({"p": 1}, {"at": passed_ms})}
        await running._end_of_batch(producer)
        assert clients.done.count("commit_transaction") == commits
    setting.attempt.calls.close()


@pytest.mark.parametrize(
    ("config", "timeout_ms"),
    [
        ({}, PATIENCE_MS),
        ({"transaction_boundary": "connector"}, PATIENCE_MS),
        ({"transaction_boundary": "interval"}, PATIENCE_MS + 2_000),
        ({"transaction_boundary": "interval", "transaction_boundary_interval_ms": "500"}, PATIENCE_MS + 500),
        ({"transaction_boundary": "interval", "transaction_boundary_interval_ms": "99999999"}, LONGEST_MS),
        ({"transaction_boundary": "poll", "transaction_boundary_interval_ms": "99999999"}, PATIENCE_MS),
    ],
)
async def test_its_producer_is_the_one_of_its_id(config: dict[str, str], timeout_ms: int) -> None:
    clients = Clients()
    running, setting = source(clients, **config)
    running._new_producer()
    assert clients.made == [
        {
            "linger.ms": "5",
            "client_id": "connector-producer-c-0",
            "transactional_id": "c/0",
            "transaction_timeout_ms": timeout_ms,
        }
    ]
    setting.attempt.calls.close()


async def test_nothing_is_committed_where_there_is_nothing() -> None:
    clients = Clients()
    running, setting = source(clients)
    producer: Any = clients
    await running._end_of_batch(producer)
    assert clients.done == []
    await running._begin(producer)
    await running._begin(producer)
    assert clients.done == ["begin_transaction"]
    await running._end_of_batch(producer)
    assert clients.done == ["begin_transaction", "flush", "commit_transaction"]
    await running._abort(producer)
    assert clients.done[-1] == "commit_transaction"
    running._offsets = {"p": ({"p": 1}, {"at": 1})}
    await running._end_of_batch(producer)
    assert clients.done[3:] == ["begin_transaction", "flush", "commit_transaction"]
    assert running._offsets == {}
    await running._begin(producer)
    for _ in range(2):
        await running._abort(producer)
    assert clients.done[6:] == ["begin_transaction", "abort_transaction"]
    setting.attempt.calls.close()
