"""What `penstock groups` hands on of its options, and of which groups."""

from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from penstock.cli.groups import groups
from penstock.cli.terminal import session

LISTED = ["a", "b"]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What is done, and with what."""
    found: list[Any] = []

    async def listings(types: list[str], **_: object) -> list[SimpleNamespace]:
        found.append(" ".join(["lists", *types]))
        return [SimpleNamespace(group_id=name, protocol_type="consumer", type="classic") for name in LISTED]

    admin: Any = SimpleNamespace(groups=SimpleNamespace(listings=listings))

    def run(addresses: object, config: object, work: Any, *, patience_ms: int) -> None:
        found.append(patience_ms)
        with pytest.raises(StopIteration):
            work(admin).send(None)

    def noted(name: str) -> Any:
        async def done(_: object, *given: Any, **named: Any) -> None:
            found.append((name, *(it for it in given if not isinstance(it, groups.Request)), named))

        return done

    monkeypatch.setattr(session, "run_with_admin", run)
    for name in ("reset_offsets", "list_holders", "_describe", "_delete", "_delete_offsets", "_delete_internal"):
        monkeypatch.setattr(groups, name, noted(name))
    return found


def reset(names: list[str], topics: tuple[str, ...] | None, **other: bool) -> list[Any]:
    """Behind the patience: how offsets are reset, of which internal topics are deleted then."""
    named = {"is_share": False, "execute": False, "export": False, "as_json": False} | other
    return [("reset_offsets", names, topics, named), ("_delete_internal", names, {})]


@pytest.mark.parametrize(
    ("words", "done"),
    [
        ("--reset-offsets --group g --topic t --to-latest", reset(["g"], ("t",))),
        ("--reset-offsets --group g --group h --all-topics --to-latest", reset(["g", "h"], None)),
        ("--reset-offsets --all-groups --all-topics --to-latest", ["lists", *reset(LISTED, None)]),
        ("--reset-offsets --group g --topic t --to-latest --type share", reset(["g"], ("t",), is_share=True)),
        ("--reset-offsets --group g --topic t --to-latest --type streams", reset(["g"], ("t",))),
        ("--reset-offsets --group g --topic t --to-latest --execute", reset(["g"], ("t",), execute=True)),
        ("--reset-offsets --group g --topic t --to-latest --dry-run", reset(["g"], ("t",))),
        ("--reset-offsets --group g --topic t --to-latest --export", reset(["g"], ("t",), export=True)),
        ("--reset-offsets --group g --topic t --to-latest --json", reset(["g"], ("t",), as_json=True)),
        ("--describe --group g", [("_describe", ["g"], {})]),
        ("--describe --all-groups", ["lists", ("_describe", LISTED, {})]),
        ("--describe --all-groups --type share,streams", ["lists share streams", ("_describe", LISTED, {})]),
        ("--delete --all-groups --group-type share", ["lists share", ("_delete", LISTED, {})]),
        ("--describe --all-groups --share", ["lists", ("_describe", [], {})]),
        ("--delete --group g", [("_delete", ["g"], {})]),
        ("--delete-offsets --group g --topic t", [("_delete_offsets", ["g"], {})]),
        ("--holding t", [("list_holders", "t", False, {})]),
        ("--holding t --json", [("list_holders", "t", True, {})]),
    ],
)
def test_what_is_done(words: str, done: list[Any], asked: list[Any]) -> None:
    result = CliRunner().invoke(groups.command, words.split())
    assert result.exit_code == 0, result.output
    assert [it[:3] + it[4:] if it[0] == "reset_offsets" else it for it in asked[1:]] == done
    assert asked[0] == 30_000


def test_how_long_it_tries(asked: list[Any]) -> None:
    assert CliRunner().invoke(groups.command, ["--describe", "--group", "g", "--timeout", "7"]).exit_code == 0
    assert asked == [7, ("_describe", ["g"], {})]
