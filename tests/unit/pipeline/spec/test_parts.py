"""What a sink takes that does not say from where."""

from collections.abc import Callable
from typing import Any

import pytest

from penstock.pipeline.errors import PipelineError
from penstock.pipeline.spec.parts import pipeline_spec

SOURCE = {"subscribe": "clicks", "bootstrap.servers": "a:1"}
SINK = {"topic": "counts"}
TWO = {"sources": {"clicks": SOURCE, "views": SOURCE}}
ONE = {"source": SOURCE}
TABLE = {"tables": {"users": {"format": "parquet", "path": "/users"}}}
STEP = {"steps": {"busy": {"sql": "SELECT 1"}}}


def function(frame: Any) -> Any:
    return frame


@pytest.mark.parametrize(
    ("parts", "transform", "is_clear"),
    [
        (ONE, None, True),
        (TWO, None, False),
        (ONE | TABLE, None, False),
        (ONE | STEP, None, False),
        (TWO | STEP, None, False),
        (TWO | TABLE, None, False),
        (TWO | TABLE | STEP, None, False),
        (TWO | {"sql": "SELECT 1"}, None, True),
        (TWO, function, True),
        (ONE | TABLE | STEP, function, True),
    ],
)
@pytest.mark.parametrize("origin", [None, "clicks"])
def test_several_parts_need_a_result_of_them_or_a_sink_that_names_one(
    parts: dict[str, Any], transform: Callable[[Any], Any] | None, is_clear: bool, origin: str | None
) -> None:
    named = {"source": "source"} | dict.fromkeys(parts.get("sources", ()))
    sink = SINK if origin is None else SINK | {"from": origin if origin in named else "source"}
    declared = {**parts, "sink": sink}
    if is_clear or origin is not None:
        spec = pipeline_spec("p", declared, transform)
        assert spec.sinks[0].origin == sink.get("from")
        assert spec.transform == (transform or parts.get("sql"))
    else:
        with pytest.raises(PipelineError, match="several sources, tables and steps need sql, or a function"):
            pipeline_spec("p", declared, transform)


def problems(parts: dict[str, Any]) -> list[str]:
    try:
        pipeline_spec("p", parts)
    except PipelineError as error:
        return str(error).splitlines()
    return []


AVRO = '{"type": "record", "name": "r", "fields": [{"name": "a", "type": "string"}]}'


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"json": "a STRING"}, None),
        ({"avro": AVRO}, None),
        ({"dead_letter": "broken"}, "dead_letter of source is for values that are not of their json"),
        ({"dead_letter": "broken", "json": "a STRING"}, None),
        ({"dead_letter": "broken", "key_avro": AVRO}, None),
        ({"json": "a STRING", "avro": AVRO}, "source source has json and avro: one of them says what the values are"),
        ({"key_avro": AVRO, "key_protobuf": "x"}, "one of them says what the keys are"),
        ({"watermark": "at, 1 hour"}, None),
        ({"watermark": "at"}, "watermark: at must be a column and a delay"),
        ({"watermark": "at, "}, "watermark: at,  must be a column and a delay"),
    ],
)
def test_what_a_source_says_of_its_values_fits_together(options: dict[str, str], said: str | None) -> None:
    found = problems({"source": SOURCE | options, "sink": SINK})
    assert any(said in one for one in found) if said is not None else found == []


@pytest.mark.parametrize("parts", [ONE, TWO, ONE | {"sink": []}])
def test_a_pipeline_needs_a_sink(parts: dict[str, Any]) -> None:
    assert any("it needs a source and a sink." in one for one in problems(parts))


def test_what_breaks_a_rule_goes_where_the_sink_says() -> None:
    """On the sink's own cluster, or that of the first source, and by the rules that say so alone."""
    expect = [
        {"rule": "a > 0", "on_fail": "dead_letter", "name": "positive"},
        {"rule": "b > 0", "on_fail": "drop", "name": "other"},
    ]
    for own, servers in (({}, "a:1"), ({"bootstrap.servers": "b:1"}, "b:1")):
        spec = pipeline_spec("p", ONE | {"sink": SINK | own | {"dead_letter": "broken", "expect": expect}})
        kept, broken = spec.sinks
        assert [rule.name for rule in kept.expect] == ["positive", "other"]
        assert [rule.name for rule in broken.expect] == ["positive"]
        assert broken.options == {"topic": "broken", "bootstrap.servers": servers}
        assert (broken.broken_of, broken.origin, broken.mode) == (kept.name, kept.origin, kept.mode)
