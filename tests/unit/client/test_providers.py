"""Values that stand elsewhere: what may be read, how references are written, and what is told in their place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.client import providers as module
from penstock.client.providers import (
    PACKAGE,
    DirectoryConfigProvider,
    EnvVarConfigProvider,
    FileConfigProvider,
    ProviderError,
    Providers,
    ShortLived,
    built_in,
    resolved,
    told,
    with_references,
)


class Noting:
    """Gives `path` and `key` themselves, for a while if the path is a number."""

    made: list[Noting]

    def __init__(self) -> None:
        self.params: dict[str, str] = {}
        self.made.append(self)

    def configure(self, params: Any) -> None:
        self.params = dict(params)

    def get(self, path: str, key: str) -> str | ShortLived:
        if key == "none":
            raise LookupError("there is none")
        text = f"<{path}|{key}>"
        return ShortLived(text, int(path)) if path.isdigit() else text


@pytest.fixture
def found() -> Providers:
    Noting.made = []
    config = {
        "config.providers": " a, b ,,",
        "config.providers.a.class": "A",
        "config.providers.a.param.x": "1",
        "config.providers.b.class": "B",
        "config.providers.ab.param.y": "2",
    }
    return Providers(config, lambda name: Noting)


def test_each_has_its_own_parameters(found: Providers) -> None:
    assert [one.params for one in Noting.made] == [{"x": "1"}, {}]


@pytest.mark.parametrize(
    ("text", "stands_for"),
    [
        ("plain", "plain"),
        ("${a:k}", "<|k>"),
        ("${a:p:k}", "<p|k>"),
        ("${a:p:k:l}", "<p|k:l>"),
        ("x${a:k}y${b:p:k}z", "x<|k>y<p|k>z"),
        ("${c:k} ${a} ${a:k", "${c:k} ${a} ${a:k"),
        ("${a:}", "<|>"),
    ],
)
def test_what_is_a_reference(found: Providers, text: str, stands_for: str) -> None:
    resolved = found.look_up({"key": text})
    assert (resolved.config, resolved.good_for_ms) == ({"key": stands_for}, None)
    told = text
    for reference, value in resolved.looked_up.items():
        told = told.replace(reference, value)
    assert told == stands_for


def test_it_is_good_for_as_long_as_the_first_to_end(found: Providers) -> None:
    assert found.look_up({"x": "${a:70:k}", "y": "${b:50:k}${a:60:k}"}).good_for_ms == 50


def test_all_that_cannot_be_looked_up_is_told(found: Providers) -> None:
    with pytest.raises(ProviderError) as raised:
        found.look_up({"x": "${a:none}", "y": "good", "z": "${b:p:none}"})
    assert raised.value.errors == {
        "x": ["x=${a:none} cannot be looked up: there is none"],
        "z": ["z=${b:p:none} cannot be looked up: there is none"],
    }
    assert str(raised.value) == "; ".join(it for (it,) in raised.value.errors.values())


@pytest.mark.parametrize(
    ("of_name", "text"),
    [
        ({}, "config.providers.a.class=: there is no such provider; there are"),
        ({"class": "EnvVarConfigProvider", "param.allowlist.pattern": "("}, "a.class=EnvVarConfigProvider: missing"),
    ],
)
def test_one_that_cannot_be_used_is_named(of_name: dict[str, str], text: str) -> None:
    keys = {f"config.providers.a.{name}": value for name, value in of_name.items()}
    with pytest.raises(ProviderError) as raised:
        Providers({"config.providers": "a"} | keys)
    assert list(raised.value.errors) == ["config.providers.a.class"]
    assert text in str(raised.value)


def test_those_of_kafka_are_known_by_both_names() -> None:
    for kind in (FileConfigProvider, DirectoryConfigProvider, EnvVarConfigProvider):
        assert built_in(kind.__name__) is built_in(f"{PACKAGE}.{kind.__name__}") is kind


def test_a_file_of_properties_has_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_TEST", "v")
    of_env = {"config.providers": "e", "config.providers.e.class": "EnvVarConfigProvider"}
    assert resolved({"a": "${e:PENSTOCK_TEST}", **of_env}) == {"a": "v"}
    assert resolved({"a": "${e:PENSTOCK_TEST}", "config.providers": ""}) == {"a": "${e:PENSTOCK_TEST}"}
    assert resolved({"a": "b", "config.providers.e.class": "none", "config.providersx": "c"}) == {
        "a": "b",
        "config.providersx": "c",
    }


# -- what may be read -------------------------------------------------------------------------------------------------


def file_provider(kind: type[Any], allowed: str = "") -> Any:
    made = kind()
    made.configure({"allowed.paths": allowed} if allowed else {})
    return made


def test_only_what_is_in_allowed_paths_is_read(tmp_path: Path) -> None:
    for name in ("a", "ab", "c"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "f").write_text("k=v")
    strict = file_provider(FileConfigProvider, f"{tmp_path}/a/, {tmp_path}/c/f")
    for path, is_good in (("a/f", True), ("c/f", True), ("c/../a/f", True), ("ab/f", False), ("a/../ab/f", False)):
        if is_good:
            assert strict.get(f"{tmp_path}/{path}", "k") == "v"
        else:
            with pytest.raises(ValueError, match="is not in allowed.paths".replace(".", r"\.")):
                strict.get(f"{tmp_path}/{path}", "k")
    assert file_provider(FileConfigProvider).get(f"{tmp_path}/ab/f", "k") == "v"
    with pytest.raises(LookupError, match="has no key x"):
        strict.get(f"{tmp_path}/a/f", "x")


@pytest.mark.parametrize("over", [0, 1])
def test_how_large_a_file_may_be(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, over: int) -> None:
    monkeypatch.setattr(module, "MAX_BYTES", 8 - over)
    (tmp_path / "f").write_text("12345678")
    made = file_provider(DirectoryConfigProvider)
    if over:
        with pytest.raises(ValueError, match="is larger than 7 bytes"):
            made.get(str(tmp_path), "f")
    else:
        assert made.get(str(tmp_path), "f") == "12345678"


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../f", "/f"])
def test_only_a_name_is_one_of_a_file(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="is no name of a file in"):
        file_provider(DirectoryConfigProvider).get(str(tmp_path), name)


@pytest.mark.parametrize(
    ("pattern", "may"), [(None, True), ("PENSTOCK_.*", True), ("PENSTOCK", False), ("TEST", False)]
)
def test_a_variable_is_allowed_by_its_whole_name(
    monkeypatch: pytest.MonkeyPatch, pattern: str | None, *, may: bool
) -> None:
    monkeypatch.setenv("PENSTOCK_TEST", "v")
    made = EnvVarConfigProvider()
    made.configure({} if pattern is None else {"allowlist.pattern": pattern})
    if may:
        assert made.get("", "PENSTOCK_TEST") == "v"
    else:
        with pytest.raises(LookupError, match="there is no variable PENSTOCK_TEST that may be read"):
            made.get("", "PENSTOCK_TEST")


# -- what is told -----------------------------------------------------------------------------------------------------


def test_what_was_made_of_a_configuration_has_its_references() -> None:
    config = {"a": "${e:A}", "b": "plain", "c": "${e:C}", "d": "${e:D}"}
    found = {"a": "1", "b": "plain", "c": "3", "d": "4"}
    made = {"a": "1 and more", "b": "other", "c": "3", "d": "other", "e": "5"}
    assert with_references(made, config, found) == {"a": "${e:A}", "b": "other", "c": "${e:C}", "d": "${e:D}", "e": "5"}
    kept = with_references(made, config, found, ["c", "d"])
    assert (kept["c"], kept["d"]) == ("${e:C}", "other")


def test_what_is_said_has_references_and_no_values() -> None:
    found = {"a": "secret", "b": "plain", "c": "", "d": " spaced ", "e": "  "}
    given = {"a": "${e:A}", "b": "plain", "c": "${e:C}", "d": "${e:D}", "e": "${e:E}"}
    assert told("secret plain spaced", found, given) == "${e:A} plain ${e:D}"
    assert told("< spaced >", found, given) == "<${e:D}>"
