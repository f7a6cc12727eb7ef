"""What is known of each API: its key, its classes, its versions, and which headers go before its messages."""

from functools import cache
from importlib import import_module
from typing import Final

from penstock.protocol.messages.index import APIS, ApiKey
from penstock.protocol.requests.own_apis import OWN_APIS, OwnApiKey
from penstock.protocol.schema import Message

__all__ = ["KEYS", "NEVER", "UNSERVED", "AnyApiKey", "Api", "ApiKey", "OwnApiKey", "api_of", "is_flexible"]

AnyApiKey = ApiKey | OwnApiKey
KEYS: Final[tuple[AnyApiKey, ...]] = (*ApiKey, *OwnApiKey)

NEVER: Final = 1 << 15
UNSERVED: Final = (0, -1)
"""The lowest and highest version of an API that a peer does not have."""
FLEXIBLE_FROM: Final = {key: row[4] if row[4] >= 0 else NEVER for key, row in (APIS | OWN_APIS).items()}
"""By API key, the first version whose requests and responses are in flexible form."""


class Api:
    """`versions` runs from the oldest that Kafka 4 serves to the newest one that is declared, stable or not."""

    __slots__ = ("_classes", "_module", "flexible_from", "key", "name", "versions")

    def __init__(self, key: AnyApiKey) -> None:
        module, name, oldest, newest, _ = APIS[key] if isinstance(key, ApiKey) else OWN_APIS[key]
        self.key: Final = key
        self.name: Final = name
        self.versions: Final = range(oldest, newest + 1)
        self.flexible_from: Final = FLEXIBLE_FROM[key]
        self._classes: Final[dict[str, type[Message]]] = {}
        self._module: Final = f"{'messages' if isinstance(key, ApiKey) else 'requests'}.{module}"

    def __repr__(self) -> str:
        return f"Api({self.name})"

    def _load(self, suffix: str) -> type[Message]:
        cls = self._classes.get(suffix)
        if cls is None:
            module = import_module(f"penstock.protocol.{self._module}")
            cls = self._classes[suffix] = getattr(module, self.name + suffix)
        return cls

    @property
    def request_class(self) -> type[Message]:
        return self._load("Request")

    @property
    def response_class(self) -> type[Message]:
        return self._load("Response")

    def agreed_version(self, served: tuple[int, int], newest: int | None = None) -> int | None:
        """At most `newest`, and from the range that a peer serves; None for none."""
        ours = self.versions
        version = min(served[1], ours[-1] if newest is None else min(newest, ours[-1]))
        return version if version >= max(served[0], ours[0]) else None

    def response_header_version(self, version: int) -> int:
        """ApiVersions always has header 0: clients read it before they know the versions (KIP-511)."""
        return 1 if version >= self.flexible_from and self.key != ApiKey.API_VERSIONS else 0


def is_flexible(key: int, version: int) -> bool:
    """False for an unknown key."""
    return version >= FLEXIBLE_FROM.get(key, NEVER)


@cache
def api_of(key: int) -> Api:
    """ValueError for an unknown key."""
    return Api(OwnApiKey(key) if key in OWN_APIS else ApiKey(key))
