"""Sources whose records and offsets are in one transaction, on workers of this process."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from tests.wire.committed_records import committed_records
from tests.wire.connect_workers import LIMIT_S, Workers
from tests.wire.test_transfers import committed

from penstock.client.admin import Admin
from penstock.client.admin.topics import NewTopic
from penstock.protocol.errors import KafkaError
from penstock.work.connect.api import SourceConnector, SourceContext, SourceRecord, SourceTask, Support
from penstock.work.connect.clients import Clients
from penstock.work.connect.distributed.claimed_log import ClaimedLog
from penstock.work.connect.distributed.settings import Storage
from penstock.work.connect.runtime.logs import NotLeadingError


async def make(bootstrap: str, topic: str) -> None:
    async with Admin(bootstrap) as admin:
        await admin.topics.create(NewTopic(name=topic, partitions=1, replication_factor=1))
        await admin.topics.wait_until_led(topic)


async def last_values(bootstrap: str, topic: str) -> dict[str, object]:
    """By their keys, as far as they are committed."""
    found = await committed_records(bootstrap, topic)
    return {(record.key or b"").decode(): json.loads(record.value or b"null") for record in found}


async def until_there(bootstrap: str, topic: str, *values: bytes) -> None:
    async with asyncio.timeout(LIMIT_S):
        while await committed(bootstrap, topic) != list(values):
            await asyncio.sleep(0.05)


async def test_records_and_offsets_are_in_one_transaction_of_an_id_for_each_task(
    bootstrap: str, topic: str, tmp_path: Path
) -> None:
    await make(bootstrap, topic)
    lines = tmp_path / "lines"
    lines.write_text("one\ntwo\n")
    workers = Workers(bootstrap, topic, exactly_once_source_support="enabled")
    worker = await workers.add("one:1")
    name, own = f"{topic}-from", f"{topic}-own"
    config = {
        "name": name,
        "connector.class": "FileStreamSource",
        "topic": topic,
        "file": str(lines),
        "exactly.once.support": "required",
        "offsets.storage.topic": own,
        "tasks.max": "1",
    }
    await workers.create(config)
    await workers.until_running(name)
    await until_there(bootstrap, topic, b"one", b"two")
    position = {json.dumps([name, {"filename": str(lines)}], separators=(",", ":")): {"position": 8}}
    assert await last_values(bootstrap, own) == position
    assert (await last_values(bootstrap, f"{topic}-configs"))[f"tasks-fencing-{name}"] == {"task-count": 1}
    async with Admin(bootstrap) as admin:
        ids = {listing.transactional_id for listing in await admin.transactions.listings()}
        assert {f"{topic}-{name}-0", f"connect-cluster-{topic}"} <= ids
        before = await admin.transactions.describe(f"{topic}-{name}-0")
        await workers.create(config | {"task.restarts.max": "7"})  # the tasks are new
        begun = before.producer_epoch + 2  # fenced by the leader, and begun by the next task
        async with asyncio.timeout(LIMIT_S):
            while (await admin.transactions.describe(f"{topic}-{name}-0")).producer_epoch < begun:
                await asyncio.sleep(0.02)
    lines.write_text("one\ntwo\nthree\n")
    await until_there(bootstrap, topic, b"one", b"two", b"three")
    await workers.until(lambda: worker.offsets.all_of(name) == [({"filename": str(lines)}, {"position": 14})])
    await workers.create({key: value for key, value in config.items() if key != "offsets.storage.topic"})
    await workers.until_running(name)
    lines.write_text("one\ntwo\nthree\nfour\n")
    await until_there(bootstrap, topic, b"one", b"two", b"three", b"four")
    await workers.stop()


async def test_a_leader_that_comes_fences_what_the_one_before_left(
    bootstrap: str, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has read all there is before it leads, and no record comes that would make it look."""
    await make(bootstrap, topic)
    lines = tmp_path / "lines"
    lines.write_text("one\n")
    first = Workers(bootstrap, topic, exactly_once_source_support="enabled")
    worker = await first.add("one:1")
    assert worker._fencing is not None
    monkeypatch.setattr(worker._fencing, "look", lambda: None)  # it dies before that
    name = f"{topic}-from"
    await first.create(
        {"name": name, "connector.class": "FileStreamSource", "topic": topic, "file": str(lines), "tasks.max": "1"}
    )
    await first.until(lambda: name in worker.state.unfenced)
    await first.stop()
    second = Workers(bootstrap, topic, exactly_once_source_support="enabled")
    await second.add("two:2")
    await second.until_running(name)
    await until_there(bootstrap, topic, b"one")
    await second.stop()


