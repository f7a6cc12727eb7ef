"""What a pipeline's sinks promise, as `pipeline check` says it, and what its sources read by default."""

import pytest

from penstock.pipeline.spec.declared_options import with_default_isolation
from penstock.pipeline.spec.files import load_yaml
from penstock.pipeline.spec.promises import promises_of

LOST = "rows of a batch that runs again are there twice"


@pytest.mark.parametrize(
    ("sink", "promise"),
    [
        ("{topic: out}", f"sink out writes at least once: {LOST}"),
        ("{topic: out, delivery: at-least-once}", f"sink out writes at least once: {LOST}"),
        (
            "{topic: out, delivery: exactly-once}",
            "sink out writes exactly once, for readers with isolation.level=read_committed",
        ),
        (
            "{topic: out, penstock.sink.delivery: Exactly-Once}",
            "sink out writes exactly once, for readers with isolation.level=read_committed",
        ),
        (
            "{topic: out, Kafka.penstock.sink.delivery: exactly-once}",
            "sink out writes exactly once, for readers with isolation.level=read_committed",
        ),
        (
            "{format: parquet, path: /a/b}",
            "sink b writes exactly once, for readers that go by _spark_metadata, as Spark does",
        ),
        ("{format: console}", "sink console writes nothing: no row is kept"),
        ("{format: custom}", "sink custom writes what the format custom promises"),
    ],
)
def test_a_sink_promises(sink: str, promise: str) -> None:
    spec = load_yaml(f"source: {{bootstrap.servers: 'a:1', subscribe: a}}\nsink: {sink}\n", "job")
    assert promises_of(spec) == [promise]


def test_pipelines_read_what_is_committed_unless_they_say_something_else() -> None:
    assert with_default_isolation({"subscribe": "a"}) == {"subscribe": "a", "isolation.level": "read_committed"}
    for name in ("kafka.isolation.level", "Isolation.Level"):
        assert with_default_isolation({name: "read_uncommitted"}) == {name: "read_uncommitted"}
