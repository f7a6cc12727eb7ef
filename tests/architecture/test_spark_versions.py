"""What the package takes from PySpark is there in the oldest Spark that is supported, and without a JVM beside it."""

import ast
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2] / "src"
PIPELINE = SOURCE / "penstock" / "pipeline"
SINCE_4_0 = {
    "pyspark": {"TaskContext", "__version__", "daemon"},
    "pyspark.cloudpickle": {"register_pickle_by_value"},
    "pyspark.errors": {"PySparkException"},
    "pyspark.sql": {"Column", "DataFrame", "Row", "SparkSession", "Window", "functions"},
    "pyspark.sql.connect.client.retries": {"DefaultPolicy"},
    "pyspark.sql.connect.session": {"SparkSession"},
    "pyspark.sql.datasource": {
        "DataSource",
        "DataSourceArrowWriter",
        "DataSourceReader",
        "DataSourceStreamReader",
        "DataSourceStreamWriter",
        "DataSourceWriter",
        "InputPartition",
        "WriterCommitMessage",
    },
    "pyspark.sql.datasource_internal": {"_SimpleStreamReaderWrapper"},
    "pyspark.sql.pandas.types": {"to_arrow_type"},
    "pyspark.sql.streaming.listener": {
        "QueryIdleEvent",
        "QueryProgressEvent",
        "QueryStartedEvent",
        "QueryTerminatedEvent",
        "SourceProgress",
        "StreamingQueryListener",
        "StreamingQueryProgress",
    },
    "pyspark.sql.streaming.query": {"StreamingQuery"},
    "pyspark.sql.streaming.readwriter": {"DataStreamWriter"},
}
NEWER = {
    "penstock/pipeline/datasource/limited_reader.py": (
        "pyspark.sql.streaming.datasource",
        "4.2, as its docstring says",
    ),
    "penstock/pipeline/datasource/warm_planners.py": (
        "pyspark.worker_util",
        "4.1; where it does not begin Spark starts planners",
    ),
    "penstock/pipeline/values/typed_values.py": ("pyspark.sql.pandas.functions", "4.1, and it says so"),
}
TYPES = "pyspark.sql.types"
OF_A_JVM = {"_jvm", "_jsc", "_jdf", "_jc", "_jsparkSession", "_jreader", "_jwrite", "_jsq", "_sc", "sparkContext"}
KNOWS_THE_JVM = "penstock/pipeline/jvm.py"


def _nodes() -> Iterator[tuple[str, ast.AST]]:
    for path in sorted(PIPELINE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            yield str(path.relative_to(SOURCE)), node


def test_what_is_imported_is_there_in_spark_4_0() -> None:
    newer = [
        f"{path}:{node.lineno} {node.module}.{name.name}"
        for path, node in _nodes()
        if isinstance(node, ast.ImportFrom) and node.module is not None and node.module.startswith("pyspark")
        for name in node.names
        if node.module not in (TYPES, NEWER.get(path, ("",))[0]) and name.name not in SINCE_4_0.get(node.module, set())
    ]
    assert newer == []


def test_the_jvm_of_a_session_is_asked_in_one_place() -> None:
    """A session of Spark Connect has none. A name in `getattr` or `hasattr` counts as well."""
    touched = {
        path
        for path, node in _nodes()
        if (isinstance(node, ast.Attribute) and node.attr in OF_A_JVM)
        or (isinstance(node, ast.Constant) and node.value in OF_A_JVM)
    }
    assert touched == {KNOWS_THE_JVM}
