"""From the parts that a file declares to a pipeline; all errors are reported at once."""

import difflib
import json
import re
from collections.abc import Iterable, Mapping

from penstock.pipeline.errors import PipelineError, UnfitSchemaError
from penstock.pipeline.spec.pipeline import (
    BOOTSTRAP,
    MODES,
    PENSTOCK,
    SOURCE,
    PipelineSpec,
    SinkSpec,
    SourceSpec,
    TableSpec,
    Transform,
    is_bootstrap,
)
from penstock.pipeline.values.kinds import AVRO, JSON_SCHEMA, PROTOBUF, TypedValues

PARTS = ("name", "source", "sources", "tables", "sql", "sink", "trigger", "checkpoint", "spark")
TYPED = (JSON_SCHEMA, AVRO, PROTOBUF)
VALUES = ("json", *TYPED)
IDENTIFIER = re.compile(r"[A-Za-z_]\w*")


def pipeline_spec(name: str, parts: Mapping[str, object], transform: Transform | None = None) -> PipelineSpec:
    """PipelineError has a line for each part that is wrong."""
    reader = _Reader()
    spec = reader.pipeline(str(parts.get("name", name)), parts, transform)
    if reader.problems:
        raise PipelineError("\n".join(f"Pipeline {name}: {problem}" for problem in reader.problems))
    return spec


def texts(name: str, part: str, declared: object) -> dict[str, str]:
    """Options as Spark takes them: all text; what is nested becomes JSON."""
    reader = _Reader()
    read = reader.texts(part, declared)
    if reader.problems:
        raise PipelineError(f"Pipeline {name}: {reader.problems[0]}")
    return read


