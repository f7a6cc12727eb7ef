"""Every path of the interface with what it does: what the server serves, and what its OpenAPI page is made of."""

from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Any, Final

from penstock.protocol.value import Value, fresh
from penstock.work.connect.metrics import MEDIA_TYPE, page
from penstock.work.connect.rest.catalog import definitions, plugins
from penstock.work.connect.rest.errors import bad_request, not_found
from penstock.work.connect.rest.herder import Herder
from penstock.work.connect.rest.offsets import ConnectorOffsets
from penstock.work.connect.runtime.loggers import level_named
from penstock.work.connect.runtime.records import Target

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
        if not text.isdecimal():
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


Handle = Callable[[Served, RestRequest], Awaitable[RestAnswer]]


class Route(Value):
    """A verb of a path. `parameters` are those of the query, with their meaning."""

    verb: str
    path: str
    summary: str
    handle: Handle
    statuses: tuple[int, ...] = (200,)
    parameters: Mapping[str, str] = fresh(dict)
    body: str = ""


def texts(document: Any) -> dict[str, str | None]:
    """RestError."""
    if not isinstance(document, dict):
        raise bad_request("the body must be an object of JSON")
    for key, value in document.items():
        if isinstance(value, dict | list):
            raise bad_request(f"{key} must be a text, and is {value!r}")
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


# The worker


async def _root(served: Served, asked: RestRequest) -> RestAnswer:
    return RestAnswer(served.herder.server_info())


async def _health(served: Served, asked: RestRequest) -> RestAnswer:
    """The request has passed the worker's event loop, which therefore works."""
    if not served.herder.worker.is_ready:
        return RestAnswer(
            {"status": "starting", "message": "the worker reads its topics, or joins its group"},
            HTTPStatus.SERVICE_UNAVAILABLE,
        )
    return RestAnswer({"status": "healthy", "message": "the worker is a member of its group"})


async def _metrics(served: Served, asked: RestRequest) -> RestAnswer:
    return RestAnswer(page(served.herder.worker.tasks.metrics()), kind=MEDIA_TYPE)


async def _plugins(served: Served, asked: RestRequest) -> RestAnswer:
    return RestAnswer(plugins(connectors_only=asked.flag("connectorsOnly", True)))


async def _plugin_config(served: Served, asked: RestRequest) -> RestAnswer:
    return RestAnswer(definitions(asked.path["plugin"]))


async def _validate(served: Served, asked: RestRequest) -> RestAnswer:
    return RestAnswer(await served.herder.validate(asked.words(), asked.path["plugin"]))


async def _loggers(served: Served, asked: RestRequest) -> RestAnswer:
    return RestAnswer(served.herder.worker.loggers.all())


async def _logger(served: Served, asked: RestRequest) -> RestAnswer:
    found = served.herder.worker.loggers.one(asked.path["logger"])
    if found is None:
        raise not_found(f"there is no logger {asked.path['logger']}")
    return RestAnswer(found)


async def _set_logger(served: Served, asked: RestRequest) -> RestAnswer:
    level = asked.words().get("level")
    if level is None:
        raise bad_request("level is missing")
    try:
        level = level_named(level)
    except KeyError:
        raise not_found(f"there is no log level {level}") from None
    if asked.query.get("scope", ["worker"])[0].lower() == "cluster":
        await served.herder.set_cluster_level(asked.path["logger"], level)
        return RestAnswer(status=HTTPStatus.NO_CONTENT)
    return RestAnswer(served.herder.worker.loggers.set(asked.path["logger"], level))


# Connectors


async def _list(served: Served, asked: RestRequest) -> RestAnswer:
    return RestAnswer(served.herder.connectors(asked.query.get("expand", [])))


