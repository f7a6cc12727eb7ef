"""CreateDelegationToken, RenewDelegationToken and ExpireDelegationToken (KIP-48, KIP-900): for the client that asks.

Who is told of a new token can log in with it at each broker in service, and who is told that it has expired knows that
nobody can any more.
"""

from collections.abc import Iterable
from typing import Any, Final

from penstock.controller.decision import ControllerState, Decision, TokenSettings, decided_for_brokers
from penstock.metadata.features import DELEGATION_TOKEN_LEVEL
from penstock.metadata.records import MetadataRecord
from penstock.metadata.security_records import DelegationTokenRecord, RemoveDelegationTokenRecord
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from penstock.protocol.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from penstock.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse
from penstock.protocol.requests.refusals import refusal
from penstock.protocol.sasl.delegation_tokens import USER, hmac_of

MAX_TOKENS: Final = 10_000
"""Of a cluster: each is a record that all nodes keep."""
MAX_OF_OWNER: Final = 1_000
"""So that no user takes the room of all."""
MAX_RENEWERS: Final = 100
MAX_NAMES: Final = 8 * 1024
"""Characters of the names of a token's owner and renewers together: whoever can log in can make tokens."""
MAX_PERIOD_MS: Final = 100 * 365 * 86_400_000
"""What is asked for, or set, beyond a hundred years is for ever, for which neither records nor dates have room."""
AT_ONCE: Final = 1_000
"""Tokens that are removed in one decision."""


def decide_create_delegation_token(
    state: ControllerState, request: CreateDelegationTokenRequest, now_ms: int
) -> Decision[Any]:
    try:
        settings = _settings(state)
        record = _created(state, settings, request, now_ms)
    except KafkaError as error:
        return Decision([], refusal(request, error))
    (owner_type, owner), (requester_type, requester) = _parts(record.owner), _parts(record.requester)
    reply = CreateDelegationTokenResponse(
        principal_type=owner_type,
        principal_name=owner,
        token_requester_principal_type=requester_type,
        token_requester_principal_name=requester,
        issue_timestamp_ms=now_ms,
        expiry_timestamp_ms=record.expiration_timestamp,
        max_timestamp_ms=record.max_timestamp,
        token_id=record.token_id,
        hmac=hmac_of(settings.secret, record.token_id),
    )
    return decided_for_brokers(state, [record], reply)


def _created(
    state: ControllerState, settings: TokenSettings, request: CreateDelegationTokenRequest, now_ms: int
) -> DelegationTokenRecord:
    """Raises KafkaError."""
    owner = f"{request.owner_principal_type}:{request.owner_principal_name}"
    kinds = [renewer.principal_type for renewer in request.renewers]
    if request.owner_principal_name:
        kinds.append(request.owner_principal_type or "")
    else:
        owner = state.asker
    if any(kind != USER for kind in kinds):
        raise KafkaError(ErrorCode.INVALID_PRINCIPAL_TYPE, f"owners and renewers of tokens are of the type {USER}")
    if len(request.renewers) > MAX_RENEWERS:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"a token has {MAX_RENEWERS} renewers at most")
    if len(owner) + sum(len(renewer.principal_name) for renewer in request.renewers) > MAX_NAMES:
        message = f"the names of a token's owner and renewers have {MAX_NAMES} characters at most, all together"
        raise KafkaError(ErrorCode.INVALID_REQUEST, message)
    _check_room(state, owner)
    lifetime_ms = _period_ms(request.max_lifetime_ms, settings.max_lifetime_ms)
    return DelegationTokenRecord(
        owner=owner,
        requester=state.asker,
        renewers=[f"{renewer.principal_type}:{renewer.principal_name}" for renewer in request.renewers],
        issue_timestamp=now_ms,
        max_timestamp=now_ms + lifetime_ms,
        expiration_timestamp=now_ms + min(lifetime_ms, settings.renewed_ms),
        token_id=state.new_token_id(),
    )


def _check_room(state: ControllerState, owner: str) -> None:
    """Raises KafkaError. What has expired counts until it is removed: short lives make no more room."""
    tokens: Iterable[DelegationTokenRecord] = state.image.security.delegation_tokens.values()
    if len(state.image.security.delegation_tokens) >= MAX_TOKENS:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, f"there are {MAX_TOKENS} tokens: some have to expire first")
    if sum(token.owner == owner for token in tokens) >= MAX_OF_OWNER:
        message = f"{owner} has {MAX_OF_OWNER} tokens, and can have no more: some have to be taken back first"
        raise KafkaError(ErrorCode.POLICY_VIOLATION, message)