class _Reader:
    """Reads part by part; errors are noted, and a harmless value stands in."""

    def __init__(self) -> None:
        self.problems: list[str] = []

    def pipeline(self, name: str, parts: Mapping[str, object], transform: Transform | None) -> PipelineSpec:
        for part in parts:
            if part not in PARTS:
                near = difflib.get_close_matches(part, PARTS, 1)
                hint = f"did you mean {near[0]}?" if near else f"its parts are {', '.join(PARTS)}."
                self.problems.append(f"{part!r} is no part of a pipeline; {hint}")
        sources, dead_letters = self._sources(parts)
        tables = {
            table: self._table(table, declared) for table, declared in self._named("tables", parts.get("tables", {}))
        }
        self._check_names([*sources, *tables])
        servers = next((value for source in sources.values() for value in _servers(source)), None)
        sinks = (*self._sinks(parts, servers), *dead_letters)
        if _repeated(sink.name for sink in sinks):
            self.problems.append(f"two sinks have the same name ({', '.join(sink.name for sink in sinks)}).")
        sql, trigger = parts.get("sql"), parts.get("trigger")
        if transform is None and sql is None and len(sources) + len(tables) > 1:
            self.problems.append("several sources and tables need sql, or a function, that makes one result of them.")
        return PipelineSpec(
            name=name,
            sources=sources,
            sinks=sinks,
            transform=transform or (None if sql is None else str(sql)),
            tables=tables,
            trigger=None if trigger is None else str(trigger),
            checkpoint=str(parts.get("checkpoint", "")),
            spark=self.texts("spark", parts.get("spark", {})),
        )

    def texts(self, part: str, declared: object) -> dict[str, str]:
        if not isinstance(declared, Mapping):
            self.problems.append(f"{part} must be a table of options, not {declared!r}.")
            return {}
        return {str(key): _text(value) for key, value in declared.items()}

    def _named(self, part: str, declared: object) -> list[tuple[str, object]]:
        if not isinstance(declared, Mapping):
            self.problems.append(f"{part} must be a table of names with options, not {declared!r}.")
            return []
        return [(str(name), options) for name, options in declared.items()]

    def _check_names(self, names: list[str]) -> None:
        for name in names:
            if not IDENTIFIER.fullmatch(name):
                self.problems.append(f"{name!r} cannot be a view in SQL: letters, digits and _ can.")
        for name in _repeated(names):
            self.problems.append(f"{name} is the name of a source and of a table.")

    def _sources(self, parts: Mapping[str, object]) -> tuple[dict[str, SourceSpec], list[SinkSpec]]:
        if ("source" in parts) == ("sources" in parts):
            self.problems.append(
                "it needs a source and a sink." if "source" not in parts else "give source or sources."
            )
        declared = (
            [(SOURCE, parts["source"])] if "source" in parts else self._named("sources", parts.get("sources", {}))
        )
        sources: dict[str, SourceSpec] = {}
        dead_letters: list[SinkSpec] = []
        for name, given in declared:
            options = self.texts("source" if name == SOURCE else f"source {name}", given)
            sources[name] = source = self._source(name, options)
            if source.dead_letter is not None:
                options = {"topic": source.dead_letter} | dict.fromkeys([BOOTSTRAP], *_servers(source)[:1])
                dead_letters.append(SinkSpec(options, dead_letter_of=name))
        return sources, dead_letters

    def _source(self, name: str, options: dict[str, str]) -> SourceSpec:
        watermark = options.pop("watermark", None)
        column, comma, delay = (watermark or "").partition(",")
        if watermark is not None and not (comma and delay.strip()):
            self.problems.append(f"watermark: {watermark} must be a column and a delay, such as: at, 1 hour")
            watermark = None
        given = [form for form in VALUES if form in options]
        if len(given) > 1:
            self.problems.append(f"source {name} has {' and '.join(given)}: one of them says what the values are.")
        topic = options.pop("dead_letter", None)
        if topic is not None and not given:
            self.problems.append(f"dead_letter of {name} is for values that are not of their json, which is missing.")
        typed = self._typed(name, options)
        return SourceSpec(
            format=options.pop("format", PENSTOCK),
            json=options.pop("json", None),
            typed=typed,
            dead_letter=topic,
            watermark=(column.strip(), delay.strip()) if watermark is not None else None,
            options=options,
        )

    def _typed(self, name: str, options: dict[str, str]) -> TypedValues | None:
        kind = next((kind for kind in TYPED if kind in options), None)
        if kind is None:
            return None
        from penstock.pipeline.values.schemas import typed_values

        try:
            return typed_values(kind, options)
        except UnfitSchemaError as error:
            self.problems.append(f"{kind} of {name}: {error}")
            return None

    def _table(self, name: str, declared: object) -> TableSpec:
        options = self.texts(f"table {name}", declared)
        kind = options.pop("format", None)
        if kind is None:
            self.problems.append(f"table {name} needs a format, such as csv, json, parquet or jdbc.")
        return TableSpec(options, kind or "")

    def _sinks(self, parts: Mapping[str, object], servers: str | None) -> tuple[SinkSpec, ...]:
        if "sink" not in parts:
            if "source" in parts or "sources" in parts:
                self.problems.append("it needs a source and a sink.")
            return ()
        declared = parts["sink"]
        listed = declared if isinstance(declared, list) else [declared]
        sinks = tuple(self._sink(self.texts("sink", item), servers) for item in listed)
        if not sinks:
            self.problems.append("it needs a source and a sink.")
        return sinks

    def _sink(self, options: dict[str, str], servers: str | None) -> SinkSpec:
        kind, mode, key = options.pop("format", PENSTOCK), options.pop("mode", MODES[0]), options.pop("key", None)
        if mode not in MODES:
            self.problems.append(f"mode: {mode} must be {' or '.join(MODES)}.")
        if kind == PENSTOCK and servers is not None and not any(is_bootstrap(option) for option in options):
            options[BOOTSTRAP] = servers
        return SinkSpec(options, kind, mode, key)


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, default=str)


def _servers(source: SourceSpec) -> list[str]:
    return [value for option, value in source.options.items() if is_bootstrap(option)]


def _repeated(names: Iterable[str]) -> list[str]:
    listed = list(names)
    return sorted({name for name in listed if listed.count(name) > 1})
