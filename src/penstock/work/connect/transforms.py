"""Single message transforms: Kafka Connect's, by its names.

A user's transform is named as `module:Class`, is made without arguments, and has `configure(config)` and
`apply(record)`, which returns a record or None for one that is to be dropped.
"""

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any, ClassVar, Final, Protocol

from penstock.work.connect.api import Record
from penstock.work.connect.config import ConfigError, ConfigKey, parse
from penstock.work.connect.fields import SYNTAX, Path, TransformError, changed_at, path_of, schema_at, value_at
from penstock.work.connect.schemas import Schema, from_json, schema_of
from penstock.work.connect.timestamps import TIMESTAMP_TYPES, formatted, java_format, read_timestamp, write_timestamp

COPY, MOVE = "copy", "move"
DEFAULTS: Final = ConfigKey(
    "replace.null.with.default", "boolean", True, "Whether a field that is null gets its default."
)


class Transform(Protocol):
    def configure(self, config: Mapping[str, str]) -> None:
        """The keys behind `transforms.<name>.`."""

    def apply(self, record: Record) -> Record | None:
        """None drops the record."""


class Configured:
    """Reads `keys` into `settings`."""

    keys: ClassVar[tuple[ConfigKey, ...]] = ()

    def configure(self, config: Mapping[str, str]) -> None:
        """ConfigError."""
        self.settings = parse(self.keys, config)


class OfKeyOrValue(Configured):
    """The last part of the class name, behind the $, says which."""

    part: ClassVar[str] = "value"

    def content(self, record: Record) -> Any:
        return getattr(record, self.part)

    def schema(self, record: Record) -> Schema | None:
        schema: Schema | None = getattr(record, f"{self.part}_schema")
        return schema

    def fields(self, record: Record) -> dict[str, Any]:
        """The content, which has to be an object."""
        content = self.content(record)
        if not isinstance(content, Mapping):
            raise TransformError(f"{type(self).__name__} needs a {self.part} with fields, and this one is {content!r}")
        return with_defaults(content, self.schema(record)) if self.settings.get(DEFAULTS.name) else dict(content)

    def with_content(self, record: Record, content: Any) -> Record:
        """Replaces the key or value; content with a schema keeps one, field by field."""
        schema = self.schema(record)
        kept = None if schema is None else _kept(schema, schema_of(content), content)
        return record.replace(**{self.part: content, f"{self.part}_schema": kept})

    def path(self, text: str, key: str) -> Path:
        """Of a field that the configuration names; ConfigError."""
        try:
            return path_of(text, self.settings[SYNTAX.name])
        except ValueError as error:
            raise ConfigError({key: [f"{key}={error}"]}) from None


class OfFields(OfKeyOrValue):
    """A tombstone stays one."""

    def apply(self, record: Record) -> Record:
        if self.content(record) is None:
            return record
        return self.with_content(record, self.changed(record, self.fields(record)))

    def changed(self, record: Record, fields: dict[str, Any]) -> Any:
        raise NotImplementedError


def with_defaults(content: Mapping[str, Any], schema: Schema | None) -> dict[str, Any]:
    defaults = {field["field"]: field for field in (schema or {}).get("fields", ()) if "default" in field}
    null = [name for name, field in defaults.items() if name in content and content[name] is None]
    return {**content, **{name: from_json(defaults[name]["default"], defaults[name]) for name in null}}


_IN_PYTHON: Final = {"int8": "int64", "int16": "int64", "int32": "int64", "float": "double", "map": "struct"}
"""What `schema_of` calls a value of that type."""


def _kept(known: Schema | None, new: Schema | None, content: Any) -> Schema | None:
    """The schema of before, as long as the content is of that kind still."""
    if known is None or new is None:
        return new
    if content is None:
        return known
    if known.get("type") == new.get("type") == "struct":
        fields = {field["field"]: field for field in known.get("fields", ())}
        own = [_kept(fields.get(field["field"]), field, content[field["field"]]) for field in new["fields"]]
        return {**known, "fields": own}
    return known if new["type"] in (known.get("type"), _IN_PYTHON.get(known.get("type", ""))) else new


