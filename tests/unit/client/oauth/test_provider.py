"""An identity provider that answers, refuses, hangs, drips, lies, or is somebody else."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.identity_provider import IdentityProvider

from penstock.client.oauth.allowed import FILES, URLS, allowed_file, allowed_url
from penstock.client.oauth.provider import MAX_ANSWER_BYTES, Provider, ProviderError


@pytest.fixture(scope="module")
def identity() -> Iterator[IdentityProvider]:
    with IdentityProvider().serving() as identity:
        yield identity


def at(url: str, read_s: float = 10) -> Provider:
    return Provider(urlsplit(url), {}, 5, read_s)


@contextmanager
def answering(answer: Callable[[socket.socket], object]) -> Iterator[str]:
    """A server that takes one connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(65536)
                try:
                    answer(connection)
                except OSError:
                    pass

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}/keys"
        thread.join()


def test_what_it_answers(identity: IdentityProvider) -> None:
    assert b'"keys"' in at(identity.keys_url).ask()


def test_what_it_refuses_is_final_and_what_it_cannot_do_now_is_not(identity: IdentityProvider) -> None:
    for status, is_final in ((400, True), (401, True), (429, False), (500, False), (302, False)):
        identity.answer = status, b"no\r\nway \x1b[31m" + b"x" * 1000
        with pytest.raises(ProviderError, match=rf"answers {status}: 'no\\r\\nway .x1b") as refused:
            at(identity.keys_url).ask()
        assert refused.value.is_final == is_final
        assert len(str(refused.value)) < 500
    identity.answer = None


def test_one_that_hangs_is_left_in_time(identity: IdentityProvider) -> None:
    identity.may_answer.clear()
    with pytest.raises(ProviderError, match="no answer in time"):
        at(identity.keys_url, 0.05).ask()
    identity.may_answer.set()


def test_one_that_drips_is_left_in_time() -> None:
    over = threading.Event()

    def drip(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nA: ")
        while not over.wait(0.01):
            connection.sendall(b"x")

    with answering(drip) as url:
        with pytest.raises(ProviderError, match=r"takes too long|no answer in time"):
            at(url, 0.1).ask()
        over.set()


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"", "does not answer as it should"),
        (b"SSH-2.0-OpenSSH_9\r\n", "does not answer as it should: SSH"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort", "does not answer as it should"),
        (b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 1000, "does not answer as it should"),
        (b"HTTP/1.1 200 OK\r\n\r\n" + b" " * (MAX_ANSWER_BYTES + 1), "more than 1048576 bytes"),
    ],
)
def test_what_is_no_answer(answer: bytes, words: str) -> None:
    with (
        answering(lambda connection: connection.sendall(answer)) as url,
        pytest.raises(ProviderError, match=words),
    ):
        at(url).ask()


def test_nobody_there_is_told() -> None:
    with pytest.raises(ProviderError, match=r"http://127.0.0.1:1/keys does not answer as it should: Connection"):
        at("http://127.0.0.1:1/keys").ask()


def test_a_trust_store_that_is_not_there_is_named() -> None:
    provider = at("https://127.0.0.1:1/").replace(tls={"ssl.truststore.location": "/none.pem"})
    with pytest.raises(ProviderError, match=r"cannot be asked: ssl.truststore.location=/none.pem") as refused:
        provider.ask()
    assert refused.value.is_final


def test_a_file_in_its_place(tmp_path: Path) -> None:
    file = tmp_path / "my keys"
    file.write_bytes(b"content")
    assert at(f"file://{tmp_path}/my%20keys").ask() == b"content"
    file.write_bytes(b" " * (MAX_ANSWER_BYTES + 1))
    with pytest.raises(ProviderError, match="more than"):
        at(f"file://{tmp_path}/my%20keys").ask()
    with pytest.raises(ProviderError, match="cannot be read: No such file"):
        at(f"file://{tmp_path}/other").ask()


def test_addresses_and_files_are_used_that_the_environment_lists(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv(URLS, raising=False)
    with pytest.raises(ValueError, match=rf"^key=https://a/b is not in {URLS}: set"):
        allowed_url("key", "https://a/b")
    monkeypatch.setenv(URLS, "https://a/b, file:///etc/keys,")
    assert allowed_url("key", "https://a/b").hostname == "a"
    assert allowed_url("key", "file:///etc/keys").path == "/etc/keys"
    for other in ("https://a/b/", "https://a/b/../c", "https://A/b", "http://a/b"):
        with pytest.raises(ValueError, match="is not in"):
            allowed_url("key", other)
    monkeypatch.setenv(FILES, str(tmp_path / "token"))
    assert allowed_file("key", str(tmp_path / "token")) == tmp_path / "token"
    for name in ("/etc/passwd", str(tmp_path), str(tmp_path / "a" / ".." / "token")):
        with pytest.raises(ValueError, match=rf"is not in {FILES}"):
            allowed_file("key", name)


@pytest.mark.parametrize(
    "url", ["", "x", "ftp://a/b", "https://", "file:", "https://a:x/", "https://a /", "https://a\n/"]
)
def test_what_is_no_address(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(URLS, url)
    with pytest.raises(ValueError, match="is no address"):
        allowed_url("key", url)
