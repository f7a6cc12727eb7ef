"""What happens when a record cannot be converted or transformed: tried again, left out and reported, or the end.

| `errors.…` | default | what it says |
| --- | --- | --- |
| `retry.timeout` | 0 | for how many ms a RetriableError is tried again; -1 for ever |
| `retry.delay.max.ms` | 60000 | the longest pause between two tries |
| `tolerance` | none | `all`: a record that fails is left out; `none`: it fails the task |
| `log.enable` | false | whether what is left out is logged |
| `log.include.messages` | false | whether where the record lay is logged as well |
| `deadletterqueue.topic.name` | | the topic that gets what a sink leaves out |
| `deadletterqueue.topic.replication.factor` | -1 | its replicas, if it has to be made; -1: the broker's number |
| `deadletterqueue.context.headers.enable` | false | whether its headers say what happened |
"""

import asyncio
import logging
import traceback
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NoReturn

from penstock.client.values import ConsumedRecord
from penstock.protocol.value import Value
from penstock.work.connect.config import ConfigKey

LEFT_OUT: Final = "errors.deadletterqueue.topic.name"
LEFT_OUT_REPLICAS: Final = "errors.deadletterqueue.topic.replication.factor"
KEYS: Final = (
    ConfigKey("errors.retry.timeout", "long", 0, "How long a RetriableError is tried again, in ms; -1 for ever."),
    ConfigKey("errors.retry.delay.max.ms", "long", 60_000, "The longest pause between two tries.", least=1),
    ConfigKey("errors.tolerance", "string", "none", "Whether records that fail are left out.", choices=("none", "all")),
    ConfigKey("errors.log.enable", "boolean", False, "Whether what is left out is logged."),
    ConfigKey("errors.log.include.messages", "boolean", False, "Whether where the record lay is logged as well."),
    ConfigKey(LEFT_OUT, "string", "", "The topic that gets what a sink leaves out."),
    ConfigKey(LEFT_OUT_REPLICAS, "short", -1, "Its replicas, if it has to be made; -1: the broker's number.", least=-1),
    ConfigKey(
        "errors.deadletterqueue.context.headers.enable", "boolean", False, "Whether its headers say what happened."
    ),
)
FIRST_DELAY_MS: Final = 300
logger = logging.getLogger(__name__)


class Failure(Value):
    stage: str
    component: str
    error: Exception


class Skipped(Exception):  # noqa: N818 - it is no error: the record is left out
    pass


Report = Callable[[Failure, ConsumedRecord | None], Awaitable[None]]


class Retries:
    """Tries one record again with longer and longer pauses, until a time after its first failure."""

    def __init__(self, limit_ms: int, longest_delay_ms: int) -> None:
        self._limit_ms = limit_ms
        self._longest_delay_ms = longest_delay_ms
        self._delay_ms = FIRST_DELAY_MS
        self._deadline: float | None = None

    async def wait(self) -> bool:
        """Pause before the next try; False at once if there is none."""
        now = asyncio.get_running_loop().time()
        if self._deadline is None:
            self._deadline = now + self._limit_ms / 1000
        pause_s = min(self._delay_ms, self._longest_delay_ms) / 1000
        if self._limit_ms >= 0 and now + pause_s > self._deadline:
            return False
        await asyncio.sleep(pause_s)
        self._delay_ms *= 2
        return True


class ErrorPolicy:
    """`report` is called with each record that is left out."""

    def __init__(
        self,
        settings: Mapping[str, Any],
        name: str,
        discreet: Callable[[str], str] = str,
        report: Report | None = None,
    ) -> None:
        """`discreet` leaves out of words what nobody is told."""
        self._settings = settings
        self._name = name
        self._discreet = discreet
        self._report = report

    def retries(self) -> "Retries":
        return Retries(self._settings["errors.retry.timeout"], self._settings["errors.retry.delay.max.ms"])

    async def give_up(self, failure: Failure, record: ConsumedRecord | None) -> NoReturn:
        """Raise Skipped, or the error if it is not tolerated."""
        if self._settings["errors.tolerance"] == "none":
            raise failure.error
        if self._settings["errors.log.enable"]:
            where = ""
            if record is not None and self._settings["errors.log.include.messages"]:
                where = f" ({record.topic_partition} offset {record.offset})"
            words = self._discreet(str(failure.error))
            logger.error("%s: a record is left out%s: %s: %s", self._name, where, failure.stage, words)
        if self._report is not None:
            await self._report(failure, record)
        raise Skipped from failure.error


def error_headers(
    failure: Failure, record: ConsumedRecord, connector: str, task: int, discreet: Callable[[str], str] = str
) -> list[tuple[str, bytes | None]]:
    """What Connect writes beside a record in the dead letter queue (KIP-298)."""
    error = failure.error
    words = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "connector.name": connector,
        "task.id": task,
        "stage": failure.stage,
        "class.name": failure.component,
        "exception.class.name": f"{type(error).__module__}.{type(error).__qualname__}",
        "exception.message": discreet(str(error)),
        "exception.stacktrace": discreet("".join(traceback.format_exception(error))),
    }
    return [(f"__connect.errors.{name}", str(word).encode()) for name, word in words.items()]
