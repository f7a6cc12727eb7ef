"""Who is heard: a browser that shows our own page at one of our own names, and where there are users, one of them.

A page elsewhere whose name is made to lead here (DNS rebinding) sends that name as `Host`; a form there sends its
`Origin`, and a change needs a token besides, which only our own page can read.
"""

import hmac
import re
import secrets
import socket
from collections.abc import Callable, Collection, Mapping
from http import HTTPStatus
from typing import Final

from aiohttp import web

from penstock.console.errors import ConsoleError
from penstock.console.serving.passwords import Passwords
from penstock.console.serving.settings import LOCAL, is_address
from penstock.protocol.secret import Secret

COOKIE: Final = "penstock-console"
TOKEN: Final = "X-Penstock-Token"
SESSION_S: Final = 12 * 3_600.0
MAX_SESSIONS: Final = 1_000
MAX_FAILURES: Final = 10
"""Failed log-ins from an address,"""
MAX_FAILURES_OF_ALL: Final = 100
"""or from all together,"""
FAILURES_S: Final = 60.0
"""in so much time; then nobody there may try."""
ANYWHERE: Final = ("", "0.0.0.0", "::")
NOBODY: Final = "anybody"
HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'none'; base-uri 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_HOST: Final = re.compile(r"(?:\[([^\]]*)\]|([^:@\[\]/]*))(?::\d*)?")


class Guard:
    """`users` are names with passwords; empty where everybody may come. `now_s` is a clock that never goes back."""

    def __init__(
        self,
        host: str,
        allowed_hosts: Collection[str],
        users: Mapping[str, Secret],
        now_s: Callable[[], float],
        *,
        schemes: Collection[str] = ("http", "https"),
    ) -> None:
        """`schemes`: by which pages of our own come; a proxy may have another one than this listener."""
        own = {*LOCAL, host, *allowed_hosts} | ({socket.gethostname()} if host in ANYWHERE else set())
        self._hosts = {name.lower() for name in own - set(ANYWHERE)}
        self._hears_addresses = host in ANYWHERE
        self._has_users = bool(users)
        self._passwords = Passwords(users)
        self._now_s = now_s
        self._schemes = schemes
        self._sessions: dict[str, tuple[str, float]] = {}
        self._failures: list[tuple[float, str]] = []
        """When, and from which address."""
        self.token = secrets.token_urlsafe(32)

    def check(self, request: web.Request) -> None:
        """Whether this is a request of our own page. ConsoleError."""
        host = request.headers.get("Host", "")
        if not self._knows(host):
            raise ConsoleError(
                HTTPStatus.MISDIRECTED_REQUEST, "this is another host's name: --allowed-host NAME would allow it"
            )
        origin = request.headers.get("Origin")
        if origin is not None and origin not in [f"{scheme}://{host}" for scheme in self._schemes]:
            raise ConsoleError(
                HTTPStatus.FORBIDDEN,
                "pages of other origins may not ask; a proxy has to pass on the Host that it was asked for",
            )
        is_link = request.headers.get("Sec-Fetch-Mode") == "navigate" and not request.path.startswith("/api/")
        if request.headers.get("Sec-Fetch-Site", "none") not in ("same-origin", "none") and not is_link:
            raise ConsoleError(HTTPStatus.FORBIDDEN, "pages of other sites may not ask")

    def check_change(self, request: web.Request) -> None:
        """Whether our own page asks for a change. ConsoleError."""
        if request.content_type != "application/json":
            raise ConsoleError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "a change is application/json")
        if not hmac.compare_digest(request.headers.get(TOKEN, "").encode(errors="replace"), self.token.encode()):
            raise ConsoleError(HTTPStatus.FORBIDDEN, "the token of this page is not right: load the page again")

    def who(self, request: web.Request) -> str | None:
        """The user, `anybody` where there are none, None for one who has to log in first."""
        if not self._has_users:
            return NOBODY
        user, until_s = self._sessions.get(request.cookies.get(COOKIE, ""), (None, 0.0))
        return user if self._now_s() < until_s else None

    async def log_in(self, user: str, password: str, address: str) -> str:
        """The cookie's value. ConsoleError 401, after the same work for a wrong password and a missing user."""
        now_s = self._now_s()
        self._failures = [(at, where) for at, where in self._failures if at > now_s - FAILURES_S]
        from_there = sum(where == address for _, where in self._failures)
        if from_there >= MAX_FAILURES or len(self._failures) >= MAX_FAILURES_OF_ALL:
            raise ConsoleError(HTTPStatus.TOO_MANY_REQUESTS, "too many log-ins have failed: wait a minute")
        attempt = now_s, address
        self._failures.append(attempt)  # until it is known to be none: many at once count
        if not await self._passwords.are_right(user, password):
            raise ConsoleError(HTTPStatus.UNAUTHORIZED, "user or password is wrong")
        if attempt in self._failures:
            self._failures.remove(attempt)
        self._sessions = {key: (name, at) for key, (name, at) in self._sessions.items() if at > now_s}
        while len(self._sessions) >= MAX_SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        session = secrets.token_urlsafe(32)
        self._sessions[session] = user, now_s + SESSION_S
        return session

    def log_out(self, request: web.Request) -> None:
        self._sessions.pop(request.cookies.get(COOKIE, ""), None)

    def _knows(self, host: str) -> bool:
        parts = _HOST.fullmatch(host)
        if parts is None:
            return False
        name = (parts[1] or parts[2] or "").lower().rstrip(".")
        return name in self._hosts or (self._hears_addresses and is_address(name))
