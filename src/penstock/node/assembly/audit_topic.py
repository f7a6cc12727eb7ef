"""The audit log as a topic: what `kafka.authorizer.logger` writes on this node is written there as well.

Nothing waits for that. Lines stand in a queue until the topic has them; what finds no room, and what the topic never
takes, is counted, told in the log, and said in the topic with the next lines. A line may come twice, when an answer was
lost; of the others that were sent with it none does.

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
from itertools import zip_longest
from typing import Any, Final, Protocol

from penstock.client.errors import ClientError
from penstock.node.assembly.links import Links
from penstock.node.environment.context import NodeContext
from penstock.node.environment.tasks import Tasks
from penstock.node.metrics.registry import Counter, Group
from penstock.node.serving.access import WRITE_TOPIC, audit_log
from penstock.node.serving.audit import ABOUT, Asked
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.value import Value

QUEUE_BYTES: Final = 4 * 1024 * 1024
AT_ONCE: Final = 500
"""Lines that are written together."""
LONGEST_LINE: Final = 100_000
"""Characters; what is longer is cut."""
RETRY_S: Final = 1.0
TELL_S: Final = 60.0
"""So often it is told at most what is lost, or waits."""
PATIENCE_S: Final = 15.0
"""So long nothing may get there before that is told: nodes start, and leaders change."""
NEVER_TAKEN: Final = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.INVALID_TIMESTAMP, ErrorCode.INVALID_RECORD)
"""They are about a line, and stay."""
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
        self._failing_s: float | None = None
        """Since when nothing gets there."""
        self.lost = self._lost_untold = self._lost_unsaid = 0
        """Lines: all, those that the log has not been told of, and those that the topic has not."""
        self._tasks = Tasks()

    def begin(self) -> None:
        audit_log.addHandler(self)
        self._tasks.keep(self._write, "the audit log's topic")

    async def stop(self) -> None:
        audit_log.removeHandler(self)
        await self._tasks.stop()
        await self._close_writer()
        if missing := len(self._queue) + self._lost_untold:
            logger.warning("%d lines of the audit log are not in %s: the node stops", missing, self._topic)

    def emit(self, record: logging.LogRecord) -> None:
        """Of any thread."""
        about = getattr(record, ABOUT, None)
        if isinstance(about, Asked) and about.right == WRITE_TOPIC and about.name == self._topic:
            return
        text = _one_line(record.getMessage()[:LONGEST_LINE]).encode("utf-8", "replace")
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
        self._tell()

    def _tell(self) -> None:
        now_s = self._loop.time()
        waits = self._failing_s is not None and now_s - self._failing_s >= PATIENCE_S
        if not (self._lost_untold or waits) or now_s - self._told_s < TELL_S:
            return
        self._told_s = now_s
        if self._lost_untold:
            logger.warning("%d lines of the audit log are not in %s: %s", self._lost_untold, self._topic, self._reason)
            self._lost_untold = 0
        else:
            logger.warning("%d lines of the audit log wait for %s: %s", len(self._queue), self._topic, self._reason)

    async def _write(self) -> None:
        while True:
            if not self._queue:
                self._news.clear()
                await self._news.wait()
            if await self._written():
                self._failing_s = None
            else:
                self._failing_s = self._loop.time() if self._failing_s is None else self._failing_s
                await self._close_writer()
                await asyncio.sleep(RETRY_S)
            self._tell()

    async def _written(self) -> bool:
        """Whether all that was taken out of the queue is done with; what is not stays at its head."""
        lines = [self._queue[number] for number in range(min(AT_ONCE, len(self._queue)))]
        gap = [self._gap(self._lost_unsaid, lines[-1])] if self._lost_unsaid else []
        said, sent = self._lost_unsaid, list[asyncio.Future[Any]]()
        try:
            async with asyncio.timeout(LIMIT_S):
                await self._send([*lines, *gap], sent)
        except (ClientError, KafkaError, OSError) as error:
            self._reason = str(error) or type(error).__name__
        finally:  # the node may stop meanwhile
            if len(sent) > len(lines) and _is_there(sent[-1]):
                self._lost_unsaid -= said
            is_done = self._settle(lines, sent)
        return is_done

    async def _send(self, lines: Sequence[Line], sent: list[asyncio.Future[Any]]) -> None:
        """Raises KafkaError, ClientError, TimeoutError. `sent` gets what will be known of each line."""
        if self._writer is None:
            self._writer = self._new_writer()
            if self._writer is None:
                raise ClientError("no broker is known yet")
            await self._writer.start()
        for line in lines:
            to = await self._writer.send(self._topic, line.text, key=self._key, timestamp_ms=line.timestamp_ms)
            sent.append(to)
        await asyncio.wait(sent)

    def _settle(self, lines: Sequence[Line], sent: Sequence[asyncio.Future[Any]]) -> bool:
        """Take out of the queue what is in the topic, or never will be; whether that is all."""
        left = []
        for line, future in zip_longest(lines, sent[: len(lines)]):
            self._queue.popleft()
            error = future.exception() if future is not None and future.done() and not future.cancelled() else None
            if isinstance(error, KafkaError) and error.code in NEVER_TAKEN:
                self._reason = str(error)
                self._lose()
            elif future is None or not _is_there(future):
                self._reason = self._reason if error is None else str(error)
                left.append(line)
                continue
            self._bytes -= len(line.text)
        self._queue.extendleft(reversed(left))
        return not left

    def _gap(self, lines: int, behind: Line) -> Line:
        """What is lost came when the queue was full, behind what was in it."""
        text = json.dumps({"event": "lost", "lines": lines}) if self._as_json else f"{lines} lines were lost here"
        return Line(behind.timestamp_ms, text.encode())

    async def _close_writer(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            await writer.close(0)


def _one_line(text: str) -> str:
    """Names come from whoever asks: who reads the topic as text would take what stands behind an end of a line in one
    for a line of its own.
    """
    return text if text.isprintable() else "".join(it if it.isprintable() else ascii(it)[1:-1] for it in text)


def _is_there(sent: asyncio.Future[Any]) -> bool:
    return sent.done() and not sent.cancelled() and sent.exception() is None


def begin(context: NodeContext, links: Links) -> AuditTopic:
    """By the node's configuration."""
    config = context.config
    as_json = config.penstock_authorizer_audit_format == "json"
    made = AuditTopic(config.penstock_authorizer_audit_topic, config.node_id, links.producer, as_json=as_json)
    what = "Lines of the audit log that are not in its topic, as there was no room for them until it took them"
    context.metrics.add(Counter(Group.PLUGINS, "audit-topic-lost-total", what, lambda: made.lost))
    made.begin()
    return made
