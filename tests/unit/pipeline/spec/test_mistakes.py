"""What a person writes by mistake into a file is told at its place, and with what was probably meant, without Spark."""

from pathlib import Path

import pytest

from penstock.pipeline.errors import PipelineError
from penstock.pipeline.spec.files import declared_in, load_spec, load_yaml, session_spec

GOOD = """\
source:
  kafka.bootstrap.servers: a:1
  subscribe: clicks
  startingOffsets: earliest
sink:
  format: parquet
  path: /out
  mode: append
trigger: 5 seconds
checkpoint: /checkpoints
spark:
  spark.sql.shuffle.partitions: 2
"""


def said(text: str) -> list[str]:
    with pytest.raises(PipelineError) as failure:
        load_yaml(text, "job", "job.yaml")
    return str(failure.value).splitlines()


@pytest.mark.parametrize(
    ("right", "wrong", "place", "problem"),
    [
        ("earliest", "earlist", "4, column 3", "Option startingOffsets=earlist: it must be earliest or latest or "),
        ("earliest", "earlist", "4, column 3", "Did you mean earliest?"),
        ("startingOffsets: earliest", "startingoffsets: earlist", "4, column 3", "Did you mean earliest?"),
        ("  mode: append", "  name: a/b", "8, column 3", "name: a/b cannot be that of a sink: letters, digits,"),
        (
            "  mode: append",
            "  asyncProgressTrackingEnabled: true",
            "8, column 3",
            "is not for parquet: Spark has it",
        ),
        ("  mode: append", "  asyncProgresTracking: true", "8, column 3", "Did you mean asyncProgressTrackingEnabled?"),
        (
            "  mode: append",
            "  delivery: exactly-once",
            "8, column 3",
            "delivery is for topics, and the sink is parquet.",
        ),
        (
            "  format: parquet\n  path: /out\n  mode: append",
            "  topic: out\n  delivery: exactly_once",
            "7, column 3",
            "delivery: exactly_once must be at-least-once or exactly-once. Did you mean exactly-once?",
        ),
        (
            "  format: parquet\n  path: /out\n  mode: append",
            "  topic: out\n  delivery: exactly-once\n  penstock.sink.delivery: exactly-once",
            "7, column 3",
            "delivery says what penstock.sink.delivery says: leave one of them out.",
        ),
        (
            "  format: parquet\n  path: /out\n  mode: append",
            "  topic: out\n  delivery: exactly-once\n  asyncProgressTrackingEnabled: true",
            "8, column 3",
            "is not for delivery: exactly-once",
        ),
        ("5 seconds", "realtime", "9, column 1", "Did you mean real-time?"),
        ("5 seconds", "real-time", "9, column 1", "source source needs format: kafka, and is penstock."),
        ("5 seconds", "real-time 1 minute", "5, column 1", "needs mode: update in each sink."),
        ("append", "apend", "8, column 3", "mode: apend must be append or update or complete. Did you mean append?"),
        ("parquet", "parkett", "6, column 3", "format: parkett is not known. Did you mean parquet?"),
        ("  path: /out\n", "", "5, column 1", "format: parquet needs a path."),
        ("subscribe: clicks", "subscribe:", "3, column 3", "subscribe is empty: give it a value"),
        ("subscribe: clicks", "subscibe: clicks", "3, column 3", "Did you mean subscribe?"),
        ("subscribe: clicks", "subscribe: ''", "3, column 3", "Option subscribe is empty."),
        ("a:1", "a:one", "2, column 3", "Option kafka.bootstrap.servers: "),
        (
            "subscribe: clicks",
            "subscribe: b\n  subscribe: a",
            "4, column 3",
            "subscribe is there twice, first in line 3.",
        ),
        ("trigger: 5", "trigger: 5 seconds\ntrigger: 5", "10, column 1", "trigger is there twice, first in line 9."),
        ("5 seconds", "availablenow", "9, column 1", "Did you mean available-now?"),
        ("/checkpoints", "[a]", "10, column 1", "checkpoint must be a text, not ['a']."),
        ("spark.sql.shuffle", "sparc.sql.shuffle", "12, column 3", "they begin with spark."),
        ("earliest", "earliest\n  minPartitions: few", "5, column 3", "it must be a whole number of at least 1."),
        ("earliest", "earliest\n  endingOffsets: latest", "5, column 3", "a stream has no end."),
        ("source:", "sorce:", "1, column 1", "'sorce' is no part of a pipeline. Did you mean source?"),
        ("mode: append", "mode: [append", "9, column 8", "expected ',' or ']'"),
        ("  path: /out", "\tpath: /out", "7, column 1", "found character '\\t' that cannot start any token."),
        ("parquet", "&a [*a]", "6, column 11", "an alias stands within itself"),
        ("/checkpoints", "[" * 40, "10, column 42", "more than 30 levels."),
        ("mode: append", "? [a]\n  : b", "8, column 5", "a key must be a word."),
    ],
)
def test_a_mistake_is_told_at_its_place(right: str, wrong: str, place: str, problem: str) -> None:
    load_yaml(GOOD, "job", "job.yaml")
    lines = said(GOOD.replace(right, wrong, 1))
    assert any(line.startswith(f"job.yaml, line {place}: ") and problem in line for line in lines), lines


