"""What an identity provider is asked, byte by byte, which of its answers are final, and when a token is renewed."""

from __future__ import annotations

import json
import socket
import time
from base64 import urlsafe_b64decode
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from tests.identity_provider import SigningPair, claims
from tests.stand_in import stand_in

from penstock.client.oauth import credentials as credentials_module
from penstock.client.oauth import provider as module
from penstock.client.oauth.allowed import URLS
from penstock.client.oauth.credentials import _Keys, _renewal, extensions_in, token_source
from penstock.client.oauth.provider import MAX_ANSWER_BYTES, MAX_TOLD, Provider, ProviderError, _words, read_file
from penstock.client.oauth.tokens import FAILURE_S, Renewal, TokenSource
from penstock.protocol.secret import Secret

PAIR = SigningPair("k")
OF = "sasl.oauthbearer."


class Sockets:
    """Connections that note what they are asked, and answer these bytes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *answers: bytes) -> None:
        self.answers, self.log = list(answers), list[Any]()
        self.now_s, self.takes_s = 100.0, 0.0
        monkeypatch.setattr(module, "socket", stand_in(socket, create_connection=self.connect))
        monkeypatch.setattr(module, "time", stand_in(time, monotonic=lambda: self.now_s))
        monkeypatch.setattr(module, "asking_context", lambda tls, key: self)
        monkeypatch.setattr(module, "key_of", lambda tls: None)

    def connect(self, *where: Any) -> Sockets:
        self.log.append(where)
        return self

    def wrap_socket(self, connection: object, *, server_hostname: str) -> Sockets:
        self.log.append(f"TLS with {server_hostname}")
        return self

    def settimeout(self, limit_s: float) -> None:
        self.log.append(limit_s)

    def sendall(self, request: bytes) -> None:
        self.log.append(request)

    def recv(self, size: int) -> bytes:
        assert size == 64 * 1024
        self.now_s += self.takes_s
        return self.answers.pop(0) if self.answers else b""

    def close(self) -> None:
        self.log.append("closed")


def at(url: str) -> Provider:
    return Provider(urlsplit(url), {}, 3.5, 7.5)


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nwell"
USUAL = b"Accept: application/json\r\nCache-Control: no-cache\r\nConnection: close\r\n"


@pytest.mark.parametrize(
    ("url", "where", "line", "host"),
    [
        ("http://p/keys", ("p", 80), b"/keys", b"p"),
        ("https://p", ("p", 443), b"/", b"p"),
        ("https://p:99/a?b=c", ("p", 99), b"/a?b=c", b"p:99"),
        ("http://user:word@p:99/", ("p", 99), b"/", b"p:99"),
    ],
)
def test_what_is_asked_without_a_form(
    monkeypatch: pytest.MonkeyPatch, url: str, where: tuple[str, int], line: bytes, host: bytes
) -> None:
    sockets = Sockets(monkeypatch, OK[:20], OK[20:])
    assert at(url).ask(headers={"A": "b"}) == b"well"
    over_tls = [f"TLS with {where[0]}"] if url.startswith("https") else []
    request = b"GET " + line + b" HTTP/1.1\r\nHost: " + host + b"\r\n" + USUAL + b"A: b\r\n\r\n"
    assert sockets.log == [(where, 3.5), *over_tls, 7.5, request, 7.5, 7.5, 7.5, "closed"]


@pytest.mark.parametrize("body", ["", "a=b&c=é"])
def test_what_is_asked_with_a_form(monkeypatch: pytest.MonkeyPatch, body: str) -> None:
    sockets = Sockets(monkeypatch, OK.replace(b"200", b"201"))
    assert at("http://p/token").ask(body) == b"well"
    content = body.encode()
    kind = b"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: %d\r\n\r\n" % len(content)
    assert sockets.log[2] == b"POST /token HTTP/1.1\r\nHost: p\r\n" + USUAL + kind + content


@pytest.mark.parametrize("value", ["a\r\nB: c", "a\rb", "a\nb"])
def test_no_header_breaks_its_line(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    sockets = Sockets(monkeypatch, OK)
    with pytest.raises(ProviderError, match="a header with a line break"):
        at("http://p/").ask(headers={"A": value})
    assert sockets.log == []


FINAL = {400: True, 401: True, 404: True, 499: True, 408: False, 425: False, 429: False, 399: False, 500: False}


@pytest.mark.parametrize(("status", "is_final"), [*FINAL.items(), (202, False)])
def test_which_refusals_are_final(monkeypatch: pytest.MonkeyPatch, status: int, *, is_final: bool) -> None:
    Sockets(monkeypatch, b"HTTP/1.1 %d No\r\nContent-Length: 4\r\n\r\nwhat" % status)
    with pytest.raises(ProviderError, match=f"^http://p/ answers {status}: 'what'$") as refused:
        at("http://p/").ask()
    assert refused.value.is_final == is_final


@pytest.mark.parametrize(("takes_s", "parts", "is_late"), [(3.7, 1, False), (3.75, 1, True), (7.5, 0, True)])
def test_an_answer_comes_as_a_whole_in_time(
    monkeypatch: pytest.MonkeyPatch, takes_s: float, parts: int, *, is_late: bool
) -> None:
    sockets = Sockets(monkeypatch, *[OK[:9]] * parts, OK[9 * parts :])
    sockets.takes_s = takes_s
    if is_late:
        with pytest.raises(ProviderError, match=r"takes too long \(sasl.login.read.timeout.ms\)"):
            at("http://p/").ask()
    else:
        sockets.takes_s = 3.7 / 2
        assert at("http://p/").ask() == b"well"
    assert sockets.log[-1] == "closed"


@pytest.mark.parametrize("over", [0, 1])
def test_how_much_is_read_of_an_answer_or_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, over: int) -> None:
    monkeypatch.setattr(module, "MAX_ANSWER_BYTES", len(OK) - over)
    Sockets(monkeypatch, OK)
    file = tmp_path / "f"
    file.write_bytes(OK)
    if over:
        with pytest.raises(ProviderError, match=f"its answer has more than {len(OK) - 1} bytes"):
            at("http://p/").ask()
        with pytest.raises(ProviderError, match=f"more than {len(OK) - 1} bytes") as refused:
            read_file(file)
        assert refused.value.is_final
    else:
        assert (at("http://p/").ask(), read_file(file)) == (b"well", OK)
    assert MAX_ANSWER_BYTES == 1 << 20


def test_what_is_told_of_an_answer_is_cut() -> None:
    assert _words(b"x" * MAX_TOLD) == repr("x" * MAX_TOLD)
    assert _words(b"x" * (MAX_TOLD + 1)) == repr("x" * MAX_TOLD + "…")
    assert _words(b"\xff") == repr("\ufffd")


# -- which keys -------------------------------------------------------------------------------------------------------


def asked_form(monkeypatch: pytest.MonkeyPatch, properties: dict[str, str]) -> tuple[dict[str, str], list[str]]:
    """The form, and the lines of the request that are not usual."""
    monkeypatch.setenv(URLS, "http://p/token")
    answer = json.dumps({"access_token": PAIR.sign(claims(2e9, exp=2_000_000_000))}).encode()
    sockets = Sockets(monkeypatch, b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(answer) + answer)
    source = token_source({f"{OF}token.endpoint.url": "http://p/token"} | properties, {})
    source.token()
    head, _, form = sockets.log[2].partition(b"\r\n\r\n")
    lines = [line.decode() for line in head.split(b"\r\n") if line.startswith(b"Authorization")]
    return {name: value for name, (value,) in parse_qs(form.decode()).items()}, lines


CLIENT = {f"{OF}client.credentials.client.id": " a:b ", f"{OF}client.credentials.client.secret": "s/t"}


@pytest.mark.parametrize(
    ("more", "scope", "header"),
    [
        ({}, None, "Authorization: Basic YTpiOnMvdA=="),
        ({f"{OF}scope": "read write"}, "read write", "Authorization: Basic YTpiOnMvdA=="),
        ({f"{OF}header.urlencode": "true"}, None, "Authorization: Basic YSUzQWI6cyUyRnQ="),
    ],
)
def test_a_client_says_who_it_is(
    monkeypatch: pytest.MonkeyPatch, more: dict[str, str], scope: str | None, header: str
) -> None:
    form, lines = asked_form(monkeypatch, CLIENT | more)
    assert form == {"grant_type": "client_credentials"} | ({"scope": scope} if scope else {})
    assert lines == [header]


def test_how_long_and_how_often_it_is_asked_is_as_the_keys_say() -> None:
    assert _renewal(_Keys({}, {})) == Renewal(0.8, 0.05, 300, 60, 0.1, 10.0)
    login = "sasl.login."
    set_ones = {
        f"{login}refresh.window.factor": "0.9",
        f"{login}refresh.window.jitter": "0.1",
        f"{login}refresh.buffer.seconds": "9",
        f"{login}refresh.min.period.seconds": "8",
        f"{login}retry.backoff.ms": "0",
        f"{login}retry.backoff.max.ms": "2500",
    }
    assert _renewal(_Keys(set_ones, {})) == Renewal(0.9, 0.1, 9, 8, 0.001, 2.5)


def test_extensions_are_options_of_that_name() -> None:
    options = {"extension_a": Secret("b"), "clientId": Secret("c"), "extension_": Secret("d")}
    assert extensions_in(options) == {"a": "b", "": "d"}


def test_a_token_without_a_signature_lives_for_an_hour_or_as_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(credentials_module, "time", SimpleNamespace(time=lambda: 5_000.0))
    for more, seconds in (({}, 3_600), ({"unsecuredLoginLifetimeSeconds": Secret("7")}, 7)):
        options = {
            "unsecuredLoginStringClaim_sub": Secret("ada"),
            "unsecuredLoginNumberClaim_n": Secret("1.5"),
            "unsecuredLoginListClaim_l": Secret(";a;b"),
            **more,
        }
        header, content, signature = token_source({}, options)._retrieve().split(".")

        def read(part: str) -> Any:
            return json.loads(urlsafe_b64decode(part + "=" * (-len(part) % 4)))

        assert (read(header), signature) == ({"alg": "none"}, "")
        told = {"sub": "ada", "n": 1.5, "l": ["a", "b"], "iat": 5_000.0, "exp": 5_000.0 + seconds}
        assert read(content) == told


# -- when it is renewed -----------------------------------------------------------------------------------------------


class Clock:
    def __init__(self, life_s: int, began_s: float | None = 1_000.0, **renewal: float) -> None:
        self.now_s, self.asked = 1_000.0, 0
        self.life_s, self.began_s = life_s, began_s
        self.fails: list[ProviderError] = []
        self.source = TokenSource(self.retrieve, Renewal(**renewal), lambda: self.now_s, self.pause)
        self.source._random = SimpleNamespace(random=lambda: 0.5)  # type: ignore[assignment]

    def pause(self, pause_s: float) -> None:
        self.now_s += pause_s

    def retrieve(self) -> str:
        self.asked += 1
        if self.fails:
            raise self.fails.pop(0)
        more = {} if self.began_s is None else {"iat": self.began_s}
        found = claims(self.now_s, exp=int(self.now_s) + self.life_s)
        found.pop("iat", None)
        return PAIR.sign(found | more)

    def renewed_after(self) -> float:
        self.source.token()
        return self.source._renewed_s - 1_000.0


@pytest.mark.parametrize(
    ("life_s", "began_s", "renewal", "after_s"),
    [
        (10_000, 1_000.0, {}, 8_250),  # 0.8, and half of 0.05
        (10_000, None, {}, 8_250),
        (10_000, 1_500.0, {}, 8_250),  # it began before it came
        (10_000, 500.0, {}, 0.825 * 10_500 - 500),
        (1_000, 1_000.0, {}, 700),  # 300 before its end
        (1_000, 1_000.0, {"buffer_s": 100.0}, 825),
        (359, 1_000.0, {}, 0.825 * 359),  # that would be too often
        (360, 1_000.0, {}, 60),
        (360, 1_000.0, {"min_period_s": 61}, 0.825 * 360),
    ],
)
def test_a_token_is_renewed_at_a_part_of_its_life(
    life_s: int, began_s: float | None, renewal: dict[str, float], after_s: float
) -> None:
    assert Clock(life_s, began_s, **renewal).renewed_after() == pytest.approx(after_s)


def test_a_token_that_is_over_is_none() -> None:
    with pytest.raises(ProviderError, match="a token that has expired already"):
        Clock(0).source.token()
    assert Clock(1).source.token().text


def test_a_failure_is_told_to_others_for_a_second_on_either_side_of_a_clock_that_jumps() -> None:
    clock, final = Clock(1_000), ProviderError("no", is_final=True)
    clock.fails = [final] * 9
    asked = 0
    for now_s, is_asked in ((1_000.0, True), (1_000.0, False), (1_000.999, False), (1_001.0, True), (1_000.5, True)):
        clock.now_s = now_s
        with pytest.raises(ProviderError, match=r"^no$"):
            clock.source.token()
        asked += is_asked
        assert clock.asked == asked
    assert FAILURE_S == 1.0


def test_the_old_token_does_until_its_end_and_it_is_asked_after_a_pause() -> None:
    clock = Clock(1_000)
    first = clock.source.token()
    clock.fails = [ProviderError("no", is_final=True)] * 9
    for now_s, asked in ((1_700.0, 2), (1_709.9, 2), (1_710.0, 3), (1_999.9, 4)):
        clock.now_s = now_s
        assert clock.source.token() is first
        assert clock.asked == asked
    clock.now_s = 2_000.0
    with pytest.raises(ProviderError):
        clock.source.token()


def test_the_last_attempt_is_the_one_before_the_pauses_are_over() -> None:
    clock = Clock(1_000, backoff_s=1.0, backoff_max_s=7.0)
    clock.fails = [ProviderError("no")] * 9
    with pytest.raises(ProviderError):
        clock.source.token()
    assert (clock.asked, clock.now_s) == (3, 1_003.0), "after 1 and 2 seconds; 4 more would be the end"
