"""Schemas of Avro as a registry tells them: what they refer to stands in them afterwards, where it is named first."""

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from penstock.work.connect.avro_schemas import full_name, kind_of
from penstock.work.connect.converters import ConversionError
from penstock.work.connect.registry import ReadSchemas, references_of

NAMED: Final = ("record", "error", "enum", "fixed")
INNER: Final = {"array": "items", "map": "values"}


def avro_of(registry: ReadSchemas, answer: Mapping[str, Any], name: str) -> Any:
    """The schema with all that it refers to; ConversionError."""
    others = [_avro(other, place) for place, other in references_of(registry, answer).items()]
    avro = _avro(answer, name)
    return _Whole(others).of(avro, "") if others else avro


def _avro(answer: Mapping[str, Any], name: str) -> Any:
    if answer.get("schemaType", "AVRO") != "AVRO":
        raise ConversionError(f"{name} is no Avro")
    return json.loads(answer["schema"])


class _Whole:
    """A schema while it is put together: definitions of others, and which of them it has already."""

    def __init__(self, others: Iterable[Any]) -> None:
        self._defined: dict[str, tuple[Any, str]] = {}
        self._written: set[str] = set()
        for other in others:
            self._note(other, "")

    def of(self, avro: Any, namespace: str) -> Any:
        """Definitions in place of names."""
        if isinstance(avro, list):
            return [self.of(one, namespace) for one in avro]
        if isinstance(avro, str):
            return self._named(avro, namespace)
        kind = kind_of(avro)
        if kind in NAMED:
            return self._definition(avro, namespace)
        inner = INNER.get(kind, "type") if isinstance(kind, str) else "type"
        return {**avro, inner: self.of(avro[inner], namespace)}

    def _named(self, name: str, namespace: str) -> Any:
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        full = full if full in self._defined else name
        if full not in self._defined:
            return name  # a simple type, or its own
        return self._definition(*self._defined[full])

    def _definition(self, avro: Mapping[str, Any], namespace: str) -> Any:
        full = full_name(avro, namespace)
        if full in self._written:
            return full
        self._written.add(full)
        inner = full.rpartition(".")[0]
        fields = [{**field, "type": self.of(field["type"], inner)} for field in avro.get("fields", ())]
        return {**avro, "name": full, "namespace": inner} | ({"fields": fields} if "fields" in avro else {})

    def _note(self, avro: Any, namespace: str) -> None:
        if isinstance(avro, list):
            for one in avro:
                self._note(one, namespace)
        if not isinstance(avro, dict):
            return
        kind = kind_of(avro)
        if kind in NAMED:
            full = full_name(avro, namespace)
            self._defined[full] = avro, namespace
            for field in avro.get("fields", ()):
                self._note(field["type"], full.rpartition(".")[0])
        else:
            self._note(avro[INNER.get(kind, "type") if isinstance(kind, str) else "type"], namespace)