def test_progress_beside_the_batches_is_for_topics_that_go_on() -> None:
    text = "source: {format: rate}\nsink: {topic: b, asyncProgressTrackingEnabled: true}\ntrigger: "
    (sink,) = load_yaml(text + "1 second", "job").sinks
    assert sink.is_async
    assert "asyncProgressTrackingEnabled" not in sink.options, "which the format refuses"
    (line,) = said(text + "once")
    assert line.endswith("asyncProgressTrackingEnabled is for batches that go on, not for trigger: once.")
    (line,) = said(text.replace("format: rate", "subscribe: a") + "1 second")
    assert "is not for sources of format penstock (Spark commits a source in Python when it has stopped it" in line
    kafka = "source: {format: kafka, subscribe: a}\nsink: {format: kafka, topic: b, mode: update}\ntrigger: real-time"
    assert load_yaml(kafka, "job").trigger == "real-time"


STEPS = """\
source: {subscribe: clicks}
steps:
  late: SELECT 1
  named:
    function: module:names
    from: [late, source]
sink:
  - topic: a
    from: late
  - topic: b
    from: named
"""


@pytest.mark.parametrize(
    ("right", "wrong", "place", "problem"),
    [
        ("[late,", "[lat,", "6, column 5", "from: lat is no view that is there before it. Did you mean late?"),
        ("[late,", "[named,", "6, column 5", "from: named is no view that is there before it."),
        ("from: late", "from: lat", "9, column 5", "Did you mean late?"),
        ("    from: late\n", "", "8, column 5", "or a sink says from: source or late or named."),
        ("function: m", "functon: m", "5, column 5", "'functon' is no part of a step. Did you mean function?"),
        ("function: m", "sql: m", "4, column 3", "SQL names them itself."),
        ("function: module:names", "function:", "5, column 5", "function is empty"),
        ("  late: ", "  source: ", "3, column 3", "source is the name of a source and of a step."),
        ("  late: ", "  la-te: ", "3, column 3", "cannot be a view in SQL"),
        ("SELECT 1", "7", "3, column 3", "step late must be a table of options, not 7."),
        ("steps:", "step:", "2, column 1", "Did you mean steps?"),
    ],
)
def test_a_mistake_in_steps_is_told_at_its_place(right: str, wrong: str, place: str, problem: str) -> None:
    load_yaml(STEPS, "job", "job.yaml")
    lines = said(STEPS.replace(right, wrong, 1))
    assert any(line.startswith(f"job.yaml, line {place}: ") and problem in line for line in lines), lines


VALUES = """\
set: {region: eu, since:}
source: {subscribe: "clicks_${region}", startingOffsets: "${since}"}
sql: SELECT '${env:HOME}' AS home, '${spark.x}' AS x FROM source
sink: {format: parquet, path: "/out/${region}"}
spark: {spark.sql.ansi.enabled: "${ansi}"}
"""


def test_names_in_a_file_stand_for_values_that_are_given() -> None:
    spec = load_yaml(VALUES, "job", values={"since": "latest", "ansi": "true", "region": "us"})
    assert spec.sources["source"].options == {"subscribe": "clicks_us", "startingOffsets": "latest"}
    assert spec.sinks[0].options["path"] == "/out/us"
    assert spec.spark == {"spark.sql.ansi.enabled": "true"}
    assert str(spec.transform).startswith("SELECT '${env:HOME}' AS home, '${spark.x}'"), "Spark's own variables"
    assert load_yaml(VALUES, "job", values={"since": "latest", "ansi": "1"}).sinks[0].options["path"] == "/out/eu"


