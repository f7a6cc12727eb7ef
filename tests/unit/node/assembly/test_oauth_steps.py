"""Which keys a token is checked with, when they are fetched again, and what becomes of who waits: step by step."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from tests.identity_provider import SigningPair
from tests.stand_in import stand_in

from penstock.client.oauth.provider import ProviderError
from penstock.metadata.configs.oauth import ListenerOAuth
from penstock.node.assembly import oauth
from penstock.node.assembly.oauth import UNKNOWN_KEY_S, ProviderKeys, SigningKey, _key
from penstock.protocol.sasl.claims import Expected, Token
from penstock.protocol.sasl.mechanism import NotYet
from penstock.protocol.sasl.oauthbearer import RefusedTokenError

SETTINGS = ListenerOAuth(Expected("i", ("a",), 30), "https://keys.example", {}, 9_000, 100, 350)
NOW_S = 1_000.0


class Provider:
    """What is behind an address, asked without a thread; the task that follows it is the test's."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = NOW_S
        self.answers: list[Any] = []
        monkeypatch.setattr(oauth, "Tasks", lambda: SimpleNamespace(keep=lambda *_: None))
        monkeypatch.setattr(oauth, "DaemonThread", lambda _: SimpleNamespace(shutdown=lambda: None))
        monkeypatch.setattr(oauth, "keys_in", lambda answer: answer)
        self.keys = ProviderKeys(self.ask, "the provider", SETTINGS, lambda: self.now_s)

    def ask(self) -> Any:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


class Signed(SigningKey):
    """Has signed what says so."""

    def has_signed(self, token: Token) -> bool:
        return token.signature == str(self.key).encode()


def key(name: str | None, signs: str, *algorithms: str) -> Signed:
    return Signed(name, algorithms or ("RS256",), signs)


def token(signature: str, kid: str | None = None, alg: str = "RS256") -> Token:
    return Token({"alg": alg, **({} if kid is None else {"kid": kid})}, {}, b"", signature.encode())


MANY, WRONG = "too many keys could have signed it: it does not say which one did", "its signature is wrong"


@pytest.mark.parametrize(
    ("keys", "asked", "why"),
    [
        ([key("a", "x"), key("b", "y")], token("x", "a"), None),
        ([key("a", "x"), key("b", "y")], token("y", "a"), WRONG),
        ([key("a", "x"), key("a", "y")], token("y", "a"), None),
        ([key("a", "x")] * 4, token("x", "a"), None),
        ([key("a", "x")] * 5, token("x", "a"), MANY),
        ([key("a", "x")], token("x"), None),
        ([key(None, "x")], token("x"), None),
        ([key("a", "x"), key("b", "x")], token("x"), MANY),
        ([key("a", "x"), key("b", "x", "ES256")], token("x"), None),
        ([key(None, "x")], token("x", "a"), "its key 'a' for RS256 is none of the provider"),
        ([key("a", "x")], token("x", "a", "ES256"), "its key 'a' for ES256 is none of the provider"),
        ([], token("x"), "its key '' for RS256 is none of the provider"),
    ],
)
async def test_which_keys_are_tried(
    monkeypatch: pytest.MonkeyPatch, keys: list[SigningKey], asked: Token, why: str | None
) -> None:
    it = Provider(monkeypatch).keys
    it._keys, it._asked_s = tuple(keys), NOW_S
    if why is None:
        it.check(asked)
        return
    with pytest.raises(RefusedTokenError) as refused:
        it.check(asked)
    assert str(refused.value) == why


