"""Users of SCRAM as a node asks for them, and those that there are not."""

from collections.abc import Iterable

from penstock.metadata.image import ClusterImage
from penstock.metadata.security import SecurityImage
from penstock.metadata.security_records import UserScramCredentialRecord
from penstock.node.assembly.sasl import ScramUsers
from penstock.protocol.sasl.scram import MECHANISMS, SALT_BYTES, ScramCredential

SHA_256, SHA_512 = MECHANISMS.values()


def record(name: str, salt: bytes = bytes(SALT_BYTES), key: bytes = b"", number: int = 1) -> UserScramCredentialRecord:
    stored = key or name.encode()
    return UserScramCredentialRecord(
        name=name, mechanism=number, salt=salt, stored_key=stored, server_key=b"", iterations=4096
    )


def users(records: Iterable[UserScramCredentialRecord]) -> ScramUsers:
    on_disk = SecurityImage()
    on_disk.scram_credentials.update({(each.mechanism, each.name): each for each in records})
    return ScramUsers(ClusterImage(), on_disk, lambda: False)


def stranger(*records: UserScramCredentialRecord) -> ScramCredential:
    return users(records).invent(SHA_256, "nobody")


def test_nobody_who_knows_the_own_credential_knows_those_that_are_invented() -> None:
    both = stranger(record("ada"), record("bob"))
    assert both == stranger(record("bob"), record("ada"), record("carl")), "other users do not count"
    assert both != stranger(record("ada"), record("bob", key=b"other"))
    assert both != stranger(record("ada", key=b"other"), record("bob"))
    assert both != stranger(record("ada"), record("ada", number=2), record("bob", key=b"other"))


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