async def _create(served: Served, asked: RestRequest) -> RestAnswer:
    if not isinstance(asked.body, dict):
        raise bad_request("the body must be an object of JSON with name and config")
    name = str(asked.body.get("name") or "").strip()
    if not name:
        raise bad_request("the connector needs a name")
    state, targets = asked.body.get("initial_state"), {"RUNNING": Target.STARTED, **Target.__members__}
    if state is not None and str(state).upper() not in targets:
        raise bad_request(f"initial_state={state}: allowed are RUNNING, PAUSED, STOPPED")
    config = _named(name, texts(asked.body.get("config")))
    target = None if state is None else targets[str(state).upper()]
    info = await served.herder.create(name, config, target)
    return RestAnswer(info, HTTPStatus.CREATED, f"/connectors/{name}")


async def _info(served: Served, asked: RestRequest) -> RestAnswer:
    return RestAnswer(served.herder.info(asked.name))


async def _delete(served: Served, asked: RestRequest) -> RestAnswer:
    await served.herder.delete(asked.name)
    return RestAnswer(status=HTTPStatus.NO_CONTENT)


async def _config(served: Served, asked: RestRequest) -> RestAnswer:
    return RestAnswer(served.herder.config(asked.name))


async def _put_config(served: Served, asked: RestRequest) -> RestAnswer:
    is_new, info = await served.herder.put_config(asked.name, _named(asked.name, asked.words()))
    return RestAnswer(info, HTTPStatus.CREATED, f"/connectors/{asked.name}") if is_new else RestAnswer(info)


async def _patch_config(served: Served, asked: RestRequest) -> RestAnswer:
    return RestAnswer(await served.herder.patch_config(asked.name, asked.words()))


async def _status(served: Served, asked: RestRequest) -> RestAnswer:
    return RestAnswer(served.herder.status(asked.name))


async def _tasks(served: Served, asked: RestRequest) -> RestAnswer:
    return RestAnswer(served.herder.tasks(asked.name))


async def _tasks_config(served: Served, asked: RestRequest) -> RestAnswer:
    return RestAnswer(served.herder.tasks_config(asked.name))


async def _task_status(served: Served, asked: RestRequest) -> RestAnswer:
    return RestAnswer(served.herder.task_status(asked.name, asked.task))


async def _task_report(served: Served, asked: RestRequest) -> RestAnswer:
    return RestAnswer(served.herder.task_report(asked.name, asked.task))


async def _restart_task(served: Served, asked: RestRequest) -> RestAnswer:
    await served.herder.restart_task(asked.name, asked.task)
    return RestAnswer(status=HTTPStatus.NO_CONTENT)


async def _restart(served: Served, asked: RestRequest) -> RestAnswer:
    status = await served.herder.restart(
        asked.name, include_tasks=asked.flag("includeTasks"), only_failed=asked.flag("onlyFailed")
    )
    return RestAnswer(status=HTTPStatus.NO_CONTENT) if status is None else RestAnswer(status, HTTPStatus.ACCEPTED)


async def _pause(served: Served, asked: RestRequest) -> RestAnswer:
    await served.herder.set_target(asked.name, Target.PAUSED)
    return RestAnswer(status=HTTPStatus.ACCEPTED)


async def _resume(served: Served, asked: RestRequest) -> RestAnswer:
    await served.herder.set_target(asked.name, Target.STARTED)
    return RestAnswer(status=HTTPStatus.ACCEPTED)


async def _stop(served: Served, asked: RestRequest) -> RestAnswer:
    await served.herder.set_target(asked.name, Target.STOPPED)
    return RestAnswer(status=HTTPStatus.NO_CONTENT)


async def _topics(served: Served, asked: RestRequest) -> RestAnswer:
    return RestAnswer(served.herder.topics(asked.name))


async def _reset_topics(served: Served, asked: RestRequest) -> RestAnswer:
    served.herder.reset_topics(asked.name)
    return RestAnswer(status=HTTPStatus.ACCEPTED)


async def _offsets(served: Served, asked: RestRequest) -> RestAnswer:
    return RestAnswer(await served.offsets.get(asked.name))


