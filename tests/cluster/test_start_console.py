"""`penstock start --console`, and what `penstock console` refuses."""

import signal
from pathlib import Path
from urllib.request import urlopen

import pytest
from click.testing import CliRunner
from tests.cluster.started import ANY_PORT, started

from penstock.cli.nodes.console import command
from penstock.cli.nodes.start_console import write_users
from penstock.console.serving.passwords import is_hashed
from penstock.protocol.secret import Secret


def test_a_console_beside_a_node_ends_with_it(tmp_path: Path) -> None:
    with started(tmp_path, *ANY_PORT, "--console", "--console-port", "0") as node:
        assert node.process.stdout is not None
        line = node.process.stdout.readline()
        url = line.split()[2]
        assert line.startswith(f"console at {url} of the cluster at 127.0.0.1:{node.port}")
        with urlopen(f"{url}/api/overview", timeout=60) as answer:
            assert b'"in service"' in answer.read()
        code, said = node.ends_after(signal.SIGTERM)  # which waits for all that have its output
    assert code == 0
    assert "stopped" in said
    assert "ended with" not in said


def test_the_password_beside_a_secured_cluster_is_for_its_owner_and_stays(tmp_path: Path) -> None:
    file = tmp_path / "users"
    write_users(file, "admin")
    written = file.read_text()
    assert file.stat().st_mode & 0o777 == 0o600
    assert len(written) > 20
    write_users(file, "admin")
    assert file.read_text() == written


@pytest.mark.parametrize("address", ["0.0.0.0:8085", "[::]:8085", "192.0.2.1:8085", "example.org:8085"])
def test_an_address_beyond_this_machine_wants_users_or_a_word(address: str) -> None:
    done = CliRunner().invoke(command, ["--listen", address])
    assert done.exit_code == 2
    assert "--users FILE" in done.output
    assert "--insecure" in done.output


def test_users_have_passwords(tmp_path: Path) -> None:
    file = tmp_path / "users"
    file.write_text("ada=\n")
    done = CliRunner().invoke(command, ["--users", str(file)])
    assert done.exit_code == 2
    assert "no password is empty" in done.output


def test_what_is_unsafe_is_refused_by_name(tmp_path: Path) -> None:
    users, key = tmp_path / "users", tmp_path / "key.pem"
    users.write_text("ada=lovelace\n")
    key.write_text("no key")
    users.chmod(0o644)
    key.chmod(0o600)

    def said(*options: object) -> str:
        done = CliRunner().invoke(command, [str(option) for option in options])
        assert done.exit_code in (1, 2), done.output
        return " ".join(done.output.split())

    assert f"everybody on this machine may read it: chmod o= {users}" in said("--users", users)
    users.chmod(0o640)
    assert "passwords would pass in the clear" in said("--listen", "0.0.0.0:0", "--users", users)
    assert "--certificate and --key go together" in said("--key", key)
    assert "no certificate and its key" in said("--certificate", key, "--key", key)
    key.chmod(0o604)
    assert f"chmod o= {key}" in said("--certificate", key, "--key", key)
    users.write_text("ada=scrypt:nonsense\n")
    assert "what ada has is no hash: --make-user makes one" in said("--users", users)


def test_a_user_is_made_who_then_logs_in(tmp_path: Path) -> None:
    done = CliRunner().invoke(command, ["--make-user", "ada"], input="lovelace\nlovelace\n")
    assert done.exit_code == 0
    name, _, stored = done.stdout.strip().partition("=")
    assert name == "ada"
    assert is_hashed(Secret(stored))


@pytest.mark.parametrize("listen", ["8085", "127.0.0.1", "127.0.0.1:x", "127.0.0.1:99999"])
def test_what_is_no_address(listen: str) -> None:
    done = CliRunner().invoke(command, ["--listen", listen])
    assert done.exit_code == 2
    assert "HOST:PORT" in done.output
