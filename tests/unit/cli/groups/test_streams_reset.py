"""Members of an application that is reset: it may go on only without them."""

from types import SimpleNamespace
from typing import Any, cast

import click
import pytest

from penstock.cli.groups.streams_reset import _empty


@pytest.mark.parametrize(
    ("force", "dry_run", "is_refused", "removed"),
    [(False, False, True, []), (False, True, True, []), (True, True, True, []), (True, False, False, ["app"])],
)
async def test_members_are_removed_where_that_is_forced(
    force: bool, dry_run: bool, is_refused: bool, removed: list[str]
) -> None:
    gone: list[str] = []

    async def describe(_: str) -> Any:
        return SimpleNamespace(state="Stable", members=["m"])

    async def remove_members(group_id: str, _: str) -> None:
        gone.append(group_id)

    admin = cast("Any", SimpleNamespace(groups=SimpleNamespace(describe=describe, remove_members=remove_members)))
    if is_refused:
        with pytest.raises(click.ClickException, match="has members"):
            await _empty(admin, "app", force=force, dry_run=dry_run)
    else:
        await _empty(admin, "app", force=force, dry_run=dry_run)
    assert gone == removed
