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
