"""The steps of a log-in, when it is renewed, and what waits meanwhile."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.client import login as module
from penstock.client.credentials import Credentials
from penstock.client.errors import AuthenticationFailedError, ConnectionFailedError
from penstock.client.login import MAX_STEPS, Login, steps
from penstock.protocol.address import Address
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from penstock.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from penstock.protocol.sasl.mechanism import SaslError
from penstock.protocol.secret import Secret

PLACE = Address("h", 9)
ADA = Credentials("SCRAM-SHA-256", "ada", Secret("engine"))


class Machine:
    """Says `first`, and then what comes; None ends it."""

    def __init__(self, *tokens: bytes | Exception | None) -> None:
        self.tokens = list(tokens)
        self.heard: list[bytes] = []

    def first(self) -> Any:
        return self.tokens.pop(0)

    def evaluate(self, challenge: bytes) -> Any:
        self.heard.append(challenge)
        found = self.tokens.pop(0)
        if isinstance(found, Exception):
            raise found
        return found


def use(monkeypatch: pytest.MonkeyPatch, machine: Machine) -> None:
    monkeypatch.setattr(module, "client_of", lambda credentials, random: machine)


def shake(code: int = 0) -> SaslHandshakeResponse:
    return SaslHandshakeResponse(error_code=code, mechanisms=["PLAIN", "GSSAPI"])


def answer(challenge: bytes = b"", life_ms: int = 0, **more: Any) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(auth_bytes=challenge, session_lifetime_ms=life_ms, **more)


def carried_out(answers: list[Any]) -> tuple[list[Any], Any]:
    """What is asked, and how it ends."""
    exchange, asked = steps(PLACE, ADA, None), list[Any]()  # type: ignore[arg-type]
    try:
        step = next(exchange)
        while True:
            if callable(step):
                try:
                    found = step()
                except SaslError as error:
                    step = exchange.throw(error)
                    continue
                step = exchange.send(found)
            else:
                asked.append(step)
                step = exchange.send(answers.pop(0))
    except StopIteration as end:
        return asked, end.value


def test_it_goes_on_until_there_is_nothing_more_to_say(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(b"one", b"two", None)
    use(monkeypatch, machine)
    asked, life_ms = carried_out([shake(), answer(b"a", 5), answer(b"b", 7)])
    assert asked == [
        SaslHandshakeRequest(mechanism="SCRAM-SHA-256"),
        SaslAuthenticateRequest(auth_bytes=b"one"),
        SaslAuthenticateRequest(auth_bytes=b"two"),
    ]
    assert (machine.heard, life_ms) == ([b"a", b"b"], 7), "the last answer says how long it holds"


@pytest.mark.parametrize(("tokens", "ends"), [(MAX_STEPS - 1, True), (MAX_STEPS, False)])
def test_it_has_so_many_steps(monkeypatch: pytest.MonkeyPatch, tokens: int, *, ends: bool) -> None:
    use(monkeypatch, Machine(*[b"more"] * tokens, None))
    answers = [shake(), *[answer()] * tokens]
    if ends:
        assert len(carried_out(answers)[0]) == tokens + 1
    else:
        with pytest.raises(AuthenticationFailedError, match="h:9 does not come to an end with the log-in by SCRAM"):
            carried_out(answers)


@pytest.mark.parametrize(
    ("answers", "text"),
    [
        ([shake(ErrorCode.UNSUPPORTED_SASL_MECHANISM)], "h:9 does not enable SCRAM-SHA-256: .* PLAIN, GSSAPI"),
        (
            [shake(), answer(error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message="so")],
            "h:9 refuses the log-in of ada by SCRAM-SHA-256: so",
        ),
        ([shake(), answer(error_code=1)], "SCRAM-SHA-256: it does not say why"),
        ([shake(), answer(b"bad")], "h:9: it is somebody else"),
    ],
)
def test_why_it_fails(monkeypatch: pytest.MonkeyPatch, answers: list[Any], text: str) -> None:
    use(monkeypatch, Machine(b"one", SaslError("it is somebody else")))
    with pytest.raises(AuthenticationFailedError, match=text):
        carried_out(answers)


# -- of a connection --------------------------------------------------------------------------------------------------


class Connection:
    def __init__(self) -> None:
        self.address = PLACE
        self.answers: list[Any] = []
        self.asked, self.put_on, self.aborts = list[Any](), list[Any](), list[str]()

    async def ask(self, message: Any) -> Any:
        self.asked.append(type(message).__name__)
        found = self.answers.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    def put(self, request: bytes, expected: Any) -> None:
        self.put_on.append((request, expected))

    def abort(self, why: str) -> None:
        self.aborts.append(why)


def logged_in(monkeypatch: pytest.MonkeyPatch, part: float = 0.5) -> tuple[Login, Connection]:
    monkeypatch.setattr(module, "client_of", lambda credentials, random: Machine(b"one", None))
    connection = Connection()

    def uniform(low: float, high: float) -> float:
        assert (low, high) == (0.85, 0.95)
        return part

    return Login(connection, ADA, SimpleNamespace(uniform=uniform)), connection  # type: ignore[arg-type]


@pytest.mark.parametrize("life_ms", [0, 60_000])
async def test_it_is_renewed_at_a_part_of_its_life(monkeypatch: pytest.MonkeyPatch, life_ms: int) -> None:
    login, connection = logged_in(monkeypatch)
    connection.answers = [shake(), answer(life_ms=life_ms)]
    begun_s = asyncio.get_running_loop().time()
    await login.log_in()
    if life_ms:
        assert login._again_at_s is not None
        assert begun_s + 30 <= login._again_at_s <= asyncio.get_running_loop().time() + 30
    assert (login._again_at_s is not None) == bool(life_ms)
    assert not login.holds(b"request", None)


async def test_what_is_asked_waits_for_another_log_in_and_then_goes_in_its_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    login, connection = logged_in(monkeypatch)
    login._again_at_s = asyncio.get_running_loop().time()
    connection.answers = [shake(), answer()]
    assert [login.holds(b"a", 1), login.holds(b"b", None), login.holds(b"c", 3)] == [True] * 3
    assert connection.put_on == []
    assert login._again is not None
    await login._again
    assert connection.put_on == [(b"a", 1), (b"b", None), (b"c", 3)]
    assert connection.asked == ["SaslHandshakeRequest", "SaslAuthenticateRequest"]
    assert not login.holds(b"d", 4)
    assert (login.give_up(), connection.aborts) == ([], [])


async def test_a_connection_whose_log_in_fails_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    login, connection = logged_in(monkeypatch)
    login._again_at_s = 0.0
    connection.answers = [ConnectionFailedError("gone")]
    assert login.holds(b"a", 1)
    assert login._again is not None
    await login._again
    assert connection.aborts == ["the log-in could not be renewed: gone"]


async def test_who_gives_up_tells_those_that_expect_something(monkeypatch: pytest.MonkeyPatch) -> None:
    login, connection = logged_in(monkeypatch)
    login._again_at_s = 0.0
    connection.answers = [shake(), answer()]
    for number in (1, None, 3):
        login.holds(b"a", number)
    assert (login.give_up(), login.give_up()) == ([1, 3], [])
    assert login._again is not None
    await login._again
    assert connection.put_on == []
