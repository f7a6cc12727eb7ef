"""The audit log as a topic: nobody waits for it, what is lost is told, and it brings no lines of its own."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.node.stopped_node import running

from penstock.client.admin import Admin
from penstock.client.consumer import Consumer
from penstock.client.errors import ClientError
from penstock.client.settings import ConsumerSettings
from penstock.client.values import TopicPartition
from penstock.metadata.configs.protection import STANDARD_AUTHORIZER
from penstock.node.assembly import audit_topic
from penstock.node.assembly.audit_topic import AuditTopic
from penstock.node.serving.access import READ_TOPIC, WRITE_TOPIC, Right, audit_log
from penstock.node.serving.audit import ABOUT, Asked
from penstock.protocol.acls import AclBinding, Operation, PatternType, Permission, Resource
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from penstock.protocol.requests.api import ApiKey

RULE = AclBinding(Resource.TOPIC, "x", PatternType.LITERAL, "User:ada", "*", Operation.READ, Permission.ALLOW)


class Written:
    """A topic, and its writer; while it `fails` nothing gets there, and lines that it `refuses` do not."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.fails = False
        self.refuses: dict[str, KafkaError | None] = {}
        """Each once; None: no answer comes."""
        self.news = asyncio.Event()

    async def start(self) -> None: ...

    async def close(self, timeout_ms: int | None = None) -> None: ...

    async def send(
        self, topic: str, value: bytes | None, *, key: bytes | None = None, timestamp_ms: int | None = None
    ) -> asyncio.Future[Any]:
        assert (topic, key) == ("audit", b"7")
        assert value is not None
        assert timestamp_ms is not None
        self.news.set()
        if self.fails:
            raise ClientError("nobody is there")
        done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        line = value.decode()
        error = self.refuses.get(line)
        if line not in self.refuses:
            self.lines.append(line)
            done.set_result(None)
        elif error is not None:
            done.set_exception(error)
        self.refuses.pop(line, None)
        return done

    async def until(self, *lines: str) -> None:
        async with asyncio.timeout(10):
            while self.lines != [*lines]:
                self.news.clear()
                await self.news.wait()


@pytest.fixture
def topic(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[AuditTopic]]:
    monkeypatch.setattr(audit_topic, "RETRY_S", 0.0)
    before, level = list(audit_log.handlers), audit_log.level
    yield AuditTopic
    audit_log.setLevel(level)
    assert audit_log.handlers == before, "nothing is left of it"


def said(right: Right, name: str) -> None:
    about = Asked("User:ada", "10.0.0.1", right, name, ApiKey.PRODUCE)
    audit_log.info("%s %s", right, name, extra={ABOUT: about})


async def test_lines_get_there_in_their_order_and_not_those_about_writing_to_it(topic: type[AuditTopic]) -> None:
    written = Written()
    made = topic("audit", 7, lambda: written, as_json=False)
    made.begin()
    audit_log.setLevel(logging.DEBUG)
    audit_log.info("one")
    audit_log.debug("something is allowed")
    said(WRITE_TOPIC, "audit")
    said(READ_TOPIC, "audit")
    said(WRITE_TOPIC, "other")
    await asyncio.to_thread(audit_log.info, "of a thread")
    await written.until("one", f"{READ_TOPIC} audit", f"{WRITE_TOPIC} other", "of a thread")
    await made.stop()
    assert made.lost == 0


async def test_a_name_begins_no_line_of_its_own(topic: type[AuditTopic]) -> None:
    written = Written()
    made = topic("audit", 7, lambda: written, as_json=False)
    made.begin()
    said(READ_TOPIC, "flüge\nPrincipal = User:root\x1b[2J")
    await written.until(f"{READ_TOPIC} flüge\\nPrincipal = User:root\\x1b[2J")
    await made.stop()