def test_a_name_without_a_value_is_told_at_its_place() -> None:
    with pytest.raises(PipelineError) as failure:
        load_yaml(VALUES, "job", "job.yaml", {"since": "earliest", "regio": "us"})
    assert str(failure.value).splitlines() == [
        "job.yaml, line 5, column 9: ${ansi} has no value: say --set ansi=…, or one in the part set.",
        "job.yaml, line 1, column 1: --set regio: the file has no ${regio}. Did you mean region?",
    ]
    assert said("set: [a]\n" + GOOD) == ["job.yaml, line 1, column 1: set must be a table of names with their values."]


def test_names_in_a_python_file_are_known_before_it_runs(tmp_path: Path) -> None:
    file = tmp_path / "job.py"
    file.write_text(
        "NAME = 'clicks_${region}'\nSET = {'region': 'eu'}\nSOURCE = {'subscribe': 'a'}\n"
        "SINK = {'topic': 'b_${region}'}\nSQL = 'SELECT value FROM source'\n"
    )
    values = {"region": "us"}
    assert session_spec(file).name == load_spec(file).name == "clicks_eu"
    assert session_spec(file, values).name == load_spec(file, values).name == "clicks_us"
    assert declared_in(file, values).sinks[0].name == load_spec(file, values).sinks[0].name == "b_us"


RULES = """\
source: {subscribe: clicks}
sink:
  topic: a
  dead_letter: b
  expect:
    - rule: id > 0
      on_fail: dead_letter
    - rule: at IS NOT NULL
      on_fail: warn
      name: has a time
"""


@pytest.mark.parametrize(
    ("right", "wrong", "place", "problem"),
    [
        (
            "warn",
            "warm",
            "9, column 7",
            "on_fail: warm must be warn or drop or dead_letter or fail. Did you mean warn?",
        ),
        ("name:", "nam:", "10, column 7", "'nam' is no part of a rule. Did you mean name?"),
        ("rule: at IS NOT NULL\n      on", "on", "8, column 7", "expect needs a rule"),
        ("rule: id > 0", "rule:", "6, column 7", "rule is empty"),
        ("has a time", "id > 0", "5, column 3", "two rules have the same name."),
        ("  dead_letter: b\n", "", "4, column 3", "one of both is missing."),
        ("on_fail: dead_letter", "on_fail: drop", "4, column 3", "one of both is missing."),
        ("  expect:", "  expct:", "5, column 3", "Did you mean expect?"),
        ("  topic: a\n", "  topic: a\n  wher: id = 1\n", "4, column 3", "wher is not known. Did you mean where?"),
        (
            "dead_letter: b",
            "dead_letter: a",
            "2, column 1",
            "two sinks have the same name (a, a): say name: in one, or another dead_letter.",
        ),
    ],
)
def test_a_mistake_in_rules_is_told_at_its_place(right: str, wrong: str, place: str, problem: str) -> None:
    load_yaml(RULES, "job", "job.yaml")
    lines = said(RULES.replace(right, wrong, 1))
    assert any(line.startswith(f"job.yaml, line {place}: ") and problem in line for line in lines), lines


def test_a_rule_that_is_empty_is_not_told_to_be_missing_as_well() -> None:
    for wrong, count in (("rule:", 0), ("- {}", 1), ("- 7", 0)):
        lines = said(
            RULES.replace("- rule: id > 0\n      on_fail: dead_letter", wrong if "-" in wrong else f"- {wrong}")
        )
        assert sum("expect needs a rule" in line for line in lines) == count


def test_aliases_serve_what_they_are_for() -> None:
    given = load_yaml(
        "source: {subscribe: a}\nsink: [{topic: a, <<: &to {mode: update}}, {topic: b, mode: append, <<: *to}]", "job"
    )
    assert [(sink.name, sink.mode) for sink in given.sinks] == [("a", "update"), ("b", "append")], "its own counts more"
    first = load_yaml(
        "source: &a {subscribe: a}\nsink: {<<: [&b {mode: update}, {mode: append, key: k}], topic: b}", "job"
    )
    assert (first.sinks[0].mode, first.sinks[0].key, first.sinks[0].name) == ("update", "k", "b"), (
        "the first counts most"
    )
    wrong = said("source: {subscribe: a}\nsink: {<<: [1, {topic: b}, x], topic: c}")
    assert wrong == [f"job.yaml, line 2, column {column}: << takes tables only." for column in (13, 28)]


