"""Whose requests are heard: who names this worker by one of its names, and no page of a browser that nobody allowed.

A page whose own name is made to lead here (DNS rebinding) sends that name as `Host`, and no `Origin` with a GET. It
cannot send an address, so addresses are heard.
"""

import re
import socket
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from ipaddress import ip_address
from typing import Any, Final

from aiohttp import web

from penstock.work.connect.rest.errors import RestError

SIMPLE_METHODS: Final = ("GET", "POST", "HEAD")
"""What an allowed page may do by default, as in Connect."""

_HOST: Final = re.compile(r"(?:\[(?P<v6>[^\]]*)\]|(?P<name>[^:@\[\]]*))(?::\d*)?")


class Guard:
    """`settings` are the worker's; the names of its listeners come besides those that they have. ConfigError."""

    def __init__(self, settings: Mapping[str, Any], listeners: Iterable[str]) -> None:
        advertised = settings["rest.advertised.host.name"]
        own = {"localhost", socket.gethostname(), *listeners, *([advertised] if advertised else [])}
        self._hosts = _patterns([*own, *settings["rest.allowed.hosts"]])
        self._origins = _patterns(settings["access.control.allow.origin"])
        self._methods = ",".join(settings["access.control.allow.methods"] or SIMPLE_METHODS)

    def know(self, host: str) -> None:
        """By which others were told to ask."""
        self._hosts += _patterns([host])

    def check(self, request: web.Request) -> None:
        """RestError."""
        host = request.headers.get("Host")
        if host is not None and not self._knows(host):
            raise RestError(HTTPStatus.FORBIDDEN, f"rest.allowed.hosts does not name {host}")
        origin = request.headers.get("Origin")
        if origin is not None and not _any(self._origins, origin):
            raise RestError(HTTPStatus.FORBIDDEN, f"access.control.allow.origin does not name {origin}")

    async def allow_origin(self, request: web.Request, response: web.StreamResponse) -> None:
        origin = request.headers.get("Origin")
        if origin is not None and _any(self._origins, origin):
            response.headers["Access-Control-Allow-Origin"] = origin
            response.headers["Vary"] = "Origin"
            if request.method == "OPTIONS":
                response.headers["Access-Control-Allow-Methods"] = self._methods
                response.headers["Access-Control-Allow-Headers"] = "X-Requested-With,Content-Type,Accept,Origin"
                response.headers["Access-Control-Max-Age"] = "1800"

    def _knows(self, host: str) -> bool:
        parts = _HOST.fullmatch(host)
        if parts is None:
            return False
        name = parts["v6"] or parts["name"] or ""
        return _is_address(name) or _any(self._hosts, name.rstrip("."))


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _patterns(texts: Iterable[str]) -> list[re.Pattern[str]]:
    """`*` stands for any part."""
    return [re.compile(re.escape(text).replace(r"\*", ".*"), re.IGNORECASE) for text in texts if text]


def _any(patterns: Iterable[re.Pattern[str]], text: str) -> bool:
    return any(pattern.fullmatch(text) for pattern in patterns)
