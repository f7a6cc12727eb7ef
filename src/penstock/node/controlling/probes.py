"""A controller knows of the death of a broker's process before its session is over: it sees its listener go.

Each controller, active or not, holds a connection to the listener of each broker that is not fenced, over which nothing
is ever sent. When it breaks, the controller tries again at once, and `penstock.controller.probe` judges what it finds.
The active controller then ends the broker's session. One that becomes active has seen what the others have.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final, Protocol

from penstock.client.names import hosts_of
from penstock.controller.probe import QUICK_S, SLOW_S, Probe
from penstock.metadata.image import BrokerImage, ClusterImage
from penstock.metadata.records import (
    BrokerRegistrationChangeRecord,
    FenceBrokerRecord,
    MetadataRecord,
    RegisterBrokerRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)
from penstock.node.environment.tasks import Tasks
from penstock.node.metrics.registry import Gauge, Group, Registry
from penstock.node.quorum.metadata_log import MetadataLog
from penstock.protocol.address import Address
from penstock.protocol.value import Value

CONNECT_S: Final = 2.0
_OF_BROKERS: Final = (
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
    BrokerRegistrationChangeRecord,
    FenceBrokerRecord,
    UnfenceBrokerRecord,
)

logger = logging.getLogger(__name__)


class Sessions(Protocol):
    @property
    def image(self) -> ClusterImage: ...

    def end_session(self, broker_id: int, epoch: int) -> bool:
        """Whether this node is the active controller, and ends it."""


class ProbeSettings(Value):
    node_id: int
    listener_name: str
    patience_ms: int
    """How long a listener refuses connections until its process is known to have ended."""


class _Silent(asyncio.Protocol):
    """Nothing is sent, and what comes is not looked at."""

    def __init__(self) -> None:
        self.lost = asyncio.Event()

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.set()


class Probes:
    """One task for each broker that is active."""

    def __init__(
        self,
        settings: ProbeSettings,
        sessions: Sessions,
        log: MetadataLog,
        registry: Registry,
        now_ms: Callable[[], int],
    ) -> None:
        self._settings = settings
        self._sessions = sessions
        self._now_ms = now_ms
        self._tasks = Tasks()
        self._running: dict[tuple[int, int], asyncio.Task[None]] = {}
        self._connected = 0
        self._is_stopped = False
        registry.add(
            Gauge(
                Group.CONTROLLER,
                "WatchedBrokerCount",
                "Brokers to whose listeners this controller is connected, so that their death is seen",
                lambda: self._connected,
            )
        )
        log.add_listener(self._on_records, self._follow)

    def _on_records(self, records: Iterable[MetadataRecord]) -> None:
        if any(isinstance(record, _OF_BROKERS) for record in records):
            self._follow()

    def _follow(self) -> None:
        if self._is_stopped:
            return
        wanted = {(broker.node_id, broker.epoch): broker for broker in self._sessions.image.brokers.values()}
        wanted = {key: broker for key, broker in wanted.items() if self._is_probed(broker)}
        for key in self._running.keys() - wanted.keys():
            self._running.pop(key).cancel()
        for key, broker in wanted.items():
            address = self._address_of(broker)
            if key not in self._running and address is not None:
                name = f"probe of broker {broker.node_id}"
                self._running[key] = self._tasks.keep(partial(self._watch, key, address), name)

    async def stop(self) -> None:
        self._is_stopped = True
        self._running.clear()
        await self._tasks.stop()

    def _is_probed(self, broker: BrokerImage) -> bool:
        """One that stops says so itself."""
        return broker.active and broker.node_id != self._settings.node_id

    def _address_of(self, broker: BrokerImage) -> Address | None:
        endpoint = broker.endpoint(self._settings.listener_name)
        return None if endpoint is None else Address(endpoint.host, endpoint.port)

    async def _watch(self, key: tuple[int, int], address: Address) -> None:
        probe = Probe(self._settings.patience_ms)
        while True:
            pause_s = await self._try(probe, address)
            if probe.has_ended and self._sessions.end_session(*key):
                probe.told()
                logger.warning(
                    "broker %d has ended: its listener %s is closed, and refuses connections for %d ms",
                    key[0],
                    address,
                    self._settings.patience_ms,
                )
            await asyncio.sleep(pause_s)

    async def _try(self, probe: Probe, address: Address) -> float:
        """Returns after how long it should be tried again."""
        try:
            async with asyncio.timeout(CONNECT_S):
                transport, silent = await _connect(address)
        except ConnectionRefusedError:
            probe.refused(self._now_ms())
        except OSError:
            probe.unanswered()
        else:
            probe.connected()
            began_ms = self._now_ms()
            self._connected += 1
            try:
                await silent.lost.wait()
            finally:
                self._connected -= 1
                transport.abort()
            return QUICK_S if self._now_ms() - began_ms > SLOW_S * 1000 else SLOW_S
        return probe.pause_s


async def _connect(address: Address) -> tuple[asyncio.Transport, _Silent]:
    """ConnectionRefusedError if all that the name stands for refuse; any other OSError."""
    loop = asyncio.get_running_loop()
    hosts = await hosts_of(address)
    for host in hosts[:-1]:
        try:
            return await loop.create_connection(_Silent, host, address.port)
        except ConnectionRefusedError:
            continue
    return await loop.create_connection(_Silent, hosts[-1], address.port)