class InsertField(OfFields):
    keys = (
        ConfigKey("topic.field"),
        ConfigKey("partition.field"),
        ConfigKey("offset.field"),
        ConfigKey("timestamp.field"),
        ConfigKey("static.field"),
        ConfigKey("static.value"),
        DEFAULTS,
    )

    def changed(self, record: Record, fields: dict[str, Any]) -> Any:
        settings = self.settings
        for name, value in (
            ("topic.field", record.topic),
            ("partition.field", record.partition),
            ("offset.field", getattr(record, "offset", None)),
            ("timestamp.field", record.timestamp_ms),
            ("static.field", settings["static.value"]),
        ):
            if settings[name] is not None:
                # Connect marks a field as required with !, as optional with ?
                fields[settings[name].rstrip("!?")] = value
        return fields


class ReplaceField(OfFields):
    keys = (
        ConfigKey("include", "list", (), "The fields to keep; all, if none is named."),
        ConfigKey("exclude", "list", (), "The fields to leave out."),
        ConfigKey("renames", "list", (), "Pairs old:new."),
        DEFAULTS,
    )

    def changed(self, record: Record, fields: dict[str, Any]) -> Any:
        settings = self.settings
        renames = dict(pair.split(":", 1) for pair in settings["renames"])
        return {
            renames.get(name, name): value
            for name, value in fields.items()
            if name not in settings["exclude"] and (not settings["include"] or name in settings["include"])
        }


class MaskField(OfFields):
    """Replaces a field's value by the empty value of its type, or by a fixed one."""

    keys = (
        ConfigKey("fields", "list", required=True, documentation="the fields to mask"),
        ConfigKey("replacement", documentation="What to put there, for text and numbers."),
        DEFAULTS,
        SYNTAX,
    )

    def configure(self, config: Mapping[str, str]) -> None:
        super().configure(config)
        self._paths = [self.path(name, "fields") for name in self.settings["fields"]]

    def changed(self, record: Record, fields: dict[str, Any]) -> Any:
        for path in self._paths:
            fields = changed_at(fields, path, self._masked)
        return fields

    def _masked(self, value: Any) -> Any:
        replacement = self.settings["replacement"]
        return type(value)() if replacement is None else type(value)(replacement)


class ValueToKey(OfKeyOrValue):
    keys = (
        ConfigKey("fields", "list", required=True, documentation="the fields of which the key is made"),
        DEFAULTS,
        SYNTAX,
    )

    def configure(self, config: Mapping[str, str]) -> None:
        super().configure(config)
        self._paths = {name: self.path(name, "fields") for name in self.settings["fields"]}

    def apply(self, record: Record) -> Record:
        key, fields = {}, self.fields(record)
        for name, path in self._paths.items():
            try:
                key[name] = value_at(fields, path)
            except KeyError:
                raise TransformError(f"ValueToKey: the value has no field {name}") from None
        schema = None
        if record.value_schema is not None:
            known = {name: schema_at(record.value_schema, path) for name, path in self._paths.items()}
            rows = [{**(known[name] or schema_of(value) or {}), "field": name} for name, value in key.items()]
            schema = {"type": "struct", "fields": rows, "optional": False}
        return record.replace(key=key, key_schema=schema)


class HoistField(OfKeyOrValue):
    keys = (ConfigKey("field", required=True, documentation="the name of the field"),)

    def apply(self, record: Record) -> Record:
        return self.with_content(record, {self.settings["field"]: self.content(record)})


class ExtractField(OfFields):
    keys = (ConfigKey("field", required=True, documentation="the field to take"), DEFAULTS, SYNTAX)

    def configure(self, config: Mapping[str, str]) -> None:
        super().configure(config)
        self._path = self.path(self.settings["field"], "field")

    def changed(self, record: Record, fields: dict[str, Any]) -> Any:
        try:
            return value_at(fields, self._path)
        except KeyError:
            raise TransformError(f"ExtractField: the {self.part} has no field {self.settings['field']}") from None

    def with_content(self, record: Record, content: Any) -> Record:
        return record.replace(**{self.part: content, f"{self.part}_schema": schema_at(self.schema(record), self._path)})


