"""What queries have left open is ended when their tasks are over, and keeps no run that has to stop."""

import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.errors import PySparkException

from penstock.pipeline.running import sink_query
from penstock.pipeline.running.sink_query import SinkQuery, settle


class Query:
    def __init__(self) -> None:
        self.may_settle, self.is_settled = threading.Event(), threading.Event()

    def settle(self) -> None:
        self.may_settle.wait()
        self.is_settled.set()


def queries(*ours: Query) -> list[SinkQuery]:
    return [cast("SinkQuery", one) for one in ours]


def test_a_cluster_that_does_not_answer_keeps_no_run_that_has_to_stop() -> None:
    query, other = Query(), Query()
    other.may_settle.set()
    settle(queries(query, other), lambda: 0, within_s=0.0)
    assert not query.is_settled.is_set()
    query.may_settle.set()
    assert other.is_settled.wait(10)


def test_tasks_are_over_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sink_query, "LOOK_EVERY_S", 0.0)
    query, under_way = Query(), iter((2, 1, 0))
    query.may_settle.set()

    def tasks() -> int:
        assert not query.is_settled.is_set()
        return next(under_way)

    settle(queries(query), tasks, within_s=None)
    assert query.is_settled.is_set()
    assert list(under_way) == []


def test_that_spark_is_gone_ends_no_run_with_an_error(caplog: pytest.LogCaptureFixture) -> None:
    def gone() -> Any:
        raise ConnectionError("Spark is gone")

    settle(queries(Query()), gone, within_s=None)
    assert "whether tasks have left transactions open is not known: Spark is gone" in caplog.text


class Elsewhere:
    """A query at a server of Spark Connect."""

    def __init__(self, *, is_active: bool, error: Exception | None = None) -> None:
        self.isActive, self._error = is_active, error

    def exception(self) -> Exception | None:
        return self._error

    def stop(self) -> None:
        raise PySparkException("the server is gone")


def a_query(query: Elsewhere, *, ends: bool, session: object = None) -> SinkQuery:
    made = SinkQuery(cast("Any", session), "a: one", cast("Any", None), cast("Any", None), "", ends=ends)
    made.query = cast("Any", query)
    return made


def test_a_query_that_somebody_else_has_stopped_has_failed_unless_it_ends_by_itself() -> None:
    assert a_query(Elsewhere(is_active=True), ends=False).failure is None
    assert a_query(Elsewhere(is_active=False), ends=True).failure is None
    assert str(a_query(Elsewhere(is_active=False), ends=False).failure) == "the query was stopped by somebody else"
    own = ValueError("its own")
    assert a_query(Elsewhere(is_active=False, error=own), ends=False).failure is own


def test_what_cannot_be_stopped_elsewhere_hides_no_other_error() -> None:
    a_query(Elsewhere(is_active=True), ends=False).stop()
    with pytest.raises(PySparkException):
        a_query(Elsewhere(is_active=True), ends=False, session=SimpleNamespace(_jvm="Java")).stop()
