"""What a console says of a certificate and a key that it cannot use."""

from pathlib import Path

import pytest

from penstock.client.settings import ClientSettings
from penstock.console.serving.settings import ConsoleSettings, NotServedError
from penstock.console.serving.tls import tls_of

PLAIN = ConsoleSettings(bootstrap_servers="127.0.0.1:9092", client=ClientSettings())


@pytest.mark.parametrize(
    ("content", "words"), [("nonsense", "they are no certificate and its key in PEM"), (None, "No such file")]
)
def test_what_cannot_be_used_is_named_with_the_reason(tmp_path: Path, content: str | None, words: str) -> None:
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    for file in (certificate, key) if content else ():
        file.write_text(str(content))
        file.chmod(0o600)
    with pytest.raises(NotServedError, match=words):
        tls_of(PLAIN.replace(certificate=certificate, key=key))
    assert tls_of(PLAIN) is None