def test_half_a_kilobyte_that_stands_for_a_billion_values() -> None:
    lines = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"a{number}: &a{number} [{', '.join([f'*a{number - 1}'] * 10)}]" for number in range(1, 10)]
    assert said("\n".join(lines)) == ["job.yaml: more than 20,000 values, with what aliases stand for."]
    assert "characters" in said("#" * 300_000)[0]


def test_a_mistake_in_a_literal_of_python(tmp_path: Path) -> None:
    file = tmp_path / "job.py"
    file.write_text('SOURCE = {\n    "subscribe": "a",\n    "startingOffsets": "earlist",\n}\nSINK = [{"mode": "x"}]\n'
                    "def pipeline(source): return source\n")  # fmt: skip
    with pytest.raises(PipelineError) as failure:
        load_spec(file)
    places = [line.removeprefix(f"{file}, line ").partition(":")[0] for line in str(failure.value).splitlines()]
    assert places == ["3, column 5", "5, column 10"]


CHANGES = """\
source:
  kafka.bootstrap.servers: a:1
  subscribe: customers
  changes: debezium
  json: id BIGINT
sink:
  format: sql
  connection.url: sqlite:///shop.db
  table: customers
  keys: [id]
"""


@pytest.mark.parametrize(
    ("right", "wrong", "place", "problem"),
    [
        ("debezium", "debezum", "4, column 3", "changes: debezum must be debezium. Did you mean debezium?"),
        ("  json: id BIGINT\n", "", "4, column 3", "changes: debezium needs json (the columns of the table), or avro"),
        ("  keys: [id]", "  mode: update", "6, column 1", "it needs keys, the columns by which a row is found again."),
        ("  table: customers", "  name: customers", "6, column 1", "format: sql needs table."),
        ("keys: [id]", "keys: id\n  deletes: removed", "11, column 3", "deletes: removed must be mark or remove."),
        (
            "  json: id BIGINT\nsink:",
            "  json: id BIGINT\n  kafka.minPartitions: 8\nsink:\n  deletes: remove",
            "8, column 3",
            "deletes: remove needs the changes of a row in their order, and with kafka.minPartitions of source several",
        ),
        (
            "  json: id BIGINT\nsink:",
            "  json: id BIGINT\n  maxrecordsperpartition: 8\nsink:\n  deletes: remove",
            "8, column 3",
            "leave it out, or say deletes: mark.",
        ),
        ("keys: [id]", "keys: id\n  stored_as_scd_type: 3", "11, column 3", "stored_as_scd_type: 3 must be 1 or 2."),
        ("format: sql", "format: parquet\n  path: /out", "11, column 3", "keys is for sinks of sql, delta, iceberg, "),
        ("keys: [id]", "keys: id\n  sequenced_by: at", "11, column 3", "sequenced_by is not known. Did you mean"),
    ],
)
def test_what_is_wrong_with_changes_of_databases(right: str, wrong: str, place: str, problem: str) -> None:
    assert load_yaml(CHANGES, "job").sinks[0].changes is not None
    load_yaml(CHANGES.replace("\nsink:", "\n  minPartitions: 8\nsink:"), "job")
    lines = said(CHANGES.replace(right, wrong))
    assert any(line.startswith(f"job.yaml, line {place}: ") and problem in line for line in lines), lines


def test_each_sink_that_removes_rows_needs_them_in_order() -> None:
    """Whichever sinks are before it."""
    source = (
        "source: {kafka.bootstrap.servers: 'a:1', subscribe: c, changes: debezium, json: id BIGINT, minPartitions: 8}"
    )
    sinks = [
        "{format: parquet, path: /out}",
        "{format: sql, connection.url: 'sqlite:///x', table: a, keys: id}",
        "{format: sql, connection.url: 'sqlite:///x', table: b, keys: id, deletes: remove}",
        "{format: sql, connection.url: 'sqlite:///x', table: c, keys: id, deletes: remove}",
        "{format: delta, path: /d, keys: id, deletes: remove}",
    ]
    lines = said("\n".join([source, "sink:", *(f"- {sink}" for sink in sinks)]))
    assert [line.partition(": deletes: remove needs")[0] for line in lines] == [
        f"job.yaml, line {number}, column 68" for number in (5, 6)
    ]
