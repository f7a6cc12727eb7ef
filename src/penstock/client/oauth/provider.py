"""One question to an identity provider over HTTP, or a file in its place. It blocks: call it in a thread.

The provider may hang, lie or never stop talking: the whole exchange has an end, and the answer a limit. Redirections
are not followed, they would lead past the list of addresses.
"""

import socket
import ssl
import time
from base64 import b64encode
from collections.abc import Mapping
from http.client import HTTPException, HTTPResponse
from io import BytesIO
from pathlib import Path
from typing import Any, Final
from urllib.parse import SplitResult, unquote

from penstock.protocol.sasl.mechanism import SaslError
from penstock.protocol.value import Value
from penstock.tls.contexts import asking_context
from penstock.tls.errors import TlsConfigError
from penstock.tls.faults import fault_of
from penstock.tls.stores import key_of

MAX_ANSWER_BYTES: Final = 1 << 20
MAX_TOLD: Final = 300
"""Characters of a provider's words that are told."""
CONNECT_S: Final = 10.0
READ_S: Final = 10.0
"""Where the keys for it are not set."""
CHUNK_BYTES: Final = 64 * 1024
HEADERS: Final = {"Accept": "application/json", "Cache-Control": "no-cache", "Connection": "close"}


class ProviderError(SaslError):
    """One line on why there is no answer; `is_final` if asking again would not help."""

    def __init__(self, text: str, is_final: bool = False) -> None:
        super().__init__(text)
        self.is_final = is_final


class Provider(Value):
    """`tls` are keys of `ssl.` for it."""

    url: SplitResult
    tls: Mapping[str, str]
    connect_s: float = CONNECT_S
    read_s: float = READ_S

    def __str__(self) -> str:
        return self.url.geturl()

    def ask(self, body: str | None = None, headers: Mapping[str, str] | None = None) -> bytes:
        """What it answers to GET, or to POST with a form. ProviderError."""
        if self.url.scheme == "file":
            return read_file(Path(unquote(self.url.path)))
        try:
            received = self._received(self._request(body, headers or {}))
            response = HTTPResponse(_Received(received))  # type: ignore[arg-type]
            response.begin()
            answer = response.read()
        except TlsConfigError as error:
            raise ProviderError(f"{self} cannot be asked: {error}", is_final=True) from None
        except (OSError, HTTPException, ValueError) as error:
            raise ProviderError(f"{self} does not answer as it should: {_reason(error)}") from None
        if response.status not in (200, 201):
            is_final = 400 <= response.status < 500 and response.status not in (408, 425, 429)
            raise ProviderError(f"{self} answers {response.status}: {_words(answer)}", is_final)
        return answer

    def _request(self, body: str | None, headers: Mapping[str, str]) -> bytes:
        url, content = self.url, (body or "").encode()
        host, path = url.netloc.rpartition("@")[2], url.path or "/"
        all_headers = {"Host": host, **HEADERS, **headers}
        if body is not None:
            all_headers |= {"Content-Type": "application/x-www-form-urlencoded", "Content-Length": str(len(content))}
        method, query = "GET" if body is None else "POST", f"?{url.query}" if url.query else ""
        lines = [f"{method} {path}{query} HTTP/1.1", *(f"{name}: {value}" for name, value in all_headers.items())]
        if any("\r" in line or "\n" in line for line in lines):
            raise ValueError("a header with a line break")
        return "".join(f"{line}\r\n" for line in [*lines, ""]).encode("latin-1", "replace") + content

    def _received(self, request: bytes) -> bytes:
        """All that comes until the provider closes, or there is no time left."""
        is_secure, host = self.url.scheme == "https", self.url.hostname or ""
        context = asking_context(self.tls, key_of(self.tls)) if is_secure else None
        connection = socket.create_connection((host, self.url.port or (443 if is_secure else 80)), self.connect_s)
        try:
            if context is not None:
                connection = context.wrap_socket(connection, server_hostname=host)
            connection.settimeout(self.read_s)
            connection.sendall(request)
            return _drained(connection, time.monotonic() + self.read_s)
        finally:
            connection.close()


def _drained(connection: socket.socket, ends_s: float) -> bytes:
    received = bytearray()
    while len(received) <= MAX_ANSWER_BYTES:
        left_s = ends_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError("its answer takes too long (sasl.login.read.timeout.ms)")
        connection.settimeout(left_s)
        chunk = connection.recv(CHUNK_BYTES)
        if not chunk:
            return bytes(received)
        received += chunk
    raise ValueError(f"its answer has more than {MAX_ANSWER_BYTES} bytes")


class _Received:
    """An answer that is there, as `HTTPResponse` wants it: a socket's."""

    def __init__(self, received: bytes) -> None:
        self._received = received

    def makefile(self, *_: Any, **__: Any) -> BytesIO:
        return BytesIO(self._received)


def read_file(path: Path) -> bytes:
    """ProviderError."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_ANSWER_BYTES + 1)
    except OSError as error:
        raise ProviderError(f"{path} cannot be read: {error.strerror or error}", is_final=True) from None
    if len(content) > MAX_ANSWER_BYTES:
        raise ProviderError(f"{path} has more than {MAX_ANSWER_BYTES} bytes", is_final=True)
    return content


def basic(user: str, password: str) -> str:
    """The header that says who asks."""
    return f"Basic {b64encode(f'{user}:{password}'.encode()).decode()}"


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return fault_of(error)
    if isinstance(error, TimeoutError) and not error.errno and str(error) in ("", "timed out"):
        return "no answer in time"
    return (getattr(error, "strerror", None) or str(error) or type(error).__name__).splitlines()[0]


def _words(answer: bytes) -> str:
    """What a provider says of an error (RFC 6749, 5.2)."""
    text = answer.decode("utf-8", "replace")
    return repr(text if len(text) <= MAX_TOLD else f"{text[:MAX_TOLD]}…")
