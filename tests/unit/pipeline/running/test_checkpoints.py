"""Whatever sinks come and go, a sink goes on from its own checkpoint, or the pipeline does not start."""

from pathlib import Path

import pytest

from penstock.pipeline.errors import PipelineError
from penstock.pipeline.jvm import local_files
from penstock.pipeline.running.checkpoints import checkpoints_of
from penstock.pipeline.spec.parts import pipeline_spec
from penstock.pipeline.spec.pipeline import PipelineSpec


def pipeline(folder: Path, *sinks: str) -> PipelineSpec:
    declared = [{"format": "parquet", "path": str(folder / "out" / sink)} for sink in sinks]
    return pipeline_spec(
        "p", {"source": {"subscribe": "a"}, "sink": declared, "checkpoint": str(folder / "checkpoints")}
    )


def begun(checkpoint: Path) -> None:
    """What Spark leaves there after a batch."""
    for part in ("offsets", "commits"):
        (checkpoint / part).mkdir(parents=True)
        (checkpoint / part / "0").touch()
    (checkpoint / "metadata").touch()


def written(output: Path, *batches: str) -> None:
    (output / "_spark_metadata").mkdir(parents=True)
    for batch in batches:
        (output / "_spark_metadata" / batch).touch()


def test_a_sink_that_is_added_leaves_the_first_where_it_was(tmp_path: Path) -> None:
    alone = checkpoints_of(pipeline(tmp_path, "rows"), local_files)
    assert alone == {"rows": f"{tmp_path}/checkpoints/rows"}
    begun(Path(alone["rows"]))
    written(tmp_path / "out" / "rows", "0", "1")
    both = checkpoints_of(pipeline(tmp_path, "rows", "more"), local_files)
    assert both == alone | {"more": f"{tmp_path}/checkpoints/more"}
    assert checkpoints_of(pipeline(tmp_path, "rows"), local_files) == alone


@pytest.mark.parametrize("batches", [("0",), ("9.compact", "10")])
def test_a_sink_that_would_start_from_nothing_into_its_own_batches_is_refused(
    tmp_path: Path, batches: tuple[str, ...]
) -> None:
    written(tmp_path / "out" / "rows", *batches)
    (tmp_path / "checkpoints" / "rows" / "offsets").mkdir(parents=True)  # a query that never planned a batch
    with pytest.raises(PipelineError, match=f"batches up to {batches[-1]}: Spark would .* lose them"):
        checkpoints_of(pipeline(tmp_path, "rows"), local_files)


def test_an_output_without_batches_of_spark_is_no_reason_to_stop(tmp_path: Path) -> None:
    written(tmp_path / "out" / "rows")
    assert checkpoints_of(pipeline(tmp_path, "rows"), local_files)


def test_a_sink_may_name_its_own_checkpoint(tmp_path: Path) -> None:
    sink = {"format": "noop", "checkpointlocation": "/elsewhere"}
    spec = pipeline_spec("p", {"source": {"subscribe": "a"}, "sink": sink})
    assert checkpoints_of(spec, local_files) == {"noop": "/elsewhere"}
