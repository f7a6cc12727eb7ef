"""Which schemas of a registry `latest` stands for: beside the checkpoint, the same for all sinks and after each start.

CHECKPOINT/#schemas/N is the N-th answer, the newest one counts: ids by subjects, and when the pipeline was deployed
that asked. The first query that starts asks the registry. Later on a query asks only if it was deployed after that, and
what the registry says then must fit.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Final, TypeVar

from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from penstock.pipeline.errors import PipelineError
from penstock.pipeline.jvm import TextFiles
from penstock.pipeline.spec.pipeline import PipelineSpec, SinkSpec, SourceSpec
from penstock.pipeline.values.kinds import TypedValues
from penstock.pipeline.values.schemas import latest_id
from penstock.pipeline.values.typed_values import columns_and_schema
from penstock.protocol.value import Value, fresh

FOLDER: Final = "#schemas"
"""No topic has such a name, so no sink's checkpoint is there."""
NEVER_MS: Final = -1
AFTER_ALL_MS: Final = 1 << 62


Part = TypeVar("Part", SourceSpec, SinkSpec)


class Pins(Value):
    deployed_ms: int = NEVER_MS
    ids: Mapping[str, int] = fresh(dict)


def with_pinned_schemas(
    spec: PipelineSpec, files: TextFiles, deployed_ms: int = NEVER_MS, *, writes: bool = True
) -> PipelineSpec:
    """Nothing is latest afterwards; PipelineError where what is latest now does not fit. Without `writes` it is only
    looked at.
    """
    parts: list[SourceSpec | SinkSpec] = [*spec.sources.values(), *spec.sinks]
    typed = [one for part in parts for one in (part.typed, part.typed_key) if one is not None]
    latest = {one.subject: one for one in typed if one.is_latest}
    if not latest or not files.has_some:
        return spec
    folder = f"{spec.checkpoint_root}/{FOLDER}"
    while True:
        numbers = [int(name) for name in files.names(folder) if name.isdecimal()]
        known = Pins(**json.loads(files.read(f"{folder}/{max(numbers)}"))) if numbers else Pins()
        is_newer = deployed_ms > known.deployed_ms
        asked = latest.keys() if is_newer else latest.keys() - known.ids.keys()
        if not asked and not is_newer:
            return _pinned(spec, known.ids)
        now = {subject: latest_id(latest[subject]) for subject in asked}
        for subject in sorted(now.keys() & known.ids.keys()):
            _check_fit(latest[subject], known.ids[subject], now[subject])
        if not writes:
            return _pinned(spec, {**known.ids, **now})
        said = {"deployed_ms": max(deployed_ms, known.deployed_ms), "ids": {**known.ids, **now}}
        files.create(f"{folder}/{max(numbers, default=-1) + 1}", json.dumps(said))


def _pinned(spec: PipelineSpec, ids: Mapping[str, int]) -> PipelineSpec:
    def number(typed: TypedValues | None) -> TypedValues | None:
        return typed if typed is None or not typed.is_latest else typed.replace(number=ids[typed.subject])

    def pinned(part: Part) -> Part:
        return part.replace(typed=number(part.typed), typed_key=number(part.typed_key))

    sources = {name: pinned(source) for name, source in spec.sources.items()}
    return spec.replace(sources=sources, sinks=tuple(map(pinned, spec.sinks)))


def _check_fit(typed: TypedValues, before: int, now: int) -> None:
    if before == now:
        return
    changes = list(_changes(_columns(typed.replace(number=before)), _columns(typed.replace(number=now))))
    if changes:
        raise PipelineError(
            f"the latest schema of {typed.subject} (id {now}) does not fit the one that was read so far (id {before}): "
            f"{', '.join(changes)}. Nothing was read. Put a schema that fits into the registry, or give the pipeline "
            "the schema itself instead of latest."
        )


def _columns(typed: TypedValues) -> DataType:
    return DataType.fromDDL(columns_and_schema(typed)[0])


def _changes(before: DataType, now: DataType, way: str = "") -> Iterator[str]:
    """What a query that was made for the columns of before may miss; more columns are no harm."""
    if isinstance(before, StructType) and isinstance(now, StructType):
        for field in before.fields:
            inner = f"{way}.{field.name}".lstrip(".")
            if field.name in now.names:
                yield from _changes(field.dataType, now[field.name].dataType, inner)
            else:
                yield f"{inner} is not there"
    elif isinstance(before, ArrayType) and isinstance(now, ArrayType):
        yield from _changes(before.elementType, now.elementType, way)
    elif isinstance(before, MapType) and isinstance(now, MapType):
        yield from _changes(before.keyType, now.keyType, way)
        yield from _changes(before.valueType, now.valueType, way)
    elif before.simpleString() != now.simpleString():
        yield f"{way} is {now.simpleString().upper()}, not {before.simpleString().upper()}"
