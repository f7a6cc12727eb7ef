"""Users of SCRAM at the controller: each is checked by itself, and nobody is let in by what was before."""

from __future__ import annotations

import pytest
from tests.unit.controller.cluster import active_controller, carry_out, heartbeat

from penstock.controller.controller import Controller
from penstock.metadata.records import FeatureLevelRecord
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from penstock.protocol.sasl.scram import MECHANISMS

SHA_256, SHA_512 = MECHANISMS.values()
SALTED = SHA_256.salted("hush", b"salt", 4096)
ADA = ScramCredentialUpsertion(name="ada", mechanism=1, iterations=4096, salt=b"salt", salted_password=SALTED)
GONE = ScramCredentialDeletion(name="ada", mechanism=1)


def altered(
    controller: Controller, *changes: ScramCredentialUpsertion | ScramCredentialDeletion
) -> dict[str, tuple[int, str | None]]:
    request = AlterUserScramCredentialsRequest(
        deletions=[change for change in changes if isinstance(change, ScramCredentialDeletion)],
        upsertions=[change for change in changes if isinstance(change, ScramCredentialUpsertion)],
    )
    results = carry_out(controller, request).results
    assert len(results) == len({result.user for result in results})
    return {result.user: (result.error_code, result.error_message) for result in results}


def there(controller: Controller) -> list[tuple[int, str]]:
    return sorted(controller.image.security.scram_credentials)


def test_a_user_is_made_changed_and_removed() -> None:
    node = active_controller()
    assert altered(node, ADA) == {"ada": (0, None)}
    record = node.image.security.scram_credentials[1, "ada"]
    assert (record.stored_key, record.server_key) == (SHA_256.stored_key(SALTED), SHA_256.server_key(SALTED))
    assert (record.salt, record.iterations) == (b"salt", 4096)
    other = ADA.replace(mechanism=2, salted_password=bytes(64), iterations=16384)
    assert altered(node, other, ADA.replace(name="bob")) == {"ada": (0, None), "bob": (0, None)}
    assert there(node) == [(1, "ada"), (1, "bob"), (2, "ada")]
    assert altered(node, GONE) == {"ada": (0, None)}
    assert there(node) == [(1, "bob"), (2, "ada")]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"name": ""}, ErrorCode.UNACCEPTABLE_CREDENTIAL),
        ({"name": "a\0b"}, ErrorCode.UNACCEPTABLE_CREDENTIAL),
        ({"name": "a" * 256}, ErrorCode.UNACCEPTABLE_CREDENTIAL),
        ({"mechanism": 0}, ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        ({"mechanism": 3}, ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        ({"mechanism": -1}, ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        ({"iterations": 4095}, ErrorCode.UNACCEPTABLE_CREDENTIAL),
        ({"iterations": 16385}, ErrorCode.UNACCEPTABLE_CREDENTIAL),
        ({"salt": b""}, ErrorCode.UNACCEPTABLE_CREDENTIAL),
        ({"salt": bytes(1025)}, ErrorCode.UNACCEPTABLE_CREDENTIAL),
        ({"salted_password": b""}, ErrorCode.UNACCEPTABLE_CREDENTIAL),
        ({"salted_password": bytes(1025)}, ErrorCode.UNACCEPTABLE_CREDENTIAL),
    ],
)
def test_what_is_no_credential_is_refused_by_itself(change: dict[str, object], code: ErrorCode) -> None:
    node = active_controller()
    bad = ADA.replace(**change)
    results = altered(node, bad, ADA.replace(name="bob"))
    assert results[bad.name][0] == code
    assert results["bob"] == (0, None)
    assert there(node) == [(1, "bob")]


@pytest.mark.parametrize(
    "change",
    [
        {"name": "a" * 255},
        {"iterations": 4096},
        {"iterations": 16384},
        {"salt": b"s"},
        {"salt": bytes(1024)},
        {"salted_password": b"p"},
        {"salted_password": bytes(1024)},
    ],
)
def test_what_is_just_a_credential_is_taken(change: dict[str, object]) -> None:
    node, good = active_controller(), ADA.replace(**change)
    assert altered(node, good) == {good.name: (0, None)}
    assert there(node) == [(1, good.name)]


def test_a_credential_that_there_is_not_cannot_be_removed() -> None:
    node = active_controller()
    assert altered(node, GONE)["ada"][0] == ErrorCode.RESOURCE_NOT_FOUND
    altered(node, ADA)
    assert altered(node, GONE.replace(mechanism=2))["ada"][0] == ErrorCode.RESOURCE_NOT_FOUND
    assert altered(node, GONE.replace(mechanism=9))["ada"][0] == ErrorCode.UNSUPPORTED_SASL_MECHANISM
    assert there(node) == [(1, "ada")]


@pytest.mark.parametrize(
    "changes",
    [
        (ADA, ADA),
        (GONE, GONE),
        (GONE, ADA),
        (ADA, ADA, ADA),
        (ADA, ADA.replace(mechanism=2, salted_password=bytes(64))),
    ],
)
def test_a_user_that_comes_twice_stays_as_it_was(
    changes: tuple[ScramCredentialUpsertion | ScramCredentialDeletion, ...],
) -> None:
    node = active_controller()
    altered(node, ADA.replace(iterations=8192))
    results = altered(node, *changes, ADA.replace(name="bob"))
    assert results["ada"][0] == ErrorCode.DUPLICATE_RESOURCE
    assert results["bob"] == (0, None)
    assert node.image.security.scram_credentials[1, "ada"].iterations == 8192


def test_users_wait_for_a_level_that_every_node_reads() -> None:
    node = active_controller()
    node.state.image.apply(FeatureLevelRecord(name="metadata.version", feature_level=10))
    assert altered(node, ADA)["ada"][0] == ErrorCode.UNSUPPORTED_VERSION


def test_too_many_at_once_are_refused_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    node = active_controller()
    monkeypatch.setattr("penstock.controller.scram_users.MAX_RECORDS_PER_DECISION", 1)
    results = altered(node, ADA, ADA.replace(name="bob"))
    assert {code for code, _ in results.values()} == {ErrorCode.INVALID_REQUEST}
    assert there(node) == []


def test_a_fenced_broker_comes_back_with_the_users_alone() -> None:
    node = active_controller(1, 2)
    altered(node, ADA)
    carry_out(node, heartbeat(node, 2, want_fence=True))
    before = node.state.next_offset - 1
    altered(node, GONE)
    carry_out(node, heartbeat(node, 2, current_metadata_offset=before))
    assert not node.image.brokers[2].active, "it would still let in who was removed"
    carry_out(node, heartbeat(node, 2))
    assert node.image.brokers[2].active
