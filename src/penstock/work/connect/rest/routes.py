"""Every path of the interface with what it does: what the server serves, and what its OpenAPI page is made of."""

from collections.abc import Callable, Mapping
from http import HTTPStatus
from inspect import isawaitable
from typing import Any, Final
from urllib.parse import quote

from penstock.protocol.value import Value, fresh
from penstock.work.connect.metrics import MEDIA_TYPE, page
from penstock.work.connect.rest.errors import bad_request, not_found
from penstock.work.connect.rest.herder import Herder
from penstock.work.connect.rest.offsets import ConnectorOffsets
from penstock.work.connect.runtime.loggers import LoggerError, level_named
from penstock.work.connect.runtime.records import MOST_DIGITS, Target
from penstock.work.connect.versions import LATEST

NOTHING: Final = object()
"""An answer without a body."""


class RestRequest(Value):
    path: Mapping[str, str]
    query: Mapping[str, list[str]]
    body: Any

    @property
    def name(self) -> str:
        return self.path["connector"]

    @property
    def task(self) -> int:
        """RestError."""
        text = self.path["task"]
        if not text.isdecimal() or len(text) > MOST_DIGITS:
            raise not_found(f"{text} is no number of a task")
        return int(text)

    def flag(self, name: str, default: bool = False) -> bool:
        return self.query.get(name, [str(default)])[0].lower() == "true"

    def words(self) -> dict[str, str | None]:
        """The body as an object of strings; numbers and booleans are converted. RestError."""
        return texts(self.body)


class RestAnswer(Value):
    body: Any = NOTHING
    status: HTTPStatus = HTTPStatus.OK
    location: str = ""
    kind: str = ""


class Served(Value):
    herder: Herder
    offsets: ConnectorOffsets


Handle = Callable[[Served, RestRequest], Any]
"""Returns, or lets wait for, an answer, or only the body of one with the route's first status."""


class Route(Value):
    """A verb of a path. `parameters` are those of the query, with their meaning."""

    verb: str
    path: str
    summary: str
    handle: Handle
    statuses: tuple[int, ...] = (200,)
    parameters: Mapping[str, str] = fresh(dict)
    body: str = ""
    produces: str = "application/json"
    loads_classes: bool = False
    """Of any name, which is to run code: who may only look may not."""

    @property
    def changes(self) -> bool:
        return self.verb != "GET" or self.loads_classes

    async def answer(self, served: Served, asked: RestRequest) -> RestAnswer:
        """There is a body with the status 200 only, unless the handle says otherwise."""
        made = self.handle(served, asked)
        made = await made if isawaitable(made) else made
        status = HTTPStatus(self.statuses[0])
        return (
            made if isinstance(made, RestAnswer) else RestAnswer(made if status == HTTPStatus.OK else NOTHING, status)
        )


def texts(document: Any) -> dict[str, str | None]:
    """RestError."""
    if not isinstance(document, dict):
        raise bad_request("the body must be an object of JSON")
    for key, value in document.items():
        if isinstance(value, dict | list):
            raise bad_request(f"{key} must be a text, and is {'an object' if isinstance(value, dict) else 'a list'}")
    return {key: _text(value) for key, value in document.items()}


def _text(value: Any) -> str | None:
    if isinstance(value, bool):
        return str(value).lower()
    return None if value is None else str(value)


def _named(name: str, config: dict[str, str | None]) -> dict[str, str | None]:
    """Adds the connector's name; RestError if the configuration has another one."""
    if config.setdefault("name", name) != name:
        raise bad_request(f"the configuration is of {config['name']}, and the request about {name}")
    return config


def _about(work: Callable[[Herder, str], Any]) -> Handle:
    """What the herder does with the connector."""
    return lambda served, asked: work(served.herder, asked.name)


def _about_task(work: Callable[[Herder, str, int], Any]) -> Handle:
    return lambda served, asked: work(served.herder, asked.name, asked.task)


def _target(target: Target) -> Handle:
    return lambda served, asked: served.herder.set_target(asked.name, target)


# The worker


