"""What requests do with a worker: each method is one of them, and returns what the answer's JSON is.

What changes the config topic is done by the leader: on another worker it raises ElsewhereError. What is known is looked
up at once; what an answer says of it may need the classes of plugins, and is made in a thread.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from http import HTTPStatus
from typing import Any

from penstock import __version__
from penstock.protocol.errors import KafkaError
from penstock.work.connect.calls import SharedCalls, called_apart
from penstock.work.connect.rest.catalog import definitions, plugin_named, plugins, type_of, validated
from penstock.work.connect.rest.errors import ElsewhereError, RestError, bad_request, conflict, not_found
from penstock.work.connect.rest.loading import LIMIT_S, Loading
from penstock.work.connect.rest.secrets import with_secrets, without_secrets
from penstock.work.connect.runtime.config_state import Known, RestartRequest
from penstock.work.connect.runtime.kinds import Kind, kind_of
from penstock.work.connect.runtime.logs import TOO_LARGE, NotLeadingError
from penstock.work.connect.runtime.records import LOGGER, Status, Target, TaskId, encode
from penstock.work.connect.runtime.worker import ConnectWorker

Json = Any
Made = Callable[[bool], Json]
"""To be called in a thread, and told whether the classes are loaded."""


class Herder:
    def __init__(self, worker: ConnectWorker) -> None:
        self.worker = worker
        self.loading = Loading()
        self._shared = SharedCalls()

    # Looking

    def server_info(self) -> Json:
        return {"version": __version__, "commit": "penstock", "kafka_cluster_id": self.worker.cluster_id}

    async def connectors(self, expand: Sequence[str]) -> Json:
        """All names, or what `expand` asks of each."""
        names = sorted(self.worker.state.connectors)
        if not expand:
            return names
        found: dict[str, dict[str, Made]] = {}
        for name in names:
            if "status" in expand and self.worker.statuses.connector(name) is None:
                continue  # it has just been made: Connect leaves it out as well
            found[name] = {}
            if "info" in expand:
                found[name]["info"] = self._info(name)
            if "status" in expand:
                found[name]["status"] = self._status(name)
        seen = dict(zip(found, await self.loading.seen([self._config(name) for name in found]), strict=True))
        return await apart(
            lambda: {name: {part: made(seen[name]) for part, made in of.items()} for name, of in found.items()}
        )

    async def info(self, name: str) -> Json:
        return await self._shown(name, self._info(name))

    async def config(self, name: str) -> Json:
        config = self.known(name).config
        return await self._shown(name, lambda is_loaded: without_secrets(config, is_loaded=is_loaded))

    async def tasks(self, name: str) -> Json:
        known = self.known(name)
        return await self._shown(name, partial(_tasks, name, known.config, known.tasks))

    async def tasks_config(self, name: str) -> Json:
        """`tasks` in an older form."""
        return {f"{name}-{row['id']['task']}": row["config"] for row in await self.tasks(name)}

    async def status(self, name: str) -> Json:
        return await self._shown(name, self._status(name))

    def _info(self, name: str) -> Made:
        config = self.known(name).config
        tasks = [{"connector": one.connector, "task": one.number} for one in self.worker.state.task_ids(name)]

        def made(is_loaded: bool) -> Json:
            shown = without_secrets(config, is_loaded=is_loaded)
            return {"name": name, "config": shown, "tasks": tasks, "type": _type(config, is_loaded)}

        return made

    def _status(self, name: str) -> Made:
        status = self.worker.statuses.connector(name)
        if status is None:
            self.known(name)
            raise not_found(f"nothing is known yet of how connector {name} is")
        tasks = [{"id": number, **_state(one)} for number, one in self.worker.statuses.tasks(name).items()]
        config = self._config(name)
        own = {"name": name, "connector": _state(status), "tasks": tasks}
        return lambda is_loaded: {**own, "type": _type(config, is_loaded)}

    def _config(self, name: str) -> Mapping[str, str]:
        known = self.worker.state.connectors.get(name)
        return known.config if known else {}

    async def _shown(self, name: str, made: Made) -> Json:
        (is_loaded,) = await self.loading.seen([self._config(name)])
        return await apart(made, is_loaded)

    def task_status(self, name: str, number: int) -> Json:
        status = self.worker.statuses.tasks(name).get(number)
        if status is None:
            raise not_found(f"nothing is known of how task {name}-{number} is")
        return {"id": number, **_state(status)}

    def task_report(self, name: str, number: int) -> Json:
        """What one task tells of itself; only its worker knows."""
        task = self._own(name, number)
        return {"id": number, "worker_id": self.worker.worker_id, "report": self.worker.tasks.report(task)}

    def topics(self, name: str) -> Json:
        self._check_tracking("topic.tracking.enable")
        return {name: {"topics": self.worker.statuses.topics(name)}}

    def reset_topics(self, name: str) -> None:
        self._check_tracking("topic.tracking.enable")
        self._check_tracking("topic.tracking.allow.reset")
        self.worker.statuses.forget_topics(name)

    # Changing

    async def create(self, name: str, config: Mapping[str, str | None], target: Target | None) -> Json:
        """The connector must not exist yet."""
        good = await self._checked(config, {})
        self.lead()
        if name in self.worker.state.connectors:
            raise conflict(f"connector {name} exists already")
        await self._write(lambda: self.worker.leading.put_connector(name, good, target))
        return await self.info(name)

    async def put_config(self, name: str, config: Mapping[str, str | None]) -> tuple[bool, Json]:
        """Replaces a connector's configuration; whether the connector is new."""
        stored = self.worker.state.connectors.get(name)
        good = await self._checked(config, stored.config if stored is not None else {})
        self.lead()
        is_new = name not in self.worker.state.connectors
        await self._write(lambda: self.worker.leading.put_connector(name, good, None))
        return is_new, await self.info(name)

    async def patch_config(self, name: str, changes: Mapping[str, str | None]) -> Json:
        """Changes single keys; null removes one."""
        self.lead()
        changed = {**self.known(name).config, **changes}
        return (await self.put_config(name, {key: value for key, value in changed.items() if value is not None}))[1]

    async def delete(self, name: str) -> None:
        self.lead()
        self.known(name)
        await self._write(lambda: self.worker.leading.delete_connector(name))

    async def set_target(self, name: str, target: Target) -> None:
        self.known(name)
        self.lead()
        await self._write(lambda: self.worker.leading.set_target(name, target))

    async def restart(self, name: str, *, include_tasks: bool, only_failed: bool) -> Json:
        """The status after the restart, if more than the connector was meant (KIP-745)."""
        self.known(name)
        self.lead()
        if not include_tasks and not only_failed:
            self.worker.leading.restart(name)
            return None
        before = self._status(name)
        await self.worker.request_restart(RestartRequest(name, include_tasks, only_failed))
        status = await self._shown(name, before)
        for part in (status["connector"], *(status["tasks"] if include_tasks else ())):
            if not only_failed or part["state"] == "FAILED":
                part["state"] = "RESTARTING"
        return status

    async def restart_task(self, name: str, number: int) -> None:
        """Sent on to the worker that has the task."""
        self.worker.tasks.restart(self._own(name, number))

    async def set_cluster_level(self, logger: str, level: str) -> None:
        """Applies to all workers (KIP-976)."""
        await self.worker.config_log.put(f"{LOGGER}{logger}".encode(), encode({"level": level}))

    async def validate(self, config: Mapping[str, str | None], plugin: str | None = None) -> Json:
        worker = self.worker
        await self.loading.needed(config)
        return await apart(validated, config, worker.config, worker.settings, worker.providers, plugin)

    async def plugins(self, *, connectors_only: bool) -> Json:
        return await self._once(f"plugins {connectors_only}", lambda: plugins(connectors_only=connectors_only))

    async def definitions(self, plugin: str, version: str) -> Json:
        await self._once(f"plugin {plugin}", plugin_named, plugin)
        return await apart(definitions, plugin, version)

    # How it is done

    async def _once(self, name: str, work: Callable[..., Json], *arguments: object) -> Json:
        """As `apart` does, and whoever asks meanwhile waits for the same."""
        return await _in_time(self._shared.call(name, work, *arguments))

    async def kind(self, config: Mapping[str, str]) -> Kind:
        """RestError, and what `kind_of` raises."""
        await self.loading.needed(config)
        kind: Kind = await apart(kind_of, config)
        return kind

    def known(self, name: str) -> Known:
        """RestError if there is none."""
        known = self.worker.state.connectors.get(name)
        if known is None:
            raise not_found(f"connector {name} not found")
        return known

    def _own(self, name: str, number: int) -> TaskId:
        """RestError; ElsewhereError if another worker has it."""
        task = TaskId(name, number)
        self.known(name)
        if task not in self.worker.state.task_ids(name):
            raise not_found(f"connector {name} has no task {number}")
        if not self.worker.tasks.runs(task):
            raise ElsewhereError(self.worker.owner_url(task))
        return task

    def lead(self) -> None:
        """Raise ElsewhereError if another worker leads."""
        if self.worker.may_lead() and self.worker.leading.leads:
            return
        url = self.worker.leader_url
        raise ElsewhereError(None if url == self.worker.url else url)

    async def _write(self, writing: Callable[[], Any]) -> None:
        try:
            await writing()
        except NotLeadingError:
            raise ElsewhereError(self.worker.leader_url) from None
        except KafkaError as error:
            if error.code not in TOO_LARGE:
                raise
            raise bad_request(f"the configuration is larger than the topic of configurations allows: {error}") from None

    async def _checked(self, shown: Mapping[str, str | None], stored: Mapping[str, str]) -> dict[str, str]:
        await self.loading.needed(shown)
        config = await apart(with_secrets, shown, stored)
        found = await self.validate(config)
        if found["error_count"]:
            reasons = [reason for row in found["configs"] for reason in row["value"]["errors"]]
            raise bad_request("the configuration cannot be right:\n" + "\n".join(reasons))
        return {key: value for key, value in config.items() if value is not None}

    def _check_tracking(self, key: str) -> None:
        if not self.worker.settings[key]:
            raise RestError(HTTPStatus.FORBIDDEN, f"{key}=false")


async def apart(work: Callable[..., Json], *arguments: object) -> Json:
    """In a thread, for it may need the classes of plugins; RestError."""
    return await _in_time(called_apart("plugins", work, *arguments))


async def _in_time(work: Awaitable[Json]) -> Json:
    try:
        async with asyncio.timeout(LIMIT_S):
            return await work
    except TimeoutError:
        raise RestError(HTTPStatus.INTERNAL_SERVER_ERROR, f"the plugin has not answered for {LIMIT_S:g} s") from None


def _tasks(name: str, config: Mapping[str, str], tasks: Sequence[Mapping[str, str]], is_loaded: bool) -> Json:
    return [
        {"id": {"connector": name, "task": number}, "config": without_secrets(one, config, is_loaded=is_loaded)}
        for number, one in enumerate(tasks)
    ]


def _state(status: Status) -> dict[str, str]:
    more = {"trace": status.trace, "version": status.version}
    known = {key: word for key, word in more.items() if word}
    return {"state": status.state, "worker_id": status.worker_id, **known}


def _type(config: Mapping[str, str], is_loaded: bool) -> str:
    try:
        return type_of(kind_of(config)) if is_loaded else "unknown"
    except ValueError:
        return "unknown"
