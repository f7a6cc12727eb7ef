"""The clients of a worker: they reach the same cluster, and take clock, chance and threads from the same seams."""

from collections.abc import Callable, Mapping
from typing import Any, Final, Self

from penstock.client.admin import Admin
from penstock.client.background import Background, BackgroundThread
from penstock.client.consumer import Consumer
from penstock.client.producer import Producer
from penstock.client.properties import with_properties
from penstock.client.security import KNOWN
from penstock.client.settings import ClientSettings, ConsumerSettings, ProducerSettings, wall_clock_ms
from penstock.protocol.value import Value, fresh
from penstock.work.connect.config import ConfigError

OF_CONNECTIONS: Final = ("security.protocol", *KNOWN)
NO_PROPERTIES: Final[Mapping[str, str]] = {}


class Clients(Value, kw_only=True):
    """`seams` are more settings of every client that say where it lives: `random`, time-outs."""

    bootstrap_servers: str
    now_ms: Callable[[], int] = wall_clock_ms
    seams: Mapping[str, Any] = fresh(dict)
    background: Callable[[str], Background] = BackgroundThread

    @classmethod
    def of_worker(cls, config: Mapping[str, str], bootstrap_servers: str) -> Self:
        """They come to the cluster as the keys of the worker say that have no prefix; ConfigError."""
        keys = {key: text for key, text in config.items() if key in OF_CONNECTIONS}
        try:
            settings = with_properties(ClientSettings(), keys)
        except ValueError as error:
            raise ConfigError({"security.protocol": [str(error)]}) from error
        seams = {"security_protocol": settings.security_protocol, "security": settings.security}
        return cls(bootstrap_servers=bootstrap_servers, seams=seams)

    def settings(self, client_id: str) -> ClientSettings:
        return ClientSettings(**self.seams, now_ms=self.now_ms, client_id=client_id)

    def admin(self, client_id: str, properties: Mapping[str, str] = NO_PROPERTIES) -> Admin:
        """`properties` are the user's, and count more; ValueError."""
        return Admin(self.bootstrap_servers, with_properties(self.settings(client_id), properties))

    def producer(self, properties: Mapping[str, str], **settings: Any) -> Producer:
        """The same."""
        made = ProducerSettings(**self.seams, now_ms=self.now_ms, **settings)
        return Producer(self.bootstrap_servers, with_properties(made, properties))

    def consumer(self, properties: Mapping[str, str], **settings: Any) -> Consumer:
        """The same."""
        made = ConsumerSettings(**self.seams, now_ms=self.now_ms, background=self.background, **settings)
        return Consumer(self.bootstrap_servers, with_properties(made, properties))
