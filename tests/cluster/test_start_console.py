"""`penstock start --console`, and what `penstock console` refuses."""

import signal
from pathlib import Path
from urllib.request import urlopen

import pytest
from click.testing import CliRunner
from tests.cluster.started import ANY_PORT, started

from penstock.cli.nodes.console import command
from penstock.cli.nodes.start_console import write_users


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


@pytest.mark.parametrize("listen", ["8085", "127.0.0.1", "127.0.0.1:x", "127.0.0.1:99999"])
def test_what_is_no_address(listen: str) -> None:
    done = CliRunner().invoke(command, ["--listen", listen])
    assert done.exit_code == 2
    assert "HOST:PORT" in done.output
