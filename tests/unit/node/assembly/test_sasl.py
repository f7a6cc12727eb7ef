"""Users of SCRAM and delegation tokens as a node asks for them, and those that there are not."""

from collections.abc import Iterable
from typing import NoReturn

import pytest

from penstock.metadata.image import ClusterImage
from penstock.metadata.security import SecurityImage
from penstock.metadata.security_records import DelegationTokenRecord, UserScramCredentialRecord
from penstock.node.assembly import sasl
from penstock.node.assembly.sasl import ScramUsers, TokenLogins
from penstock.protocol.sasl.scram import MECHANISMS, SALT_BYTES, ScramCredential, ScramMechanism
from penstock.protocol.secret import Secret

SHA_256, SHA_512 = MECHANISMS.values()


def record(name: str, salt: bytes = bytes(SALT_BYTES), key: bytes = b"", number: int = 1) -> UserScramCredentialRecord:
    stored = key or name.encode()
    return UserScramCredentialRecord(
        name=name, mechanism=number, salt=salt, stored_key=stored, server_key=b"", iterations=4096
    )


def users(records: Iterable[UserScramCredentialRecord]) -> ScramUsers:
    on_disk = SecurityImage()
    for each in records:
        on_disk.apply(each)
    return ScramUsers(ClusterImage(), on_disk, lambda: False)


def stranger(*records: UserScramCredentialRecord) -> ScramCredential:
    return users(records).invent(SHA_256, "nobody")


def test_nobody_who_knows_the_own_credential_knows_those_that_are_invented() -> None:
    both = stranger(record("ada"), record("bob"))
    assert both == stranger(record("bob"), record("ada"), record("eve")), "users behind these do not count"
    assert both != stranger(record("ada"), record("bob", key=b"other"))
    assert both != stranger(record("ada", key=b"other"), record("bob"))
    assert both != stranger(record("ada"), record("ada", number=2), record("bob", key=b"other"))


class NeverRead(dict[tuple[int, str], UserScramCredentialRecord]):
    def _read(self) -> NoReturn:
        raise AssertionError("all users are looked at")

    __iter__ = keys = values = items = _read


def test_a_log_in_looks_at_few_users() -> None:
    found = users([record("ada", b"salt"), record("bob")])
    before = found.invent(SHA_256, "nobody")
    found._on_disk.scram_credentials = NeverRead(found._on_disk.scram_credentials)
    found.changed()
    assert found.invent(SHA_256, "nobody") == before
    assert found.find(SHA_256, "ada") is not None


def test_a_stranger_looks_like_users_of_the_mechanism() -> None:
    javas = b"nkr7veh69ssswmtyu5tiadjib"
    assert stranger(record("ada", javas), record("bob", javas)).salt.isalnum()
    assert len(stranger(record("ada", javas, number=2), record("bob", bytes(31))).salt) == 31
    assert len(stranger().salt) == SALT_BYTES


def test_who_is_there_is_found_by_the_mechanism() -> None:
    found = users([record("ada", b"salt")])
    assert found.find(SHA_256, "ada") == ScramCredential(b"salt", b"ada", b"", 4096)
    assert found.find(SHA_512, "ada") is None
    assert found.find(SHA_256, "bob") is None


def test_what_tokens_log_in_with_is_made_once_as_long_as_they_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    def credential_of(mechanism: ScramMechanism, secret: Secret, token_id: str) -> ScramCredential:
        made.append(token_id)
        return ScramCredential(b"", b"", b"", 4096)

    monkeypatch.setattr(sasl, "credential_of", credential_of)
    monkeypatch.setattr(sasl, "CREDENTIALS_KEPT", 3)
    image = ClusterImage()
    tokens = image.security.delegation_tokens
    logins = TokenLogins(image, Secret("hush"), lambda: 0)
    for number in range(9):
        tokens.pop(f"{number - 1}", None)
        for token_id in ("lasts", f"{number}"):
            tokens[token_id] = DelegationTokenRecord(
                token_id=token_id, owner="User:ada", max_timestamp=1, expiration_timestamp=1
            )
            assert logins.find(SHA_256, token_id) is not None
    assert made.count("lasts") == 1
    assert len(logins._made) <= 3
