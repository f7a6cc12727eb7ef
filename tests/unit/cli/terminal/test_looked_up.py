"""The file of a client may say where a value stands, which no error tells."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from penstock.cli.main import main
from penstock.cli.measuring.e2e_latency import OF_CONSUMERS, OF_PRODUCERS
from penstock.cli.measuring.e2e_latency import _of as of_client
from penstock.cli.terminal.session import settings_from
from penstock.client.files import from_file
from penstock.client.settings import ClientSettings

PROVIDERS = {"config.providers": "env", "config.providers.env.class": "EnvVarConfigProvider"}


def settings(**properties: str) -> ClientSettings:
    named = {name.replace("_", "."): value for name, value in properties.items()}
    return settings_from(ClientSettings(), PROVIDERS, named)


def test_values_are_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINE", "me")
    assert settings(client_id="<${env:MINE}>").client_id == "<me>"
    assert settings_from(ClientSettings(), {"client.id": "${env:MINE}"}).client_id == "${env:MINE}"


def test_errors_tell_references(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINE", "sesame-open")
    with pytest.raises(click.UsageError) as raised:
        settings(request_timeout_ms="${env:MINE}")
    assert raised.value.message == "request.timeout.ms=${env:MINE}: a whole number is needed"
    with pytest.raises(click.UsageError, match="no variable OTHER"):
        settings(client_id="${env:OTHER}")


def file(path: Path, **properties: str) -> Path:
    named = {name.replace("_", "."): value for name, value in properties.items()}
    found = path / "client.properties"
    found.write_text("".join(f"{key}={value}\n" for key, value in (PROVIDERS | named).items()))
    return found


def test_a_program_that_takes_the_file_has_them_looked_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MINE", "sesame-open")
    path = file(tmp_path, client_id="${env:MINE}", bootstrap_servers="${env:MINE}:1")
    servers, found = from_file(path, ClientSettings())
    assert (servers, found.client_id) == ("sesame-open:1", "sesame-open")
    with pytest.raises(ValueError, match=r"request.timeout.ms=\$\{env:MINE\}: a whole number is needed"):
        from_file(file(tmp_path, bootstrap_servers="h:1", request_timeout_ms="${env:MINE}"), ClientSettings())


def test_the_doctor_goes_the_way_of_a_client_whose_values_are_looked_up(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("MINE", "sesame-open")

    def doctor(**properties: str) -> str:
        words = ["--command-config", str(file(tmp_path, **properties)), "--bootstrap-server", "127.0.0.1:1"]
        done = CliRunner().invoke(main, ["security", "doctor", *words])
        assert done.exit_code == 1
        return done.stderr

    assert "it ends at TCP" in doctor(client_id="${env:MINE}")
    told = doctor(request_timeout_ms="${env:MINE}")
    assert "it ends at SETTINGS: request.timeout.ms=${env:MINE}: a whole number is needed" in told


def test_one_file_for_two_clients_brings_both_what_it_takes_to_log_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINE", "sesame")
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="ada" password="${env:MINE}";'
    properties = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": jaas,
        "fetch.min.bytes": "1",
    }
    for defaults in (OF_PRODUCERS, OF_CONSUMERS):
        found = settings_from(defaults, of_client(defaults, PROVIDERS | properties))
        assert found.security.credentials.user == "ada"
        assert "sesame" in found.security.properties["sasl.jaas.config"]
