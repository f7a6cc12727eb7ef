"""The folder of a secured cluster: made whole or not at all, renewed, and given another authority in steps."""

from __future__ import annotations

import ssl
import stat
import sys
import threading
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from penstock.cli.main import main
from penstock.cli.security import folders
from penstock.log.disk import Disk
from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.metadata.configs.pairs import decode_properties
from penstock.node.assembly.protection import check_keys
from penstock.testing.secured.folder import SecuredFolder
from penstock.tls.authority import has_signed


def security(path: Path, *words: str) -> Result:
    return CliRunner().invoke(main, ["security", words[0], "--directory", str(path / "made"), *words[1:]])


def init(path: Path, *words: str) -> Result:
    return security(path, "init", "--nodes", "localhost,localhost,127.0.0.1/broker.example", *words)


def folder(path: Path) -> SecuredFolder:
    return SecuredFolder.found(path / "made", folders.now())


def all_trust_each_other(path: Path) -> bool:
    """Each node's certificate is signed by somebody whom every other node and every client trusts."""
    found = folder(path)
    return all(
        any(has_signed(one, found.certificate_of(node)) for one in _split((other / "trusted.pem").read_text()))
        for node in found.nodes
        for other in (*found.nodes, *found.clients)
    )


def _split(text: str) -> list[str]:
    end = "-----END CERTIFICATE-----\n"
    return [one + end for one in text.split(end) if one.strip()]