def _health(served: Served, _: RestRequest) -> RestAnswer:
    """The request has passed the worker's event loop, which therefore works."""
    if served.herder.worker.is_ready:
        return RestAnswer({"status": "healthy", "message": "the worker is a member of its group"})
    starting = {"status": "starting", "message": "the worker reads its topics, or joins its group"}
    return RestAnswer(starting, HTTPStatus.SERVICE_UNAVAILABLE)


def _metrics(served: Served, _: RestRequest) -> RestAnswer:
    return RestAnswer(page(served.herder.worker.tasks.metrics()), kind=MEDIA_TYPE)


def _logger(served: Served, asked: RestRequest) -> dict[str, Any]:
    found = served.herder.worker.loggers.one(asked.path["logger"])
    if found is None:
        raise not_found(f"there is no logger {asked.path['logger']}")
    return found


async def _set_logger(served: Served, asked: RestRequest) -> RestAnswer:
    level = asked.words().get("level")
    if level is None:
        raise bad_request("level is missing")
    try:
        level = level_named(level)
    except KeyError:
        raise not_found(f"there is no log level {level}") from None
    try:
        served.herder.worker.loggers.check(asked.path["logger"])
    except LoggerError as error:
        raise bad_request(str(error)) from None
    if asked.query.get("scope", ["worker"])[0].lower() == "cluster":
        await served.herder.set_cluster_level(asked.path["logger"], level)
        return RestAnswer(status=HTTPStatus.NO_CONTENT)
    return RestAnswer(served.herder.worker.loggers.set(asked.path["logger"], level))


# Connectors


def location_of(name: str) -> str:
    return f"/connectors/{quote(name, safe='')}"


_OF_CREATE: Final = {"name", "config", "initial_state"}


async def _create(served: Served, asked: RestRequest) -> RestAnswer:
    if not isinstance(asked.body, dict):
        raise bad_request("the body must be an object of JSON with name and config")
    if unknown := asked.body.keys() - _OF_CREATE:
        raise bad_request(f"the body has name, config and initial_state, and not {', '.join(sorted(unknown))}")
    name = str(asked.body.get("name") or "").strip()
    if not name:
        raise bad_request("the connector needs a name")
    state, targets = asked.body.get("initial_state"), {"RUNNING": Target.STARTED, **Target.__members__}
    if state is not None and str(state).upper() not in targets:
        raise bad_request(f"initial_state={state}: allowed are RUNNING, PAUSED, STOPPED")
    config = _named(name, texts(asked.body.get("config")))
    target = None if state is None else targets[str(state).upper()]
    info = await served.herder.create(name, config, target)
    return RestAnswer(info, HTTPStatus.CREATED, location_of(name))


async def _put_config(served: Served, asked: RestRequest) -> RestAnswer:
    is_new, info = await served.herder.put_config(asked.name, _named(asked.name, asked.words()))
    return RestAnswer(info, HTTPStatus.CREATED, location_of(asked.name)) if is_new else RestAnswer(info)


async def _restart(served: Served, asked: RestRequest) -> RestAnswer:
    status = await served.herder.restart(
        asked.name, include_tasks=asked.flag("includeTasks"), only_failed=asked.flag("onlyFailed")
    )
    return RestAnswer(status=HTTPStatus.NO_CONTENT) if status is None else RestAnswer(status, HTTPStatus.ACCEPTED)


