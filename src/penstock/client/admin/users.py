"""Users that log in with SCRAM, from outside: which there are, new ones, other passwords, and those that shall go.

A password never leaves the client: what is sent is made of it, and does to log in nowhere.
"""

import asyncio
from collections.abc import Sequence
from secrets import token_bytes
from typing import Final

from penstock.client.cluster import ClusterClient
from penstock.client.errors import raise_for
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from penstock.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    UserName,
)
from penstock.protocol.sasl.mechanism import SCRAM_SHA_512
from penstock.protocol.sasl.scram import BY_NUMBER, MAX_ITERATIONS, MECHANISMS, MIN_ITERATIONS, SALT_BYTES
from penstock.protocol.secret import Secret

DEFAULT_MECHANISM: Final = SCRAM_SHA_512


class UserAdmin:
    """Refusals are KafkaErrors with the cluster's own words."""

    def __init__(self, cluster: ClusterClient) -> None:
        self._cluster = cluster

    async def describe(self, names: Sequence[str] = ()) -> dict[str, dict[str, int]]:
        """By user, sorted: the iterations of each mechanism. All users where none are named.

        KafkaError RESOURCE_NOT_FOUND for a name that is none of a user.
        """
        request = DescribeUserScramCredentialsRequest(users=[UserName(name=name) for name in names] or None)

        async def attempt() -> DescribeUserScramCredentialsResponse:
            answer = await self._cluster.to_any(request, DescribeUserScramCredentialsResponse)
            raise_for(answer.error_code, answer.error_message)
            for result in answer.results:
                raise_for(result.error_code, result.error_message)
            return answer

        return {
            result.user: {
                BY_NUMBER[info.mechanism].name: info.iterations
                for info in result.credential_infos
                if info.mechanism in BY_NUMBER
            }
            for result in sorted((await self._cluster.retrying(attempt)).results, key=lambda result: result.user)
        }

    async def set_password(
        self, name: str, password: Secret, mechanism: str = DEFAULT_MECHANISM, iterations: int = MIN_ITERATIONS
    ) -> None:
        """Make a user, or give it another password for one mechanism. ValueError for what no cluster takes."""
        found = MECHANISMS.get(mechanism)
        if found is None:
            raise ValueError(f"{mechanism} is no mechanism of SCRAM: take one of {', '.join(MECHANISMS)}")
        if not MIN_ITERATIONS <= iterations <= MAX_ITERATIONS:
            raise ValueError(f"{iterations} iterations: {MIN_ITERATIONS} to {MAX_ITERATIONS} are allowed")
        if not password.text:
            raise ValueError("the password is empty")
        salt = token_bytes(SALT_BYTES)
        salted = await asyncio.to_thread(found.salted, password.text, salt, iterations)
        upsertion = ScramCredentialUpsertion(
            name=name, mechanism=found.number, iterations=iterations, salt=salt, salted_password=salted
        )
        await self._alter(AlterUserScramCredentialsRequest(upsertions=[upsertion]))

    async def remove(self, name: str, mechanism: str) -> None:
        """Its sessions that began so have ended when this returns. KafkaError RESOURCE_NOT_FOUND if it has none."""
        deletion = ScramCredentialDeletion(name=name, mechanism=MECHANISMS[mechanism].number)
        await self._alter(AlterUserScramCredentialsRequest(deletions=[deletion]))

    async def _alter(self, request: AlterUserScramCredentialsRequest) -> None:
        attempts = 0

        async def attempt() -> None:
            nonlocal attempts
            attempts += 1
            for result in (await self._cluster.to_controller(request, AlterUserScramCredentialsResponse)).results:
                if result.error_code == ErrorCode.RESOURCE_NOT_FOUND and attempts > 1:
                    continue  # an earlier attempt, whose answer was lost, has removed it
                raise_for(result.error_code, result.error_message)

        await self._cluster.retrying(attempt)
