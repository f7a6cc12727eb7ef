"""What is written has the number of its schema, which is registered where there is a registry and a schema."""

from typing import Any, cast

import pytest

from penstock.pipeline.errors import PipelineError
from penstock.pipeline.values import schemas
from penstock.pipeline.values.kinds import AVRO, TypedValues
from penstock.pipeline.values.schemas import registered

SCHEMA = b'{"type": "record", "name": "r", "fields": []}'


class Registry:
    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, Any], bool]] = []

    def id_of(self, subject: str, document: dict[str, Any], *, registers: bool) -> int:
        self.asked.append((subject, document, registers))
        return 42


@pytest.mark.parametrize("has_schema", [True, False])
@pytest.mark.parametrize("has_registry", [True, False])
def test_a_schema_is_registered_where_there_are_both(
    monkeypatch: pytest.MonkeyPatch, has_schema: bool, has_registry: bool
) -> None:
    monkeypatch.setattr(schemas, "settled", lambda typed: typed.replace(number=7))
    registry = Registry()
    typed = TypedValues(
        AVRO,
        SCHEMA if has_schema else None,
        registry=cast("Any", registry) if has_registry else None,
        subject="t-value",
    )
    both = has_schema and has_registry
    assert registered(typed).number == (42 if both else 7)
    document = {"schemaType": "AVRO", "schema": SCHEMA.decode()}
    assert registry.asked == ([("t-value", document, True)] if both else [])


def test_a_schema_of_no_topic_is_refused() -> None:
    with pytest.raises(PipelineError, match="give the topic, or the subject"):
        registered(TypedValues(AVRO, SCHEMA, registry=cast("Any", Registry()), subject="-value"))
