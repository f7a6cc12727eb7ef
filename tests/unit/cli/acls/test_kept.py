"""What applying a file of rules does, in which order, and whom it shuts out."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.cli.acls import kept
from penstock.cli.acls.rule_file import written
from penstock.protocol.acls import (
    CLUSTER_NAME,
    AclBinding,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    Resource,
)

READ = AclBinding(
    Resource.TRANSACTIONAL_ID, "t", PatternType.LITERAL, "User:ada", "*", Operation.WRITE, Permission.ALLOW
)
RULER = READ._replace(resource_type=Resource.CLUSTER, resource_name=CLUSTER_NAME, operation=Operation.ALL)


class Fake:
    """A session with a cluster that keeps rules, and obeys who may still change them."""

    def __init__(self, *there: AclBinding) -> None:
        self.there = set(there)
        self.acls = SimpleNamespace(describe=self._describe, create=self._create, delete=self._delete)

    def run(self, work: Any) -> Any:
        return asyncio.run(work(self))

    async def _describe(self, _: AclFilter) -> list[AclBinding]:
        return sorted(self.there)

    async def _create(self, rules: Sequence[AclBinding]) -> None:
        self.there |= set(rules)

    async def _delete(self, filters: Sequence[AclFilter]) -> None:
        assert "User:ada" in kept._rulers(self.there), "refused: half of the rules are there"
        self.there -= {rule for rule in self.there for wanted in filters if tuple(rule) == tuple(wanted)}


@pytest.fixture
def of_readers(tmp_path: Path) -> Path:
    path = tmp_path / "rules.toml"
    path.write_text(written([READ._replace(resource_name="other")]))
    return path


def test_who_is_shut_out_is_told(of_readers: Path, capsys: pytest.CaptureFixture[str]) -> None:
    some_host = RULER._replace(principal="User:bob", host="10.0.0.0/8", operation=Operation.ALTER)
    denied = RULER._replace(principal="User:eve")
    sees = RULER._replace(principal="User:dan", operation=Operation.DESCRIBE)
    cluster: Any = Fake(RULER, some_host, denied, denied._replace(permission_type=Permission.DENY), sees)
    kept.plan(cluster, of_readers, as_json=False)
    told = [line for line in capsys.readouterr().out.splitlines() if "no more" in line]
    assert told == [
        f"User:{who} may change access rules no more, unless it is in super.users" for who in ("ada", "bob")
    ]
    of_readers.write_text(written([RULER, some_host]))
    kept.plan(cluster, of_readers, as_json=False)
    assert "no more" not in capsys.readouterr().out


def test_what_lets_rules_be_changed_goes_last(of_readers: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "AT_ONCE", 1)
    cluster: Any = Fake(RULER, READ)
    kept.apply(cluster, of_readers, force=True, as_json=False)
    assert cluster.there == {READ._replace(resource_name="other")}


@pytest.mark.parametrize(
    ("missing", "surplus", "differs"),
    [((), (), False), ((READ,), (), True), ((), (READ,), True), ((READ,), (RULER,), True)],
)
def test_what_lacks_or_is_there_besides_is_a_difference(
    missing: tuple[AclBinding, ...], surplus: tuple[AclBinding, ...], differs: bool
) -> None:
    assert bool(kept.Difference(missing, surplus)) is differs
    assert bool(kept.Difference(missing, surplus, ("User:ada",))) is differs
