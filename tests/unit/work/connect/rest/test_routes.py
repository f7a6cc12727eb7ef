"""The REST API route by route: which statuses each can have, and what becomes of what is asked."""

from http import HTTPStatus
from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.work.connect.rest.errors import RestError
from penstock.work.connect.rest.herder import Herder
from penstock.work.connect.rest.routes import NOTHING, ROUTES, RestAnswer, RestRequest, Route, Served
from penstock.work.connect.runtime import loggers
from penstock.work.connect.runtime.records import Target

STATUSES = {
    ("GET", "/"): (200,),
    ("GET", "/health"): (200, 503),
    ("GET", "/metrics"): (200,),
    ("GET", "/connectors"): (200,),
    ("POST", "/connectors"): (201, 400, 409),
    ("GET", "/connectors/{connector}"): (200, 404),
    ("DELETE", "/connectors/{connector}"): (204, 404, 409),
    ("GET", "/connectors/{connector}/config"): (200, 404),
    ("PUT", "/connectors/{connector}/config"): (200, 201, 400, 409),
    ("PATCH", "/connectors/{connector}/config"): (200, 400, 404, 409),
    ("GET", "/connectors/{connector}/status"): (200, 404),
    ("POST", "/connectors/{connector}/restart"): (202, 204, 404, 409),
    ("PUT", "/connectors/{connector}/pause"): (202, 404, 409),
    ("PUT", "/connectors/{connector}/resume"): (202, 404, 409),
    ("PUT", "/connectors/{connector}/stop"): (204, 404, 409),
    ("GET", "/connectors/{connector}/tasks"): (200, 404),
    ("GET", "/connectors/{connector}/tasks-config"): (200, 404),
    ("GET", "/connectors/{connector}/tasks/{task}/status"): (200, 404),
    ("GET", "/connectors/{connector}/tasks/{task}/report"): (200, 404, 409),
    ("POST", "/connectors/{connector}/tasks/{task}/restart"): (204, 404, 409),
    ("GET", "/connectors/{connector}/topics"): (200, 403),
    ("PUT", "/connectors/{connector}/topics/reset"): (202, 403),
    ("GET", "/connectors/{connector}/offsets"): (200, 404),
    ("PATCH", "/connectors/{connector}/offsets"): (200, 400, 404),
    ("DELETE", "/connectors/{connector}/offsets"): (200, 400, 404),
    ("GET", "/connector-plugins"): (200,),
    ("GET", "/connector-plugins/{plugin}/config"): (200, 400, 404),
    ("PUT", "/connector-plugins/{plugin}/config/validate"): (200, 400),
    ("GET", "/admin/loggers"): (200,),
    ("GET", "/admin/loggers/{logger}"): (200, 404),
    ("PUT", "/admin/loggers/{logger}"): (200, 204, 400, 404),
}


def test_every_route_has_its_statuses() -> None:
    assert {(route.verb, route.path): route.statuses for route in ROUTES} == STATUSES


class Told:
    """Stands for the herder: notes what it is told, and answers what a test says."""

    def __init__(self, *answers: object) -> None:
        self.answers = list(answers)
        self.calls: list[tuple[object, ...]] = []
        self.worker = SimpleNamespace(is_ready=False)

    def __getattr__(self, name: str) -> Any:
        async def call(*arguments: object, **named: object) -> object:
            self.calls.append((name, *arguments, *named.values()))
            return self.answers.pop(0) if self.answers else None

        return call


async def ask(told: Told, verb: str, path: str, body: object = None, **query: str) -> RestAnswer:
    route = next(one for one in ROUTES if (one.verb, one.path) == (verb, path))
    names = {"connector": "c", "task": "3", "logger": "l", "plugin": "p"}
    request = RestRequest(names, {name: [value] for name, value in query.items()}, body)
    return await route.answer(Served(cast("Herder", told), cast("Any", told)), request)


async def test_an_answer_that_comes_at_once_is_one_as_well() -> None:
    served, asked = Served(cast("Herder", None), cast("Any", None)), RestRequest({}, {}, None)
    assert await Route("GET", "/", "", lambda *_: ["a"]).answer(served, asked) == RestAnswer(["a"])
    gone = Route("GET", "/", "", lambda *_: ["a"], (204, 200))
    assert await gone.answer(served, asked) == RestAnswer(NOTHING, HTTPStatus.NO_CONTENT), "without a body"


@pytest.mark.parametrize("status", [None, {"state": "RESTARTING"}])
async def test_a_restart_that_is_asked_for_plainly_has_no_body(status: object) -> None:
    told = Told(status)
    answer = await ask(told, "POST", "/connectors/{connector}/restart", includeTasks="true")
    assert told.calls == [("restart", "c", True, False)]
    assert answer.status == (HTTPStatus.NO_CONTENT if status is None else HTTPStatus.ACCEPTED)
    assert answer.body == (NOTHING if status is None else status)


@pytest.mark.parametrize(
    ("body", "state"),
    [
        ({"name": " c ", "config": {"a": 1, "b": True, "d": None}}, None),
        ({"name": "c", "config": {"name": "c"}, "initial_state": "running"}, Target.STARTED),
        ({"name": "c", "config": {}, "initial_state": "PAUSED"}, Target.PAUSED),
        ({"name": "c", "config": {}, "initial_state": "stopped"}, Target.STOPPED),
    ],
)
async def test_a_connector_is_made(body: dict[str, Any], state: Target | None) -> None:
    told = Told("info")
    answer = await ask(told, "POST", "/connectors", body)
    words = {"a": "1", "b": "true", "d": None} if body["config"].keys() > {"a"} else {}
    assert told.calls == [("create", "c", {**words, "name": "c"}, state)]
    assert answer == RestAnswer("info", HTTPStatus.CREATED, "/connectors/c")


