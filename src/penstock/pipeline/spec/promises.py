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


def missed_at_server(spec: PipelineSpec) -> list[str]:
    """What is not so where its queries are at a server of Spark Connect: a session there sees no Java and no files."""
    missed = [
        "at a server nobody looks at a checkpoint before its query starts: whether partitions of state and output fit "
        "to it only Spark itself says",
        "at a server a query that is to end is stopped when its batch is seen to be over: a next one that has begun by "
        "then is interrupted, and repeated later",
    ]
    of_sources = [one for source in spec.sources.values() for one in (source.typed, source.typed_key)]
    of_sinks = [one for sink in spec.sinks for one in (sink.typed, sink.typed_key)]
    if any(one is not None and one.is_latest for one in (*of_sources, *of_sinks)):
        missed.append("at a server the latest schema of a registry is asked for at each start: say the id to keep one")
    if spec.file is not None and spec.file.suffix == ".py":
        missed.append(
            f"at a server functions of {spec.file.name} that run on rows import what is installed there; of the job's "
            "modules they take along what is imported at the top of the file"
        )
    return missed
