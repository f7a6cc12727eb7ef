"""Who sends a request to a group, which is kept with the last heartbeat of each member."""

from pathlib import Path

import pytest

from penstock.coordinator.group.classic.member import Caller
from penstock.node import api
from penstock.node.api.coordinated import caller_of
from penstock.node.serving.handler import RequestContext
from penstock.node.serving.session import Session


def context(client_id: str | None, connection_id: int = 1) -> RequestContext:
    return RequestContext(68, 1, connection_id, client_id, Session("10.0.0.1", 1234, "PLAINTEXT", connection_id))


@pytest.mark.parametrize("client_id", [None, "anna", "a" * 30_000])
def test_a_caller_is_told_by_client_host_and_version(client_id: str | None) -> None:
    assert caller_of(context(client_id)) == Caller(client_id or "", "/10.0.0.1", 1)


@pytest.mark.parametrize(("length", "is_kept"), [(4, True), (30_000, False)])
def test_members_of_a_client_share_one_that_has_no_long_name(length: int, is_kept: bool) -> None:
    """Thousands of the longest would have a hundred megabytes."""
    first, second = (caller_of(context("a" * length, connection_id)) for connection_id in (1, 2))
    assert (first is second) == is_kept


def test_no_handler_makes_one_of_its_own() -> None:
    folder = Path(api.__file__).parent
    makers = [path.name for path in folder.rglob("*.py") if " Caller(" in path.read_text(encoding="utf-8")]
    assert makers == ["coordinated.py"]