def test_all_files_are_made_and_are_for_nobody_elses_eyes(tmp_path: Path) -> None:
    done = init(tmp_path, "--user", "ada", "--user", "bob")
    assert done.exit_code == 0, done.output
    made = tmp_path / "made"
    for path in (made, *made.rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path
    assert sorted(path.name for path in (made / "clients").iterdir()) == ["ada", "admin", "bob"]
    for node in folder(tmp_path).nodes:
        config = BrokerConfig(decode_properties((node / "server.properties").read_bytes()))
        check_keys(config)
        assert list(config.warnings()) == []
        assert not list(node.rglob("*.key"))
    passwords = {
        one.client_properties(user)["sasl.jaas.config"] for one in [folder(tmp_path)] for user in ("ada", "bob")
    }
    assert len(passwords) == 2
    assert not any(word in done.output for one in passwords for word in one.split('"')[3::4])
    assert all_trust_each_other(tmp_path)


def test_a_cluster_that_is_there_gets_keys_alone(tmp_path: Path) -> None:
    done = init(tmp_path, "--only-keys", "--installed-in", "/etc/penstock")
    assert done.exit_code == 0
    assert "penstock start" not in done.output
    assert not list((tmp_path / "made").rglob("data"))
    settings = decode_properties((tmp_path / "made/nodes/node-2/server.properties").read_bytes())
    assert settings["ssl.keystore.location"] == "/etc/penstock/node.pem"
    assert settings["log.dirs"] == "/etc/penstock/data"


def test_nothing_is_replaced(tmp_path: Path) -> None:
    assert init(tmp_path).exit_code == 0
    before = {path: path.read_bytes() for path in (tmp_path / "made").rglob("*") if path.is_file()}
    done = init(tmp_path)
    assert done.exit_code == 1
    assert "is there already, and nothing in it is replaced" in done.output
    assert before == {path: path.read_bytes() for path in (tmp_path / "made").rglob("*") if path.is_file()}


@pytest.fixture
def interrupting(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number in it counts down with each file that is written; at 0 somebody presses Ctrl-C."""
    left = [-1]
    replace = Disk.replace_file

    def write(self: Disk, path: str, content: bytes, *, durable: bool) -> None:
        if threading.current_thread() is threading.main_thread():  # nodes of other tests write as well
            if left[0] == 0:
                raise KeyboardInterrupt
            left[0] -= 1
        replace(self, path, content, durable=durable)

    monkeypatch.setattr(Disk, "replace_file", write)
    return left


def test_who_interrupts_it_finds_nothing(tmp_path: Path, interrupting: list[int]) -> None:
    for before in (0, 1, 2, 7, 15):
        interrupting[0] = before
        assert init(tmp_path).exit_code == 1
        assert list(tmp_path.iterdir()) == []
    (tmp_path / ".made.unfinished" / "authority").mkdir(parents=True)  # as a process leaves it that is killed
    interrupting[0] = -1
    assert init(tmp_path).exit_code == 0
    assert [path.name for path in tmp_path.iterdir()] == ["made"]


def test_each_step_of_another_authority_may_be_interrupted_anywhere(tmp_path: Path, interrupting: list[int]) -> None:
    assert init(tmp_path).exit_code == 0
    old = folder(tmp_path).authorities.certificate(1)
    for step in ("--begin", "--sign", "--finish"):
        for before in range(20):
            interrupting[0] = before
            done = security(tmp_path, "rotate-ca", step)
            interrupting[0] = -1
            assert all_trust_each_other(tmp_path)
            if done.exit_code == 0:
                break
        assert done.exit_code == 0
        assert before > 3, "it was interrupted"
        assert security(tmp_path, "rotate-ca", step).exit_code == 0, "it may be repeated"
        assert all_trust_each_other(tmp_path)
    found = folder(tmp_path)
    assert found.authorities.numbers == [2]
    for path in (tmp_path / "made").rglob("*"):
        assert path.is_dir() or old.splitlines()[2] not in path.read_text(errors="replace"), path
    trusted = found.client_properties("app")["ssl.truststore.certificates"]
    assert trusted.strip() == found.authorities.certificate(2).strip()
    ssl.create_default_context(cadata=trusted)


def test_steps_come_in_their_order(tmp_path: Path) -> None:
    assert init(tmp_path).exit_code == 0
    assert "make another one with --begin" in security(tmp_path, "rotate-ca", "--sign").output
    assert "then      penstock security rotate-ca --sign" in security(tmp_path, "rotate-ca", "--begin").output
    assert "the old one signs" in security(tmp_path, "status").output
    assert "first --sign" in security(tmp_path, "rotate-ca", "--finish").output
    assert security(tmp_path, "renew").exit_code == 0
    assert "the old one signs" in security(tmp_path, "status").output, "renewed by the old one, whom all trust"
    assert "then: penstock security rotate-ca --finish" in security(tmp_path, "rotate-ca", "--sign").output
    assert "go on with --finish" in security(tmp_path, "rotate-ca", "--begin").output


def test_what_expires_soon_is_told_and_renewed(tmp_path: Path) -> None:
    assert init(tmp_path).exit_code == 0
    assert security(tmp_path, "renew", "--node", "2", "--days", "9").exit_code == 0
    told = security(tmp_path, "status")
    assert told.exit_code == 1
    assert "node-2 expires in 8 days" in told.output
    assert security(tmp_path, "renew", "--node", "2").exit_code == 0
    assert security(tmp_path, "status").exit_code == 0
    assert "node-7 is not in" in security(tmp_path, "renew", "--node", "7").output


def test_without_cryptography_the_command_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "penstock.tls.authority", None)
    assert "pip install 'penstock[tls]'" in init(tmp_path).output


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--user", "../ada"), "is no name of a user"),
        (("--installed-in", "there"), "it begins with /"),
        (("--nodes", ",".join("abcdefghij")), "9 controllers are the most"),
        (("--nodes", "a:x"), "is no port"),
    ],
)
def test_wrong_options_are_told_before_anything_is_made(tmp_path: Path, words: tuple[str, ...], why: str) -> None:
    done = init(tmp_path, *words)
    assert done.exit_code == 2
    assert why in done.output
    assert list(tmp_path.iterdir()) == []


def test_where_there_is_none_the_cure_is_told(tmp_path: Path) -> None:
    assert "make one with `penstock security init`" in security(tmp_path, "status").output
