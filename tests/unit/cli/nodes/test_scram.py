"""Credentials as `--add-scram` names them, against the example of RFC 7677."""

from base64 import b64encode

import pytest

from penstock.cli.nodes.scram import parse_credential
from penstock.metadata.security_records import UserScramCredentialRecord

SALT = "W22ZaJ0SNY7soEsUEjb6gQ=="


def parsed(text: str) -> UserScramCredentialRecord:
    return parse_credential(text, bytes)


def test_the_example_of_the_rfc() -> None:
    record = parsed(f"SCRAM-SHA-256=[name=user,password=pencil,salt={SALT},iterations=4096]")
    assert (record.name, record.mechanism, record.iterations) == ("user", 1, 4096)
    assert [b64encode(key).decode() for key in (record.salt, record.stored_key, record.server_key)] == [
        SALT, "WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=", "wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=",
    ]  # fmt: skip


def test_a_password_may_be_salted_already_and_a_salt_is_drawn_where_none_is_given() -> None:
    salted = parsed('SCRAM-SHA-512=[name=alice,iterations=8192,salt="N3E=",saltedpassword="YCE="]')
    assert (salted.mechanism, salted.salt, salted.iterations) == (2, b"7q", 8192)
    assert (len(salted.stored_key), len(salted.server_key)) == (64, 64)
    assert parsed("SCRAM-SHA-512=[name=alice,password=a=b]").salt == bytes(24)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "begins with"),
        ("SCRAM-SHA-1=[name=a,password=b]", "begins with"),
        ("SCRAM-SHA-256=name=a,password=b", "stands in"),
        ("SCRAM-SHA-256=[password=b]", "name is missing"),
        ("SCRAM-SHA-256=[name=a]", "one of password and saltedpassword"),
        ("SCRAM-SHA-256=[name=a,password=b,saltedpassword=YCE=]", "one of password and saltedpassword"),
        ("SCRAM-SHA-256=[name=a,saltedpassword=YCE=]", "goes with salt"),
        ("SCRAM-SHA-256=[name=a,password=b,salt=!]", "salt is base64"),
        ("SCRAM-SHA-256=[name=a,password=b,iterations=1]", "from 4096 to 16384"),
        ("SCRAM-SHA-256=[name=a,password=b,colour=red]", "colour: known are"),
        ("SCRAM-SHA-256=[name]", "is not name=value"),
    ],
)
def test_what_is_no_credential(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        parsed(text)
