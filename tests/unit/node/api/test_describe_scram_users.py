"""Who can log in with SCRAM is told, and nothing of passwords."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from penstock.metadata.image import ClusterImage
from penstock.metadata.security_records import UserScramCredentialRecord
from penstock.node.api.describe_scram_users import describe_scram_users
from penstock.protocol.codec import encode
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    UserName,
)


def described(*names: str) -> DescribeUserScramCredentialsResponse:
    image = ClusterImage()
    for mechanism, name, iterations in ((2, "ada", 8192), (1, "ada", 4096), (1, "bob", 4096)):
        image.apply(
            UserScramCredentialRecord(
                name=name,
                mechanism=mechanism,
                salt=b"its salt",
                stored_key=b"stored key",
                server_key=b"server key",
                iterations=iterations,
            )
        )
    request = DescribeUserScramCredentialsRequest(users=[UserName(name=name) for name in names] or None)
    steps = describe_scram_users(cast("Any", SimpleNamespace(image=image)), cast("Any", None), request)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return cast("DescribeUserScramCredentialsResponse", end.value)


def told(answer: DescribeUserScramCredentialsResponse) -> dict[str, Any]:
    return {
        one.user: one.error_code or [(info.mechanism, info.iterations) for info in one.credential_infos]
        for one in answer.results
    }


def test_all_users_or_those_that_are_named() -> None:
    assert told(described()) == {"ada": [(1, 4096), (2, 8192)], "bob": [(1, 4096)]}
    assert told(described("bob")) == {"bob": [(1, 4096)]}


def test_a_user_that_there_is_not_and_one_that_is_asked_for_twice() -> None:
    assert told(described("eve", "ada", "bob", "ada")) == {
        "eve": ErrorCode.RESOURCE_NOT_FOUND,
        "ada": ErrorCode.DUPLICATE_RESOURCE,
        "bob": [(1, 4096)],
    }


def test_nothing_that_helps_to_guess_is_told() -> None:
    encoded = encode(described(), 0)
    assert not any(secret in encoded for secret in (b"salt", b"stored", b"server"))
