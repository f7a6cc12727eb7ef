"""Whose fetches are held back by quotas, and whose are those of replicas."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.node.api.broker import fetch
from penstock.node.api.broker.fetch import _owed_ms
from penstock.node.serving.access import ALLOW_ALL
from penstock.node.serving.handler import RequestContext
from penstock.node.serving.session import Session
from penstock.protocol.requests.api import ApiKey

SESSION = Session("h", 1, "CLIENTS", 1)


class Owing:
    most_fetched = 1

    def __init__(self) -> None:
        self.is_node = False

    def is_of_a_node(self) -> None:
        self.is_node = True

    def fetch_owed_ms(self) -> int:
        return 500


class AllowNothing:
    """`watches`: and refuses nothing."""

    def __init__(self, watches: bool) -> None:
        self._watches = watches

    def has(self, *_: object) -> bool:
        return False

    def allows(self, *_: object) -> bool:
        return self._watches


def owed_ms(authorizer: Any, replica_id: int) -> int:
    context = RequestContext(ApiKey.FETCH, 12, 1, "c", SESSION, authorizer, cast("Any", Owing()))
    return _owed_ms(context, cast("Any", SimpleNamespace(replica_id=replica_id)))


@pytest.mark.parametrize("watches", [False, True])
def test_who_only_says_that_it_is_a_follower_is_held_back(watches: bool) -> None:
    assert owed_ms(AllowNothing(watches), 3) == 500


def test_followers_are_not_and_consumers_are() -> None:
    assert owed_ms(ALLOW_ALL, 3) == 0
    assert owed_ms(ALLOW_ALL, -1) == 500


@pytest.mark.parametrize("watches", [False, True])
def test_replicas_of_groups_without_the_right_are_served_in_watch_mode(
    monkeypatch: pytest.MonkeyPatch, watches: bool
) -> None:
    asked = SimpleNamespace(cluster_id="c")
    monkeypatch.setattr(fetch, "parse_fetch", lambda *_: asked)
    monkeypatch.setattr(fetch, "fetched_by_replica", lambda *_: ["of a replica"])
    monkeypatch.setattr(fetch, "_fetch", lambda *_: ["of a client"])
    context = RequestContext(ApiKey.FETCH, 12, 1, "c", SESSION, cast("Any", AllowNothing(watches)))
    answer: Any = fetch.fetch(cast("Any", None), context, memoryview(b""), 0)
    assert answer == ["of a replica" if watches else "of a client"]
