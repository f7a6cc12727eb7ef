"""What a pipeline is: a source, a transformation, one or more sinks, when to run, where to remember how far it came.

| part       | in YAML                                       | in Python                                         |
| ---------- | --------------------------------------------- | ------------------------------------------------- |
| name       | `name: delays` (or the file's name)           | `NAME = "delays"`                                 |
| source     | `source:` options of `format("penstock")`     | `SOURCE = {…}`                                    |
| transform  | `sql: SELECT … FROM source`                   | `def pipeline(source: DataFrame) -> DataFrame`    |
| sink       | `sink:` options, or a list of such            | `SINK = {…}` or `[{…}, {…}]`                      |
| trigger    | `trigger: 5 seconds`, `available-now`, `once` | `TRIGGER = "5 seconds"`                           |
| checkpoint | `checkpoint: ./checkpoints/delays`            | `CHECKPOINT = "./checkpoints/delays"`             |
| spark      | `spark:` settings of the session              | `SPARK = {…}`                                     |

Besides options a source knows `format` (penstock), `json` (the fields of the values, as DDL) and `watermark` ("column,
delay"); a sink knows `format` (penstock), `mode` (append, update, complete) and `key` (the column that is the key).
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.pipeline.errors import PipelineError
from penstock.protocol.value import Value, fresh

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PENSTOCK = "penstock"
BOOTSTRAP = "bootstrap.servers"
PARTS = ("name", "source", "sql", "sink", "trigger", "checkpoint", "spark")
MODES = ("append", "update", "complete")
AVAILABLE_NOW, ONCE = "available-now", "once"
CHECKPOINTS = Path("penstock-checkpoints")

Transform = Callable[["DataFrame"], "DataFrame"]


class SourceSpec(Value):
    """Where rows come from."""

    options: Mapping[str, str]
    format: str = PENSTOCK
    json: str | None = None
    watermark: tuple[str, str] | None = None


class SinkSpec(Value):
    """Where rows go."""

    options: Mapping[str, str]
    format: str = PENSTOCK
    mode: str = "append"
    key: str | None = None

    @property
    def name(self) -> str:
        """What people call it: the topic, the last part of the path, or the format."""
        return self.options.get("topic") or Path(self.options.get("path", self.format)).name

    def option(self, name: str) -> str | None:
        """One of its options, in whatever case it was written."""
        return next((value for key, value in self.options.items() if key.lower() == name.lower()), None)


class PipelineSpec(Value):
    """A whole pipeline. `transform` is SQL about the view `source`, or a function; None passes rows on as they are.

    `file` is the Python file that the function is from.
    """

    name: str
    source: SourceSpec
    sinks: tuple[SinkSpec, ...]
    transform: str | Transform | None = None
    trigger: str | None = None
    checkpoint: str = ""
    spark: Mapping[str, str] = fresh(dict)
    file: Path | None = None

    def with_bootstrap_servers(self, servers: str) -> "PipelineSpec":
        """The same pipeline on another cluster."""

        def moved(options: Mapping[str, str]) -> dict[str, str]:
            return {name: value for name, value in options.items() if not _is_bootstrap(name)} | {BOOTSTRAP: servers}

        source = self.source
        return self.replace(
            source=source.replace(options=moved(source.options)) if source.format == PENSTOCK else source,
            sinks=tuple(
                sink.replace(options=moved(sink.options)) if sink.format == PENSTOCK else sink for sink in self.sinks
            ),
        )

    def query_name(self, sink: SinkSpec) -> str:
        """What Spark calls the query of this sink."""
        return f"{self.name}: {sink.name}"

    @property
    def checkpoint_root(self) -> str:
        """The directory of all checkpoints of this pipeline."""
        return (self.checkpoint or str(CHECKPOINTS / self.name)).rstrip("/")

    def checkpoint_of(self, sink: SinkSpec) -> str:
        """Each sink is a query with a checkpoint of its own, at the same place whatever other sinks there are."""
        return sink.option("checkpointLocation") or f"{self.checkpoint_root}/{sink.name}"


def pipeline_spec(name: str, parts: Mapping[str, object], transform: Transform | None = None) -> PipelineSpec:
    """Check the parts that a file declares; PipelineError says which is wrong."""
    unknown = [part for part in parts if part not in PARTS]
    if unknown:
        raise PipelineError(
            f"Pipeline {name}: {unknown[0]!r} is no part of a pipeline; its parts are {', '.join(PARTS)}."
        )
    if "source" not in parts or "sink" not in parts:
        raise PipelineError(f"Pipeline {name}: it needs a source and a sink.")
    source = _source(name, texts(name, "source", parts["source"]))
    declared = parts["sink"]
    sinks = tuple(
        _sink(name, texts(name, "sink", item), source)
        for item in (declared if isinstance(declared, list) else [declared])
    )
    names = [sink.name for sink in sinks]
    if len(set(names)) < len(names):
        raise PipelineError(f"Pipeline {name}: two sinks have the same name ({', '.join(names)}).")
    sql, trigger = parts.get("sql"), parts.get("trigger")
    return PipelineSpec(
        name=str(parts.get("name", name)),
        source=source,
        sinks=sinks,
        transform=transform or (None if sql is None else str(sql)),
        trigger=None if trigger is None else str(trigger),
        checkpoint=str(parts.get("checkpoint", "")),
        spark=texts(name, "spark", parts.get("spark", {})),
    )


def texts(name: str, part: str, declared: object) -> dict[str, str]:
    """Options as Spark takes them: all text; what is nested becomes JSON."""
    if not isinstance(declared, Mapping):
        raise PipelineError(f"Pipeline {name}: {part} must be a table of options, not {declared!r}.")
    return {str(key): _text(value) for key, value in declared.items()}


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, default=str)


def _source(name: str, options: dict[str, str]) -> SourceSpec:
    watermark = options.pop("watermark", None)
    column, comma, delay = (watermark or "").partition(",")
    if watermark is not None and not (comma and delay.strip()):
        raise PipelineError(
            f"Pipeline {name}: watermark: {watermark} must be a column and a delay, such as: at, 1 hour"
        )
    return SourceSpec(
        format=options.pop("format", PENSTOCK),
        json=options.pop("json", None),
        watermark=(column.strip(), delay.strip()) if watermark is not None else None,
        options=options,
    )


def _sink(name: str, options: dict[str, str], source: SourceSpec) -> SinkSpec:
    kind, mode, key = options.pop("format", PENSTOCK), options.pop("mode", MODES[0]), options.pop("key", None)
    if mode not in MODES:
        raise PipelineError(f"Pipeline {name}: mode: {mode} must be {' or '.join(MODES)}.")
    servers = next((value for option, value in source.options.items() if _is_bootstrap(option)), None)
    if kind == PENSTOCK and servers is not None and not any(_is_bootstrap(option) for option in options):
        options[BOOTSTRAP] = servers
    return SinkSpec(options, kind, mode, key)


def _is_bootstrap(option: str) -> bool:
    return option.lower().removeprefix("kafka.") == BOOTSTRAP
