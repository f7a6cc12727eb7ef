"""`latest` of a registry means the same for all sinks and after each start, until the pipeline is deployed again."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from penstock.pipeline.errors import PipelineError
from penstock.pipeline.jvm import TextFiles
from penstock.pipeline.running.pinned_schemas import AFTER_ALL_MS, FOLDER, with_pinned_schemas
from penstock.pipeline.spec.parts import pipeline_spec
from penstock.pipeline.spec.pipeline import PipelineSpec
from penstock.testing.typed_rows import MemoryRegistry

FIELDS: dict[str, Any] = {
    "id": "int",
    "where": {"type": "record", "name": "Town", "fields": [{"name": "name", "type": "string"}]},
}


def document(**fields: Any) -> tuple[str, str]:
    listed = [{"name": name, "type": kind} for name, kind in fields.items()]
    schema = {"type": "record", "name": "Order", "fields": listed}
    return "orders-value", json.dumps({"schema": json.dumps(schema)})


class Deployed:
    """A pipeline whose registry has one version after the other."""

    def __init__(self, files: TextFiles, root: Path) -> None:
        self._files = files
        self._root = root
        self.versions = [document(**FIELDS)]

    def number(self, deployed_ms: int = -1, *, writes: bool = True) -> int | None:
        source = {"subscribe": "orders", "avro": "latest", "schema.registry.url": "http://nowhere.invalid"}
        parts = {"source": source, "sink": {"topic": "out"}, "checkpoint": str(self._root)}
        spec = with_pinned_schemas(
            self._in_memory(pipeline_spec("job", parts)), self._files, deployed_ms, writes=writes
        )
        typed = spec.sources["source"].typed
        assert typed is not None
        return typed.number

    def _in_memory(self, spec: PipelineSpec) -> PipelineSpec:
        """Of versions that are not the latest only the ids are known."""
        (source,) = spec.sources.values()
        assert source.typed is not None
        known = [("", text) for _, text in self.versions[:-1]] + [self.versions[-1]]
        typed = source.typed.replace(registry=MemoryRegistry(tuple(known)))
        return spec.replace(sources={"source": source.replace(typed=typed)})


@pytest.fixture
def job(spark: SparkSession, tmp_path: Path) -> Deployed:
    return Deployed(TextFiles(spark), tmp_path)


def test_a_new_version_counts_when_the_pipeline_is_deployed_again(job: Deployed, tmp_path: Path) -> None:
    assert job.number(deployed_ms=100) == 1
    job.versions.append(document(**FIELDS, note={"type": "string", "default": ""}))
    assert (job.number(100), job.number()) == (1, 1)
    assert job.number(deployed_ms=200) == 2
    assert job.number(100) == 2, "a task of before that still ends takes nothing back"
    said = [json.loads((tmp_path / FOLDER / str(number)).read_text()) for number in range(2)]
    assert said == [{"deployed_ms": 100 * one, "ids": {"orders-value": one}} for one in (1, 2)]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda fields: fields.pop("id"), "id is not there"),
        (lambda fields: fields.update(id="long"), "id is BIGINT, not INT"),
        (lambda fields: fields.update(where={**FIELDS["where"], "fields": []}), "where.name is not there"),
    ],
)
def test_one_that_does_not_fit_is_refused_before_anything_is_read(
    job: Deployed, change: Callable[[dict[str, Any]], object], why: str
) -> None:
    fields = dict(FIELDS)
    change(fields)
    assert job.number(deployed_ms=1) == 1
    assert job.number(AFTER_ALL_MS, writes=False) == 1
    job.versions.append(document(**fields))
    for writes in (False, True):
        with pytest.raises(
            PipelineError, match=rf"orders-value \(id 2\) does not fit .* \(id 1\): {why}\. Nothing was read"
        ):
            job.number(deployed_ms=2, writes=writes)
    assert job.number() == 1


def test_of_two_that_ask_at_the_same_time_one_answers(spark: SparkSession, tmp_path: Path) -> None:
    files = TextFiles(spark)
    assert files.create(f"{tmp_path}/#a/0", "first")
    assert not files.create(f"{tmp_path}/#a/0", "second")
    assert (files.read(f"{tmp_path}/#a/0"), files.names(f"{tmp_path}/#a")) == ("first", ["0"])
