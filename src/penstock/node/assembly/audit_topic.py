"""The audit log as a topic: what `kafka.authorizer.logger` writes on this node is written there as well.

Nothing waits for that. Lines stand in a queue until the topic has them; what finds no room is counted, told in the log,
and said in the topic as soon as that takes lines again. A line may come twice, when an answer was lost.

The node writes as any client does, on the listener between brokers, and needs the right to. Two things stand in the log
alone, as each line about them would bring another: what was allowed, which writing and reading this topic are, too, and
that somebody may not write to it.
"""

import asyncio
import json
import logging
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final, Protocol

from penstock.client.errors import ClientError
from penstock.node.assembly.links import Links
from penstock.node.environment.context import NodeContext
from penstock.node.environment.tasks import Tasks
from penstock.node.metrics.registry import Counter, Group
from penstock.node.serving.access import WRITE_TOPIC, audit_log
from penstock.node.serving.audit import ABOUT, Asked
from penstock.protocol.errors import KafkaError
from penstock.protocol.value import Value

QUEUE_BYTES: Final = 4 * 1024 * 1024
AT_ONCE: Final = 500
"""Lines that are written together."""
LONGEST_LINE: Final = 100_000
"""Characters; what is longer is cut."""
RETRY_S: Final = 1.0
TELL_S: Final = 60.0
"""So often a loss is told at most."""
LIMIT_S: Final = 30.0
"""How long one attempt may take."""
logger = logging.getLogger(__name__)


class Writer(Protocol):
    """As the client's producer."""

    async def start(self) -> None: ...
    async def close(self, timeout_ms: int | None = None) -> None: ...
    async def send(
        self, topic: str, value: bytes | None, *, key: bytes | None = None, timestamp_ms: int | None = None
    ) -> asyncio.Future[Any]: ...


class Line(Value):
    """When it was written to the log, and its text."""

    timestamp_ms: int
    text: bytes


class AuditTopic(logging.Handler):
    """`new_writer` gives None as long as no broker is known. Lines of one node have its id as their key."""

    def __init__(self, topic: str, node_id: int, new_writer: Callable[[], Writer | None], *, as_json: bool) -> None:
        super().__init__(logging.INFO)
        self._topic = topic
        self._key = str(node_id).encode()
        self._new_writer = new_writer
        self._as_json = as_json
        self._loop = asyncio.get_running_loop()
        self._queue: deque[Line] = deque()
        self._bytes = 0
        self._news = asyncio.Event()
        self._writer: Writer | None = None
        self._reason = "they came faster than they could be written"
        self._told_s = -TELL_S
        self.lost = self._lost_untold = self._lost_unsaid = 0
        """Lines: all, those that the log has not been told of, and those that the topic has not."""
        self._tasks = Tasks()

    def begin(self) -> None:
        audit_log.addHandler(self)
        self._tasks.start(self._write(), "the audit log's topic")

    async def stop(self) -> None:
        audit_log.removeHandler(self)
        await self._tasks.stop()
        await self._close_writer()
        if self._queue:
            logger.warning("%d lines of the audit log are not in %s: the node stops", len(self._queue), self._topic)

    def emit(self, record: logging.LogRecord) -> None:
        """Of any thread."""
        about = getattr(record, ABOUT, None)
        if isinstance(about, Asked) and about.right == WRITE_TOPIC and about.name == self._topic:
            return
        text = record.getMessage()[:LONGEST_LINE].encode("utf-8", "replace")
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._take, Line(round(record.created * 1000), text))

    def _take(self, line: Line) -> None:
        if self._bytes + len(line.text) > QUEUE_BYTES:
            self._lose()
            return
        self._bytes += len(line.text)
        self._queue.append(line)
        self._news.set()

    def _lose(self) -> None:
        self.lost += 1
        self._lost_untold += 1
        self._lost_unsaid += 1
        if self._loop.time() - self._told_s >= TELL_S:
            self._told_s = self._loop.time()
            logger.warning("%d lines of the audit log are not in %s: %s", self._lost_untold, self._topic, self._reason)
            self._lost_untold = 0

    async def _write(self) -> None:
        while True:
            if not self._queue:
                self._news.clear()
                await self._news.wait()
            if not await self._written():
                await self._close_writer()
                await asyncio.sleep(RETRY_S)

    async def _written(self) -> bool:
        """Whether all that was taken out of the queue is in the topic; what is not stays at its head."""
        lines = [self._queue[number] for number in range(min(AT_ONCE, len(self._queue)))]
        said, self._lost_unsaid = self._lost_unsaid, 0
        try:
            async with asyncio.timeout(LIMIT_S):
                await self._send([*lines, *([self._gap(said, lines[-1])] if said else [])])
        except (ClientError, KafkaError, OSError) as error:
            self._lost_unsaid += said
            self._reason = str(error) or type(error).__name__
            return False
        for line in lines:
            self._queue.popleft()
            self._bytes -= len(line.text)
        return True

    async def _send(self, lines: Sequence[Line]) -> None:
        """Raises KafkaError, ClientError, TimeoutError."""
        if self._writer is None:
            self._writer = self._new_writer()
            if self._writer is None:
                raise ClientError("no broker is known yet")
            await self._writer.start()
        sent = [
            await self._writer.send(self._topic, line.text, key=self._key, timestamp_ms=line.timestamp_ms)
            for line in lines
        ]
        for result in await asyncio.gather(*sent, return_exceptions=True):
            if isinstance(result, BaseException):
                raise result

    def _gap(self, lines: int, behind: Line) -> Line:
        """What is lost came when the queue was full, behind what was in it."""
        text = json.dumps({"event": "lost", "lines": lines}) if self._as_json else f"{lines} lines were lost here"
        return Line(behind.timestamp_ms, text.encode())

    async def _close_writer(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            await writer.close(0)


def begin(context: NodeContext, links: Links) -> AuditTopic:
    """By the node's configuration."""
    config = context.config
    as_json = config.penstock_authorizer_audit_format == "json"
    made = AuditTopic(config.penstock_authorizer_audit_topic, config.node_id, links.producer, as_json=as_json)
    what = "Lines of the audit log that are not in its topic, as there was no room for them until it took them"
    context.metrics.add(Counter(Group.PLUGINS, "audit-topic-lost-total", what, lambda: made.lost))
    made.begin()
    return made