class Tens(SourceTask):
    """Numbers in tens, of which those with a nine are aborted."""

    def start(self, config: Mapping[str, str], context: SourceContext) -> None:
        assert context.transactions is not None
        self._topic, self._transactions = config["topic"], context.transactions
        self._next = int((context.offset({}) or {"next": 0})["next"])

    def poll(self) -> Sequence[SourceRecord]:
        if self._next == 50:
            return []
        made = [
            SourceRecord(topic=self._topic, partition=0, value=str(one), source_offset={"next": one + 1})
            for one in range(self._next, self._next + 5)
        ]
        self._next += 5
        if self._next % 10 == 0:
            end = self._transactions.abort if self._next == 40 else self._transactions.commit
            end(made[-1]) if self._next == 20 else end()
        return made

    def stop(self) -> None: ...


class TensConnector(SourceConnector):
    task_class = Tens

    def exactly_once_support(self, config: Mapping[str, str]) -> Support:
        return Support.SUPPORTED

    def can_define_transaction_boundaries(self, config: Mapping[str, str]) -> Support:
        return Support.SUPPORTED


async def test_a_connector_says_itself_where_its_transactions_end(bootstrap: str, topic: str) -> None:
    await make(bootstrap, topic)
    workers = Workers(bootstrap, topic, exactly_once_source_support="enabled")
    await workers.add("one:1")
    name = f"{topic}-tens"
    config = {"name": name, "connector.class": f"{__name__}:TensConnector", "topic": topic}
    await workers.create(config | {"transaction.boundary": "connector"})
    await workers.until_running(name)
    await until_there(bootstrap, topic, *(b"%d" % one for one in range(50) if not 30 <= one < 40))
    assert list((await last_values(bootstrap, f"{topic}-offsets")).values()) == [{"next": 50}]
    await workers.stop()


async def test_a_leader_that_was_replaced_writes_nothing_more(bootstrap: str, topic: str) -> None:
    lost: list[str] = []
    limited = {"cleanup.policy": "compact", "max.message.bytes": "10000"}

    def log(name: str) -> ClaimedLog:
        read: dict[bytes, bytes | None] = {}
        storage = Storage(f"{topic}-configs", 1, 1, limited, is_automatic=True)
        clients = Clients(bootstrap_servers=bootstrap)
        made = ClaimedLog(
            clients,
            storage,
            name,
            lambda key, value, _: read.update({key: value}),
            transactional_id=f"connect-cluster-{topic}",
            on_loss=lambda: lost.append(name),
        )
        rows[name] = read
        return made

    rows: dict[str, dict[bytes, bytes | None]] = {}
    old, new = log("old"), log("new")
    await old.start()
    await new.start()
    with pytest.raises(NotLeadingError, match="has not claimed"):
        await old.put_all({b"k": b"too early"})
    await old.claim()
    await old.put_all({b"k": b"1", b"l": b"1"})
    await new.claim()
    await new.read_to_end()
    with pytest.raises(NotLeadingError, match="could not write"):
        await old.put_all({b"k": b"zombie", b"m": b"zombie"})
    assert lost == ["old"]
    for size in (20_000, 2_000_000):
        with pytest.raises(KafkaError, match="TOO_LARGE"):
            await new.put_all({b"k": b"small", b"m": bytes(size)})
    assert lost == ["old"], "what nobody could write costs no claim"
    await new.put_all({b"l": b"2"})
    for one in (old, new):
        await one.read_to_end()
    assert rows["old"] == rows["new"] == {b"k": b"1", b"l": b"2"}
    await old.claim()
    await old.put_all({b"k": None})
    await old.stop()
    await new.stop()
