"""What is told of a pipeline that is to be at a server of Spark Connect; the server is played."""

from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import PySparkException

from penstock.pipeline.errors import NO_ANSWER, OUT_OF_REACH, PipelineError
from penstock.pipeline.running import check_at_server
from penstock.pipeline.running.check_at_server import problems_at
from penstock.pipeline.spec.files import load_yaml
from penstock.pipeline.spec.pipeline import PipelineSpec
from penstock.pipeline.spec.promises import missed_at_server

TOPICS = "source: {subscribe: a}\nsink: {topic: b}\ncheckpoint: /c\n"


class Server:
    """Knows `format("penstock")`, or says what is wrong."""

    def __init__(self, says: str = "") -> None:
        self._says = says
        self.readStream = self
        self.client = SimpleNamespace(release_session=lambda: None, close=lambda: None)
        self.conf = SimpleNamespace(isModifiable=lambda _: True, set=lambda *_: None)

    def open_session(self, *_: object) -> Any:
        return self

    def format(self, _: str) -> "Server":
        return self

    def options(self, **_: str) -> "Server":
        return self

    def load(self) -> Any:
        if self._says:
            raise PySparkException(self._says)
        return SimpleNamespace(isStreaming=True)


def problems(
    monkeypatch: pytest.MonkeyPatch, server: Server, text: str = TOPICS, settings: dict[str, str] | None = None
) -> list[str]:
    monkeypatch.setattr(check_at_server, "open_session", server.open_session)
    monkeypatch.setattr(check_at_server, "problems_of", lambda *_: ["as planned"])
    return problems_at("sc://a:1/;token=secret", settings or {}, lambda: load_yaml(text, "job"), lambda _: None)


def test_a_server_without_the_data_source_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    assert problems(monkeypatch, Server()) == ["as planned"]
    _, said = problems(monkeypatch, Server("[DATA_SOURCE_NOT_FOUND] no such source"))
    assert said.startswith("the server at sc://a:1 cannot read and write topics ([DATA_SOURCE_NOT_FOUND]")
    assert "pip install 'penstock[connector]'" in said
    files = "source: {format: rate}\nsink: {format: parquet, path: /x}\ncheckpoint: /c\n"
    assert problems(monkeypatch, Server("[DATA_SOURCE_NOT_FOUND]"), files) == ["as planned"]


def test_settings_of_the_server_are_told_with_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    said = problems(monkeypatch, Server(), settings={"spark.driver.memory": "2g"})
    assert [one.partition(" ")[0] for one in said] == ["spark.driver.memory", "as"]


def test_one_that_does_not_answer_is_named_without_its_token(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone() -> PipelineSpec:
        raise PySparkException(OUT_OF_REACH)

    monkeypatch.setattr(check_at_server, "open_session", Server().open_session)
    with pytest.raises(PipelineError, match=rf"^sc://a:1: {NO_ANSWER}$"):
        problems_at("sc://a:1/;token=secret", {}, gone, lambda _: None)


def test_what_is_different_there() -> None:
    plain = missed_at_server(load_yaml(TOPICS, "job"))
    assert [one.startswith("at a server") for one in plain] == [True, True]
    registry = "source: {subscribe: a, avro: latest, schema.registry.url: 'http://r'}"
    latest = missed_at_server(load_yaml(TOPICS.replace("source: {subscribe: a}", registry), "job"))
    assert any("latest schema of a registry" in one for one in latest)
