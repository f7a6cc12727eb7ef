"""How a client logs in on a connection: what it asks, and what it makes of the answers.

`steps` does no IO, so that both clients use it: it gives requests, and gets their answers; or work that takes
milliseconds, whose result it gets as well.
"""

import asyncio
from base64 import b64encode
from collections.abc import Callable, Generator
from functools import partial
from random import Random
from typing import Any, Final, Protocol

from penstock.client.credentials import Credentials, TokenCredentials
from penstock.client.errors import AuthenticationFailedError
from penstock.protocol.address import Address
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from penstock.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from penstock.protocol.sasl.mechanism import PLAIN, SaslClient, SaslError
from penstock.protocol.sasl.plain import PlainClient
from penstock.protocol.sasl.scram import MECHANISMS, NONCE_BYTES, ScramClient
from penstock.protocol.schema import Message

MAX_STEPS: Final = 8
RENEWED_FROM: Final = 0.85
RENEWED_TO: Final = 0.95
"""At which part of a session's life the client logs in again, as Kafka's Java client."""


Work = Callable[[], Any]
Steps = Generator["SaslHandshakeRequest | SaslAuthenticateRequest | Work", Any, int]


def steps(address: Address, credentials: Credentials | TokenCredentials, random: Random) -> Steps:
    """Returns after how many milliseconds the session ends; 0: never. Raises AuthenticationFailedError."""
    mechanism = credentials.mechanism
    shaken: SaslHandshakeResponse = yield SaslHandshakeRequest(mechanism=mechanism)
    _check_handshake(address, mechanism, shaken)
    machine: SaslClient
    if isinstance(credentials, Credentials):
        machine = client_of(credentials, random)
    else:
        try:
            machine = yield credentials.client
        except SaslError as error:
            raise AuthenticationFailedError(f"no log-in at {address}: {error}") from None
    token: bytes | None = machine.first()
    lifetime_ms = 0
    for _ in range(MAX_STEPS):
        if token is None:
            return lifetime_ms
        answer: SaslAuthenticateResponse = yield SaslAuthenticateRequest(auth_bytes=token)
        if answer.error_code:
            said = answer.error_message or "it does not say why"
            raise AuthenticationFailedError(
                f"{address} refuses the log-in of {credentials.user} by {mechanism}: {said}"
            )
        lifetime_ms, challenge = answer.session_lifetime_ms, answer.auth_bytes
        try:
            token = yield partial(machine.evaluate, challenge)
        except SaslError as error:
            raise AuthenticationFailedError(f"{address}: {error}") from None
    raise AuthenticationFailedError(f"{address} does not come to an end with the log-in by {mechanism}")


class Asked(Protocol):
    """A connection."""

    @property
    def address(self) -> Address: ...

    async def ask(self, message: Message) -> Message: ...

    def put(self, request: bytes, expected: Any) -> None: ...

    def abort(self, why: str) -> None: ...


class Login:
    """Logs a connection in, and again before what is asked when the session nears its end (KIP-368).

    What is asked meanwhile is held, with what is expected for it: a broker takes nothing else in the middle.
    """

    def __init__(self, connection: Asked, credentials: Credentials | TokenCredentials, random: Random) -> None:
        self._connection = connection
        self._credentials = credentials
        self._random = random
        self._again_at_s: float | None = None
        self._held: list[tuple[bytes, Any]] | None = None
        self._again: asyncio.Task[None] | None = None

    async def log_in(self) -> None:
        """Raises AuthenticationFailedError, ConnectionFailedError, UnsupportedByBrokerError."""
        exchange = steps(self._connection.address, self._credentials, self._random)
        try:
            asked = next(exchange)
            while True:
                try:
                    answer = await self._step(asked)
                except SaslError as error:
                    asked = exchange.throw(error)
                else:
                    asked = exchange.send(answer)
        except StopIteration as end:
            if end.value:
                again_ms = end.value * self._random.uniform(RENEWED_FROM, RENEWED_TO)
                self._again_at_s = asyncio.get_running_loop().time() + again_ms / 1000

    async def _step(self, asked: "Message | Work") -> Any:
        if not isinstance(asked, Message):
            thread = None if isinstance(self._credentials, Credentials) else self._credentials.thread
            return await asyncio.get_running_loop().run_in_executor(thread, asked)
        return await self._connection.ask(asked)

    def holds(self, request: bytes, expected: Any) -> bool:
        """Whether a request waits."""
        loop = asyncio.get_running_loop()
        if self._again_at_s is not None and loop.time() >= self._again_at_s:
            self._again_at_s, self._held = None, []
            self._again = loop.create_task(self._log_in_again(), name="log in again")
        if self._held is None:
            return False
        self._held.append((request, expected))
        return True

    async def _log_in_again(self) -> None:
        try:
            await self.log_in()
        except Exception as error:  # also of a mechanism: what is held would wait for ever
            self._connection.abort(f"the log-in could not be renewed: {error}")
        held, self._held = self._held or [], None
        for request, expected in held:
            self._connection.put(request, expected)

    def give_up(self) -> list[Any]:
        """What is expected for requests that were held."""
        held, self._held = self._held or [], None
        return [expected for _, expected in held if expected is not None]


def _check_handshake(address: Address, mechanism: str, answer: SaslHandshakeResponse) -> None:
    if answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
        raise AuthenticationFailedError(
            f"{address} does not enable {mechanism}: set sasl.mechanism to one of {', '.join(answer.mechanisms)}"
        )
    if answer.error_code == ErrorCode.ILLEGAL_SASL_STATE:
        raise AuthenticationFailedError(
            f"nobody logs in at {address}, which is a listener without SASL: set security.protocol accordingly, or take"
            " the port of another listener"
        )
    if answer.error_code:
        raise AuthenticationFailedError(f"{address} refuses to begin with {mechanism}: error {answer.error_code}")


def client_of(credentials: Credentials, random: Random) -> SaslClient:
    if credentials.mechanism == PLAIN:
        return PlainClient(credentials.user, credentials.password)
    nonce = b64encode(random.randbytes(NONCE_BYTES)).decode()
    return ScramClient(
        MECHANISMS[credentials.mechanism], credentials.user, credentials.password, nonce, credentials.by_token
    )
