"""A token of an identity provider, and when it is renewed: long before it expires, so that a failure is no end yet."""

import logging
import time
from collections.abc import Callable
from random import SystemRandom
from threading import Lock
from typing import Final

from penstock.client.oauth.provider import ProviderError
from penstock.protocol.sasl.claims import claims_of, time_of
from penstock.protocol.sasl.oauthbearer import RefusedTokenError
from penstock.protocol.secret import Secret
from penstock.protocol.value import Value

logger = logging.getLogger(__name__)

FAILURE_S: Final = 1.0
"""How long a failure is told to others before the provider is asked again."""


class Renewal(Value):
    """`sasl.login.refresh.…` and `sasl.login.retry.…`: when a token is renewed, and for how long that is tried."""

    window: float = 0.8
    """At which part of its life a token is renewed; up to `jitter` more of it is added by chance."""
    jitter: float = 0.05
    buffer_s: float = 300
    """That much before its end at the latest, unless it is renewed too often then."""
    min_period_s: float = 60
    backoff_s: float = 0.1
    backoff_max_s: float = 10.0
    """Pauses between attempts grow up to this, and after this time the last attempt is the last."""


class TokenSource:
    """Safe for threads; whoever asks while the provider is asked waits for its answer."""

    def __init__(
        self,
        retrieve: Callable[[], str],
        renewal: Renewal,
        now_s: Callable[[], float] = time.time,
        pause: Callable[[float], object] = time.sleep,
    ) -> None:
        """`retrieve` raises ProviderError."""
        self._retrieve = retrieve
        self._renewal = renewal
        self._now_s = now_s
        self._pause = pause
        self._random = SystemRandom()
        self._lock = Lock()
        self._token: Secret | None = None
        self._expires_s = self._renewed_s = 0.0
        self._failed: tuple[float, ProviderError] | None = None

    def token(self) -> Secret:
        """Good for a while. It may take as long as the provider does. Raises ProviderError."""
        with self._lock:
            now_s = self._now_s()
            if self._token is not None and now_s < min(self._renewed_s, self._expires_s):
                return self._token
            if self._failed is not None and 0 <= now_s - self._failed[0] < FAILURE_S:
                raise ProviderError(str(self._failed[1]))
            try:
                return self._renew()
            except ProviderError as error:
                now_s = self._now_s()
                if self._token is None or now_s >= self._expires_s:
                    self._failed = now_s, error
                    raise
                logger.warning("the old token is used as long as it holds, for there is no new one: %s", error)
                self._renewed_s = now_s + self._renewal.backoff_max_s
                return self._token

    def _renew(self) -> Secret:
        text = self._asked().strip()
        now_s = self._now_s()
        try:
            claims = claims_of(text)
            expires_s = time_of(claims, "exp")
            began_s = min(time_of(claims, "iat"), now_s) if claims.get("iat") is not None else now_s
        except RefusedTokenError as error:
            raise ProviderError(f"what the identity provider gave is no token that can be used: {error}") from None
        if expires_s <= now_s:
            raise ProviderError("the identity provider gave a token that has expired already (or a clock is wrong)")
        due_s = began_s + (expires_s - began_s) * (self._renewal.window + self._random.random() * self._renewal.jitter)
        early_s = expires_s - self._renewal.buffer_s
        self._renewed_s = min(due_s, early_s) if early_s >= now_s + self._renewal.min_period_s else due_s
        self._token, self._expires_s, self._failed = Secret(text), expires_s, None
        return self._token

    def _asked(self) -> str:
        pause_s, ends_s = self._renewal.backoff_s, self._now_s() + self._renewal.backoff_max_s
        while True:
            try:
                return self._retrieve()
            except ProviderError as error:
                if error.is_final or self._now_s() + pause_s >= ends_s:
                    raise
                logger.info("the identity provider is asked again in %.1f s: %s", pause_s, error)
            self._pause(pause_s)
            pause_s *= 2
