"""What a sink takes that does not say from where."""

from collections.abc import Callable
from typing import Any

import pytest

from penstock.pipeline.errors import PipelineError
from penstock.pipeline.spec.parts import pipeline_spec
from penstock.pipeline.spec.pipeline import PipelineSpec, SinkSpec, SourceSpec

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


def test_what_is_said_of_schemas_is_no_option() -> None:
    registry = {"schema.registry.url": "http://r", "basic.auth.user.info": "a:b", "subject": "s", "key_subject": "k"}
    of_a_sink = ("topic", "bootstrap.servers")
    for kind, others in (("avro", ("key_subject",)), ("key_avro", ("subject",))):
        spec = pipeline_spec("p", {"source": SOURCE | {kind: AVRO}, "sink": SINK | {kind: AVRO}})
        for one, options in ((spec.sources["source"], SOURCE.keys()), (spec.sinks[0], of_a_sink)):
            assert (one.typed is not None, one.typed_key is not None) == (kind == "avro", kind == "key_avro")
            assert one.options.keys() == set(options)
        told = {name: said for name, said in registry.items() if name not in others}
        spec = pipeline_spec("p", {"source": {"format": "x", kind: AVRO, **told}, "sink": SINK})
        assert spec.sources["source"].options == {}
    plain = pipeline_spec("p", {"source": {"format": "x", **registry}, "sink": SINK})
    assert plain.sources["source"].options == registry, "they may be another format's"


def test_values_that_are_none_go_to_the_first_address_that_is_given() -> None:
    both = {"format": "kafka", "kafka.bootstrap.servers": "a:1", "bootstrap.servers": "b:1", "json": "a INT"}
    spec = pipeline_spec("p", {"source": both | {"dead_letter": "bad"}, "sink": SINK})
    kept, bad = spec.sinks
    assert (bad.options, bad.dead_letter_of) == ({"topic": "bad", "bootstrap.servers": "a:1"}, "source")
    assert kept.options == {"topic": "counts", "bootstrap.servers": "a:1"}
    nowhere = pipeline_spec("p", {"source": {"format": "x", "json": "a INT", "dead_letter": "bad"}, "sink": SINK})
    assert [sink.options for sink in nowhere.sinks] == [{"topic": "counts"}, {"topic": "bad"}]


def test_a_source_knows_the_topics_that_it_names() -> None:
    for options, topics in (
        ({"subscribe": " a, b,,"}, ["a", "b"]),
        ({"SUBSCRIBE": "a"}, ["a"]),
        ({"assign": '{"c": [0], "d": [1]}'}, ["c", "d"]),
        ({"subscribe": "a", "assign": '{"c": [0]}'}, ["a", "c"]),
        ({"subscribe": "a", "assign": "{"}, ["a"]),
        ({"subscribe": "a", "assign": "[1]"}, ["a"]),
        ({"subscribePattern": "a.*"}, []),
    ):
        for kind in ("penstock", "kafka"):
            assert SourceSpec(options, kind).topics == topics
        assert SourceSpec(options, "csv").topics == []


def test_a_sink_knows_its_name_its_topic_and_its_columns() -> None:
    for sink, name, topic, columns in (
        (SinkSpec({"topic": "t", "table": "u", "path": "/a/b"}, title="own"), "own", "t", []),
        (SinkSpec({"topic": "t", "table": "u", "path": "/a/b"}), "t", "t", []),
        (SinkSpec({"Kafka.Topic": "t", "path": "/a/b"}), "b", "t", []),
        (SinkSpec({"topic": "t"}, "kafka"), "t", "t", []),
        (SinkSpec({"topic": "t"}, "csv"), "t", None, []),
        (SinkSpec({"table": "u", "path": "/a/b", "PartitionBy": " x,, y "}, "delta"), "u", None, ["x", "y"]),
        (SinkSpec({"path": "/a/b/"}, "parquet"), "b", None, []),
        (SinkSpec({}, "console"), "console", None, []),
    ):
        assert (sink.name, sink.topic, sink.partitioned_by) == (name, topic, columns)
        assert not sink.is_async
    assert [SinkSpec({}, of_query={"asyncProgressTrackingEnabled": it}).is_async for it in ("TRUE", "false", "1")] == [
        True, False, False,
    ]  # fmt: skip
    said = {"penstock.sink.delivery": "Exactly-Once"}
    assert [SinkSpec(said, kind).is_exactly_once for kind in ("penstock", "kafka")] == [True, False]
    assert not SinkSpec({"penstock.sink.delivery": "at-least-once"}).is_exactly_once


def test_checkpoints_lie_where_the_pipeline_or_the_sink_says() -> None:
    one, two = SinkSpec({"topic": "t"}), SinkSpec({"checkpointlocation": "/own"}, "csv")
    spec = PipelineSpec("job", {}, (one, two))
    assert [spec.checkpoint_of(sink) for sink in (one, two)] == ["penstock-checkpoints/job/t", "/own"]
    assert spec.replace(checkpoint="/c//").checkpoint_of(one) == "/c/t"
    assert spec.query_name(one) == "job: t"
    assert [sink.name for sink in spec.only(["t"]).running] == ["t"]
    assert spec.running == spec.only([]).running == (one, two)
    with pytest.raises(PipelineError, match=r"^Pipeline job has no sink x; its sinks are t, csv\.$"):
        spec.only(["t", "x"])


def test_another_cluster_is_for_what_is_of_the_format() -> None:
    options = {"kafka.Bootstrap.Servers": "a:1", "bootstrap.servers": "b:1", "x": "y"}
    spec = PipelineSpec(
        "job",
        {"own": SourceSpec(options), "theirs": SourceSpec(options, "kafka")},
        (SinkSpec(options), SinkSpec(options, "kafka")),
    ).with_bootstrap_servers("c:1")
    moved = {"x": "y", "bootstrap.servers": "c:1"}
    assert [one.options for one in spec.sources.values()] == [one.options for one in spec.sinks] == [moved, options]
