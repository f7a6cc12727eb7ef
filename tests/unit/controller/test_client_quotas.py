"""Quotas at the controller: refused as by Kafka's ClientQuotaControlManager, and only what changes is written."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from tests.unit.controller.cluster import active_controller, carry_out

from penstock.controller.controller import Controller
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntityData,
    AlterClientQuotasRequestEntryData,
    OpData,
)

Entry = AlterClientQuotasRequestEntryData
PART = AlterClientQuotasRequestEntityData
RATE, SHARE, IP_RATE = "producer_byte_rate", "request_percentage", "connection_creation_rate"
ADA = {"user": "ada"}


def entry(entity: Mapping[str, str | None], changes: Mapping[str, float | None]) -> Entry:
    parts = [PART(entity_type=kind, entity_name=name) for kind, name in entity.items()]
    ops = [OpData(key=key, value=value or 0.0, remove=value is None) for key, value in changes.items()]
    return Entry(entity=parts, ops=ops)


def altered(controller: Controller, *entries: Entry, validate_only: bool = False) -> list[tuple[int, str | None]]:
    request = AlterClientQuotasRequest(entries=list(entries), validate_only=validate_only)
    response = carry_out(controller, request)
    told = [[(part.entity_type, part.entity_name) for part in one.entity] for one in response.entries]
    assert told == [[(part.entity_type, part.entity_name) for part in one.entity] for one in entries]
    return [(one.error_code, one.error_message) for one in response.entries]


def there(controller: Controller) -> dict[object, float]:
    return {key: record.value for key, record in controller.image.security.client_quotas.items()}


def test_quotas_are_set_changed_and_removed() -> None:
    node = active_controller()
    both: dict[str, str | None] = {"user": "ada", "client-id": None}
    assert altered(node, entry(ADA, {RATE: 10, SHARE: 0.5}), entry(both, {RATE: 5})) == [(0, None)] * 2
    user, pair = (("user", "ada"),), (("client-id", None), ("user", "ada"))
    assert there(node) == {(user, RATE): 10, (user, SHARE): 0.5, (pair, RATE): 5}
    assert altered(node, entry(ADA, {RATE: 11, SHARE: None, "consumer_byte_rate": None})) == [(0, None)]
    assert there(node) == {(user, RATE): 11, (pair, RATE): 5}
    assert altered(node, entry(both, {RATE: None}), entry(ADA, {RATE: None})) == [(0, None)] * 2
    assert there(node) == {}


def test_what_changes_nothing_writes_nothing() -> None:
    node = active_controller()
    altered(node, entry(ADA, {RATE: 10}))
    before = node.image.security.client_quotas
    written = next(iter(before.values()))
    altered(node, entry(ADA, {RATE: 10}), entry({"user": "bob"}, {RATE: None}))
    assert next(iter(node.image.security.client_quotas.values())) is written
    altered(node, entry(ADA, {RATE: 20}), validate_only=True)
    assert there(node) == {((("user", "ada"),), RATE): 10}


@pytest.mark.parametrize(
    ("entity", "changes", "words"),
    [
        ({}, {RATE: 1}, "Invalid empty client quota entity"),
        ({"group": "g"}, {RATE: 1}, "Unhandled client quota entity type: group"),
        ({"user": ""}, {RATE: 1}, "Empty user not supported"),
        ({"client-id": ""}, {RATE: 1}, "Empty client-id not supported"),
        ({"user": "x" * 1025}, {RATE: 1}, "too long"),
        ({"ip": "10.0.0.1", "user": "ada"}, {IP_RATE: 1}, "an ip stands alone"),
        ({"ip": "10.0.0.256"}, {IP_RATE: 1}, "10.0.0.256 is no IP address"),
        ({"ip": "10.0.0.1"}, {RATE: 1}, "Invalid configuration key producer_byte_rate: connection_creation_rate"),
        (ADA, {IP_RATE: 1}, "Invalid configuration key connection_creation_rate"),
        (ADA, {"SCRAM-SHA-256": 1}, "Invalid configuration key SCRAM-SHA-256"),
        (ADA, {RATE: 0.0}, "must be greater than 0"),
        (ADA, {SHARE: -1}, "must be greater than 0"),
        (ADA, {SHARE: float("nan")}, "must be greater than 0"),
        (ADA, {SHARE: float("inf")}, "finite"),
        (ADA, {RATE: 1.5}, "cannot be a fractional value"),
        (ADA, {RATE: 1e19}, "too large"),
        ({"ip": None}, {IP_RATE: 2.0**31}, "too large"),
    ],
)
def test_what_is_refused(entity: dict[str, str | None], changes: dict[str, float | None], words: str) -> None:
    node = active_controller()
    (code, message), good = altered(node, entry(entity, changes), entry({"user": "bob"}, {RATE: 1}))
    assert code == ErrorCode.INVALID_REQUEST
    assert message is not None
    assert words in message
    assert good == (0, None)
    assert len(there(node)) == 1


def test_nothing_is_named_twice() -> None:
    node = active_controller()
    twice = Entry(entity=[PART(entity_type="user", entity_name="a"), PART(entity_type="user", entity_name="b")], ops=[])
    same_key = Entry(entity=[PART(entity_type="user", entity_name="bob")], ops=[OpData(key=RATE, value=1)] * 2)
    answers = altered(node, entry(ADA, {RATE: 1}), entry(ADA, {RATE: 2}), twice, same_key)
    assert [code for code, _ in answers] == [0, *[ErrorCode.INVALID_REQUEST] * 3]
    assert there(node) == {((("user", "ada"),), RATE): 1}


def test_too_many_at_once_are_refused() -> None:
    node = active_controller()
    many = Entry(entity=[PART(entity_type="user", entity_name="bob")], ops=[OpData(key=RATE, value=1)] * 20_001)
    ((code, message),) = altered(node, many)
    assert (code, message) == (
        ErrorCode.INVALID_REQUEST,
        "20001 quotas are too many to be altered at once: 20000 can be",
    )
