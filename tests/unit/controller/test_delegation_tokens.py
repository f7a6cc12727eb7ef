"""Delegation tokens at the controller: for whom they are, who may renew them, and when they end."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.controller.cluster import active_controller, tick

from penstock.controller import delegation_tokens
from penstock.controller.controller import Controller
from penstock.controller.decision import TokenSettings
from penstock.controller.delegation_tokens import MAX_NAMES, MAX_PERIOD_MS
from penstock.metadata.record_frames import encode_record
from penstock.metadata.records import FeatureLevelRecord
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from penstock.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from penstock.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from penstock.protocol.sasl.delegation_tokens import hmac_of
from penstock.protocol.schema import Message
from penstock.protocol.secret import Secret

SECRET = Secret("of all nodes")
DAY_MS, WEEK_MS, HOUR_MS = 86_400_000, 604_800_000, 3_600_000
ADA, BOB = "User:ada", "User:bob"


def controller(**changed: Any) -> Controller:
    made = active_controller(tokens=TokenSettings(SECRET, DAY_MS, WEEK_MS, HOUR_MS).replace(**changed))
    tick(made, 0)
    return made


def asked(made: Controller, request: Message, now_ms: int = 0, asker: str = ADA) -> Any:
    decision = made.decide(request, now_ms, asker=asker)
    assert decision.waits_for_brokers == bool(decision.records)
    made.apply(decision.records)
    return decision.reply


def test_a_token_is_looked_up_among_those_that_were_worked_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever has logged in may ask with anything."""
    made, worked_out = controller(), list[str]()

    def noted(secret: Secret, token_id: str) -> bytes:
        worked_out.append(token_id)
        return hmac_of(secret, token_id)

    tokens = [create(made) for _ in range(3)]
    monkeypatch.setattr(delegation_tokens, "hmac_of", noted)
    for number in range(5):
        unknown = RenewDelegationTokenRequest(hmac=bytes([number]) * 64)
        assert asked(made, unknown).error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND
    assert worked_out == [token.token_id for token in tokens]
    assert asked(made, RenewDelegationTokenRequest(hmac=tokens[1].hmac)).error_code == 0
    gone = ExpireDelegationTokenRequest(hmac=tokens[1].hmac, expiry_time_period_ms=-1)
    assert asked(made, gone).error_code == 0
    assert asked(made, gone).error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND
    late = create(made)
    assert asked(made, RenewDelegationTokenRequest(hmac=late.hmac)).error_code == 0
    assert len(made.state.token_ids) == 3
    assert len(worked_out) == 5, "each of the four once, and the new one when it was made"


def create(made: Controller, now_ms: int = 0, asker: str = ADA, **request: Any) -> CreateDelegationTokenResponse:
    reply = asked(made, CreateDelegationTokenRequest(**request), now_ms, asker)
    assert isinstance(reply, CreateDelegationTokenResponse)
    return reply


def renew(made: Controller, hmac: bytes, now_ms: int, period_ms: int = -1, asker: str = ADA) -> tuple[int, int]:
    reply = asked(made, RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period_ms), now_ms, asker)
    return reply.error_code, reply.expiry_timestamp_ms


def expire(made: Controller, hmac: bytes, now_ms: int, period_ms: int = -1, asker: str = ADA) -> tuple[int, int]:
    reply = asked(made, ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period_ms), now_ms, asker)
    return reply.error_code, reply.expiry_timestamp_ms


def test_a_token_is_for_who_asks_and_holds_a_day_and_can_be_renewed_for_a_week() -> None:
    made = controller()
    token = create(made, now_ms=5, renewers=[CreatableRenewers(principal_type="User", principal_name="bob")])
    assert (token.error_code, token.principal_type, token.principal_name) == (0, "User", "ada")
    assert (token.token_requester_principal_type, token.token_requester_principal_name) == ("User", "ada")
    assert (token.issue_timestamp_ms, token.expiry_timestamp_ms, token.max_timestamp_ms) == (5, 5 + DAY_MS, 5 + WEEK_MS)
    assert token.hmac == hmac_of(SECRET, token.token_id)
    (record,) = made.image.security.delegation_tokens.values()
    assert (record.owner, record.requester, record.renewers) == (ADA, ADA, [BOB])


@pytest.mark.parametrize(
    ("asked_ms", "expires_ms", "max_ms"),
    [(-1, DAY_MS, WEEK_MS), (0, DAY_MS, WEEK_MS), (7, 7, 7), (1 << 62, DAY_MS, WEEK_MS)],
)
def test_nobody_asks_for_more_than_the_cluster_allows(asked_ms: int, expires_ms: int, max_ms: int) -> None:
    token = create(controller(), max_lifetime_ms=asked_ms)
    assert (token.expiry_timestamp_ms, token.max_timestamp_ms) == (expires_ms, max_ms)


def test_for_ever_has_room_in_a_record() -> None:
    made = controller(max_lifetime_ms=2**63 - 1, renewed_ms=2**63 - 1)
    token = create(made, now_ms=5)
    assert renew(made, token.hmac, 6) == (0, 5 + MAX_PERIOD_MS)
    assert expire(made, token.hmac, 7, period_ms=2**63 - 1) == (0, 5 + MAX_PERIOD_MS)
    (record,) = made.image.security.delegation_tokens.values()
    assert encode_record(record)


def test_another_owner() -> None:
    made = controller()
    token = create(made, owner_principal_type="User", owner_principal_name="bob")
    assert (token.principal_name, token.token_requester_principal_name) == ("bob", "ada")
    assert expire(made, token.hmac, 1)[0] == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH, "who asked for it is no owner"
    assert expire(made, token.hmac, 1, asker=BOB) == (0, 1)


