"""Why a handshake failed, in words that name the cause and the cure."""

import ssl
from typing import Final

CUT: Final = (
    "the peer closed the connection during the TLS handshake: does it speak another security.protocol, or refuse our"
    " certificate?"
)
WRONG_NAME: Final = "the peer's certificate is for others"
_WRONG_NAME: Final = (62, 64)
"""OpenSSL's numbers for that: of names, and of addresses."""
_ALERTS: Final = {
    "UNEXPECTED_EOF_WHILE_READING": CUT,
    "UNKNOWN_CA": "the peer does not trust who signed our certificate: its ssl.truststore lacks that authority",
    "BAD_CERTIFICATE": "the peer refuses our certificate: it names other hosts or does not hold yet, as the peer's own"
    " error says",
    "CERTIFICATE_EXPIRED": "the peer says that our certificate has expired (or its clock is wrong)",
    "CERTIFICATE_REVOKED": "the peer says that our certificate is revoked",
    "CERTIFICATE_UNKNOWN": "the peer refuses our certificate: its name, its dates or its authority",
    "UNSUPPORTED_CERTIFICATE": "the peer refuses the kind of our certificate",
    "CERTIFICATE_REQUIRED": "the peer wants a certificate of ours (its ssl.client.auth is required): set ssl.keystore",
    "HANDSHAKE_FAILURE": "the peer accepts none of our versions, suites or certificates; it may want one of ours",
    "PROTOCOL_VERSION": "the peer does not speak a version of TLS that we do: see ssl.enabled.protocols",
    "NO_SHARED_CIPHER": "there is no cipher suite that both sides know: see ssl.cipher.suites",
    "UNSUPPORTED_PROTOCOL": "the peer speaks no version of TLS that is allowed here: see ssl.enabled.protocols",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the client shows no certificate, and ssl.client.auth is required: it needs"
    " ssl.keystore",
    "WRONG_VERSION_NUMBER": "the peer does not speak TLS: is this the port of another listener?",
    "HTTP_REQUEST": "the peer speaks HTTP",
    "EXCESSIVE_MESSAGE_SIZE": "the peer's handshake is too long",
    "DECRYPTION_FAILED_OR_BAD_RECORD_MAC": "the peer sent a record that was not encrypted with this connection's key",
}
"""By the end of OpenSSL's reason; what the peer sent as an alert, and what was found here."""
EXPIRED: Final = "the peer's certificate has expired: renew it, or is a clock wrong?"
REVOKED: Final = "the peer's certificate is revoked"
ADD: Final = "add it there, or have the certificate signed by one that is"
_VERIFIED: Final = {
    3: "penstock.ssl.crl.location has no list of the authority that signed the peer's certificate, or of one above it",
    12: "the list of revoked certificates in penstock.ssl.crl.location has expired: take the authority's new one",
    10: EXPIRED,
    9: "the peer's certificate does not hold yet: is a clock wrong?",
    18: f"the peer's certificate is signed by itself, and is not in our ssl.truststore: {ADD}",
    19: f"the peer's chain ends in an authority that is not in our ssl.truststore: {ADD}",
    20: f"the peer's certificate is signed by an authority that is not in our ssl.truststore: {ADD}",
    21: f"the peer's certificate is signed by an authority that is not in our ssl.truststore: {ADD}",
    23: REVOKED,
}
"""By OpenSSL's number."""


def fault_of(error: ssl.SSLError) -> str:
    """One line."""
    if isinstance(error, ssl.SSLCertVerificationError):
        if error.verify_code in _WRONG_NAME:
            return f"{WRONG_NAME}: {error.verify_message.rstrip('.')}"
        return _VERIFIED.get(error.verify_code) or f"the peer's certificate is refused: {error.verify_message}"
    reason = error.reason or ""
    for ending in sorted(_ALERTS, key=len, reverse=True):
        if reason.endswith(ending):
            return _ALERTS[ending]
    return reason.lower().replace("_", " ") or str(error)
