"""What `penstock connect` asks of a worker, also of one of Kafka's own: requests to the REST interface of Connect."""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import quote, urlencode

import click

from penstock.cli.terminal.failures import in_words
from penstock.cli.terminal.lines import say
from penstock.cli.terminal.options import argument, declared, option
from penstock.client.providers import ProviderError, resolved
from penstock.node.assembly.properties import read_properties
from penstock.protocol.value import Value
from penstock.work.connect.config import ConfigError
from penstock.work.connect.rest.basic import HEADER, header_of
from penstock.work.connect.rest.tls import asking_of

DEFAULT_URL: Final = "http://127.0.0.1:8083"
PATIENCE_S: Final = 100.0
"""A worker itself gives up after 90 s."""


USER_INFO_KEY: Final = "basic.auth.user.info"


class ConnectClient:
    """Any worker will do. What it refuses is a ClickException in its own words."""

    def __init__(self, url: str, tls: ssl.SSLContext | None = None, user_info: str | None = None) -> None:
        self._url = (url if "://" in url else f"http://{url}").rstrip("/")
        self._opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=tls)
        )

        self._headers = {"Content-Type": "application/json"}
        if user_info is not None:
            self._headers[HEADER] = header_of(user_info)

    def ask(self, verb: str, *path: str, body: object = None, query: Sequence[tuple[str, str]] = ()) -> Any:
        """Returns the JSON of the answer, None for no body. Each part of the path is quoted."""
        target = "".join(f"/{quote(part, safe='')}" for part in path) or "/"
        url = f"{self._url}{target}{'?' + urlencode(query) if query else ''}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url, data, self._headers, method=verb)
        try:
            with self._opener.open(request, timeout=PATIENCE_S) as answer:
                text = answer.read()
                return json.loads(text) if text else None
        except urllib.error.HTTPError as error:
            raise click.ClickException(_words(error)) from None
        except ValueError:
            raise click.ClickException(f"what answers at {self._url} is no worker: --worker URL names one") from None
        except OSError as error:
            reason = getattr(error, "reason", error)
            raise click.ClickException(f"no worker at {self._url} ({reason}): --worker URL names another one") from None


def _words(error: urllib.error.HTTPError) -> str:
    try:
        return str(json.loads(error.read())["message"])
    except (ValueError, LookupError, TypeError):
        return f"the worker answers {error.code} {error.reason}"


class WorkerAt(Value):
    """Options may stand before or behind the subcommand; the latter count."""

    worker: str | None = option(f"Where a worker is, any of them. [default: {DEFAULT_URL}]", metavar="URL")
    command_config: Path | None = option(
        "A file with ssl. keys, for https: whom to trust, and the key to show; and with basic.auth.user.info,"
        " user:password, where workers have users."
    )

    @property
    def client(self) -> ConnectClient:
        outer = click.get_current_context().find_object(WorkerAt)
        places = [self] if outer is None else [self, outer]
        url = next((at.worker for at in places if at.worker is not None), DEFAULT_URL)
        file = next((at.command_config for at in places if at.command_config is not None), None)
        if file is None:
            return ConnectClient(url)
        with in_words(ConfigError, ProviderError, before=f"{file}: "):
            properties = resolved(read_properties(file))
            return ConnectClient(url, asking_of(properties), properties.get(USER_INFO_KEY))


class Listed(NamedTuple):
    name: str
    type: str | None
    plugin: str | None
    state: str | None
    tasks: int
    running: int
    failed: int


def listed(client: ConnectClient) -> list[Listed]:
    found = client.ask("GET", "connectors", query=[("expand", "info"), ("expand", "status")])
    return [_row(name, one) for name, one in sorted(found.items())]


def _row(name: str, one: dict[str, Any]) -> Listed:
    info, status = one.get("info", {}), one.get("status")
    tasks = [task["state"] for task in status["tasks"]] if status else []
    return Listed(
        name,
        info.get("type"),
        info.get("config", {}).get("connector.class"),
        status["connector"]["state"] if status else None,
        len(tasks),
        tasks.count("RUNNING"),
        tasks.count("FAILED"),
    )


def change_command(
    noun: str, verb: str, word: str, done: str, *, short_help: str, text: str, plugin: str | None = None
) -> click.Command:
    """Asks one thing of each connector that is named, if need be only of class `plugin`; users call it `noun`."""

    @click.command(word, short_help=short_help, help=f"{text}.")
    @declared
    def change(at: WorkerAt, names: tuple[str, ...] = argument(nargs=-1, required=True)) -> None:
        for name in names:
            if plugin is not None:
                check_class(at.client, name, plugin, noun, word)
            at.client.ask(verb, "connectors", name, *(() if word == "delete" else (word,)))
            say(f"{noun} {name}: {done}")

    return change


def check_class(client: ConnectClient, name: str, plugin: str, noun: str, word: str) -> None:
    """ClickException where the connector is of another class."""
    found = client.ask("GET", "connectors", name, "config")["connector.class"]
    if found != plugin:
        raise click.ClickException(f"{name} is no {noun} but a connector ({found}): penstock connect {word} {name}")
