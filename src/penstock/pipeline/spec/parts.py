"""From the parts that a file declares to a pipeline; all errors are reported at once, each with its place."""

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from penstock.pipeline.errors import UnfitSchemaError
from penstock.pipeline.options.table import known_name
from penstock.pipeline.options.values import nearest
from penstock.pipeline.spec.changes import OF_CHANGES, order_problems, take_changes, take_source_changes
from penstock.pipeline.spec.declared_options import shown, take_delivery, wrong_options
from penstock.pipeline.spec.formats import READ, WITH_A_PATH, WRITTEN
from penstock.pipeline.spec.given_values import SET, with_values
from penstock.pipeline.spec.notes import Notes
from penstock.pipeline.spec.pipeline import (
    AVAILABLE_NOW,
    BOOTSTRAP,
    DEAD_LETTER,
    MODES,
    OF_THE_QUERY,
    ONCE,
    PENSTOCK,
    REAL_TIME,
    SOURCE,
    PipelineSpec,
    SinkSpec,
    SourceSpec,
    SqlText,
    StepSpec,
    TableSpec,
    Transform,
    is_bootstrap,
)
from penstock.pipeline.spec.places import NOWHERE, Places, Way
from penstock.pipeline.spec.sink_rules import rules_of
from penstock.pipeline.spec.tempo import tempo_problems
from penstock.pipeline.values.kinds import AVRO, JSON_SCHEMA, PROTOBUF, TypedValues

PARTS = ("name", SET, "source", "sources", "tables", "steps", "sql", "sink", "trigger", "checkpoint", "spark")
TYPED = (JSON_SCHEMA, AVRO, PROTOBUF)
VALUES = ("json", *TYPED)
OF_A_SINK: Final = ("name", "format", "mode", "key", "from", "where", "expect", "dead_letter", "delivery")
"""Beside the options of its format."""
PARTS_OF_RECORDS: Final = ("value", "key")
OF_A_STEP: Final = ("sql", "function", "from")
SINK_NAME: Final = re.compile(r"[\w.-]+", re.ASCII)
"""It is a directory of the checkpoint as well, beside those that begin with #."""
IDENTIFIER = re.compile(r"[A-Za-z_]\w*", re.ASCII)
INTERVAL: Final = re.compile(r"(interval\s+)?[\d.]+\s*[a-z]", re.IGNORECASE)
"""How Spark's intervals begin; the rest of one is Spark's to judge."""
SPARKS: Final = "spark."


def pipeline_spec(
    name: str,
    parts: Mapping[str, object],
    transform: Transform | None = None,
    places: Places = NOWHERE,
    values: Mapping[str, str] | None = None,
) -> PipelineSpec:
    """`values` are those of `${NAME}`; PipelineError has a line for each part that is wrong."""
    reader = _Reader(name, places)
    filled, problems = with_values(parts, values or {})
    reader.note_all(problems)
    spec = reader.pipeline(name, filled, transform)
    reader.raise_problems()
    return spec


def texts(name: str, part: str, declared: object) -> dict[str, str]:
    """Options as Spark takes them: all text; what is nested becomes JSON."""
    reader = _Reader(name, NOWHERE)
    read = reader.texts(part, declared, (part,))
    reader.raise_problems()
    return read


