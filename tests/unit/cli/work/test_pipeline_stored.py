"""What is shown of the state that queries remember; that it is read right is seen beside Spark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from penstock.cli.work import pipeline_stored

STORE = SimpleNamespace(sink="s", operator="dedupe", name="default", partitions=3, keys=7)


@pytest.mark.parametrize(
    ("stores", "shown"),
    [
        ([STORE], ["sink", "operator", "store", "partitions", "keys", "s", "dedupe", "default", "3", "7"]),
        ([], ["there", "is", "no", "state"]),
    ],
)
def test_each_store_has_a_row(
    stores: list[Any], shown: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def stored(*_: object) -> Iterator[tuple[None, list[Any]]]:
        yield None, [SimpleNamespace(stores=lambda: stores)]

    monkeypatch.setattr(pipeline_stored, "_stored", stored)
    file = tmp_path / "pipeline.yaml"
    file.touch()
    assert CliRunner().invoke(pipeline_stored.state, [str(file)]).output.split() == shown


@pytest.mark.parametrize(
    ("to", "starting"),
    [
        *((word, {"startingOffsets": word}) for word in ("earliest", "latest", "committed")),
        ('{"t": {"0": 5}}', {"startingOffsets": '{"t": {"0": 5}}'}),
        ("2026-01-01T00:00:00", {"startingTimestamp": "1767225600000"}),
        ("soon", None),
    ],
)
@pytest.mark.parametrize("server", [None, "b:2"])
def test_it_goes_on_from_where_it_is_told(
    to: str,
    starting: dict[str, str] | None,
    server: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said: list[Any] = []
    query = SimpleNamespace(
        check_whole=lambda: said.append("whole"),
        move=lambda positions: said.append(positions),
        sink=SimpleNamespace(name="s"),
    )
    spec = SimpleNamespace(with_bootstrap_servers=lambda servers: f"at {servers}")

    @contextmanager
    def stored(*_: object) -> Iterator[tuple[Any, list[Any]]]:
        yield spec, [query, query]

    monkeypatch.setattr(pipeline_stored, "_stored", stored)
    monkeypatch.setattr("penstock.pipeline.running.stored.positions_at", lambda *asked: asked)
    file = tmp_path / "pipeline.yaml"
    file.touch()
    words = [str(file), "--to", to, "--source", "a", *(["--bootstrap-server", server] if server else [])]
    result = CliRunner().invoke(pipeline_stored.reset, words)
    if starting is None:
        assert (result.exit_code, said) == (1, [])
        return
    asked = (spec if server is None else "at b:2"), starting | {"startingOffsetsByTimestampStrategy": "latest"}, "a"
    assert said == ["whole", "whole", asked, asked], "all are looked at before one is moved"
    assert result.output.splitlines() == [f"sink s: goes on from {to}"] * 2
