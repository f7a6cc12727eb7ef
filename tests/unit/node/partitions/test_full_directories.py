"""Log directories that are full until they are seen to have room, and followers whose polls are over."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.node.partitions import hand_overs as module
from penstock.node.partitions.awaited_followers import AwaitedFollowers
from penstock.node.partitions.hand_overs import FullDirectories


class Directory:
    def __init__(self, *, is_full: bool = True, is_online: bool = True) -> None:
        self.path = f"/{is_full}/{is_online}"
        self.health = SimpleNamespace(is_full=is_full)
        self.is_online = is_online
        self.room: bool | OSError = True

    def has_room(self) -> bool:
        if isinstance(self.room, OSError):
            raise self.room
        return self.room


def looking_at(*directories: Directory) -> tuple[FullDirectories, list[str]]:
    full = FullDirectories(cast("Any", SimpleNamespace(roots=SimpleNamespace(for_data=directories))))
    told: list[str] = []
    full.has_room.listen(lambda: told.append("has room"))
    return full, told


async def test_only_a_directory_that_is_full_and_online_is_looked_at(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "FULL_S", 0)
    others = Directory(is_full=False), Directory(is_online=False), Directory(is_full=False, is_online=False)
    full, told = looking_at(*others)
    full.look()
    full.look()
    assert (told, caplog.messages) == ([], [])
    assert [one.health.is_full for one in others] == [False, True, False]


async def test_a_full_directory_stays_so_for_a_while(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """And as long as it has no room, or nobody can see whether it has."""
    one = Directory()
    full, told = looking_at(one)
    monkeypatch.setattr(module, "FULL_S", 3_600)
    full.look()
    full.look()
    assert (one.health.is_full, told, len(caplog.messages)) == (True, [], 1)
    monkeypatch.setattr(module, "FULL_S", 0)
    for room in (False, OSError(5, "broken")):
        one.room = room
        full.look()
        assert (one.health.is_full, told) == (True, [])
    one.room = True
    full.look()
    assert (one.health.is_full, told) == (False, ["has room"])
    one.health.is_full = True
    full.look()
    assert (one.health.is_full, told) == (True, ["has room"]), "it is full anew"


def test_a_poll_that_is_over_leaves_the_others() -> None:
    awaited, first, second = AwaitedFollowers(lambda: 0), cast("Any", object()), cast("Any", object())
    awaited.wait(2, first)
    awaited.wait(2, second)
    awaited.over(2, first)
    awaited.over(3, first)
    assert awaited._polls == {2: {second: None}}
    awaited.over(2, first)
    awaited.over(2, second)
    awaited.over(2, second)
    assert awaited._polls == {}
