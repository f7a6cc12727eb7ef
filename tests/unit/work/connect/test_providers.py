import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from penstock.client.providers import MAX_BYTES, ShortLived, with_references
from penstock.work.connect.config import ConfigError
from penstock.work.connect.providers import Providers


def providers(**classes: str) -> Providers:
    keys = {f"config.providers.{name}.class": f"{kind}ConfigProvider" for name, kind in classes.items()}
    return Providers({"config.providers": ",".join(classes), **keys})


def test_values_are_looked_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "secrets").write_text("password=pa=ss\nuser: me\n")
    (tmp_path / "token").write_text("whole file\n")
    monkeypatch.setenv("PENSTOCK_TEST", "variable")
    found = providers(file="File", dir="Directory", env="EnvVar").resolved(
        {
            "one": f"${{file:{tmp_path}/secrets:user}}:${{file:{tmp_path}/secrets:password}}",
            "two": f"${{dir:{tmp_path}:token}}",
            "three": "<${env:PENSTOCK_TEST}>",
            "four": "${topic} ${other:a:b}",
        }
    )
    assert found == {"one": "me:pa=ss", "two": "whole file\n", "three": "<variable>", "four": "${topic} ${other:a:b}"}


@pytest.mark.parametrize(
    ("reference", "reason"),
    [
        ("${file:/nowhere/at/all:x}", "No such file"),
        ("${file:THERE/secrets:none}", "has no key none"),
        ("${dir:THERE:../secrets}", "no name of a file"),
        ("${env:PENSTOCK_NOT_THERE}", "no variable PENSTOCK_NOT_THERE"),
        ("${env:a:HOME}", "has no path"),
    ],
)
def test_what_cannot_be_looked_up_is_named(tmp_path: Path, reference: str, reason: str) -> None:
    (tmp_path / "secrets").write_text("user=me")
    reference = reference.replace(":THERE", f":{tmp_path}")
    with pytest.raises(ConfigError, match=reason) as raised:
        providers(file="File", dir="Directory", env="EnvVar").resolved({"good": "x", "key": reference})
    assert list(raised.value.errors) == ["key"]


def test_what_stands_beside_a_reference_is_not_told() -> None:
    with pytest.raises(ConfigError) as raised:
        providers(env="EnvVar").resolved({"to": "https://ada:secret@${env:NO_HOST}:${env:NO_PORT}/"})
    reason = "to=${env:NO_HOST}…${env:NO_PORT} cannot be looked up: there is no variable NO_HOST that may be read"
    assert str(raised.value) == reason


def test_only_what_is_allowed_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in ("good", "bad"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "f").write_text("k=v")
    monkeypatch.setenv("PENSTOCK_TEST", "variable")
    config = {"config.providers": "file,env", "config.providers.file.class": "FileConfigProvider"}
    config["config.providers.file.param.allowed.paths"] = f"{tmp_path}/good"
    config |= {"config.providers.env.class": "EnvVarConfigProvider"}
    config |= {"config.providers.env.param.allowlist.pattern": "MINE_.*"}
    strict = Providers(config)
    assert strict.resolved({"k": f"${{file:{tmp_path}/good/f:k}}"}) == {"k": "v"}
    for wrong in (f"${{file:{tmp_path}/bad/f:k}}", f"${{file:{tmp_path}/good/../bad/f:k}}", "${env:PENSTOCK_TEST}"):
        with pytest.raises(ConfigError):
            strict.resolved({"k": wrong})


def test_devices_pipes_and_files_without_end_are_not_read(tmp_path: Path) -> None:
    """A configuration that somebody sends may name them, and a read of them may never come back."""
    pipe, large = tmp_path / "pipe", tmp_path / "large"
    os.mkfifo(pipe)
    with large.open("wb") as file:
        file.truncate(MAX_BYTES + 1)
    found = providers(file="File", dir="Directory")
    for reference, reason in (
        (f"${{file:{pipe}:key}}", "is no file"),
        ("${dir:/dev:zero}", "is no file"),
        (f"${{dir:{tmp_path}:large}}", "is larger than"),
    ):
        with pytest.raises(ConfigError, match=reason):
            found.resolved({"a": reference})


def test_a_provider_that_is_not_there() -> None:
    with pytest.raises(ConfigError, match="did you mean FileConfigProvider"):
        Providers({"config.providers": "f", "config.providers.f.class": "FilesConfigProvider"})


def test_what_a_connector_made_gets_its_references_back() -> None:
    config = {"url": "${env:URL}", "table": "t", "tables": "${env:TABLES}", "mode": "${env:MODE}"}
    found = {"url": "secret", "table": "t", "tables": "a,b", "mode": "bulk"}
    made = {"url": "secret?x", "table": "u", "part": "1", "tables": "a", "mode": "bulk"}
    assert with_references(made, config, found, {"tables", "mode"}) == {
        "url": "${env:URL}",
        "table": "u",
        "part": "1",
        "tables": "a",
        "mode": "${env:MODE}",
    }


class Vault:
    def configure(self, params: Mapping[str, str]) -> None: ...

    def get(self, path: str, key: str) -> ShortLived:
        return ShortLived(f"secret {key}", int(path))


def test_a_provider_may_say_how_long_a_value_is_good() -> None:
    vault = Providers({"config.providers": "v", "config.providers.v.class": f"{__name__}:Vault"})
    found = vault.look_up({"a": "${v:500:x}", "b": "${v:200:y}-${v:900:z}", "c": "plain"})
    assert found.config == {"a": "secret x", "b": "secret y-secret z", "c": "plain"}
    assert found.good_for_ms == 200
    assert vault.look_up({"c": "plain"}).good_for_ms is None
