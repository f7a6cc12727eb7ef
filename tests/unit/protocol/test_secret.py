"""A secret shows nothing, wherever it is put."""

import pickle

from penstock.protocol.secret import Secret
from penstock.protocol.value import Value


class Holder(Value):
    name: str
    password: Secret


def test_a_secret_shows_nothing() -> None:
    secret = Secret("hush")
    shown = f"{secret} {secret!r} {Holder('ada', secret)} {[secret]} %s" % secret
    assert "hush" not in shown
    assert secret.text == "hush"


def test_secrets_are_compared_whole() -> None:
    assert Secret("hush") == Secret("hush") != Secret("hus")


def test_a_secret_is_sent_to_other_processes() -> None:
    assert pickle.loads(pickle.dumps(Secret("hush"))).text == "hush"
