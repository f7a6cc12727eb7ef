"""Each reason of OpenSSL's has its own words."""

import ssl

import pytest

from penstock.tls import faults
from penstock.tls.faults import fault_of


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (1, "the peer's certificate is refused: Why."),
        (3, "penstock.ssl.crl.location has no list of the authority"),
        (9, "the peer's certificate does not hold yet: is a clock wrong?"),
        (10, "the peer's certificate has expired: renew it, or is a clock wrong?"),
        (12, "the list of revoked certificates in penstock.ssl.crl.location has expired"),
        (18, "the peer's certificate is signed by itself, and is not in our ssl.truststore"),
        (19, "the peer's chain ends in an authority that is not in our ssl.truststore"),
        (20, "the peer's certificate is signed by an authority that is not in our ssl.truststore"),
        (21, "the peer's certificate is signed by an authority that is not in our ssl.truststore"),
        (23, "the peer's certificate is revoked"),
        (62, "the peer's certificate is for others: Why"),
        (63, "the peer's certificate is refused: Why."),
        (64, "the peer's certificate is for others: Why"),
        (65, "the peer's certificate is refused: Why."),
    ],
)
def test_a_certificate_that_is_refused(code: int, words: str) -> None:
    error = ssl.SSLCertVerificationError()
    error.verify_code, error.verify_message = code, "Why."
    assert fault_of(error).startswith(words)
    assert fault_of(error).endswith(".") is words.endswith(".")


@pytest.mark.parametrize("ending", faults._ALERTS)
def test_an_alert(ending: str) -> None:
    for before in ("", "TLSV1_ALERT_"):
        assert fault_of(failed(before + ending)) == faults._ALERTS[ending]


def test_what_has_no_words_has_those_of_openssl() -> None:
    assert fault_of(failed("SOMETHING_ELSE")) == "something else"
    assert "what it says" in fault_of(failed(None))


def failed(reason: str | None) -> ssl.SSLError:
    error = ssl.SSLError(1, "what it says")
    error.reason = reason  # type: ignore[assignment]
    return error
