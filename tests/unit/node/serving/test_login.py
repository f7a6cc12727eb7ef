"""The order in which a client says who it is, and everything that ends the connection instead."""

from __future__ import annotations

import pytest

from penstock.node.serving.login import (
    LEAST_BETWEEN_MS,
    MAX_REQUEST_BYTES,
    MAX_TOKENS,
    MAX_VERSIONS_ASKED,
    Login,
    Mechanisms,
    Refusal,
    Reply,
)
from penstock.protocol.errors import DecodeError, ErrorCode
from penstock.protocol.messages.api_versions import ApiVersionsRequest
from penstock.protocol.messages.metadata import MetadataRequest
from penstock.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from penstock.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from penstock.protocol.requests.api import ApiKey
from penstock.protocol.requests.framing import decode_response, encode_request
from penstock.protocol.sasl.mechanism import PLAIN, SaslServer
from penstock.protocol.sasl.plain import PlainServer
from penstock.protocol.sasl.scram import MECHANISMS, OWN_FORM, ScramClient, ScramCredential, ScramServer, invented
from penstock.protocol.schema import Message
from penstock.protocol.secret import Secret

SCRAM = MECHANISMS["SCRAM-SHA-256"]
PASSWORDS = {"ada": Secret("engine"), "bob": Secret("builder")}
ADA, BOB = b"\0ada\0engine", b"\0bob\0builder"
VERSIONS = ApiVersionsRequest(client_software_name="test", client_software_version="1")


def credential() -> ScramCredential:
    salted = SCRAM.salted("engine", b"salt", 4096)
    return ScramCredential(b"salt", SCRAM.stored_key(salted), SCRAM.server_key(salted), 4096)


class Client:
    """What it sends is taken at `now_ms`."""

    def __init__(self, lifetime_ms: int = 0) -> None:
        self.scram_users = {"ada": credential()}
        self.plain_users = PASSWORDS
        lifetimes_ms = {PLAIN: lifetime_ms, SCRAM.name: lifetime_ms}
        self.mechanisms = Mechanisms((SCRAM.name, PLAIN), self._serve, self._proof, lifetimes_ms)
        self.login = Login(self)
        self.now_ms = 0

    def _serve(self, name: str) -> SaslServer:
        if name == PLAIN:
            return PlainServer(self.plain_users)
        return ScramServer(SCRAM, self.scram_users.get, lambda user: invented(SCRAM, user, b"s", (OWN_FORM,)), "nonce")

    def _proof(self, name: str, user: str, token_id: str | None) -> object:
        return self.plain_users.get(user) if name == PLAIN else self.scram_users.get(user)

    def send(self, message: Message, version: int) -> Reply | Refusal | None:
        return self.take(encode_request(message, version, 7, "test")[4:])

    def take(self, frame: bytes) -> Reply | Refusal | None:
        return self.login.take(memoryview(frame), self.now_ms)

    def shake(self, mechanism: str = PLAIN, version: int = 1) -> SaslHandshakeResponse:
        answer = told(self.send(SaslHandshakeRequest(mechanism=mechanism), version), ApiKey.SASL_HANDSHAKE, version)
        assert isinstance(answer, SaslHandshakeResponse)
        return answer

    def token(self, token: bytes, version: int = 2) -> SaslAuthenticateResponse:
        outcome = self.send(SaslAuthenticateRequest(auth_bytes=token), version)
        answer = told(outcome, ApiKey.SASL_AUTHENTICATE, version)
        assert isinstance(answer, SaslAuthenticateResponse)
        assert bool(answer.error_code) == isinstance(outcome, Refusal)
        return answer

    def log_in(self, token: bytes = ADA) -> SaslAuthenticateResponse:
        self.shake()
        return self.token(token)


def told(outcome: Reply | Refusal | None, key: ApiKey, version: int) -> Message:
    assert outcome is not None
    (frame,) = outcome.parts
    correlation_id, message = decode_response(key, version, frame[4:])
    assert correlation_id == 7
    return message


@pytest.mark.parametrize("version", range(3))
def test_a_client_logs_in(version: int) -> None:
    client = Client()
    assert client.send(VERSIONS, 3) is None
    assert client.shake().mechanisms == [SCRAM.name, PLAIN]
    answer = client.token(ADA, version)
    assert (answer.error_code, answer.auth_bytes, answer.session_lifetime_ms) == (0, b"", 0)
    assert (client.login.user, client.login.mechanism) == ("ada", PLAIN)
    assert client.send(MetadataRequest(), 9) is None, "the rest is for handlers"