_ONE: Final = "/connectors/{connector}"
_TASK: Final = _ONE + "/tasks/{task}"
_RESTART: Final = {
    "includeTasks": "whether its tasks are started again as well",
    "onlyFailed": "whether only what has failed is",
}
ROUTES: Final = (
    Route("GET", "/", "which worker this is, and of which cluster", lambda it, _: it.herder.server_info()),
    Route("GET", "/health", "whether it is ready", _health, (200, 503)),
    Route(
        "GET",
        "/metrics",
        "figures of the tasks that run here, for Prometheus; ours, Connect has none",
        _metrics,
        produces="text/plain",
    ),
    Route(
        "GET",
        "/connectors",
        "the names of all connectors",
        lambda it, asked: it.herder.connectors(asked.query.get("expand", [])),
        parameters={"expand": "info, status, or both"},
    ),
    Route("POST", "/connectors", "create a connector", _create, (201, 400, 409), body="name, config, initial_state"),
    Route("GET", _ONE, "a connector with its configuration and its tasks", _about(Herder.info), (200, 404)),
    Route("DELETE", _ONE, "delete it", _about(Herder.delete), (204, 404, 409)),
    Route("GET", _ONE + "/config", "its configuration", _about(Herder.config), (200, 404)),
    Route(
        "PUT", _ONE + "/config", "create or configure it", _put_config, (200, 201, 400, 409), body="the configuration"
    ),
    Route(
        "PATCH",
        _ONE + "/config",
        "change single keys",
        lambda it, asked: it.herder.patch_config(asked.name, _named(asked.name, asked.words())),
        (200, 400, 404, 409),
        body="keys; null: none",
    ),
    Route("GET", _ONE + "/status", "how it and its tasks are, and where they run", _about(Herder.status), (200, 404)),
    Route("POST", _ONE + "/restart", "start it again", _restart, (202, 204, 404, 409), _RESTART),
    Route("PUT", _ONE + "/pause", "let it rest, its tasks where they are", _target(Target.PAUSED), (202, 404, 409)),
    Route("PUT", _ONE + "/resume", "let it run", _target(Target.STARTED), (202, 404, 409)),
    Route("PUT", _ONE + "/stop", "end it and its tasks", _target(Target.STOPPED), (204, 404, 409)),
    Route("GET", _ONE + "/tasks", "its tasks and their configurations", _about(Herder.tasks), (200, 404)),
    Route("GET", _ONE + "/tasks-config", "the same in an older form", _about(Herder.tasks_config), (200, 404)),
    Route("GET", _TASK + "/status", "how a task is, and where it runs", _about_task(Herder.task_status), (200, 404)),
    Route(
        "GET",
        _TASK + "/report",
        "what a task tells of itself; ours, Connect has none",
        _about_task(Herder.task_report),
        (200, 404, 409),
    ),
    Route("POST", _TASK + "/restart", "start a task again", _about_task(Herder.restart_task), (204, 404, 409)),
    Route("GET", _ONE + "/topics", "which topics it has used", _about(Herder.topics), (200, 403)),
    Route("PUT", _ONE + "/topics/reset", "look anew which topics it uses", _about(Herder.reset_topics), (202, 403)),
    Route("GET", _ONE + "/offsets", "how far it is", lambda it, asked: it.offsets.get(asked.name), (200, 404)),
    Route(
        "PATCH",
        _ONE + "/offsets",
        "let it go on elsewhere",
        lambda it, asked: it.offsets.alter(asked.name, asked.body),
        (200, 400, 404),
        body="offsets",
    ),
    Route(
        "DELETE",
        _ONE + "/offsets",
        "let it begin anew",
        lambda it, asked: it.offsets.reset(asked.name),
        (200, 400, 404),
    ),
    Route(
        "GET",
        "/connector-plugins",
        "which plugins there are",
        lambda it, asked: it.herder.plugins(connectors_only=asked.flag("connectorsOnly", True)),
        parameters={"connectorsOnly": "true, or all"},
    ),
    Route(
        "GET",
        "/connector-plugins/{plugin}/config",
        "the keys of a plugin",
        lambda it, asked: it.herder.definitions(asked.path["plugin"], asked.query.get("version", [LATEST])[0]),
        (200, 400, 404),
        {"version": "the one that it must have, or a range of them"},
        loads_classes=True,
    ),
    Route(
        "PUT",
        "/connector-plugins/{plugin}/config/validate",
        "what is wrong with a configuration",
        lambda it, asked: it.herder.validate(asked.words(), asked.path["plugin"]),
        (200, 400),
        body="the configuration",
    ),
    Route(
        "GET",
        "/admin/loggers",
        "the loggers that have a level of their own",
        lambda it, _: it.herder.worker.loggers.all(),
    ),
    Route("GET", "/admin/loggers/{logger}", "the level of a logger", _logger, (200, 404)),
    Route(
        "PUT",
        "/admin/loggers/{logger}",
        "change the level of a logger and of all below it",
        _set_logger,
        (200, 204, 400, 404),
        {"scope": "worker, or cluster for all of them"},
        "level",
    ),
)
