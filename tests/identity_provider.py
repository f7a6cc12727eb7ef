"""An identity provider that speaks HTTP: it gives tokens and publishes keys, hangs, lies, and takes new keys."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from penstock.client.oauth.provider import basic

CURVES: dict[str, Callable[[], Any]] = {
    "ES256": partial(ec.generate_private_key, ec.SECP256R1()),
    "ES384": partial(ec.generate_private_key, ec.SECP384R1()),
    "ES512": partial(ec.generate_private_key, ec.SECP521R1()),
    "EdDSA": ed25519.Ed25519PrivateKey.generate,
}
AUDIENCE, ISSUER = "penstock", "https://identity.example"


class SigningPair:
    """`algorithm` is one of RSA, ECDSA or EdDSA."""

    def __init__(self, name: str | None, algorithm: str = "ES256", bits: int = 2048) -> None:
        self.name, self.algorithm = name, algorithm
        self.private: Any = CURVES[algorithm]() if algorithm in CURVES else rsa.generate_private_key(65537, bits)

    @property
    def public_pem(self) -> bytes:
        return self.private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)  # type: ignore[no-any-return]

    @property
    def private_pem(self) -> bytes:
        return self.private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())  # type: ignore[no-any-return]

    @property
    def jwk(self) -> dict[str, Any]:
        code = jwt.get_algorithm_by_name(self.algorithm)
        found = dict(code.to_jwk(self.private.public_key(), as_dict=True))
        return found | ({} if self.name is None else {"kid": self.name})

    def sign(self, claims: dict[str, Any], **header: Any) -> str:
        named = {} if self.name is None else {"kid": self.name}
        return jwt.encode(claims, self.private, self.algorithm, named | header)


def claims(now_s: float | None = None, **changed: Any) -> dict[str, Any]:
    """A good token's; None takes one away."""
    now_s = time.time() if now_s is None else now_s
    usual = {"iss": ISSUER, "aud": [AUDIENCE], "sub": "ada", "iat": int(now_s), "exp": int(now_s) + 300, "scope": "use"}
    return {name: value for name, value in (usual | changed).items() if value is not None}


class IdentityProvider:
    def __init__(self) -> None:
        self.pair = SigningPair("first")
        self.published = [self.pair]
        self.clients = {"ada": "engine"}
        self.asked: list[tuple[str, dict[str, str], dict[str, str]]] = []
        """Paths, headers and forms of what was asked."""
        self.answer: tuple[int, bytes] | None = None
        """What it says instead of the truth."""
        self.lifetime_s = 300
        self.may_answer = threading.Event()
        self.may_answer.set()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    @property
    def keys_url(self) -> str:
        return f"{self.url}/keys"

    @property
    def token_url(self) -> str:
        return f"{self.url}/token"

    def times_asked(self, path: str) -> int:
        return sum(one == path for one, _, _ in self.asked)

    def token(self, **changed: Any) -> str:
        return self.pair.sign(claims(**changed))

    def reply(self, path: str, form: dict[str, str], headers: dict[str, str]) -> tuple[int, bytes]:
        self.asked.append((path, headers, form))
        self.may_answer.wait()
        if self.answer is not None:
            return self.answer
        if path == "/keys":
            return 200, json.dumps({"keys": [pair.jwk for pair in self.published]}).encode()
        who = self._who(form, headers.get("Authorization", ""))
        if who is None:
            return 401, b'{"error":"invalid_client"}'
        token = self.token(sub=who, exp=int(time.time()) + self.lifetime_s)
        return 200, json.dumps({"access_token": token, "token_type": "Bearer", "expires_in": self.lifetime_s}).encode()

    def _who(self, form: dict[str, str], authorization: str) -> str | None:
        said = form.get("client_assertion") or form.get("assertion")
        if said is not None:
            try:
                return str(jwt.decode(said, self.pair.public_pem, ["ES256", "RS256"], audience=self.url)["sub"])
            except jwt.PyJWTError:
                return None
        for name, secret in self.clients.items():
            if authorization == basic(name, secret):
                return name
        return None

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._reply({})

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                self._reply({name: values[0] for name, values in parse_qs(body).items()})

            def _reply(self, form: dict[str, str]) -> None:
                status, body = provider.reply(self.path, form, dict(self.headers))
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args: object) -> None:
                """Nothing."""

        return Handler

    @contextmanager
    def serving(self) -> Iterator[IdentityProvider]:
        thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield self
        finally:
            self.may_answer.set()
            self._server.shutdown()
            self._server.server_close()
            thread.join()
