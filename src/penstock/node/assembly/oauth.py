"""Whether a listener believes a token: its claims first, then its signature, by the keys that the provider publishes.

The keys of an address are fetched in a thread, at the start and every `sasl.oauthbearer.jwks.endpoint.refresh.ms`; what
is there counts until others have come. A token with a key that is not known has them fetched once more, and the
client waits for that, so that it notices nothing of a provider that takes new keys; but not within `UNKNOWN_KEY_S` of
the last time, for anybody can invent names of keys.
"""

import asyncio
import json
import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, cast

from cryptography.exceptions import UnsupportedAlgorithm
from jwt.algorithms import Algorithm, get_default_algorithms
from jwt.exceptions import InvalidKeyError

from penstock.client.daemon_thread import DaemonThread
from penstock.client.oauth.allowed import allowed_url
from penstock.client.oauth.provider import Provider, ProviderError
from penstock.metadata.configs.oauth import JWKS, ListenerOAuth
from penstock.node.environment.tasks import Tasks
from penstock.protocol.sasl.claims import NO_ALGORITHM, Token, check_claims, parse_token
from penstock.protocol.sasl.mechanism import NotYet, shown
from penstock.protocol.sasl.oauthbearer import RefusedTokenError, TokenUser
from penstock.protocol.value import Value

logger = logging.getLogger(__name__)

UNKNOWN_KEY_S: Final = 10.0
ASKED_S: Final = 5.0
"""How long connecting to the provider may take, and as long again its answer."""
MAX_KEYS: Final = 100
MAX_TRIED: Final = 4
"""Keys of one name, or of none."""
MIN_RSA_BITS: Final = 2048
_RSA: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
ALGORITHMS: Final[Mapping[tuple[str, str], tuple[str, ...]]] = {
    ("RSA", ""): _RSA,
    ("EC", "P-256"): ("ES256",),
    ("EC", "P-384"): ("ES384",),
    ("EC", "P-521"): ("ES512",),
    ("OKP", "Ed25519"): ("EdDSA",),
    ("OKP", "Ed448"): ("EdDSA",),
}
"""What a key may have signed, by its kind and curve. None of them has a secret that both sides know."""
KNOWN_ALGORITHMS: Final = tuple(dict.fromkeys(one for many in ALGORITHMS.values() for one in many))
_PUBLIC: Final = ("kty", "crv", "n", "e", "x", "y")
_CODE: Final[Mapping[str, Algorithm]] = get_default_algorithms()


class SigningKey(Value):
    """`algorithms` are those that it may have signed with."""

    name: str | None
    algorithms: tuple[str, ...]
    key: Any

    def has_signed(self, token: Token) -> bool:
        try:
            return _CODE[token.algorithm].verify(token.signed, self.key, token.signature)
        except (ValueError, TypeError):
            return False


def keys_in(answer: bytes) -> tuple[SigningKey, ...]:
    """Those by which signatures can be checked (RFC 7517). ProviderError if it is no set of keys."""
    try:
        found = json.loads(answer)["keys"]
        entries = [one for one in found if isinstance(one, dict)]
    except (ValueError, TypeError, KeyError, RecursionError):
        raise ProviderError("what it answers is no set of keys (JWKS)") from None
    if len(entries) > MAX_KEYS:
        raise ProviderError(f"it has {len(entries)} keys, and {MAX_KEYS} are taken at most")
    keys = tuple(key for entry in entries for key in _key(entry))
    if not keys:
        raise ProviderError(f"it has no key for one of {', '.join(KNOWN_ALGORITHMS)}")
    return keys


def _key(entry: Mapping[str, Any]) -> Iterator[SigningKey]:
    """Nothing for a key that is for something else, or damaged, or too short."""
    kind, name = str(entry.get("kty")), entry.get("kid")
    algorithms = ALGORITHMS.get((kind, "" if kind == "RSA" else str(entry.get("crv"))), ())
    if "alg" in entry:
        algorithms = tuple(one for one in algorithms if one == entry["alg"])
    if not algorithms or entry.get("use", "sig") != "sig" or not isinstance(name, str | None):
        return
    operations = entry.get("key_ops", ["verify"])
    if not isinstance(operations, list) or "verify" not in operations:
        return
    try:
        parsed: Any = _CODE[algorithms[0]].from_jwk({part: entry[part] for part in _PUBLIC if part in entry})
    except (InvalidKeyError, UnsupportedAlgorithm, ValueError, TypeError):
        return
    if kind != "RSA" or parsed.key_size >= MIN_RSA_BITS:
        yield SigningKey(name, algorithms, parsed)


def _pauses_ms(settings: ListenerOAuth) -> Iterator[int]:
    """After one failure, and after each that follows it."""
    pause_ms = settings.retry_backoff_ms
    while True:
        yield pause_ms
        pause_ms = min(2 * pause_ms, settings.retry_backoff_max_ms)


