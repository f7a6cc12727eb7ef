"""What `penstock connect` asks of a worker, also of one of Kafka's own: requests to the REST interface of Connect."""

import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import quote, urlencode

import click

from penstock.node.assembly.properties import read_properties
from penstock.work.connect.config import ConfigError

DEFAULT_URL: Final = "http://127.0.0.1:8083"
URL_KEY: Final = "penstock.cli.work.worker.url"
CONFIG_KEY: Final = "penstock.cli.work.worker.config"
PATIENCE_S: Final = 100.0
"""A worker itself gives up after 90 s."""


class ConnectClient:
    """One worker; any of them will do. What it refuses is a ClickException in its own words."""

    def __init__(self, url: str, tls: ssl.SSLContext | None = None) -> None:
        self._url = (url if "://" in url else f"http://{url}").rstrip("/")
        self._opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=tls)
        )

    def ask(self, verb: str, *path: str, body: object = None, query: Sequence[tuple[str, str]] = ()) -> Any:
        """The JSON that is answered, None for no body. Each part of the path is quoted."""
        target = "".join(f"/{quote(part, safe='')}" for part in path) or "/"
        url = f"{self._url}{target}{'?' + urlencode(query) if query else ''}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method=verb)
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


def _remember(key: str) -> Callable[[click.Context, click.Parameter, Any], None]:
    """Before or behind the subcommand; the latter counts."""

    def remember(context: click.Context, _: click.Parameter, value: Any) -> None:
        if value is not None:
            context.meta[key] = value

    return remember


def worker_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """--worker, and --command-config of a worker that wants TLS."""
    function = click.option(
        "--command-config",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        expose_value=False,
        is_eager=True,
        callback=_remember(CONFIG_KEY),
        help="A file with ssl. keys, for https: whom to trust, and the key to show. The worker's own file will do.",
    )(function)
    return click.option(
        "--worker",
        metavar="URL",
        expose_value=False,
        is_eager=True,
        callback=_remember(URL_KEY),
        help=f"Where a worker is, any of them. [default: {DEFAULT_URL}]",
    )(function)


def client() -> ConnectClient:
    """The worker that was named."""
    meta = click.get_current_context().meta
    file: Path | None = meta.get(CONFIG_KEY)
    return ConnectClient(meta.get(URL_KEY, DEFAULT_URL), _tls(file) if file is not None else None)


def _tls(file: Path) -> ssl.SSLContext:
    try:
        from penstock.work.connect.rest.tls import asking_of
    except ModuleNotFoundError as error:
        raise click.ClickException(f"{error}: pip install 'penstock[work]'") from None
    try:
        return asking_of(read_properties(file))
    except ConfigError as error:
        raise click.ClickException(f"{file}: {error}") from None


class Listed(NamedTuple):
    """A connector in a list, as far as the worker knows it."""

    name: str
    type: str | None
    plugin: str | None
    state: str | None
    tasks: int
    running: int
    failed: int


def listed() -> list[Listed]:
    """All connectors of the worker that was named, by their names."""
    found = client().ask("GET", "connectors", query=[("expand", "info"), ("expand", "status")])
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
    """A command that asks one thing of each of the connectors that are named, which people call `noun`.

    With `plugin` it is only about connectors of that class.
    """

    @click.command(word, short_help=short_help, help=f"{text}.")
    @worker_option
    @click.argument("names", nargs=-1, required=True)
    def change(names: tuple[str, ...]) -> None:
        for name in names:
            if plugin is not None:
                _check_class(name, plugin, noun, word)
            client().ask(verb, "connectors", name, *(() if word == "delete" else (word,)))
            click.echo(f"{noun} {name}: {done}")

    return change


def _check_class(name: str, plugin: str, noun: str, word: str) -> None:
    found = client().ask("GET", "connectors", name, "config")["connector.class"]
    if found != plugin:
        raise click.ClickException(f"{name} is no {noun} but a connector ({found}): penstock connect {word} {name}")
