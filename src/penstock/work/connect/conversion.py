"""Records between a task and its topics: transforms, converters, and what happens when one of them fails.

What is built in runs on the worker's event loop, some milliseconds at a time. A user's transform, predicate or
converter may block: where there is one, all are called in the task's own thread.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from time import perf_counter
from typing import Any, Final, NamedTuple, TypeVar

from penstock.client.values import ConsumedRecord
from penstock.protocol.value import Value
from penstock.work.connect.api import Record, RetriableError, SinkRecord
from penstock.work.connect.calls import Calls
from penstock.work.connect.chain import Step, chain_of
from penstock.work.connect.chain import is_built_in as chain_built_in
from penstock.work.connect.converters import CONVERTERS, Converter, converter_of
from penstock.work.connect.errors import ErrorPolicy, Failure, Skipped
from penstock.work.connect.headers import HeaderConverter, header_converter_of
from penstock.work.connect.headers import is_built_in as headers_built_in

SLICE_S: Final = 0.002
"""How long built-in steps may hold the event loop."""
Item = TypeVar("Item")
Result = TypeVar("Result")
Made = TypeVar("Made", bound=Record)


class OutgoingRecord(NamedTuple):
    record: Record
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


class StageError(Exception):
    def __init__(self, failure: Failure) -> None:
        super().__init__(str(failure.error))
        self.failure = failure


class Steps(Value, kw_only=True):
    """`may_block`: not all steps are built in."""

    key: Converter
    value: Converter
    headers: HeaderConverter
    transforms: Sequence[tuple[str, Step]]
    may_block: bool

    def to_topic(self, record: Record) -> OutgoingRecord | None:
        """None if a transform drops it; StageError."""
        changed = self._changed(record)
        return None if changed is None else self.in_bytes(changed)

    def in_bytes(self, record: Record) -> OutgoingRecord:
        """Without transforms; StageError."""
        topic = record.topic
        key = _stage("KEY_CONVERTER", self.key, self.key.to_bytes, topic, record.key_schema, record.key)
        value = _stage("VALUE_CONVERTER", self.value, self.value.to_bytes, topic, record.value_schema, record.value)
        write = self.headers.to_header
        headers = [
            (name, _stage("HEADER_CONVERTER", self.headers, write, topic, name, content))
            for name, content in record.headers
        ]
        return OutgoingRecord(record, key, value, headers)

    def from_topic(self, one: ConsumedRecord) -> SinkRecord | None:
        """None if a transform drops it; StageError."""
        topic = one.topic
        key_schema, key = _stage("KEY_CONVERTER", self.key, self.key.from_bytes, topic, one.key)
        value_schema, value = _stage("VALUE_CONVERTER", self.value, self.value.from_bytes, topic, one.value)
        read = self.headers.from_header
        headers = tuple(
            (name, _stage("HEADER_CONVERTER", self.headers, read, topic, name, data)) for name, data in one.headers
        )
        made = self._changed(
            SinkRecord(
                topic,
                one.partition,
                key,
                value,
                key_schema,
                value_schema,
                one.timestamp_ms,
                headers,
                one.offset,
                topic,
                one.partition,
                one,
            )
        )
        return made if made is None or made.consumed is one else made.replace(consumed=one)  # a transform made it anew

    def _changed(self, record: Made) -> Made | None:
        for name, step in self.transforms:
            changed = _stage("TRANSFORMATION", name, step, record)
            if changed is None:
                return None
            if not isinstance(changed, type(record)):
                raise StageError(Failure("TRANSFORMATION", name, TypeError(f"it returned {changed!r}: no record")))
            record = changed
        return record


def steps_of(config: Mapping[str, str], defaults: Mapping[str, str]) -> Steps:
    """From the connector's configuration, else from its worker's; ConfigError, PluginError."""
    key, value = (converter_of(config, defaults, kind) for kind in ("key.converter", "value.converter"))
    headers = header_converter_of(config, defaults)
    are_ours = (
        type(key) in CONVERTERS.values(),
        type(value) in CONVERTERS.values(),
        headers_built_in(headers),
        chain_built_in(config),
    )
    return Steps(key=key, value=value, headers=headers, transforms=chain_of(config), may_block=not all(are_ours))


class Conversion:
    """Passes records through the steps, in their order, and asks the policy about those that fail."""

    def __init__(self, may_block: bool, calls: Calls, errors: ErrorPolicy) -> None:
        self._may_block = may_block
        self._calls = calls
        self._errors = errors

    async def of(
        self, items: Sequence[Item], step: Callable[[Item], Result | None]
    ) -> AsyncIterator[tuple[Item, Result | None]]:
        """Each item with its result; None if it was dropped or left out. Errors that are not tolerated are raised."""
        done = 0
        retries = self._errors.retries()
        while done < len(items):
            for outcome in await self._some(items, done, step):
                item = items[done]
                if not isinstance(outcome, Failure):
                    yield item, outcome
                elif isinstance(outcome.error, RetriableError) and await retries.wait():
                    break
                else:
                    with suppress(Skipped):
                        await self._errors.give_up(outcome, item if isinstance(item, ConsumedRecord) else None)
                    yield item, None
                retries = self._errors.retries()
                done += 1

    async def _some(self, items: Sequence[Item], start: int, step: Callable[[Item], Result | None]) -> list[Any]:
        if self._may_block:
            outcomes: list[Any] = await self._calls.call(convert, items, start, step, float("inf"))
            return outcomes
        if start:
            await asyncio.sleep(0)
        return convert(items, start, step, perf_counter() + SLICE_S)


def convert(items: Sequence[Item], start: int, step: Callable[[Item], Result | None], until_s: float) -> list[Any]:
    """Results or Failures of the items from `start` on, until that time or until one must be tried again."""
    outcomes: list[Any] = []
    for item in islice(items, start, None):
        try:
            outcomes.append(step(item))
        except StageError as error:
            outcomes.append(error.failure)
            if isinstance(error.failure.error, RetriableError):
                break
        if perf_counter() > until_s:
            break
    return outcomes


def _stage(stage: str, component: object, operation: Callable[..., Any], *arguments: object) -> Any:
    try:
        return operation(*arguments)
    except Exception as error:
        name = component if isinstance(component, str) else type(component).__name__
        raise StageError(Failure(stage, name, error)) from error