class Flatten(OfFields):
    """Nested fields become one level, with names joined by the delimiter."""

    keys = (ConfigKey("delimiter", default="."),)

    def changed(self, record: Record, fields: dict[str, Any]) -> Any:
        return dict(self._flat("", fields))

    def _flat(self, prefix: str, fields: Mapping[str, Any]) -> list[tuple[str, Any]]:
        flat: list[tuple[str, Any]] = []
        for name, value in fields.items():
            if isinstance(value, Mapping):
                flat += self._flat(f"{prefix}{name}{self.settings['delimiter']}", value)
            else:
                flat.append((prefix + name, value))
        return flat


def _to_boolean(value: Any) -> bool:
    return value.strip().lower() == "true" if isinstance(value, str) else bool(value)


CASTS: Final[Mapping[str, Callable[[Any], Any]]] = {
    **dict.fromkeys(("int8", "int16", "int32", "int64"), int),
    "float32": float,
    "float64": float,
    "boolean": _to_boolean,
    "string": lambda value: str(value).lower() if isinstance(value, bool) else str(value),
}


class Cast(OfFields):
    """`spec` has pairs field:type, or one type for the whole."""

    keys = (
        ConfigKey("spec", "list", required=True, documentation="pairs field:type, or one type for the whole"),
        DEFAULTS,
        SYNTAX,
    )

    def configure(self, config: Mapping[str, str]) -> None:
        super().configure(config)
        pairs = [spec.rpartition(":") for spec in self.settings["spec"]]
        unknown = sorted({kind for _, _, kind in pairs} - CASTS.keys())
        if unknown:
            raise ConfigError({"spec": [f"spec: there is no type {', '.join(unknown)}; there are {', '.join(CASTS)}"]})
        self._casts = {field: CASTS[kind] for field, _, kind in pairs}
        self._paths = {field: self.path(field, "spec") for field in self._casts}

    def apply(self, record: Record) -> Record:
        content = self.content(record)
        if content is None or "" not in self._casts:
            return super().apply(record)
        return self.with_content(record, self._cast("", content))

    def changed(self, record: Record, fields: dict[str, Any]) -> Any:
        for name, path in self._paths.items():
            fields = changed_at(fields, path, partial(self._cast, name))
        return fields

    def _cast(self, name: str, value: Any) -> Any:
        try:
            return self._casts[name](value)
        except (TypeError, ValueError) as error:
            raise TransformError(f"Cast: {name or 'the whole'}: {error}") from error


class TimestampConverter(OfFields):
    """A time is text, unix (a number), Date, Time or Timestamp (milliseconds)."""

    keys = (
        ConfigKey("field", default="", documentation="The field; the whole, if none is named."),
        ConfigKey("target.type", required=True, choices=TIMESTAMP_TYPES, documentation="what the time becomes"),
        ConfigKey("format", default="", documentation="The form of text, as Java's SimpleDateFormat has it."),
        ConfigKey(
            "unix.precision",
            default="milliseconds",
            choices=("seconds", "milliseconds", "microseconds", "nanoseconds"),
        ),
        DEFAULTS,
        SYNTAX,
    )

    def configure(self, config: Mapping[str, str]) -> None:
        super().configure(config)
        self._path = self.path(self.settings["field"], "field")

    def apply(self, record: Record) -> Record:
        if self.settings["field"]:
            return super().apply(record)
        return self.with_content(record, self._converted(self.content(record)))

    def changed(self, record: Record, fields: dict[str, Any]) -> Any:
        return changed_at(fields, self._path, self._converted)

    def _converted(self, value: Any) -> Any:
        settings = self.settings
        try:
            time_ns = read_timestamp(value, settings["format"], settings["unix.precision"])
            if time_ns is None:
                return None
            return write_timestamp(time_ns, settings["target.type"], settings["format"], settings["unix.precision"])
        except ValueError as error:
            raise TransformError(f"TimestampConverter: {error}") from error