class _Reader(Notes):
    """Reads part by part; errors are noted, and a harmless value stands in."""

    def pipeline(self, name: str, parts: Mapping[str, object], transform: Transform | None) -> PipelineSpec:
        for part in parts:
            if part not in PARTS:
                hint = nearest(part.lower(), PARTS) or f" Its parts are {', '.join(PARTS)}."
                self.note(f"{part!r} is no part of a pipeline.{hint}", part)
        sources, dead_letters = self._sources(parts)
        tables = {
            table: self._table(table, declared) for table, declared in self._named("tables", parts.get("tables", {}))
        }
        steps = self._steps(parts, (*sources, *tables))
        self._check_names({"sources": sources, "tables": tables, "steps": steps})
        servers = next((value for source in sources.values() for value in _servers(source)), None)
        own, ways = self._sinks(parts, servers)
        broken = (_sink_of_broken(sink, servers) for sink in own if sink.dead_letter is not None)
        sinks = (*own, *broken, *dead_letters)
        if _repeated(sink.name for sink in sinks):
            names = ", ".join(sink.name for sink in sinks)
            self.note(f"two sinks have the same name ({names}): say name: in one, or another dead_letter.", "sink")
        sql = self._word(parts, "sql")
        has_query = transform is not None or sql is not None or len(sources) + len(tables) + len(steps) == 1
        for sink, way in zip(own, ways, strict=True):
            self._check_origin(sink, way, (*sources, *steps), has_query=has_query)
        spec = PipelineSpec(
            name=self._word(parts, "name") or name,
            sources=sources,
            sinks=sinks,
            transform=transform or sql,
            tables=tables,
            steps=steps,
            trigger=self._trigger(parts),
            checkpoint=self._word(parts, "checkpoint") or "",
            spark=self._spark(parts.get("spark", {})),
            sql_place=self.places.of_text(("sql",)),
        )
        placed = list(zip(own, ways, strict=True))
        self.note_all((*tempo_problems(spec, placed), *order_problems(spec, placed)))
        return spec

    # -- the single parts ---------------------------------------------------------------------------------------------

    def _word(self, parts: Mapping[str, object], part: str) -> str | None:
        """A part that is a single text; None where it is not there."""
        value = parts.get(part)
        if part not in parts or isinstance(value, str | int | float):
            return None if value is None else str(value)
        self.note(f"{part} must be a text, not {shown(value)}.", part)
        return None

    def _trigger(self, parts: Mapping[str, object]) -> str | None:
        trigger = self._word(parts, "trigger")
        interval = (trigger or "").removeprefix(f"{REAL_TIME} ")
        if trigger is None or trigger in (AVAILABLE_NOW, ONCE, REAL_TIME) or INTERVAL.match(interval):
            return trigger
        hint = nearest(trigger.lower(), (AVAILABLE_NOW, ONCE, REAL_TIME))
        self.note(f"trigger: {trigger} must be a time such as 5 seconds, {AVAILABLE_NOW} or {ONCE}.{hint}", "trigger")
        return None

    def _spark(self, declared: object) -> dict[str, str]:
        settings = self.texts("spark", declared, ("spark",))
        for key in settings:
            if not key.startswith(SPARKS):
                self.note(f"{key} is no setting of Spark: they begin with {SPARKS}", "spark", key)
        return settings

    def _named(self, part: str, declared: object) -> list[tuple[str, object]]:
        if not isinstance(declared, Mapping):
            self.note(f"{part} must be a table of names with options, not {shown(declared)}.", part)
            return []
        return [(str(name), options) for name, options in declared.items()]

    def _check_names(self, views: Mapping[str, Iterable[str]]) -> None:
        """Of the views by the part that declares them."""
        seen: dict[str, str] = {}
        for part, names in views.items():
            for name in names:
                if not IDENTIFIER.fullmatch(name):
                    self.note(f"{name!r} cannot be a view in SQL: letters, digits and _ can.", part, name)
                if name in seen:
                    self.note(f"{name} is the name of a {seen[name]} and of a {part.rstrip('s')}.", part, name)
                seen[name] = part.rstrip("s")

    def _sources(self, parts: Mapping[str, object]) -> tuple[dict[str, SourceSpec], list[SinkSpec]]:
        if ("source" in parts) == ("sources" in parts):
            self.note("it needs a source and a sink." if "source" not in parts else "give source or sources.", "source")
        declared: list[tuple[str, object, Way]] = (
            [(SOURCE, parts["source"], (SOURCE,))]
            if "source" in parts
            else [(name, given, ("sources", name)) for name, given in self._named("sources", parts.get("sources", {}))]
        )
        sources: dict[str, SourceSpec] = {}
        dead_letters: list[SinkSpec] = []
        for name, given, way in declared:
            options = self.texts("source" if name == SOURCE else f"source {name}", given, way)
            sources[name] = source = self._source(name, options, way)
            if source.dead_letter is not None:
                own = next(iter(_servers(source)), None)
                options = {"topic": source.dead_letter} | ({} if own is None else {BOOTSTRAP: own})
                dead_letters.append(SinkSpec(options, dead_letter_of=name))
        return sources, dead_letters

    def _source(self, name: str, options: dict[str, str], way: Way) -> SourceSpec:
        watermark = options.pop("watermark", None)
        column, comma, delay = (watermark or "").partition(",")
        if watermark is not None and not (comma and delay.strip()):
            self.note(f"watermark: {watermark} must be a column and a delay, such as: at, 1 hour", *way, "watermark")
            watermark = None
        given = [form for form in VALUES if form in options]
        if len(given) > 1:
            self.note(f"source {name} has {' and '.join(given)}: one of them says what the values are.", *way, given[1])
        topic = options.pop("dead_letter", None)
        if topic is not None and not given and not any(f"key_{kind}" in options for kind in TYPED):
            why = f"dead_letter of {name} is for values that are not of their json, which is missing."
            self.note(why, *way, "dead_letter")
        typed, typed_key = self._typed(name, options, way)
        is_changes = take_source_changes(self, options, way, has_values=bool(given))
        source = SourceSpec(
            format=self._format(options, way, READ),
            json=options.pop("json", None),
            typed=typed,
            typed_key=typed_key,
            is_changes=is_changes,
            dead_letter=topic,
            watermark=(column.strip(), delay.strip()) if watermark is not None else None,
            options=options,
        )
        if source.format == PENSTOCK:
            self._check_options(options, way, is_sink=False)
        return source

    def _typed(self, name: str, options: dict[str, str], way: Way) -> tuple[TypedValues | None, TypedValues | None]:
        """Of values and of keys. All that is said of schemas is taken out."""
        is_typed = any(kind in options or f"key_{kind}" in options for kind in TYPED)
        typed = [self._typed_part(name, options, way, part) for part in PARTS_OF_RECORDS]
        if is_typed:
            for option in ("schema.registry.url", "basic.auth.user.info"):
                options.pop(option, None)
        return typed[0], typed[1]

    def _typed_part(self, name: str, options: dict[str, str], way: Way, part: str) -> TypedValues | None:
        prefix = "" if part == "value" else f"{part}_"
        given = [kind for kind in TYPED if f"{prefix}{kind}" in options]
        if not given:
            return None
        if prefix and len(given) > 1:
            self.note(
                f"{name} has {prefix}{given[0]} and {prefix}{given[1]}: one of them says what the keys are.", *way
            )
        from penstock.pipeline.values.schemas import typed_values

        try:
            return typed_values(given[0], options, part)
        except UnfitSchemaError as error:
            self.note(f"{prefix}{given[0]} of {name}: {error}", *way, f"{prefix}{given[0]}")
            return None

    def _table(self, name: str, declared: object) -> TableSpec:
        way: Way = ("tables", name)
        options = self.texts(f"table {name}", declared, way)
        if "format" not in options:
            self.note(f"table {name} needs a format, such as csv, json, parquet or jdbc.", *way)
        return TableSpec(options, self._format(options, way, READ))

    def _steps(self, parts: Mapping[str, object], before: Collection[str]) -> dict[str, StepSpec]:
        steps: dict[str, StepSpec] = {}
        for name, declared in self._named("steps", parts.get("steps", {})):
            steps[name] = self._step(name, declared, (*before, *steps))
        return steps

    def _step(self, name: str, declared: object, before: Collection[str]) -> StepSpec:
        """A text is SQL; else a table says what it is."""
        way: Way = ("steps", name)
        if isinstance(declared, str):
            return StepSpec(SqlText(declared, self.places.of_text(way)))
        inputs = declared.get("from", ()) if isinstance(declared, Mapping) else ()
        options = self.texts(f"step {name}", declared, way)
        for option in options:
            if option not in OF_A_STEP:
                hint = nearest(option.lower(), OF_A_STEP) or f" It has {', '.join(OF_A_STEP)}."
                self.note(f"{option!r} is no part of a step.{hint}", *way, option)
        if isinstance(declared, Mapping) and ("sql" in options) == ("function" in options):
            self.note(f"step {name} needs sql, or a function (module:function) with from.", *way)
        elif ("from" in options) != ("function" in options):
            self.note(f"step {name}: a function goes with from, the views that it gets; SQL names them itself.", *way)
        if "sql" in options:
            return StepSpec(SqlText(options["sql"], self.places.of_text((*way, "sql"))))
        views = [str(one) for one in inputs] if isinstance(inputs, list | tuple) else [str(inputs)]
        for view in views:
            self._check_view(view, before, (*way, "from"))
        return StepSpec(function=options.get("function", ""), inputs=tuple(views))

    def _check_view(self, name: str, views: Collection[str], way: Way) -> None:
        if name not in views:
            hint = nearest(name, views) or f" There are {', '.join(views)}."
            self.note(f"from: {name} is no view that is there before it.{hint}", *way)

    def _check_origin(self, sink: SinkSpec, way: Way, views: Collection[str], *, has_query: bool) -> None:
        if sink.origin is not None:
            self._check_view(sink.origin, views, (*way, "from"))
        elif not has_query:
            self.note(
                "several sources, tables and steps need sql, or a function, that makes one result of them; "
                f"or a sink says from: {' or '.join(views)}.",
                *way,
            )

    def _sinks(self, parts: Mapping[str, object], servers: str | None) -> tuple[tuple[SinkSpec, ...], list[Way]]:
        if "sink" not in parts:
            if "source" in parts or "sources" in parts:
                self.note("it needs a source and a sink.")
            return (), []
        declared = parts["sink"]
        listed: list[tuple[object, Way]] = (
            [(item, ("sink", number)) for number, item in enumerate(declared)]
            if isinstance(declared, list | tuple)
            else [(declared, ("sink",))]
        )
        sinks = tuple(self._sink(item, servers, way) for item, way in listed)
        if not sinks:
            self.note("it needs a source and a sink.", "sink")
        return sinks, [way for _, way in listed]

    def _sink(self, declared: object, servers: str | None, way: Way) -> SinkSpec:
        options = self.texts("sink", declared, way)
        beside = (*OF_A_SINK, *OF_THE_QUERY, *OF_CHANGES)
        for option in [name for name in options if name not in beside and known_name(name) is None]:
            if hint := nearest(option, beside, 0.8) or nearest(option.lower(), beside, 0.8):
                self.note(f"{option} is not known.{hint}", *way, option)
                del options[option]
        options.pop("expect", None)
        rules = rules_of(self, declared.get("expect", []), (*way, "expect")) if isinstance(declared, Mapping) else ()
        dead_letter = options.pop("dead_letter", None)
        if (dead_letter is not None) != any(rule.on_fail == DEAD_LETTER for rule in rules):
            self.note(
                f"on_fail: {DEAD_LETTER} goes with dead_letter, the topic of such rows; one of both is missing.",
                *way,
                "expect" if dead_letter is None else "dead_letter",
            )
        title = self._title(options, way)
        of_query = {name: options.pop(name) for name in list(options) if name in OF_THE_QUERY}
        kind, mode, key = self._format(options, way, WRITTEN), options.pop("mode", MODES[0]), options.pop("key", None)
        origin, where = options.pop("from", None), options.pop("where", None)
        condition = None if where is None else SqlText(where, self.places.of_text((*way, "where")))
        if mode not in MODES:
            self.note(f"mode: {mode} must be {' or '.join(MODES)}.{nearest(mode.lower(), MODES)}", *way, "mode")
        typed = typed_key = None
        changes = take_changes(self, options, kind, way)
        if problem := take_delivery(options, kind):
            self.note(problem, *way, "delivery")
        if kind == PENSTOCK:
            typed, typed_key = self._typed(options.get("topic", kind), options, way)
            self._check_options(options, way, is_sink=True)
            if servers is not None and not any(is_bootstrap(option) for option in options):
                options[BOOTSTRAP] = servers
        return SinkSpec(
            options,
            kind,
            mode,
            key,
            typed,
            typed_key,
            origin=origin,
            where=condition,
            expect=rules,
            dead_letter=dead_letter,
            title=title,
            of_query=of_query,
            changes=changes,
        )

    def _title(self, options: dict[str, str], way: Way) -> str | None:
        title = options.pop("name", None)
        if title is not None and not SINK_NAME.fullmatch(title):
            self.note(f"name: {title} cannot be that of a sink: letters, digits, _, . and - can.", *way, "name")
        return title

    def _format(self, options: dict[str, str], way: Way, known: Collection[str]) -> str:
        """Spark may know others, from packages; but what is nearly one of these is a slip."""
        kind = options.pop("format", PENSTOCK)
        hint = nearest(kind.lower(), known, 0.7)
        if hint and kind.lower() not in (name.lower() for name in known):
            self.note(f"format: {kind} is not known.{hint}", *way, "format")
        if kind in WITH_A_PATH and not any(option.lower() == "path" for option in options):
            self.note(f"format: {kind} needs a path.", *way)
        return kind

    def _check_options(self, options: Mapping[str, str], way: Way, *, is_sink: bool) -> None:
        """Options of `format("penstock")`: first each by itself, then what they say together."""
        alone = [problem for option, value in options.items() if (problem := wrong_options({option: value}))]
        together = [] if alone else filter(None, [wrong_options(dict(options), is_sink=is_sink)])
        for problem in (*alone, *together):
            given = (
                name for name in options if (known_name(name) or name) == (known_name(problem.option) or problem.option)
            )
            self.note(str(problem), *way, next(given, ""))


def _sink_of_broken(sink: SinkSpec, servers: str | None) -> SinkSpec:
    """On the sink's own cluster, or that of the first source."""
    own = next((value for option, value in sink.options.items() if is_bootstrap(option)), servers)
    options = {"topic": sink.dead_letter or ""} | ({} if own is None else {BOOTSTRAP: own})
    rules = tuple(rule for rule in sink.expect if rule.on_fail == DEAD_LETTER)
    return SinkSpec(
        options, mode=sink.mode, key=sink.key, origin=sink.origin, where=sink.where, expect=rules, broken_of=sink.name
    )


def _servers(source: SourceSpec) -> list[str]:
    return [value for option, value in source.options.items() if is_bootstrap(option)]


def _repeated(names: Iterable[str]) -> bool:
    listed = list(names)
    return len(set(listed)) < len(listed)
