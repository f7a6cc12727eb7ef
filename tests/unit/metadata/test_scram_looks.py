"""What strangers are made of is the same whichever way users came, and is found without a look at all of them."""

from random import Random

import pytest

from penstock.metadata.scram_looks import MOST_FORMS, ScramLooks
from penstock.metadata.security import SecurityImage
from penstock.metadata.security_records import RemoveUserScramCredentialRecord, UserScramCredentialRecord
from penstock.protocol.sasl.scram import Form

SHA_256, SHA_512 = 1, 2


def user(name: str, mechanism: int = SHA_256, salt_bytes: int = 8, iterations: int = 4096) -> UserScramCredentialRecord:
    return UserScramCredentialRecord(name=name, mechanism=mechanism, salt=bytes(salt_bytes), iterations=iterations)


def looks_of(security: SecurityImage) -> ScramLooks:
    assert security.scram_looks is not None
    return security.scram_looks


def told(security: SecurityImage) -> object:
    looks = looks_of(security)
    return looks.two_users(), looks.forms(SHA_256), looks.forms(SHA_512)


def test_users_come_and_go_in_any_order() -> None:
    random, security = Random(1), SecurityImage()
    for _ in range(2_000):
        name, mechanism = f"user-{random.randrange(40)}", random.choice((SHA_256, SHA_512))
        if random.random() < 0.5:
            security.apply(user(name, mechanism, random.randrange(1, 9), random.randrange(4096, 4099)))
        else:
            security.apply(RemoveUserScramCredentialRecord(name=name, mechanism=mechanism))
    other = SecurityImage()
    for record in random.sample([*security.scram_credentials.values()], len(security.scram_credentials)):
        other.apply(record)
    assert told(security) == told(security.copy()) == told(other)
    for mechanism in (SHA_256, SHA_512):
        users = [one for (number, _), one in security.scram_credentials.items() if number == mechanism]
        assert {*looks_of(security).forms(mechanism)} == {Form(one.iterations, len(one.salt)) for one in users}


@pytest.mark.parametrize("count", range(4))
def test_there_are_two_users_if_there_are_as_many(count: int) -> None:
    security = SecurityImage()
    security.apply(RemoveUserScramCredentialRecord(name="nobody", mechanism=SHA_256))
    for number in range(count):
        for mechanism in (SHA_256, SHA_512):
            security.apply(user(f"user-{number}", mechanism))
    assert len(looks_of(security).two_users()) == min(count, 2)
    for number in range(count):
        for mechanism in (SHA_256, SHA_512):
            security.apply(RemoveUserScramCredentialRecord(name=f"user-{number}", mechanism=mechanism))
    assert told(security) == ([], [], [])


def test_a_copy_does_not_change_with_its_original() -> None:
    security = SecurityImage()
    security.apply(user("ada"))
    copy = security.copy()
    security.apply(user("bob"))
    security.apply(user("ada", salt_bytes=9))
    assert told(copy) == (["ada"], [Form(4096, 8)], [])


def test_some_of_very_many_forms_are_told_of() -> None:
    security = SecurityImage()
    for number in range(MOST_FORMS + 5, 0, -1):
        security.apply(user(f"user-{number}", salt_bytes=number))
    assert looks_of(security).forms(SHA_256) == [Form(4096, number) for number in range(1, MOST_FORMS + 1)]
