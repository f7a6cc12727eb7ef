"""`penstock users`, `penstock configs` and librdkafka's admin client make, show and remove users of SCRAM."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from confluent_kafka import admin

from penstock.cli.main import main
from penstock.testing import Cluster

KAFKA: Any = admin
"""Its types leave out what it has of users."""
OLD, NEW = "SCRAM-SHA-256", "SCRAM-SHA-512"


@pytest.fixture(scope="module")
def node() -> Iterator[Cluster]:
    with Cluster() as cluster:
        yield cluster


def penstock(node: Cluster, *arguments: str, exit_code: int = 0, answer: str | None = None) -> Result:
    result = CliRunner().invoke(main, [*arguments, "--bootstrap-server", node.bootstrap_servers], input=answer)
    assert result.exit_code == exit_code, result.output
    return result


def users(node: Cluster, *arguments: str) -> list[str]:
    rows: Any = json.loads(penstock(node, "users", "--list", "--json", *arguments).stdout)
    return [" ".join(map(str, row.values())) for row in rows]


def test_a_password_is_asked_for_or_in_a_file(node: Cluster, tmp_path: Path) -> None:
    asked = penstock(node, "users", "--set-password", "--user", "ada", answer="hush\nhush\n")
    assert f"ada logs in with {NEW}" in asked.stdout
    assert "hush" not in asked.output
    file = tmp_path / "password"
    file.write_text("quiet\n")
    by_file = ("--password-file", str(file), "--mechanism", "scram-sha-256", "--iterations", "8192")
    penstock(node, "users", "--set-password", "--user", "ada", *by_file)
    assert users(node, "--user", "ada") == [f"ada {OLD} 8192", f"ada {NEW} 4096"]

    penstock(node, "users", "--set-password", "--user", "bob", answer="hush\nrush\n", exit_code=1)
    file.write_text("\n")
    empty = penstock(node, "users", "--set-password", "--user", "bob", "--password-file", str(file), exit_code=2)
    assert "the password is empty" in empty.output
    penstock(node, "users", "--set-password", answer="hush\nhush\n", exit_code=2)
    unknown = penstock(node, "users", "--list", "--user", "bob", exit_code=1)
    assert "RESOURCE_NOT_FOUND" in unknown.output

    penstock(node, "users", "--remove", "--user", "ada", answer="n\n", exit_code=1)
    one = penstock(node, "users", "--remove", "--user", "ada", "--mechanism", OLD, answer="y\n")
    assert f"ada logs in with {OLD} no more" in one.stdout
    assert json.loads(penstock(node, "users", "--remove", "--user", "ada", "--force", "--json").stdout) == {
        "user": "ada",
        "removed": [NEW],
    }
    assert users(node) == []


def test_configs_of_users_are_those_of_kafkas_tool(node: Cluster) -> None:
    of_eve = ("configs", "--entity-type", "users", "--entity-name", "eve")
    added = f"{OLD}=[iterations=8192,password=a=b,c],{NEW}=[password=x]"
    penstock(node, *of_eve, "--alter", "--add-config", f"{OLD}=[iterations=8192,password=a=b,c]")
    assert json.loads(penstock(node, *of_eve, "--describe", "--json").stdout) == [
        {"user": "eve", "config": f"{OLD}=[iterations=8192]"}
    ]
    twice = penstock(node, *of_eve, "--alter", "--add-config", added)
    assert "password" not in twice.output
    assert users(node, "--user", "eve") == [f"eve {OLD} 8192", f"eve {NEW} 4096"]
    penstock(node, *of_eve, "--alter", "--delete-config", f"{OLD},{NEW}")
    assert users(node) == []
    for wrong in (
        f"producer_byte_rate=1,{OLD}=[password=hush]",
        f"{OLD}=hush",
        f"{OLD}=[iterations=4096]",
        f"{OLD}=[iterations=1,password=hush]",
    ):
        refused = penstock(node, *of_eve, "--alter", "--add-config", wrong, exit_code=2)
        assert "hush" not in refused.output


def test_librdkafkas_admin_client(node: Cluster) -> None:
    client = KAFKA.AdminClient({"bootstrap.servers": node.bootstrap_servers})
    info = KAFKA.ScramCredentialInfo(KAFKA.ScramMechanism.SCRAM_SHA_512, 10000)
    made = client.alter_user_scram_credentials([KAFKA.UserScramCredentialUpsertion("eve", info, b"hush")])
    assert made["eve"].result(timeout=30) is None
    assert users(node) == [f"eve {NEW} 10000"]
    told = client.describe_user_scram_credentials(["eve"])["eve"].result(timeout=30)
    assert [(one.mechanism.name, one.iterations) for one in told.scram_credential_infos] == [("SCRAM_SHA_512", 10000)]
    gone = KAFKA.UserScramCredentialDeletion("eve", KAFKA.ScramMechanism.SCRAM_SHA_512)
    assert client.alter_user_scram_credentials([gone])["eve"].result(timeout=30) is None
    again = client.alter_user_scram_credentials([gone])["eve"].exception(timeout=30)
    assert again.args[0].name() == "RESOURCE_NOT_FOUND"