class RegexRouter(Configured):
    keys = (
        ConfigKey("regex", required=True, documentation="what the whole name matches"),
        ConfigKey("replacement", required=True, documentation="the new name; $1 stands for the first group"),
    )

    def configure(self, config: Mapping[str, str]) -> None:
        super().configure(config)
        try:
            self._regex = re.compile(self.settings["regex"])
        except re.error as error:
            raise ConfigError({"regex": [f"regex={self.settings['regex']}: {error}"]}) from error
        self._replacement = re.sub(r"\$(\d+)", r"\\g<\1>", self.settings["replacement"])

    def apply(self, record: Record) -> Record:
        match = self._regex.fullmatch(record.topic)
        return record if match is None else record.replace(topic=match.expand(self._replacement))


class TimestampRouter(Configured):
    keys = (
        ConfigKey("topic.format", default="${topic}-${timestamp}"),
        ConfigKey("timestamp.format", default="yyyyMMdd", documentation="As Java's SimpleDateFormat has it."),
    )

    def configure(self, config: Mapping[str, str]) -> None:
        super().configure(config)
        self._format = java_format(self.settings["timestamp.format"])

    def apply(self, record: Record) -> Record:
        if record.timestamp_ms is None:
            raise TransformError("TimestampRouter: the record has no timestamp")
        moment = formatted(datetime.fromtimestamp(record.timestamp_ms / 1000, UTC), self._format)
        topic = self.settings["topic.format"].replace("${topic}", record.topic).replace("${timestamp}", moment)
        return record.replace(topic=topic)


class Filter(Configured):
    """With a predicate: drops the records to which it applies."""

    def apply(self, record: Record) -> None: ...


class InsertHeader(Configured):
    keys = (
        ConfigKey("header", required=True, documentation="its name"),
        ConfigKey("value.literal", required=True, documentation="its value"),
    )

    def apply(self, record: Record) -> Record:
        return record.replace(headers=(*record.headers, (self.settings["header"], self.settings["value.literal"])))


class DropHeaders(Configured):
    keys = (ConfigKey("headers", "list", required=True, documentation="their names"),)

    def apply(self, record: Record) -> Record:
        dropped = self.settings["headers"]
        return record.replace(headers=tuple(header for header in record.headers if header[0] not in dropped))


class HeaderFrom(OfKeyOrValue):
    """Fields are copied or moved."""

    keys = (
        ConfigKey("fields", "list", required=True, documentation="the fields"),
        ConfigKey("headers", "list", required=True, documentation="the headers, in the order of the fields"),
        ConfigKey("operation", required=True, choices=(COPY, MOVE), documentation="copy or move"),
        DEFAULTS,
    )

    def configure(self, config: Mapping[str, str]) -> None:
        super().configure(config)
        if len(self.settings["fields"]) != len(self.settings["headers"]):
            raise ConfigError({"headers": ["headers: there are as many headers as fields"]})

    def apply(self, record: Record) -> Record:
        fields = self.fields(record)
        pairs = zip(self.settings["headers"], self.settings["fields"], strict=True)
        headers = tuple((header, fields[name]) for header, name in pairs if name in fields)
        with_headers = record.replace(headers=(*record.headers, *headers))
        if self.settings["operation"] == COPY:
            return with_headers
        left = {name: value for name, value in fields.items() if name not in self.settings["fields"]}
        return self.with_content(with_headers, left)


class SetSchemaMetadata(OfKeyOrValue):
    keys = (
        ConfigKey("schema.name", documentation="The name."),
        ConfigKey("schema.version", "int", None, "The version."),
        DEFAULTS,
    )

    def configure(self, config: Mapping[str, str]) -> None:
        super().configure(config)
        named = {"name": self.settings["schema.name"], "version": self.settings["schema.version"]}
        self._words = {key: value for key, value in named.items() if value is not None}
        if not self._words:
            raise ConfigError({"schema.name": ["SetSchemaMetadata needs schema.name or schema.version"]})

    def apply(self, record: Record) -> Record:
        content, schema = self.content(record), self.schema(record)
        if schema is None:
            if content is None:
                return record
            raise TransformError(f"SetSchemaMetadata needs a {self.part} with a schema, and {content!r} has none")
        if isinstance(content, Mapping):
            content = self.fields(record)
        return record.replace(**{self.part: content, f"{self.part}_schema": {**schema, **self._words}})
