"""A node's file may say where a value stands, which is then told nowhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.metadata.configs.definitions import ConfigError
from penstock.metadata.configs.effective import broker_entries, topic_entries, topic_values
from penstock.metadata.configs.pairs import PropertiesError
from penstock.node.assembly.properties import LoadedConfig, load_config

FILE = """
config.providers=file,env
config.providers.file.class=org.apache.kafka.common.config.provider.FileConfigProvider
config.providers.file.param.allowed.paths=PATH/secrets
config.providers.env.class=EnvVarConfigProvider
config.providers.env.param.allowlist.pattern=MINE_.*
ssl.keystore.password=${file:PATH/secrets/node:password}
ssl.keystore.location=/etc/${env:MINE_KEYS}
"""


def loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *overrides: str) -> LoadedConfig:
    monkeypatch.setenv("MINE_KEYS", "sesame-open")
    monkeypatch.setenv("OTHERS", "sesame-open")
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "node").write_text("password=sesame-open\npartitions=sesame-open\n")
    (tmp_path / "others").write_text("password=sesame-open\n")
    file = tmp_path / "server.properties"
    base = "process.roles=broker,controller\nnode.id=1\nlisteners=PLAINTEXT://127.0.0.1:0\n"
    file.write_text((base + FILE).replace("PATH", str(tmp_path)))
    environment = {"PENSTOCK_SSL_KEY_PASSWORD": f"${{file:{tmp_path}/secrets/node:password}}"}
    return load_config(file, environment=environment, overrides=[it.replace("PATH", str(tmp_path)) for it in overrides])


def test_values_are_looked_up_and_shown_as_references(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = loaded(tmp_path, monkeypatch)
    config = found.config
    assert config.text("ssl.keystore.password") == config.text("ssl.key.password") == "sesame-open"
    assert config.text("ssl.keystore.location") == "/etc/sesame-open"
    entries = {entry.definition.name: entry for entry in broker_entries(config.shown)}
    assert entries["ssl.keystore.location"].value == "/etc/${env:MINE_KEYS}"
    assert entries["ssl.keystore.password"].value is None
    assert not [entry for entry in entries.values() if "sesame-open" in repr((entry.value, entry.synonyms))]
    assert not [warning for warning in found.warnings if "providers" in warning or "sesame" in warning]


def test_what_stands_behind_a_key_of_topics_in_another_unit_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINE_HOURS", "5")
    config = loaded(tmp_path, monkeypatch, "log.retention.hours=${env:MINE_HOURS}").config
    shown = {entry.definition.name: entry.value for entry in topic_entries({}, config.shown)}
    assert shown["retention.ms"] == "${env:MINE_HOURS}"
    assert topic_values({}, config.layers)["retention.ms"] == 5 * 3_600_000


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("ssl.key.password=${file:PATH/others:password}", "others is not in allowed.paths"),
        ("ssl.key.password=${file:PATH/secrets/../others:password}", "is not in allowed.paths"),
        ("ssl.key.password=${file:PATH/secrets/node:none}", "has no key none"),
        ("ssl.key.password=${env:OTHERS}", "no variable OTHERS that may be read"),
        ("config.providers.env.class=com.example.Vault", "there is no such provider; there are org.apache"),
        ("config.providers.env.param.allowlist.pattern=(", "config.providers.env.class"),
    ],
)
def test_what_cannot_or_may_not_be_looked_up_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, override: str, words: str
) -> None:
    with pytest.raises(PropertiesError) as raised:
        loaded(tmp_path, monkeypatch, override)
    assert words in str(raised.value)
    assert "sesame-open" not in str(raised.value)


def test_a_wrong_value_is_told_by_its_reference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError) as raised:
        loaded(tmp_path, monkeypatch, "num.partitions=${file:PATH/secrets/node:partitions}")
    assert "num.partitions: '${file:" in str(raised.value)
    assert "sesame-open" not in str(raised.value)


def test_without_providers_nothing_is_a_reference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = loaded(tmp_path, monkeypatch, "config.providers=").config
    assert config.text("ssl.keystore.location") == "/etc/${env:MINE_KEYS}"
