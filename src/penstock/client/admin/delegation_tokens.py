"""Delegation tokens, from outside: a client makes one for others, who log in with it in its name, until it expires."""

from collections.abc import Sequence
from typing import Any

from penstock.client.cluster import ClusterClient
from penstock.client.errors import raise_for
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from penstock.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from penstock.protocol.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from penstock.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse
from penstock.protocol.sasl.delegation_tokens import password_of
from penstock.protocol.schema import Message
from penstock.protocol.secret import Secret
from penstock.protocol.value import Value

_WHY = {
    ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED: "the cluster has no delegation.token.secret.key, so there are no tokens",
    ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: "who asks for tokens has to log in, and not with a token",
    ErrorCode.DELEGATION_TOKEN_NOT_FOUND: "there is no token with this HMAC",
    ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH: "only its owner and its renewers may change a token",
    ErrorCode.DELEGATION_TOKEN_EXPIRED: "the token has expired",
}


class DelegationToken(Value):
    """Principals are like `User:ada`, times milliseconds since 1970.

    It logs in by SCRAM with `token_id` as the user, `password` as the password, and `tokenauth="true"` in JAAS.
    """

    token_id: str
    password: Secret
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issued_ms: int
    expires_ms: int
    max_ms: int
    """Beyond that it cannot be renewed."""


class TokenAdmin:
    """Refusals are KafkaErrors."""

    def __init__(self, cluster: ClusterClient) -> None:
        self._cluster = cluster

    async def create(
        self, *, owner: str | None = None, renewers: Sequence[str] = (), max_lifetime_ms: int = -1
    ) -> DelegationToken:
        """For the client itself, or with the right for another owner. -1: for as long as the cluster allows."""
        kind, name = _parts(owner) if owner else ("", "")
        request = CreateDelegationTokenRequest(
            owner_principal_type=kind,
            owner_principal_name=name,
            renewers=[
                CreatableRenewers(principal_type=kind, principal_name=name) for kind, name in map(_parts, renewers)
            ],
            max_lifetime_ms=max_lifetime_ms,
        )
        answer = await self._asked(request, CreateDelegationTokenResponse)
        return DelegationToken(
            answer.token_id,
            password_of(answer.hmac),
            f"{answer.principal_type}:{answer.principal_name}",
            _requester(answer),
            tuple(renewers),
            answer.issue_timestamp_ms,
            answer.expiry_timestamp_ms,
            answer.max_timestamp_ms,
        )

    async def renew(self, hmac: bytes, period_ms: int = -1) -> int:
        """When it expires now. -1: the cluster's own period."""
        request = RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period_ms)
        return int((await self._asked(request, RenewDelegationTokenResponse)).expiry_timestamp_ms)

    async def expire(self, hmac: bytes, period_ms: int = -1) -> int:
        """When it expires now. -1: at once, then nobody is logged in with it any more."""
        request = ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period_ms)
        return int((await self._asked(request, ExpireDelegationTokenResponse)).expiry_timestamp_ms)

    async def describe(self, owners: Sequence[str] | None = None) -> list[DelegationToken]:
        """Those of these owners, requesters or renewers that the client may see; of all without any."""
        wanted = [
            DescribeDelegationTokenOwner(principal_type=kind, principal_name=name)
            for kind, name in map(_parts, owners or ())
        ]
        request = DescribeDelegationTokenRequest(owners=None if owners is None else wanted)
        answer = await self._asked(request, DescribeDelegationTokenResponse)
        return [
            DelegationToken(
                it.token_id,
                password_of(it.hmac),
                f"{it.principal_type}:{it.principal_name}",
                _requester(it),
                tuple(f"{one.principal_type}:{one.principal_name}" for one in it.renewers),
                it.issue_timestamp,
                it.expiry_timestamp,
                it.max_timestamp,
            )
            for it in sorted(answer.tokens, key=lambda it: (it.issue_timestamp, it.token_id))
        ]

    async def _asked(self, request: Message, answer_class: type[Any]) -> Any:
        async def attempt() -> Any:
            answer = await self._cluster.to_any(request, answer_class)
            raise_for(answer.error_code, _WHY.get(ErrorCode(answer.error_code)))
            return answer

        return await self._cluster.retrying(attempt)


def _requester(answer: Any) -> str:
    """Brokers before Kafka 3.3 do not tell it."""
    kind, name = answer.token_requester_principal_type, answer.token_requester_principal_name
    return f"{kind}:{name}" if name else ""


def _parts(principal: str) -> tuple[str, str]:
    """ValueError for what is no principal."""
    kind, _, name = principal.partition(":")
    if not kind or not name:
        raise ValueError(f"{principal} is no principal, like User:ada")
    return kind, name
