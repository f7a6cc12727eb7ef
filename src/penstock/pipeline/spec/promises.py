"""What each sink promises about rows of a batch that runs again after a crash."""

from typing import Final

from penstock.pipeline.spec.formats import FILES
from penstock.pipeline.spec.pipeline import DELTA, FOREACH_BATCH, ICEBERG, KAFKA, PENSTOCK, PipelineSpec, SinkSpec

OF_THEIR_OWN: Final = (DELTA, ICEBERG)
SHOWN_ONLY: Final = ("console", "memory", "noop")
AT_LEAST_ONCE: Final = "at least once: rows of a batch that runs again are there twice"
_OF_FORMATS: Final = {
    PENSTOCK: AT_LEAST_ONCE,
    KAFKA: AT_LEAST_ONCE,
    FOREACH_BATCH: "at least once: the function gets a batch that runs again, with the same number",
    **dict.fromkeys(OF_THEIR_OWN, "exactly once"),
    **dict.fromkeys((*FILES, "avro"), "exactly once, for readers that go by _spark_metadata, as Spark does"),
    **dict.fromkeys(SHOWN_ONLY, "nothing: no row is kept"),
}


def promise_of(sink: SinkSpec) -> str:
    if sink.is_exactly_once:
        return "exactly once, for readers with isolation.level=read_committed"
    if sink.changes is not None:
        return "exactly once: a row is replaced only by one that comes after it"
    return _OF_FORMATS.get(sink.format, f"what the format {sink.format} promises")


def promises_of(spec: PipelineSpec) -> list[str]:
    """A sentence for each sink."""
    return [f"sink {sink.name} writes {promise_of(sink)}" for sink in spec.sinks]
