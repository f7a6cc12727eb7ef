"""The views of a pipeline, and what its SQL and functions make of them. A step is a view of those before it."""

import re
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from penstock.pipeline.errors import PipelineError
from penstock.pipeline.spec.files import module_of
from penstock.pipeline.spec.pipeline import PipelineSpec, SinkSpec, SqlText, StepSpec
from penstock.pipeline.spec.user_code import first_line

IN_SQL = re.compile(r"line (\d+),? pos (\d+)")


class Views:
    """Sources and tables by their names, then the steps; and the query, which is made when a sink needs it."""

    def __init__(self, session: SparkSession, spec: PipelineSpec, frames: Mapping[str, DataFrame]) -> None:
        self._session, self._spec = session, spec
        self._frames: dict[str, DataFrame] = {}
        self._query: DataFrame | None = None
        for name, frame in frames.items():
            self._add(name, frame)

    def with_steps(self) -> "Views":
        for name, step in self._spec.steps.items():
            self.add_step(name, step)
        return self

    def add_step(self, name: str, step: StepSpec) -> None:
        if step.sql is not None:
            self._add(name, self._of_sql(step.sql))
        else:
            function = function_named(step.function, f"step {name}", self._spec.file)
            made = function(*(self._frames[view] for view in step.inputs))
            self._add(name, self._checked(made, f"the function of step {name}"))

    def query(self) -> DataFrame:
        if self._query is None:
            self._query = self._made()
        return self._query

    def rows_for(self, sink: SinkSpec) -> DataFrame:
        frame = self.query() if sink.origin is None else self._frames[sink.origin]
        return frame if sink.where is None else planned(sink.where, frame.where)

    def _add(self, name: str, frame: DataFrame) -> None:
        self._frames[name] = frame
        frame.createOrReplaceTempView(name)

    def _of_sql(self, sql: SqlText) -> DataFrame:
        return planned(sql, self._session.sql)

    def _made(self) -> DataFrame:
        spec, frames = self._spec, self._frames
        if spec.transform is None:
            return next(iter(frames.values()))
        if isinstance(spec.transform, str):
            return self._of_sql(SqlText(spec.transform, spec.sql_place))
        result = spec.transform(**frames) if len(frames) > 1 else spec.transform(*frames.values())
        return self._checked(result, "its function")

    def _checked(self, result: object, what: str) -> DataFrame:
        if isinstance(result, DataFrame):
            return result
        raise PipelineError(f"Pipeline {self._spec.name}: {what} must return a DataFrame, not {type(result).__name__}.")


def planned(sql: SqlText, plan: Callable[[str], DataFrame]) -> DataFrame:
    """PipelineError says what Spark does not like, and where in the file that stands."""
    try:
        return plan(sql.text)
    except PySparkException as error:
        raise PipelineError(f"{_place_in(sql, error)}{first_line(str(error))}") from error


def _place_in(sql: SqlText, error: PySparkException) -> str:
    """With a colon; empty where neither the file nor Spark tells."""
    if sql.place is None:
        return ""
    begins = [one.startIndex() for one in error.getQueryContext() or () if not one.objectType()]
    if begins:
        before = sql.text[: begins[0]]
        return f"{sql.place.of(before.count(chr(10)), len(before.rpartition(chr(10))[2]))}: "
    said = IN_SQL.search(str(error))
    return f"{sql.place.of(int(said[1]) - 1, int(said[2]))}: " if said else ""


def function_named(name: str, what: str, file: Path | None) -> Callable[..., Any]:
    """From module:function; it may be in a pipeline's own `file`, whose module has the file's name."""
    module, _, function = name.partition(":")
    if not (module and function):
        raise PipelineError(f"{what} needs function: module:function.")
    try:
        own = module_of(file) if file is not None and module == file.stem else None
        found: Callable[..., Any] = getattr(own or import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise PipelineError(f"There is no function {name}: {error}.") from error
    return found
