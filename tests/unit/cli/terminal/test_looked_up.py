"""The file of a client may say where a value stands, which no error tells."""

from __future__ import annotations

import click
import pytest

from penstock.cli.terminal.session import settings_from
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
