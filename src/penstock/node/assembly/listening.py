"""Where a broker listens: the sockets of its file, and the listeners that it gets while it runs (KIP-226)."""

import asyncio
import logging

from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.metadata.configs.broker_rules import added_listeners
from penstock.metadata.configs.definitions import ConfigError
from penstock.metadata.configs.listeners import Listener
from penstock.node.environment.environment import Environment
from penstock.node.environment.tasks import Tasks
from penstock.node.serving.server import BACKLOG, BoundListener, Endpoint, Server

logger = logging.getLogger(__name__)


def bind(config: BrokerConfig, environment: Environment, wanted: Listener) -> BoundListener:
    """Raises OSError."""
    # Kafka's own sizes would be less than what the system finds out for each connection, and its backlog of 50 is full
    # at once when many clients come back together: they hold only where these keys are set.
    is_set = config.static.__contains__
    return environment.bind(
        Endpoint(wanted.name, wanted.host, wanted.port),
        send_buffer_bytes=config.socket_send_buffer_bytes if is_set("socket.send.buffer.bytes") else -1,
        receive_buffer_bytes=config.socket_receive_buffer_bytes if is_set("socket.receive.buffer.bytes") else -1,
        backlog=config.socket_listen_backlog_size if is_set("socket.listen.backlog.size") else BACKLOG,
    )


class AddedListeners:
    """Call `follow` when the broker serves, and with each change of its configuration after that."""

    def __init__(self, config: BrokerConfig, environment: Environment, server: Server) -> None:
        self._config = config
        self._environment = environment
        self._server = server
        self._open: list[Listener] = []
        self._turn = asyncio.Lock()
        self._tasks = Tasks()

    def follow(self) -> None:
        """Open what is there now and close what is not. What is not allowed leaves the listeners as they were."""
        try:
            wanted = added_listeners(self._config, self._config.text)
        except ConfigError as error:
            logger.error("the listeners stay as they are: %s", error)
            return
        if self._open or wanted:
            self._tasks.start(self._settle(wanted), "listeners")

    async def stop(self) -> None:
        """Their sockets are the server's."""
        await self._tasks.stop()

    async def _settle(self, wanted: tuple[Listener, ...]) -> None:
        async with self._turn:
            for listener in [one for one in self._open if one not in wanted]:
                self._open.remove(listener)
                self._server.close(listener.name)
            for listener in wanted:
                if listener not in self._open:
                    await self._listen(listener)

    async def _listen(self, listener: Listener) -> None:
        try:
            bound = bind(self._config, self._environment, listener)
        except OSError as error:
            reason = error.strerror or error
            logger.error("cannot listen on %s (%s): stop what uses the address, or set listeners", listener, reason)
            return
        await self._server.listen([bound])
        self._open.append(listener)
