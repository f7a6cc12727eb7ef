"""What does not go together with how often a pipeline's batches run, as far as its file says it.

| said | meaning | what Spark wants |
| --- | --- | --- |
| `asyncProgressTrackingEnabled` | how far it came is written beside the batches | few sinks, no state, no end, |
| | | no source in Python |
| `trigger: real-time` | rows go through batches that last minutes | its own Kafka connector, `mode: update` |
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from penstock.pipeline.spec.pipeline import (
    ASYNC,
    AVAILABLE_NOW,
    KAFKA,
    ONCE,
    PENSTOCK,
    REAL_TIME,
    PipelineSpec,
    SinkSpec,
    SourceSpec,
)
from penstock.pipeline.spec.places import Way

WITH_ASYNC: Final = (PENSTOCK, KAFKA, "memory", "noop")
IN_REAL_TIME: Final = (KAFKA, "console")


def tempo_problems(spec: PipelineSpec, sinks: Sequence[tuple[SinkSpec, Way]]) -> Iterator[tuple[Way, str]]:
    """Of the sinks that the file says, with their places."""
    for sink, way in sinks:
        if sink.is_async and sink.is_exactly_once:
            yield (
                (*way, ASYNC),
                f"{ASYNC} is not for delivery: exactly-once, which needs notes between batches.",
            )
        if sink.is_async and sink.format not in WITH_ASYNC:
            known = ", ".join(WITH_ASYNC)
            yield (*way, ASYNC), f"{ASYNC} is not for {sink.format}: Spark has it for {known}."
        if sink.is_async and PENSTOCK in (source.format for source in spec.sources.values()):
            why = "Spark commits a source in Python when it has stopped it, and the query never ends"
            yield (*way, ASYNC), f"{ASYNC} is not for sources of format {PENSTOCK} ({why}): read with format: {KAFKA}."
        if sink.is_async and spec.trigger in (AVAILABLE_NOW, ONCE):
            yield (*way, ASYNC), f"{ASYNC} is for batches that go on, not for trigger: {spec.trigger}."
    if is_real_time(spec.trigger):
        yield from _real_time_problems(spec.sources, sinks)


def is_real_time(trigger: str | None) -> bool:
    return trigger is not None and trigger.partition(" ")[0] == REAL_TIME


def _real_time_problems(
    sources: Mapping[str, SourceSpec], sinks: Sequence[tuple[SinkSpec, Way]]
) -> Iterator[tuple[Way, str]]:
    why = f"trigger: {REAL_TIME} is for Spark's own connector (org.apache.spark:spark-sql-kafka-0-10)"
    for name, source in sources.items():
        if source.format != KAFKA:
            yield ("trigger",), f"{why}: source {name} needs format: {KAFKA}, and is {source.format}."
    for sink, way in sinks:
        if sink.format not in IN_REAL_TIME:
            yield way, f"{why}: the sink needs format: {KAFKA}, and is {sink.format}."
        if sink.mode != "update":
            yield way, f"trigger: {REAL_TIME} needs mode: update in each sink."
