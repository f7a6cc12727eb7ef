"""How a client proves who it is on one connection, in Kafka's order (KIP-43, KIP-152, KIP-368). No IO.

| state     | what it takes                                         | what ends it                                  |
| --------- | ----------------------------------------------------- | --------------------------------------------- |
| begun     | ApiVersions, a few times; SaslHandshake               | a handshake with a mechanism that is enabled  |
| tokens    | SaslAuthenticate, or bare tokens behind a handshake   | the mechanism knows who it is, or refuses     |
|           | of version 0                                          |                                               |
| known     | everything                                            | SaslHandshake: tokens again, for the same     |
|           |                                                       | user and mechanism; the end of the session    |

What else comes ends the connection, after the answer that says why, where there is one.
"""

from collections.abc import Callable, Mapping
from enum import Enum, auto
from typing import Final, Protocol

from penstock.protocol.codec import decode
from penstock.protocol.errors import DecodeError, ErrorCode
from penstock.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from penstock.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from penstock.protocol.requests.api import Api, ApiKey, api_of
from penstock.protocol.requests.framing import RequestHeader, encode_response, parse_request_header
from penstock.protocol.sasl.mechanism import SaslError, SaslServer, shown
from penstock.protocol.schema import Message
from penstock.protocol.value import Value

MAX_VERSIONS_ASKED: Final = 4
"""So often a client may ask what is served before it says who it is: it may try versions."""
MAX_REQUEST_BYTES: Final = 16 * 1024
"""For all requests before the log-in but those with tokens."""
MAX_TOKENS: Final = 8
"""In one log-in; SCRAM takes two."""
LEAST_BETWEEN_MS: Final = 1_000
"""Between two log-ins on a connection; what comes earlier is answered with ILLEGAL_SASL_STATE, as in Kafka."""
_HANDSHAKE: Final = api_of(ApiKey.SASL_HANDSHAKE)
_AUTHENTICATE: Final = api_of(ApiKey.SASL_AUTHENTICATE)


class Mechanisms(Value):
    """What a listener offers. `serve` makes the machine of one log-in."""

    names: tuple[str, ...]
    serve: Callable[[str], SaslServer]
    proof: Callable[[str, str, str | None], object]
    """By which a user logs in with a mechanism, or with a delegation token of that id, as of now."""
    lifetimes_ms: Mapping[str, int]
    """How long a log-in holds, by mechanism; 0: for ever."""


class Reply(Value):
    parts: list[bytes]


class Refusal(Value):
    """The connection ends; `parts` are the answer that says so, if there is one. `cause` is for the log."""

    parts: list[bytes]
    cause: str


class _State(Enum):
    BEGUN = auto()
    TOKENS = auto()
    KNOWN = auto()


class Offering(Protocol):
    """A listener; what it offers may change."""

    @property
    def mechanisms(self) -> Mechanisms: ...


