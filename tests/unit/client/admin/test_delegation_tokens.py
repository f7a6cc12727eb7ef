"""What is asked about delegation tokens, and what is told of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.client.admin.delegation_tokens import TokenAdmin
from penstock.protocol.errors import ErrorCode, KafkaError


class Cluster:
    def __init__(self, **answer: Any) -> None:
        self.answer = SimpleNamespace(**{"error_code": 0, **answer})
        self.asked: list[Any] = []

    async def to_any(self, request: Any, answer: object) -> Any:
        self.asked.append(request)
        return self.answer

    async def retrying(self, attempt: Callable[[], Awaitable[Any]]) -> Any:
        return await attempt()


def admin(**answer: Any) -> tuple[TokenAdmin, Cluster]:
    cluster = Cluster(**answer)
    return TokenAdmin(cluster), cluster  # type: ignore[arg-type]


def token(name: str, issued_ms: int, requester: str = "bob") -> SimpleNamespace:
    return SimpleNamespace(
        token_id=name,
        hmac=b"\x01\x02",
        principal_type="User",
        principal_name="ada",
        token_requester_principal_type="User" if requester else "",
        token_requester_principal_name=requester,
        renewers=[SimpleNamespace(principal_type="User", principal_name="eve")],
        issue_timestamp=issued_ms,
        expiry_timestamp=issued_ms + 1,
        max_timestamp=issued_ms + 2,
        issue_timestamp_ms=issued_ms,
        expiry_timestamp_ms=issued_ms + 1,
        max_timestamp_ms=issued_ms + 2,
    )


@pytest.mark.parametrize(("owner", "parts"), [(None, ("", "")), ("", ("", "")), ("User:a:b", ("User", "a:b"))])
async def test_a_token_is_of_whoever_asks_or_of_another(owner: str | None, parts: tuple[str, str]) -> None:
    made, cluster = admin(**vars(token("x", 5)))
    found = await made.create(owner=owner, renewers=["User:eve"], max_lifetime_ms=7)
    (request,) = cluster.asked
    assert (request.owner_principal_type, request.owner_principal_name, request.max_lifetime_ms) == (*parts, 7)
    assert [(one.principal_type, one.principal_name) for one in request.renewers] == [("User", "eve")]
    assert (found.token_id, found.password.text, found.owner, found.requester) == ("x", "AQI=", "User:ada", "User:bob")
    assert (found.renewers, found.issued_ms, found.expires_ms, found.max_ms) == (("User:eve",), 5, 6, 7)
    await made.create()
    assert cluster.asked[1].max_lifetime_ms == -1


async def test_when_a_token_expires_is_told() -> None:
    made, cluster = admin(expiry_timestamp_ms=9)
    assert [await made.renew(b"h"), await made.renew(b"h", 3)] == [9, 9]
    assert [await made.expire(b"h"), await made.expire(b"h", 4)] == [9, 9]
    assert [(one.hmac, one.renew_period_ms) for one in cluster.asked[:2]] == [(b"h", -1), (b"h", 3)]
    assert [(one.hmac, one.expiry_time_period_ms) for one in cluster.asked[2:]] == [(b"h", -1), (b"h", 4)]


@pytest.mark.parametrize("owners", [None, [], ["User:ada", "User:bob"]])
async def test_tokens_are_told_as_they_were_issued(owners: list[str] | None) -> None:
    made, cluster = admin(tokens=[token("z", 8), token("b", 5, requester=""), token("a", 5)])
    found = await made.describe(owners)
    assert [(one.token_id, one.requester) for one in found] == [("a", "User:bob"), ("b", ""), ("z", "User:bob")]
    assert found[2].renewers == ("User:eve",)
    assert (found[2].issued_ms, found[2].expires_ms, found[2].max_ms) == (8, 9, 10)
    asked = cluster.asked[0].owners
    named = None if asked is None else [f"{one.principal_type}:{one.principal_name}" for one in asked]
    assert named == owners


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (ErrorCode.DELEGATION_TOKEN_NOT_FOUND, "there is no token with this HMAC"),
        (ErrorCode.DELEGATION_TOKEN_EXPIRED, "the token has expired"),
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "CLUSTER_AUTHORIZATION_FAILED"),
        (32_000, "UNKNOWN_SERVER_ERROR"),
    ],
)
async def test_a_refusal_is_told_with_its_cure_also_one_of_a_newer_broker(code: int, text: str) -> None:
    made, _ = admin(error_code=code)
    with pytest.raises(KafkaError, match=text):
        await made.renew(b"h")


@pytest.mark.parametrize("name", ["ada", "User:", ":ada", ""])
async def test_what_is_no_principal_is_named(name: str) -> None:
    made, cluster = admin()
    with pytest.raises(ValueError, match=f"^{name} is no principal, like User:ada$"):
        await made.create(renewers=[name])
    assert cluster.asked == []