@pytest.mark.parametrize(
    ("asked_ago_s", "is_asking", "waits", "wants"),
    [
        (None, False, True, True),
        (UNKNOWN_KEY_S, False, True, True),
        (UNKNOWN_KEY_S - 1, False, False, False),
        (UNKNOWN_KEY_S - 1, True, True, False),
        (UNKNOWN_KEY_S, True, True, True),
    ],
)
async def test_an_unknown_key_has_them_fetched_once_in_a_while(
    monkeypatch: pytest.MonkeyPatch, asked_ago_s: float | None, is_asking: bool, waits: bool, wants: bool
) -> None:
    it = Provider(monkeypatch).keys
    it._asked_s = None if asked_ago_s is None else NOW_S - asked_ago_s
    it._is_asking, it._fault = is_asking, "it is away"
    with pytest.raises(NotYet if waits else RefusedTokenError) as raised:
        it.check(token("x"))
    assert it._wanted.is_set() is wants
    if isinstance(raised.value, NotYet):
        raised.value.listen(lambda: None)
        assert len(it._waiting) == 1
    else:
        assert str(raised.value).endswith("; the keys cannot be fetched: it is away")


class Timeout:
    """In the place of the time-out between two looks: notes it, and ends at once."""

    def __init__(self, seen: list[float], enough: int) -> None:
        self.seen, self.enough, self.done = seen, enough, asyncio.Event()

    def __call__(self, delay_s: float) -> Timeout:
        self.seen.append(delay_s)
        return self

    async def __aenter__(self) -> None:
        if len(self.seen) >= self.enough:
            self.done.set()
            await asyncio.Event().wait()
        raise TimeoutError

    async def __aexit__(self, *_: object) -> None: ...


async def test_how_long_it_waits_between_two_looks(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", oauth.logger.name)
    provider, seen, called = Provider(monkeypatch), list[float](), list[tuple[int, bool]]()
    it = provider.keys
    away, other = ProviderError("away"), ValueError("odd")
    provider.answers = [away, away, away, other, (key("a", "x"),), away, (key("b", "y"),), ()]
    timeout = Timeout(seen, len(provider.answers))

    async def at_once(_: object, work: Any) -> Any:
        assert it._is_asking
        it._waiting.append(lambda: called.append((len(seen), it._is_asking)))
        it._wanted.set()
        return work()

    monkeypatch.setattr(
        oauth,
        "asyncio",
        stand_in(asyncio, timeout=timeout, get_running_loop=lambda: SimpleNamespace(run_in_executor=at_once)),
    )
    following = asyncio.ensure_future(it._follow())
    await timeout.done.wait()
    following.cancel()
    assert seen == [0.1, 0.2, 0.35, 0.35, 9.0, 0.1, 9.0, 9.0], "it begins anew behind one that came"
    assert called == [(number, False) for number in range(8)]
    assert (it._waiting, it._keys, it._asked_s, it._fault) == ([], (), NOW_S, "")
    told = [(record.levelname, record.getMessage()) for record in caplog.records]
    begin = "the keys of the provider cannot be fetched"
    assert told == [
        ("ERROR", f"{begin}, so nobody can log in with a token: away"),
        ("ERROR", f"{begin}, so nobody can log in with a token: ValueError('odd')"),
        ("INFO", "the keys of the provider are there again"),
        ("ERROR", f"{begin}; those from before count: away"),
        ("INFO", "the keys of the provider are there again"),
    ]


EC = SigningPair("ec", "ES256").jwk


@pytest.mark.parametrize(
    ("changes", "algorithms"),
    [
        ({}, ("ES256",)),
        ({"alg": "ES256"}, ("ES256",)),
        ({"alg": "RS256"}, None),
        ({"use": "sig"}, ("ES256",)),
        ({"use": "enc"}, None),
        ({"key_ops": ["verify"]}, ("ES256",)),
        ({"key_ops": ["sign", "verify"]}, ("ES256",)),
        ({"key_ops": ["sign"]}, None),
        ({"key_ops": "verify"}, None),
        ({"kid": 5}, None),
        ({"kid": None}, ("ES256",)),
        ({"kty": "oct"}, None),
        ({"crv": "P-384"}, None),
        ({"x": "!"}, None),
        ({"y": 5}, None),
    ],
)
def test_which_keys_of_a_set_are_taken(changes: dict[str, Any], algorithms: tuple[str, ...] | None) -> None:
    found = list(_key({**{name: it for name, it in EC.items() if name not in ("alg", "use", "key_ops")}, **changes}))
    assert [one.algorithms for one in found] == ([] if algorithms is None else [algorithms])
