"""What the mechanisms of SASL have in common: a server and a client side, each a machine that takes tokens.

| side   | begins with       | each token                      | ends with                      |
| ------ | ----------------- | ------------------------------- | ------------------------------ |
| client | `first()`         | `evaluate(challenge)`: an answer | None in place of an answer     |
| server | waiting           | `evaluate(token)`: a challenge  | `user` is somebody             |

Either side raises SaslError, and is of no use any more. A server may raise NotYet: it wants the same token once more.
"""

from collections.abc import Callable
from typing import Final, Protocol

PLAIN: Final = "PLAIN"
SCRAM_SHA_256: Final = "SCRAM-SHA-256"
SCRAM_SHA_512: Final = "SCRAM-SHA-512"
GSSAPI: Final = "GSSAPI"
OAUTHBEARER: Final = "OAUTHBEARER"
SERVED: Final = (PLAIN, SCRAM_SHA_256, SCRAM_SHA_512, OAUTHBEARER)


class SaslError(Exception):
    """The text may be told to the other side: it says nothing that helps to guess. `cause` is for the own log."""

    def __init__(self, told: str, cause: str | None = None) -> None:
        super().__init__(told)
        self.cause = told if cause is None else cause


class NotYet(Exception):  # noqa: N818 - it is no error
    """What a token is checked with is being fetched; `listen` takes what is to be called once when that has ended."""

    def __init__(self, listen: Callable[[Callable[[], None]], None]) -> None:
        super().__init__("the keys by which tokens are checked are being fetched")
        self.listen = listen


class SaslServer(Protocol):
    @property
    def user(self) -> str | None:
        """Who has logged in; None before that."""

    @property
    def proof(self) -> object:
        """By which the user has logged in; when it is another one, a session that began so has to end."""

    @property
    def lifetime_ms(self) -> int | None:
        """For how long from the last token on that proves it; None: for ever."""

    @property
    def token_id(self) -> str | None:
        """The delegation token by which the user has logged in; None for other means."""

    def evaluate(self, token: bytes) -> bytes:
        """The challenge, or what the client is told last. Raises SaslError, NotYet."""


class SaslClient(Protocol):
    def first(self) -> bytes:
        """What the client begins with."""

    def evaluate(self, challenge: bytes) -> bytes | None:
        """The answer; None when the server has proved what it had to. Raises SaslError."""


def why_not_served(mechanism: str) -> str | None:
    """One line that names the cure; None for a mechanism that is served."""
    if mechanism in SERVED:
        return None
    if mechanism == GSSAPI:
        return f"{mechanism} (Kerberos) is not there: take one of {', '.join(SERVED)}"
    return f"{mechanism} is no mechanism of Kafka's: take one of {', '.join(SERVED)}"


def shown(name: str) -> str:
    """A stranger's name, for a log: of bounded length, without control characters."""
    return repr(name if len(name) <= SHOWN_CHARACTERS else f"{name[:SHOWN_CHARACTERS]}…")


SHOWN_CHARACTERS: Final = 100