@pytest.mark.parametrize(
    "body",
    [
        None,
        [],
        {"config": {}},
        {"name": " ", "config": {}},
        {"name": "c"},
        {"name": "c", "config": []},
        {"name": "c", "config": {"a": {}}},
        {"name": "c", "config": {"a": []}},
        {"name": "c", "config": {"name": "d"}},
        {"name": "c", "config": {}, "other": 1},
        {"name": "c", "config": {}, "initial_state": "GONE"},
    ],
)
async def test_a_connector_that_cannot_be_made_is_refused(body: object) -> None:
    told = Told()
    with pytest.raises(RestError) as raised:
        await ask(told, "POST", "/connectors", body)
    assert raised.value.status == HTTPStatus.BAD_REQUEST
    assert told.calls == []


@pytest.mark.parametrize(("is_new", "status"), [(True, 201), (False, 200)])
async def test_a_configuration_makes_a_connector_or_changes_it(is_new: bool, status: int) -> None:
    answer = await ask(Told((is_new, "info")), "PUT", "/connectors/{connector}/config", {"a": "1"})
    assert (answer.body, answer.status) == ("info", status)
    assert answer.location == ("/connectors/c" if is_new else "")


@pytest.mark.parametrize(
    ("verb", "target"), [("pause", Target.PAUSED), ("resume", Target.STARTED), ("stop", Target.STOPPED)]
)
async def test_targets(verb: str, target: Target) -> None:
    told = Told()
    await ask(told, "PUT", "/connectors/{connector}/" + verb)
    assert told.calls == [("set_target", "c", target)]


@pytest.mark.parametrize(("is_ready", "status"), [(True, 200), (False, 503)])
async def test_health(is_ready: bool, status: int) -> None:
    told = Told()
    told.worker.is_ready = is_ready
    assert (await ask(told, "GET", "/health")).status == status


@pytest.mark.parametrize("body", [{}, {"level": "LOUD"}])
async def test_a_level_that_is_none_is_refused(body: dict[str, str]) -> None:
    with pytest.raises(RestError):
        await ask(Told(), "PUT", "/admin/loggers/{logger}", body)


async def test_a_level_is_set_here_or_everywhere() -> None:
    told = Told()
    told.worker.loggers = SimpleNamespace(set=lambda logger, level: [logger], check=lambda logger: None)
    everywhere = await ask(told, "PUT", "/admin/loggers/{logger}", {"level": "DEBUG"}, scope="cluster")
    assert everywhere.status == HTTPStatus.NO_CONTENT
    assert [(name, logger) for name, logger, _ in told.calls] == [("set_cluster_level", "l")]
    assert await ask(told, "PUT", "/admin/loggers/{logger}", {"level": "DEBUG"}) == RestAnswer(["l"])
    assert len(told.calls) == 1


@pytest.mark.parametrize("scope", ["worker", "cluster"])
async def test_a_logger_too_many_is_refused_before_anybody_hears_of_it(
    monkeypatch: pytest.MonkeyPatch, scope: str
) -> None:
    monkeypatch.setattr(loggers, "MOST_NEW", 0)
    told = Told()
    told.worker.loggers = loggers.Loggers(lambda: 0)
    with pytest.raises(RestError, match="there is no logger l, and 0 were made by requests already") as raised:
        await ask(told, "PUT", "/admin/loggers/{logger}", {"level": "DEBUG"}, scope=scope)
    assert (raised.value.status, told.calls) == (HTTPStatus.BAD_REQUEST, [])


@pytest.mark.parametrize("task", ["x", "9" * 5000])
def test_a_task_has_a_number(task: str) -> None:
    with pytest.raises(RestError):
        RestRequest({"task": task}, {}, None).task  # noqa: B018
    assert RestRequest({"task": "12"}, {}, None).task == 12


def test_a_flag_is_set_by_true_alone() -> None:
    asked = RestRequest({}, {"yes": ["TRUE"], "no": ["false"], "other": ["x"]}, None)
    assert [asked.flag(name) for name in ("yes", "no", "other", "missing")] == [True, False, False, False]
    assert asked.flag("missing", True)


@pytest.mark.parametrize(
    ("verb", "path", "body", "query", "call"),
    [
        ("GET", "/", None, {}, ("server_info",)),
        ("GET", "/connectors", None, {}, ("connectors", [])),
        ("GET", "/connectors", None, {"expand": "info"}, ("connectors", ["info"])),
        ("PATCH", "/connectors/{connector}/config", {"a": 1}, {}, ("patch_config", "c", {"a": "1", "name": "c"})),
        ("GET", "/connectors/{connector}/offsets", None, {}, ("get", "c")),
        ("PATCH", "/connectors/{connector}/offsets", {"offsets": []}, {}, ("alter", "c", {"offsets": []})),
        ("DELETE", "/connectors/{connector}/offsets", None, {}, ("reset", "c")),
        ("PUT", "/connector-plugins/{plugin}/config/validate", {"a": None}, {}, ("validate", {"a": None}, "p")),
        ("GET", "/connector-plugins", None, {}, ("plugins", True)),
        ("GET", "/connector-plugins", None, {"connectorsOnly": "false"}, ("plugins", False)),
        ("GET", "/connector-plugins/{plugin}/config", None, {}, ("definitions", "p", "latest")),
        ("GET", "/connector-plugins/{plugin}/config", None, {"version": "[1,2)"}, ("definitions", "p", "[1,2)")),
    ],
)
async def test_what_is_asked_is_passed_on(
    verb: str, path: str, body: object, query: dict[str, str], call: tuple[object, ...]
) -> None:
    told = Told(["said"])
    answer = await ask(told, verb, path, body, **query)
    assert told.calls == [call]
    assert answer.body == ["said"]
