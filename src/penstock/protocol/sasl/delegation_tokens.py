"""Delegation tokens (KIP-48): what is made of a token's id with the secret that all nodes have."""

import hmac
from base64 import b64encode
from hashlib import sha256
from typing import Final

from penstock.protocol.sasl.scram import MIN_ITERATIONS, SALT_BYTES, ScramCredential, ScramMechanism
from penstock.protocol.secret import Secret

USER: Final = "User"


def hmac_of(secret: Secret, token_id: str) -> bytes:
    """What whoever has the token shows."""
    return hmac.digest(secret.text.encode(), token_id.encode(), "sha512")


def password_of(token_hmac: bytes) -> Secret:
    """The token logs in by SCRAM with this, and its id as the name."""
    return Secret(b64encode(token_hmac).decode())


def credential_of(mechanism: ScramMechanism, secret: Secret, token_id: str) -> ScramCredential:
    """The same on all nodes. Takes milliseconds."""
    token_hmac = hmac_of(secret, token_id)
    salt = sha256(b"salt" + token_hmac).digest()[:SALT_BYTES]
    salted = mechanism.salted(password_of(token_hmac).text, salt, MIN_ITERATIONS)
    return ScramCredential(salt, mechanism.stored_key(salted), mechanism.server_key(salted), MIN_ITERATIONS)