async def _alter_offsets(served: Served, asked: RestRequest) -> RestAnswer:
    return RestAnswer(await served.offsets.alter(asked.name, asked.body))


async def _reset_offsets(served: Served, asked: RestRequest) -> RestAnswer:
    return RestAnswer(await served.offsets.reset(asked.name))


_ONE: Final = "/connectors/{connector}"
_TASK: Final = _ONE + "/tasks/{task}"
_RESTART: Final = {
    "includeTasks": "whether its tasks are started again as well",
    "onlyFailed": "whether only what has failed is",
}
ROUTES: Final = (
    Route("GET", "/", "which worker this is, and of which cluster", _root),
    Route("GET", "/health", "whether it is ready", _health, (200, 503)),
    Route("GET", "/metrics", "figures of the tasks that run here, for Prometheus; ours, Connect has none", _metrics),
    Route("GET", "/connectors", "the names of all connectors", _list, parameters={"expand": "info, status, or both"}),
    Route("POST", "/connectors", "create a connector", _create, (201, 400, 409), body="name, config, initial_state"),
    Route("GET", _ONE, "a connector with its configuration and its tasks", _info, (200, 404)),
    Route("DELETE", _ONE, "delete it", _delete, (204, 404, 409)),
    Route("GET", _ONE + "/config", "its configuration", _config, (200, 404)),
    Route(
        "PUT", _ONE + "/config", "create or configure it", _put_config, (200, 201, 400, 409), body="the configuration"
    ),
    Route(
        "PATCH", _ONE + "/config", "change single keys", _patch_config, (200, 400, 404, 409), body="keys; null: none"
    ),
    Route("GET", _ONE + "/status", "how it and its tasks are, and where they run", _status, (200, 404)),
    Route("POST", _ONE + "/restart", "start it again", _restart, (202, 204, 404, 409), _RESTART),
    Route("PUT", _ONE + "/pause", "let it rest, its tasks where they are", _pause, (202, 404, 409)),
    Route("PUT", _ONE + "/resume", "let it run", _resume, (202, 404, 409)),
    Route("PUT", _ONE + "/stop", "end it and its tasks", _stop, (204, 404, 409)),
    Route("GET", _ONE + "/tasks", "its tasks and their configurations", _tasks, (200, 404)),
    Route("GET", _ONE + "/tasks-config", "the same in an older form", _tasks_config, (200, 404)),
    Route("GET", _TASK + "/status", "how a task is, and where it runs", _task_status, (200, 404)),
    Route(
        "GET", _TASK + "/report", "what a task tells of itself; ours, Connect has none", _task_report, (200, 404, 409)
    ),
    Route("POST", _TASK + "/restart", "start a task again", _restart_task, (204, 404, 409)),
    Route("GET", _ONE + "/topics", "which topics it has used", _topics, (200, 403)),
    Route("PUT", _ONE + "/topics/reset", "look anew which topics it uses", _reset_topics, (202, 403)),
    Route("GET", _ONE + "/offsets", "how far it is", _offsets, (200, 404)),
    Route("PATCH", _ONE + "/offsets", "let it go on elsewhere", _alter_offsets, (200, 400, 404), body="offsets"),
    Route("DELETE", _ONE + "/offsets", "let it begin anew", _reset_offsets, (200, 400, 404)),
    Route(
        "GET", "/connector-plugins", "which plugins there are", _plugins, parameters={"connectorsOnly": "true, or all"}
    ),
    Route("GET", "/connector-plugins/{plugin}/config", "the keys of a plugin", _plugin_config, (200, 404)),
    Route(
        "PUT",
        "/connector-plugins/{plugin}/config/validate",
        "what is wrong with a configuration",
        _validate,
        (200, 400, 500),
        body="the configuration",
    ),
    Route("GET", "/admin/loggers", "the loggers that have a level of their own", _loggers),
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