def test_scram_takes_two_tokens() -> None:
    client, asks = Client(), ScramClient(SCRAM, "ada", Secret("engine"), "mine")
    client.shake(SCRAM.name)
    proof = asks.evaluate(client.token(asks.first()).auth_bytes)
    assert client.login.user is None
    assert proof is not None
    assert asks.evaluate(client.token(proof).auth_bytes) is None
    assert client.login.user == "ada"


def test_bare_tokens_follow_a_handshake_of_version_0() -> None:
    client = Client()
    client.shake(version=0)
    outcome = client.take(ADA)
    assert isinstance(outcome, Reply)
    assert outcome.parts == [bytes(4)]
    assert client.login.user == "ada"
    refused = Client()
    refused.shake(version=0)
    outcome = refused.take(b"\0ada\0wrong")
    assert isinstance(outcome, Refusal)
    assert outcome.parts == [], "there is no place for an error"


@pytest.mark.parametrize(("key", "version"), [(ApiKey.METADATA, 9), (ApiKey.PRODUCE, 9), (ApiKey.ENVELOPE, 0)])
@pytest.mark.parametrize("when", ["first", "behind versions", "amid tokens"])
def test_nothing_else_is_taken_before(key: ApiKey, version: int, when: str) -> None:
    client = Client()
    if when == "behind versions":
        client.send(VERSIONS, 3)
    elif when == "amid tokens":
        client.shake()
    frame = encode_request(MetadataRequest(), 9, 7, "test")[4:]
    outcome = client.take(key.to_bytes(2, "big") + version.to_bytes(2, "big") + frame[4:])
    assert isinstance(outcome, Refusal)
    assert outcome.parts == []
    assert client.login.user is None


def test_a_token_before_the_handshake_ends_it() -> None:
    assert isinstance(Client().send(SaslAuthenticateRequest(auth_bytes=ADA), 1), Refusal)


def test_versions_are_asked_a_few_times() -> None:
    client = Client()
    for _ in range(MAX_VERSIONS_ASKED):
        assert client.send(VERSIONS, 3) is None
    assert isinstance(client.send(VERSIONS, 3), Refusal)
    shaken = Client()
    shaken.shake()
    assert isinstance(shaken.send(VERSIONS, 3), Refusal), "nor are they in the middle"


def test_a_mechanism_that_is_not_enabled_is_refused_with_those_that_are() -> None:
    client = Client()
    outcome = client.send(SaslHandshakeRequest(mechanism="GSSAPI" + "x" * 10_000), 1)
    assert isinstance(outcome, Refusal)
    answer = told(outcome, ApiKey.SASL_HANDSHAKE, 1)
    assert isinstance(answer, SaslHandshakeResponse)
    assert (answer.error_code, answer.mechanisms) == (ErrorCode.UNSUPPORTED_SASL_MECHANISM, [SCRAM.name, PLAIN])
    assert len(outcome.cause) < 300


@pytest.mark.parametrize("token", [b"\0ada\0wrong", b"\0eve\0engine", b"", b"bob\0ada\0engine"])
def test_a_refused_token_is_answered_with_the_reason(token: bytes) -> None:
    client = Client()
    answer = client.log_in(token)
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert answer.error_message is not None
    assert answer.error_message.startswith("Authentication failed")
    assert client.login.user is None


def test_a_log_in_has_a_few_tokens() -> None:
    """A machine that never comes to an end."""

    class Endless:
        user = None
        proof = None
        lifetime_ms = None
        token_id = None

        def evaluate(self, token: bytes) -> bytes:
            return b"more"

    client = Client()
    client.mechanisms = Mechanisms((PLAIN,), lambda _: Endless(), lambda *_: None, {})
    client.shake()
    for _ in range(MAX_TOKENS):
        assert client.token(b"x").auth_bytes == b"more"
    assert client.token(b"x").error_code == ErrorCode.SASL_AUTHENTICATION_FAILED


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\0\x11",
        encode_request(SaslHandshakeRequest(mechanism=PLAIN), 1, 7, "t")[4:-1],
        b"\0\x11\0\x09" + encode_request(SaslHandshakeRequest(mechanism=PLAIN), 1, 7, "t")[8:],
    ],
)
def test_garbage_is_an_error(frame: bytes) -> None:
    try:
        outcome = Client().take(frame)
    except DecodeError:
        return
    assert isinstance(outcome, Refusal)