def decide_renew_delegation_token(
    state: ControllerState, request: RenewDelegationTokenRequest, now_ms: int
) -> Decision[Any]:
    try:
        settings = _settings(state)
        token = _found(state, settings, request.hmac)
        _check_holds(token, now_ms)
        _check_may(state, token)
    except KafkaError as error:
        return Decision([], refusal(request, error))
    expires_ms = min(token.max_timestamp, now_ms + _period_ms(request.renew_period_ms, settings.renewed_ms))
    reply = RenewDelegationTokenResponse(expiry_timestamp_ms=expires_ms)
    return decided_for_brokers(state, [token.replace(expiration_timestamp=expires_ms)], reply)


def decide_expire_delegation_token(
    state: ControllerState, request: ExpireDelegationTokenRequest, now_ms: int
) -> Decision[Any]:
    """At once where the period is less than 0."""
    try:
        token = _found(state, _settings(state), request.hmac)
        _check_may(state, token)
        if request.expiry_time_period_ms >= 0:
            _check_holds(token, now_ms)
    except KafkaError as error:
        return Decision([], refusal(request, error))
    record: MetadataRecord = RemoveDelegationTokenRecord(token_id=token.token_id)
    expires_ms = now_ms
    if request.expiry_time_period_ms >= 0:
        expires_ms = min(token.max_timestamp, now_ms + min(request.expiry_time_period_ms, MAX_PERIOD_MS))
        record = token.replace(expiration_timestamp=expires_ms)
    return decided_for_brokers(state, [record], ExpireDelegationTokenResponse(expiry_timestamp_ms=expires_ms))


def expired_tokens(state: ControllerState, now_ms: int) -> list[MetadataRecord]:
    """Records that remove what nobody can log in with any more."""
    tokens: Iterable[DelegationTokenRecord] = state.image.security.delegation_tokens.values()
    over = [token.token_id for token in tokens if not holds(token, now_ms)]
    return [RemoveDelegationTokenRecord(token_id=token_id) for token_id in over[:AT_ONCE]]


def holds(token: DelegationTokenRecord, now_ms: int) -> bool:
    return now_ms < min(token.expiration_timestamp, token.max_timestamp)


def _settings(state: ControllerState) -> TokenSettings:
    """Raises KafkaError."""
    if not state.asker:
        message = "who asks for tokens has to log in, or to show a certificate, and not with a token"
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, message)
    if state.settings.tokens is None:
        message = "delegation.token.secret.key is not set on the active controller, so there are no tokens"
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED, message)
    if state.image.metadata_version < DELEGATION_TOKEN_LEVEL:
        message = f"delegation tokens need level {DELEGATION_TOKEN_LEVEL} of metadata.version"
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, message)
    return state.settings.tokens


def _found(state: ControllerState, settings: TokenSettings, shown: bytes) -> DelegationTokenRecord:
    """Raises KafkaError. Whoever has logged in may ask with anything, over and over: each token is worked out once."""
    tokens = state.image.security.delegation_tokens
    if shown not in state.token_ids:
        state.token_ids = {key: token_id for key, token_id in state.token_ids.items() if token_id in tokens}
        known = frozenset(state.token_ids.values())
        state.token_ids |= {
            hmac_of(settings.secret, token_id): token_id for token_id in tokens if token_id not in known
        }
    token = tokens.get(state.token_ids.get(shown, ""))
    if token is None:
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND, "there is no token with this HMAC")
    return token


def _check_may(state: ControllerState, token: DelegationTokenRecord) -> None:
    """Raises KafkaError."""
    if state.asker != token.owner and state.asker not in token.renewers:
        message = f"{state.asker} is neither the owner of the token nor one of its renewers"
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH, message)


def _check_holds(token: DelegationTokenRecord, now_ms: int) -> None:
    """Raises KafkaError."""
    if not holds(token, now_ms):
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_EXPIRED, "the token has expired")


def _period_ms(asked_ms: int, most_ms: int) -> int:
    return min(asked_ms, most_ms, MAX_PERIOD_MS) if asked_ms > 0 else min(most_ms, MAX_PERIOD_MS)


def _parts(principal: str) -> tuple[str, str]:
    kind, _, name = principal.partition(":")
    return kind, name