class ProviderKeys:
    """The keys behind one address."""

    def __init__(self, ask: Callable[[], bytes], address: str, settings: ListenerOAuth, elapsed_s: Callable[[], float]):
        """`ask` blocks, and raises ProviderError."""
        self._ask = ask
        self._address = address
        self._settings = settings
        self._elapsed_s = elapsed_s
        self._keys: tuple[SigningKey, ...] = ()
        self._fault = ""
        self._is_asking = False
        self._asked_s: float | None = None
        self._wanted = asyncio.Event()
        self._waiting: list[Callable[[], None]] = []
        self._thread = DaemonThread("keys of an identity provider")
        self._tasks = Tasks()
        self._tasks.keep(self._follow, f"keys of {address}")

    async def stop(self) -> None:
        await self._tasks.stop()
        self._thread.shutdown()

    def check(self, token: Token) -> None:
        """Raises RefusedTokenError, NotYet."""
        name, algorithm = token.key_id, token.algorithm
        fitting = [key for key in self._keys if name in (None, key.name) and algorithm in key.algorithms]
        if not fitting:
            self._look_again()
            why = f"; the keys cannot be fetched: {self._fault}" if self._fault else ""
            raise RefusedTokenError(f"its key {shown(name or '')} for {algorithm} is none of {self._address}{why}")
        if len(fitting) > (1 if name is None else MAX_TRIED):
            raise RefusedTokenError("too many keys could have signed it: it does not say which one did")
        if not any(key.has_signed(token) for key in fitting):
            raise RefusedTokenError("its signature is wrong")

    def _look_again(self) -> None:
        """Raises NotYet if keys are being fetched, or will be."""
        was_long_ago = self._asked_s is None or self._elapsed_s() - self._asked_s >= UNKNOWN_KEY_S
        if was_long_ago:
            self._wanted.set()
        if self._is_asking or was_long_ago:
            raise NotYet(self._waiting.append)

    async def _follow(self) -> None:
        settings = self._settings
        pauses_ms = _pauses_ms(settings)
        while True:
            self._asked_s, self._is_asking = self._elapsed_s(), True
            self._wanted.clear()
            has_come = await self._fetch()
            self._is_asking = False
            waiting, self._waiting = self._waiting, []
            for call in waiting:
                call()
            if has_come:
                pauses_ms = _pauses_ms(settings)
            wait_ms = settings.refresh_ms if has_come else next(pauses_ms)
            try:
                async with asyncio.timeout(wait_ms / 1000):
                    await self._wanted.wait()
            except TimeoutError:
                pass

    async def _fetch(self) -> bool:
        try:
            self._keys = await asyncio.get_running_loop().run_in_executor(self._thread, self._fetched)
        except Exception as error:  # whatever it was, clients wait for the end of this, and it is tried again
            fault = str(error) if isinstance(error, ProviderError) else repr(error)
            if fault != self._fault:
                kept = "; those from before count" if self._keys else ", so nobody can log in with a token"
                logger.error("the keys of %s cannot be fetched%s: %s", self._address, kept, fault)
            self._fault = fault
            return False
        if self._fault:
            logger.info("the keys of %s are there again", self._address)
        self._fault = ""
        return True

    def _fetched(self) -> tuple[SigningKey, ...]:
        return keys_in(self._ask())


def provider_of(settings: ListenerOAuth) -> Provider:
    """ValueError for an address that is not allowed."""
    url = cast("str", settings.jwks_url)
    return Provider(allowed_url(JWKS, url), settings.tls, ASKED_S, ASKED_S)


class TokenCheck:
    """For one listener; `keys` are None where tokens have no signature."""

    def __init__(self, settings: ListenerOAuth, keys: ProviderKeys | None, now_ms: Callable[[], int]) -> None:
        self._settings = settings
        self._keys = keys
        self._now_ms = now_ms

    def __call__(self, text: str) -> TokenUser:
        """Raises RefusedTokenError, NotYet."""
        token = parse_token(text)
        if self._keys is None:
            if token.algorithm != NO_ALGORITHM or token.signature:
                raise RefusedTokenError("it is signed, and this listener takes tokens without a signature alone")
        elif token.algorithm not in KNOWN_ALGORITHMS:
            known = ", ".join(KNOWN_ALGORITHMS)
            raise RefusedTokenError(f"it is signed with {shown(token.algorithm)}, which is none of {known}")
        checked = check_claims(token.claims, self._settings.expected, self._now_ms())
        if self._keys is not None:
            self._keys.check(token)
        return TokenUser(checked.name, checked.lifetime_ms, self._settings)


class TokenChecks:
    """Those of a node. Listeners with the same address have its keys in common."""

    def __init__(self, now_ms: Callable[[], int], elapsed_s: Callable[[], float]) -> None:
        self._now_ms = now_ms
        self._elapsed_s = elapsed_s
        self._found: list[tuple[ListenerOAuth, ProviderKeys]] = []

    def of(self, settings: ListenerOAuth) -> TokenCheck:
        """ValueError for an address that is not allowed."""
        if settings.jwks_url is None:
            return TokenCheck(settings, None, self._now_ms)
        known = (settings.jwks_url, settings.tls)
        keys = next((keys for one, keys in self._found if (one.jwks_url, one.tls) == known), None)
        if keys is None:
            provider = provider_of(settings)
            keys = ProviderKeys(provider.ask, str(provider), settings, self._elapsed_s)
            self._found.append((settings, keys))
        return TokenCheck(settings, keys, self._now_ms)

    async def stop(self) -> None:
        for _, keys in self._found:
            await keys.stop()