class Login:
    def __init__(self, listener: Offering) -> None:
        self._listener = listener
        self._state = _State.BEGUN
        self._asked = self._tokens = 0
        self._is_bare = False
        self._wanted = ""
        self._server: SaslServer | None = None
        self._proof: object = None
        self._known_since_ms = 0
        self.user: str | None = None
        self.token_id: str | None = None
        """The delegation token by which the user has logged in, if it was one."""
        self.mechanism = ""
        self.ends_ms: int | None = None
        """When the session does, unless the client logs in again."""

    def take(self, frame: memoryview, now_ms: int) -> Reply | Refusal | None:
        """None: the request is for its handler. Raises DecodeError, and NotYet: it has to be taken again later."""
        if self._state is _State.KNOWN:
            return self._known(frame, now_ms)
        if self._state is _State.BEGUN:
            return self._begun(frame)
        return self._bare(bytes(frame), now_ms) if self._is_bare else self._authenticate(frame, now_ms)

    @property
    def holds(self) -> bool:
        """Whether the user, if there is one, could still log in as it did."""
        return self.user is None or self._still(self.mechanism, self.user, self.token_id, self._proof)

    def _still(self, mechanism: str, user: str, token_id: str | None, proof: object) -> bool:
        """Whether the user could log in with this mechanism by this proof now."""
        offered = self._listener.mechanisms
        return mechanism in offered.names and offered.proof(mechanism, user, token_id) == proof

    # What is taken in each state

    def _known(self, frame: memoryview, now_ms: int) -> Reply | Refusal | None:
        key = int.from_bytes(frame[:2], "big")
        if key == ApiKey.SASL_HANDSHAKE and int.from_bytes(frame[2:4], "big") > 0:
            if now_ms - self._known_since_ms < LEAST_BETWEEN_MS:
                return None
            return self._handshake(frame)
        if self.ends_ms is not None and now_ms >= self.ends_ms and key != ApiKey.SASL_HANDSHAKE:
            return Refusal([], f"the session of {shown(self.user or '')} is over, and the client did not log in again")
        return None

    def _begun(self, frame: memoryview) -> Reply | Refusal | None:
        key = int.from_bytes(frame[:2], "big")
        if len(frame) > MAX_REQUEST_BYTES:
            return Refusal([], f"a request of {len(frame)} bytes before the log-in")
        if key == ApiKey.API_VERSIONS and self._asked < MAX_VERSIONS_ASKED:
            self._asked += 1
            return None
        if key == ApiKey.SASL_HANDSHAKE:
            return self._handshake(frame)
        hint = "does the client have another security.protocol than this listener?"
        return Refusal([], f"a request with API key {key} before the log-in: {hint}")

    def _handshake(self, frame: memoryview) -> Reply | Refusal:
        header, position = parse_request_header(frame)
        request = _decoded(_HANDSHAKE, header, frame, position)
        assert isinstance(request, SaslHandshakeRequest)
        names = list(self._listener.mechanisms.names)
        if request.mechanism not in names:
            response = SaslHandshakeResponse(error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=names)
            cause = f"the mechanism {shown(request.mechanism)} is not enabled, but {', '.join(names)}"
            return Refusal([_answer(response, header)], cause)
        self._wanted, self._is_bare = request.mechanism, header.api_version == 0
        self._server, self._tokens, self._state = self._listener.mechanisms.serve(request.mechanism), 0, _State.TOKENS
        return Reply([_answer(SaslHandshakeResponse(mechanisms=names), header)])

    def _authenticate(self, frame: memoryview, now_ms: int) -> Reply | Refusal:
        header, position = parse_request_header(frame)
        if header.api_key != ApiKey.SASL_AUTHENTICATE:
            return Refusal([], f"a request with API key {header.api_key} in the middle of the log-in")
        request = _decoded(_AUTHENTICATE, header, frame, position)
        assert isinstance(request, SaslAuthenticateRequest)
        try:
            challenge = self._evaluate(request.auth_bytes, now_ms)
        except SaslError as error:
            response = SaslAuthenticateResponse(
                error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=str(error)
            )
            return Refusal([_answer(response, header)], error.cause)
        lifetime_ms = 0 if self.ends_ms is None or self._state is not _State.KNOWN else self.ends_ms - now_ms
        return Reply([_answer(SaslAuthenticateResponse(auth_bytes=challenge, session_lifetime_ms=lifetime_ms), header)])

    def _bare(self, token: bytes, now_ms: int) -> Reply | Refusal:
        """Errors have no place in these answers."""
        try:
            challenge = self._evaluate(token, now_ms)
        except SaslError as error:
            return Refusal([], error.cause)
        return Reply([len(challenge).to_bytes(4, "big") + challenge])

    def _evaluate(self, token: bytes, now_ms: int) -> bytes:
        server = self._server
        assert server is not None
        self._tokens += 1
        if self._tokens > MAX_TOKENS:
            raise SaslError("Authentication failed: too many tokens")
        if self.user is not None and self._wanted != self.mechanism:
            raise SaslError(f"Authentication failed: {self.mechanism} was the mechanism of the first log-in")
        challenge = server.evaluate(token)
        if server.user is not None:
            self._know(server.user, now_ms)
        return challenge

    def _know(self, user: str, now_ms: int) -> None:
        assert self._server is not None
        if self.user is not None and (user, self._server.token_id is None) != (self.user, self.token_id is None):
            raise SaslError(
                "Authentication failed: another user than that of the first log-in",
                f"logs in again as {shown(user)}, and was {shown(self.user)}",
            )
        proof, of_proof_ms = self._server.proof, self._server.lifetime_ms
        token_id = self._server.token_id
        if not self._still(self._wanted, user, token_id, proof):
            raise SaslError(
                "Authentication failed: who may log in has changed meanwhile, try again",
                f"{shown(user)} was removed, or got another password, while it logged in",
            )
        self.user, self.mechanism, self._proof, self._server = user, self._wanted, proof, None
        self.token_id = token_id
        self._known_since_ms, self._state = now_ms, _State.KNOWN
        lifetime_ms = self._listener.mechanisms.lifetimes_ms.get(self.mechanism, 0)
        limits = [limit for limit in (lifetime_ms or None, of_proof_ms) if limit is not None]
        self.ends_ms = now_ms + min(limits) if limits else None


def _decoded(api: Api, header: RequestHeader, frame: memoryview, position: int) -> Message:
    if header.api_version not in api.versions:
        raise DecodeError(f"version {header.api_version} of {api.name} is not served")
    request, _ = decode(api.request_class, header.api_version, frame, position)
    return request


def _answer(response: Message, header: RequestHeader) -> bytes:
    return encode_response(response, header.api_key, header.api_version, header.correlation_id)