async def test_what_has_no_room_is_lost_told_and_said_there(
    topic: type[AuditTopic], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(audit_topic, "QUEUE_BYTES", 8)
    written = Written()
    written.fails = True
    made = topic("audit", 7, lambda: written, as_json=True)
    made.begin()
    audit_log.info("first")
    async with asyncio.timeout(10):
        await written.news.wait()
        for text in ("much too long", "x", "also too long"):
            audit_log.info(text)
        while made.lost < 2:
            await asyncio.sleep(0)
    told = [it for it in caplog.records if it.name == audit_topic.__name__]
    assert [it.levelno for it in told] == [logging.WARNING], "at most once a minute"
    assert "1 lines of the audit log are not in audit: nobody is there" in told[0].getMessage()
    written.fails = False
    await written.until("first", "x", '{"event": "lost", "lines": 2}')
    await made.stop()


@pytest.mark.parametrize("error", [KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS), None])
async def test_what_is_there_is_not_written_again_because_something_else_is_not(
    topic: type[AuditTopic], monkeypatch: pytest.MonkeyPatch, error: KafkaError | None
) -> None:
    monkeypatch.setattr(audit_topic, "LIMIT_S", 0.05)
    written = Written()
    written.refuses = {"two": error}
    made = topic("audit", 7, lambda: written, as_json=False)
    made.begin()
    for text in ("one", "two", "three"):
        audit_log.info(text)
    await written.until("one", "three", "two")
    await made.stop()
    assert made.lost == 0


async def test_what_the_topic_never_takes_holds_nothing_up(
    topic: type[AuditTopic], caplog: pytest.LogCaptureFixture
) -> None:
    written = Written()
    written.refuses = {"large": KafkaError(ErrorCode.MESSAGE_TOO_LARGE, "it is large")}
    made = topic("audit", 7, lambda: written, as_json=False)
    made.begin()
    for text in ("one", "large", "two"):
        audit_log.info(text)
    await written.until("one", "two")
    audit_log.info("three")
    await written.until("one", "two", "three", "1 lines were lost here")
    await made.stop()
    assert made.lost == 1
    assert "1 lines of the audit log are not in audit: MESSAGE_TOO_LARGE: it is large" in caplog.text


async def test_what_waits_for_long_is_told(
    topic: type[AuditTopic], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(audit_topic, "PATIENCE_S", 0.0)
    written = Written()
    written.fails = True
    made = topic("audit", 7, lambda: written, as_json=False)
    made.begin()
    audit_log.info("one")
    async with asyncio.timeout(10):
        while "1 lines of the audit log wait for audit: nobody is there" not in caplog.text:
            await asyncio.sleep(0)
    await made.stop()
    assert caplog.text.count("wait for audit") == 1, "at most once a minute"


async def test_who_stops_while_nobody_is_there_says_what_is_missing(
    topic: type[AuditTopic], caplog: pytest.LogCaptureFixture
) -> None:
    asked = asyncio.Event()
    made = topic("audit", 7, lambda: asked.set(), as_json=False)
    made.begin()
    audit_log.info("one")
    await asyncio.wait_for(asked.wait(), 10)
    await made.stop()
    assert "1 lines of the audit log are not in audit: the node stops" in caplog.text


async def test_a_node_writes_it_with_its_own_rights(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What is allowed is in the log as well, and in the topic it would never end: to write it is allowed."""
    caplog.set_level("DEBUG", "kafka.authorizer.logger")
    settings = {
        "authorizer_class_name": STANDARD_AUTHORIZER,
        "super_users": "User:ANONYMOUS",
        "penstock_authorizer_audit_topic": "audit",
    }
    async with running(tmp_path, **settings) as (node, client):
        create = CreateTopicsRequest(topics=[CreatableTopic(name="audit", num_partitions=1, replication_factor=1)])
        await client.request(create, CreateTopicsResponse)
        where = f"127.0.0.1:{node.endpoints[0].port}"
        async with (
            asyncio.timeout(20),
            Admin(where) as admin,
            Consumer(where, ConsumerSettings(auto_offset_reset="earliest")) as consumer,
        ):
            await admin.acls.create([RULE])
            await consumer.assign([TopicPartition("audit", 0)])
            lines: list[str] = []
            while not lines:
                lines += [(record.value or b"").decode() for record in await consumer.poll(100)]
            assert [line.partition("made ")[2].partition("[")[0] for line in lines] == ["StandardAcl"]
            assert await consumer.poll(10) == []
    assert any("operation = WRITE" in line and "Topic:LITERAL:audit" in line for line in caplog.messages)
