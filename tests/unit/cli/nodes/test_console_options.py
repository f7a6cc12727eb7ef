"""Whom `penstock console` lets in, and what it refuses to start with."""

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from penstock.cli.nodes import console
from penstock.console.serving.passwords import hashed, is_hashed
from penstock.protocol.secret import Secret

HASHED = hashed("secret")
AFAR = ("--listen", "0.0.0.0:9000")


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The settings with which a console would be served."""
    found: list[Any] = []
    monkeypatch.setattr(console, "_serve", lambda settings, *, until_eof: found.append((settings, until_eof)))
    return found


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    texts = {"PLAIN": "ada=secret\n", "HASHED": f"ada={HASHED}\n", "EMPTY": "", "NONE": "ada=\n"}
    texts |= {"BROKEN": "ada=scrypt:x\n", "CERTIFICATE": "", "KEY": ""}
    for name, text in texts.items():
        path = tmp_path / name
        path.touch(mode=0o600)
        path.write_text(text)
    (tmp_path / "OPEN").write_text("ada=secret\n")
    (tmp_path / "OPEN").chmod(0o644)
    return {name: str(tmp_path / name) for name in (*texts, "OPEN")}


def ran(files: dict[str, str], *words: str) -> str:
    result = CliRunner().invoke(console.command, [files.get(word, word) for word in words])
    return result.output.strip().rpartition("Error: ")[2]


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--listen", "nowhere"), "--listen nowhere: write HOST:PORT, as in 127.0.0.1:"),
        (("--certificate", "CERTIFICATE"), "--certificate and --key go together"),
        (("--key", "KEY"), "--certificate and --key go together"),
        (AFAR, "--listen 0.0.0.0:9000: beyond this machine anybody could change the cluster; --users FILE asks for a"),
        ((*AFAR, "--users", "HASHED"), "beyond this machine passwords would pass in the clear; --certificate FILE"),
        (("--users", "EMPTY"), "it needs lines of user=password, and no password is empty"),
        (("--users", "NONE"), "it needs lines of user=password, and no password is empty"),
        (("--users", "BROKEN"), "what ada has is no hash: --make-user makes one"),
        (("--users", "OPEN"), "it has passwords as they are, and "),
        (("--make-user", ""), "--make-user : a name has no blank, =, :, # or \\"),
        (("--make-user", "a b"), "--make-user a b: a name has no blank, =, :, # or \\"),
        (("--make-user", "a=b"), "--make-user a=b: a name has no blank, =, :, # or \\"),
    ],
)
def test_it_is_refused(started: list[Any], files: dict[str, str], words: tuple[str, ...], problem: str) -> None:
    assert problem in ran(files, *words)
    assert not started


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("--listen", "localhost:9000"),
        ("--users", "HASHED"),
        ("--users", "PLAIN"),
        ("--certificate", "CERTIFICATE", "--key", "KEY"),
        (*AFAR, "--insecure"),
        (*AFAR, "--users", "HASHED", "--insecure"),
        (*AFAR, "--users", "HASHED", "--certificate", "CERTIFICATE", "--key", "KEY"),
    ],
)
def test_it_is_served(started: list[Any], files: dict[str, str], words: tuple[str, ...]) -> None:
    assert ran(files, *words) == ""
    ((settings, until_eof),) = started
    assert not until_eof
    assert list(settings.users) == (["ada"] if "--users" in words else [])
    assert (settings.certificate is None) is ("--certificate" not in words)
    assert (settings.host, settings.port) == (
        ("0.0.0.0", 9000) if AFAR[1] in words else ("localhost", 9000) if words[:1] == ("--listen",) else DEFAULT
    )


DEFAULT = (console.LISTEN.rpartition(":")[0], int(console.LISTEN.rpartition(":")[2]))


def test_what_it_is_told_goes_to_its_settings(started: list[Any], files: dict[str, str], tmp_path: Path) -> None:
    config = tmp_path / "client.properties"
    config.write_text("bootstrap.servers=c:3\nclient.id=mine\n")
    words = ("--command-config", str(config), "--allowed-host", "a", "--allowed-host", "b", "--read-only")
    assert ran(files, *words, "--worker", "http://w", "--schema-registry", "http://s", "--until-eof") == ""
    ((settings, until_eof),) = started
    assert until_eof
    assert settings.bootstrap_servers == "c:3"
    assert settings.client.client_id == "mine"
    assert settings.properties == {"client.id": "mine"}
    assert (settings.allowed_hosts, settings.read_only) == (("a", "b"), True)
    assert (settings.worker, settings.schema_registry) == ("http://w", "http://s")
    assert (settings.client.default_api_timeout_ms, settings.client.request_timeout_ms) == (
        console.PATIENCE_MS,
        console.PATIENCE_MS,
    )


def test_a_user_is_made(monkeypatch: pytest.MonkeyPatch, files: dict[str, str]) -> None:
    monkeypatch.setattr(console, "ask_password", lambda name: "secret")
    name, _, made = ran(files, "--make-user", "ada").partition("=")
    assert name == "ada"
    assert is_hashed(Secret(made))