def test_the_owner_and_the_renewers_renew_until_the_end() -> None:
    made = controller()
    token = create(made, renewers=[CreatableRenewers(principal_type="User", principal_name="bob")])
    assert renew(made, token.hmac, HOUR_MS) == (0, HOUR_MS + DAY_MS)
    assert renew(made, token.hmac, HOUR_MS, period_ms=10, asker=BOB) == (0, HOUR_MS + 10)
    assert renew(made, token.hmac, HOUR_MS, asker="User:carol") == (ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH, -1)
    assert renew(made, token.hmac, HOUR_MS + 10) == (ErrorCode.DELEGATION_TOKEN_EXPIRED, -1)
    assert renew(made, b"other", 0) == (ErrorCode.DELEGATION_TOKEN_NOT_FOUND, -1)


def test_a_token_holds_no_longer_than_its_longest_life() -> None:
    made = controller()
    token = create(made)
    for day in range(1, 8):
        now_ms = day * (DAY_MS - 1)
        assert renew(made, token.hmac, now_ms) == (0, min(now_ms + DAY_MS, WEEK_MS))
    assert renew(made, token.hmac, WEEK_MS) == (ErrorCode.DELEGATION_TOKEN_EXPIRED, -1)


def test_a_token_expires_at_once_or_later() -> None:
    made = controller()
    first, second = create(made), create(made)
    assert expire(made, first.hmac, 3, period_ms=7) == (0, 10)
    assert expire(made, first.hmac, 10, period_ms=7) == (ErrorCode.DELEGATION_TOKEN_EXPIRED, -1)
    assert expire(made, second.hmac, 3, period_ms=1 << 62) == (0, WEEK_MS)
    assert expire(made, second.hmac, 4) == (0, 4)
    assert list(made.image.security.delegation_tokens) == [first.token_id]
    assert expire(made, first.hmac, 11) == (0, 11), "what has expired can be removed"


def test_tokens_that_have_expired_are_removed_when_it_is_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delegation_tokens, "AT_ONCE", 2)
    made = controller()
    for _ in range(3):
        create(made, max_lifetime_ms=10)
    lasting = create(made)
    assert tick(made, HOUR_MS - 1) == []
    assert len(tick(made, HOUR_MS)) == 3
    assert list(made.image.security.delegation_tokens) == [lasting.token_id]
    assert made.next_deadline_ms is not None
    assert made.next_deadline_ms <= 2 * HOUR_MS


def test_elections_do_not_have_tokens_looked_at_earlier() -> None:
    settings = TokenSettings(SECRET, DAY_MS, WEEK_MS, HOUR_MS)
    made = active_controller(tokens=settings, unclean_election_interval_ms=10)
    tick(made, 0)
    create(made, max_lifetime_ms=5)
    assert tick(made, 10) == [], "it is not time yet"


@pytest.mark.parametrize(
    ("request_", "asker", "code"),
    [
        (CreateDelegationTokenRequest(), "", ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED),
        (RenewDelegationTokenRequest(), "", ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED),
        (ExpireDelegationTokenRequest(), "", ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED),
        (
            CreateDelegationTokenRequest(owner_principal_type="Group", owner_principal_name="a"),
            ADA,
            ErrorCode.INVALID_PRINCIPAL_TYPE,
        ),
        (
            CreateDelegationTokenRequest(renewers=[CreatableRenewers(principal_type="Group", principal_name="a")]),
            ADA,
            ErrorCode.INVALID_PRINCIPAL_TYPE,
        ),
        (
            CreateDelegationTokenRequest(renewers=[CreatableRenewers(principal_type="User", principal_name="a")] * 101),
            ADA,
            ErrorCode.INVALID_REQUEST,
        ),
        (
            CreateDelegationTokenRequest(
                renewers=[CreatableRenewers(principal_type="User", principal_name="a" * MAX_NAMES)]
            ),
            ADA,
            ErrorCode.INVALID_REQUEST,
        ),
        (
            CreateDelegationTokenRequest(owner_principal_type="User", owner_principal_name="a" * MAX_NAMES),
            ADA,
            ErrorCode.INVALID_REQUEST,
        ),
    ],
)
def test_what_is_refused(request_: Message, asker: str, code: ErrorCode) -> None:
    made = controller()
    reply = asked(made, request_, asker=asker)
    assert (reply.error_code, reply.expiry_timestamp_ms) == (code, -1)
    assert made.image.security.delegation_tokens == {}


def test_without_a_secret_or_before_their_level_there_are_no_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    without = active_controller()
    assert create(without).error_code == ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    for level, code in ((13, ErrorCode.UNSUPPORTED_VERSION), (14, ErrorCode.NONE)):
        old = controller()
        old.image.apply(FeatureLevelRecord(name="metadata.version", feature_level=level))
        assert create(old).error_code == code
    monkeypatch.setattr(delegation_tokens, "MAX_TOKENS", 1)
    full = controller()
    assert [create(full).error_code, create(full).error_code] == [0, ErrorCode.POLICY_VIOLATION]


def test_a_user_does_not_take_the_room_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor by tokens that hold for a moment; what others ask for in its name counts as its own."""
    monkeypatch.setattr(delegation_tokens, "MAX_OF_OWNER", 2)
    made = controller()
    token = create(made, max_lifetime_ms=1)
    create(made, asker=BOB, owner_principal_type="User", owner_principal_name="ada")
    assert create(made, now_ms=DAY_MS).error_code == ErrorCode.POLICY_VIOLATION
    assert create(made, asker=BOB).error_code == 0
    assert expire(made, token.hmac, 1)[0] == 0
    assert create(made, now_ms=DAY_MS).error_code == 0
