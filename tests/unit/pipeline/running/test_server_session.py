"""Sessions of a said id at a server of Spark Connect; the server is played."""

import os
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql.connect.client.retries import DefaultPolicy

from penstock.cli.work import close_sessions
from penstock.pipeline.errors import NO_ANSWER, OUT_OF_REACH, PipelineError
from penstock.pipeline.running import server_session
from penstock.pipeline.running.server_session import (
    Patience,
    address_of,
    apply,
    close,
    is_out_of_reach,
    open_session,
)
from penstock.pipeline.spec.user_code import plain_message

ID = "f30f88e4-c380-415b-a644-7feabe293fc4"


class Server:
    def __init__(self, *, says: str = "") -> None:
        self.asked: list[str] = []
        self._says = says

    def open_session(self, server: str, session: str, patience_s: float) -> Any:
        return SimpleNamespace(client=self)

    def get_configs(self, *_: str) -> None:
        self.asked.append("opened")
        if self._says:
            raise PySparkException(self._says)

    def release_session(self) -> None:
        self.asked.append("closed")

    def close(self) -> None:
        self.asked.append("left")


def test_an_address_has_the_session_and_the_same_user_everywhere() -> None:
    assert address_of("sc://a:1", ID) == f"sc://a:1/;user_id=penstock;session_id={ID}"
    said = "sc://a:1/;use_ssl=true;session_id=other;user_id=me"
    assert address_of(said, ID) == f"sc://a:1/;use_ssl=true;user_id=me;session_id={ID}"


def test_a_session_is_opened_before_it_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server refuses only ids that it knows: what is on the way to it would open another one."""
    server = Server()
    monkeypatch.setattr(server_session, "open_session", server.open_session)
    close("sc://a:1", ID, 1)
    assert server.asked == ["opened", "closed", "left"]


def test_one_that_is_closed_stays_so_and_what_else_is_wrong_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(says="[INVALID_HANDLE.SESSION_CLOSED] The handle is invalid. Session was closed.")
    monkeypatch.setattr(server_session, "open_session", server.open_session)
    assert close_sessions.closed("sc://a:1", ID) == {"event": "closed", "session": ID}
    assert server.asked == ["opened", "left"]
    monkeypatch.setattr(server_session, "open_session", Server(says="It is\nnot allowed.").open_session)
    assert close_sessions.closed("sc://a:1", ID) == {"event": "closed", "session": ID, "error": "It is"}


class UnavailableError(Exception):
    """As gRPC's."""


def test_one_time_is_for_all_calls_that_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = [100.0]
    monkeypatch.setattr(server_session, "time", SimpleNamespace(monotonic=lambda: now_s[0]))
    monkeypatch.setattr(DefaultPolicy, "can_retry", lambda _, error: isinstance(error, UnavailableError))
    patience, fails = Patience(20.0), UnavailableError()
    seen = []
    for at_s in (100, 110, 119, 121, 122, 150):
        now_s[0] = float(at_s)
        seen.append(patience.can_retry(fails))
    assert seen == [True, True, True, False, False, True]
    assert not patience.can_retry(ValueError())


def test_settings_of_the_server_are_refused() -> None:
    done: dict[str, str] = {}
    conf = SimpleNamespace(isModifiable=lambda key: key != "spark.sql.warehouse.dir", set=done.__setitem__)
    session = SimpleNamespace(conf=conf)
    apply(session, {"spark.sql.ansi.enabled": "true"})
    assert done == {"spark.sql.ansi.enabled": "true"}
    for key in ("spark.driver.memory", "spark.sql.warehouse.dir"):
        with pytest.raises(PipelineError, match=f"{key} is a setting of the server"):
            apply(session, {key: "x"})


def test_who_is_out_of_reach() -> None:
    error = PipelineError("the query failed")
    error.__cause__ = PySparkException(f"<_InactiveRpcError of RPC that terminated with:\n status = {OUT_OF_REACH}>")
    assert is_out_of_reach(error)
    assert plain_message(error.__cause__) == NO_ANSWER
    assert not is_out_of_reach(PipelineError("There is no topic."))


def test_a_wrong_address_is_told_without_what_is_behind_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED"):
        monkeypatch.setenv(variable, "")
    for address, said in (
        ("sc://a:1/;token=x", "sc://a:1: Spark takes no"),
        ("sc://a:1/;token==", "behind sc://a"),
    ):
        monkeypatch.setattr(server_session, "SparkSession", refused)
        with pytest.raises(PipelineError, match=said) as caught:
            open_session(address, ID)
        assert "token" not in str(caught.value)
    assert os.environ["SPARK_REMOTE"] == "sc://a:1", "what a pipeline's own code starts learns no token"


def refused(address: str) -> None:
    raise PySparkException(f"no such address: {address}")
