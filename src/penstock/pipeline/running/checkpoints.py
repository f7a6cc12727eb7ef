"""Where each sink of a pipeline remembers how far it came, and the case in which Spark would lose data silently.

A sink's checkpoint is CHECKPOINT/NAME, however many sinks there are.

Spark's file sinks skip every batch whose number is in the `_spark_metadata` of their output. A sink without checkpoint
counts from 0, so all that it reads first would be skipped: that is refused.
"""

from penstock.pipeline.committed_files import BATCH_FILE, OUTPUT_LOG
from penstock.pipeline.errors import PipelineError
from penstock.pipeline.jvm import ListFiles
from penstock.pipeline.spec.pipeline import PipelineSpec, SinkSpec


def checkpoints_of(spec: PipelineSpec, list_files: ListFiles) -> dict[str, str]:
    """The checkpoint of each sink by its name; PipelineError where data would be lost."""
    places = {sink.name: spec.checkpoint_of(sink) for sink in spec.sinks}
    for sink in spec.running:
        if not _batches(f"{places[sink.name]}/offsets", list_files):
            _check_output(spec, sink, list_files)
    return places


def _batches(log: str, list_files: ListFiles) -> list[int]:
    return [int(name.partition(".")[0]) for name in list_files(log) if BATCH_FILE.fullmatch(name)]


def _check_output(spec: PipelineSpec, sink: SinkSpec, list_files: ListFiles) -> None:
    path = sink.option("path")
    written = _batches(f"{path.rstrip('/')}/{OUTPUT_LOG}", list_files) if path else []
    if written:
        raise PipelineError(
            f"Sink {sink.name} of pipeline {spec.name} would start from nothing, as there is no checkpoint in "
            f"{spec.checkpoint_of(sink)}, but {path} has its batches up to {max(written)}: Spark would take new "
            "batches of these numbers for written and lose them. Bring the checkpoint back, or choose another path."
        )
