"""What one worker hands on to another, signed with the session key of their group (KIP-507).

It says in whose name: so no password goes from worker to worker. What is signed is the whole request, its user, its
verb, its path with the query, and its body; Connect signs the body alone. There is a signature by each key that the
worker knows, so that one that has read the next key, or has not yet, is understood by one of which the contrary holds.
"""

import base64
import hmac
import json
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Final
from urllib.parse import quote, unquote

from penstock.protocol.value import Value
from penstock.work.connect.rest.errors import RestError, bad_request
from penstock.work.connect.runtime.session_keys import KEPT, SessionKey, signature

SIGNATURE: Final = "X-Connect-Authorization"
ALGORITHM: Final = "X-Connect-Request-Signature-Algorithm"
USER: Final = "X-Penstock-User"
NO_KEY: Final = (
    "this worker has read no session key: one is written when a worker leads that has rest.extension.classes"
    " and penstock.rest.basic.auth.file; then repeat the request"
)


class HandedOn(Value):
    """`target` is the path with the query, as the line of the request has it."""

    user: str
    verb: str
    target: str
    body: bytes

    def message(self) -> bytes:
        return json.dumps([self.user, self.verb, self.target]).encode() + b"\n" + self.body


def signed(asked: HandedOn, keys: Sequence[SessionKey], algorithm: str) -> dict[str, str]:
    """Headers."""
    message = asked.message()
    made = ",".join(base64.b64encode(signature(key, algorithm, message)).decode() for key in keys)
    return {SIGNATURE: made, ALGORITHM: algorithm, USER: quote(asked.user, safe="")}


def user_in(headers: Mapping[str, str]) -> str:
    """Whom it names; nobody knows yet whether that is so."""
    return unquote(headers.get(USER, ""))


def verify(asked: HandedOn, headers: Mapping[str, str], keys: Sequence[SessionKey], algorithms: Sequence[str]) -> None:
    """RestError, as from Connect's workers, whose clients know these statuses."""
    algorithm = headers.get(ALGORITHM, "")
    if algorithm not in algorithms:
        allowed = ", ".join(algorithms)
        raise bad_request(
            f"this worker takes requests of workers that are signed by {allowed} (inter.worker.verification.algorithms)"
        )
    if not keys:
        raise RestError(HTTPStatus.SERVICE_UNAVAILABLE, NO_KEY)
    shown = [_decoded(text) for text in headers[SIGNATURE].split(",", KEPT)[:KEPT]]
    message = asked.message()
    made = [signature(key, algorithm, message) for key in keys]
    if not any(hmac.compare_digest(right, one) for right in made for one in shown):
        raise RestError(HTTPStatus.FORBIDDEN, "the signature is not that of a worker of this group, or of an older key")


def _decoded(text: str) -> bytes:
    """Nothing for what is no base64."""
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        return b""