def test_large_requests_are_refused_before_they_are_looked_at() -> None:
    frame = encode_request(VERSIONS, 3, 7, "c" * MAX_REQUEST_BYTES)[4:]
    assert isinstance(Client().take(frame), Refusal)


# Again, while the connection lasts (KIP-368)


def test_a_session_has_an_end_and_goes_on_with_another_log_in() -> None:
    client = Client(lifetime_ms=10_000)
    assert client.log_in().session_lifetime_ms == 10_000
    client.now_ms = 9_999
    assert client.send(MetadataRequest(), 9) is None
    assert client.log_in().session_lifetime_ms == 10_000
    client.now_ms = 19_998
    assert client.send(MetadataRequest(), 9) is None
    client.now_ms = 19_999
    assert isinstance(client.send(MetadataRequest(), 9), Refusal)


def test_it_is_not_too_late_for_a_log_in_behind_the_end() -> None:
    client = Client(lifetime_ms=10_000)
    client.log_in()
    client.now_ms = 50_000
    assert client.log_in().error_code == 0
    assert client.send(MetadataRequest(), 9) is None


def test_another_user_is_refused() -> None:
    client = Client()
    client.log_in()
    client.now_ms = LEAST_BETWEEN_MS
    answer = client.log_in(BOB)
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert client.login.user == "ada"


def test_another_mechanism_is_refused() -> None:
    client, asks = Client(), ScramClient(SCRAM, "ada", Secret("engine"), "mine")
    client.log_in()
    client.now_ms = LEAST_BETWEEN_MS
    client.shake(SCRAM.name)
    answer = client.token(asks.first())
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert client.login.mechanism == PLAIN


def test_a_handshake_too_soon_and_tokens_without_one_are_for_the_handler_that_refuses_them() -> None:
    client = Client()
    client.log_in()
    client.now_ms = LEAST_BETWEEN_MS - 1
    assert client.send(SaslHandshakeRequest(mechanism=PLAIN), 1) is None
    client.now_ms = LEAST_BETWEEN_MS
    assert client.send(SaslHandshakeRequest(mechanism=PLAIN), 0) is None, "bare tokens would have no place"
    assert client.send(SaslAuthenticateRequest(auth_bytes=BOB), 1) is None
    assert client.login.user == "ada"


def test_a_log_in_holds_as_long_as_what_it_was_made_with() -> None:
    client, asks = Client(), ScramClient(SCRAM, "ada", Secret("engine"), "mine")
    assert client.login.holds
    client.shake(SCRAM.name)
    proof = asks.evaluate(client.token(asks.first()).auth_bytes)
    client.token(proof or b"")
    assert client.login.holds
    client.scram_users["ada"] = credential().replace(salt=b"other")
    assert not client.login.holds
    client.scram_users.clear()
    assert not client.login.holds
    client.scram_users["ada"] = credential()
    client.mechanisms = client.mechanisms.replace(names=(PLAIN,))
    assert not client.login.holds, "its mechanism is not offered any more"


@pytest.mark.parametrize("change", ["removed", "another password", "another mechanism"])
def test_who_began_before_a_change_does_not_log_in_behind_it(change: str) -> None:
    client = Client()
    client.shake()
    if change == "another mechanism":
        client.mechanisms = client.mechanisms.replace(names=(SCRAM.name,))
    else:
        client.plain_users = {"bob": PASSWORDS["bob"]} | ({} if change == "removed" else {"ada": Secret("turbine")})
    answer = client.token(ADA)
    assert (answer.error_code, client.login.user) == (ErrorCode.SASL_AUTHENTICATION_FAILED, None)


@pytest.mark.parametrize(
    ("configured_ms", "of_token_ms", "expected_ms"), [(0, None, 0), (0, 500, 500), (300, 500, 300), (900, 500, 500)]
)
def test_a_session_ends_with_its_token_or_before(configured_ms: int, of_token_ms: int | None, expected_ms: int) -> None:
    class Machine(PlainServer):
        lifetime_ms = of_token_ms  # type: ignore[assignment]

    client = Client()
    client.mechanisms = client.mechanisms.replace(
        serve=lambda _: Machine(PASSWORDS), lifetimes_ms={PLAIN: configured_ms}
    )
    client.shake()
    assert client.token(ADA).session_lifetime_ms == expected_ms
    client.now_ms += expected_ms - 1 if expected_ms else 10**9
    assert client.send(VERSIONS, 3) is None
    client.now_ms += 1
    assert (client.send(VERSIONS, 3) is None) == (expected_ms == 0)
