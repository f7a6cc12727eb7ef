"""Connections to all brokers of one cluster: who leads what is looked up, remembered and looked up again when it moved.

`start` tries each bootstrap address once and fails at once if none answers. After that a request goes to a node, the
controller, a group's coordinator or any broker; `retrying` repeats an attempt with jittered, doubling back-off as long
as the failure is one that may pass (a lost connection, a moved leader) and the time given to it lasts. When no known
node answers, or another one listens where a known one should, the bootstrap addresses are asked again.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, NamedTuple, Self, TypeVar, cast

from penstock.client.connection import Answer, Connection, KnownNode
from penstock.client.errors import (
    AnswerTooLargeError,
    ClientClosedError,
    ClientError,
    ClusterUnreachableError,
    ConnectionFailedError,
    WrongNodeError,
    raise_for,
    reason,
)
from penstock.client.known_coordinators import KnownCoordinators
from penstock.client.link import Link
from penstock.client.looks import Looks
from penstock.client.messages import (
    COORDINATORS_BY_KEYS,
    GROUP_COORDINATOR,
    coordinator_in,
    coordinator_request,
    coordinators_request,
    metadata_request,
)
from penstock.client.metadata import NO_NODE, ClusterMetadata, TopicMetadata
from penstock.client.names import CANONICAL_BOOTSTRAP, canonical
from penstock.client.reconnects import Reconnects
from penstock.client.settings import REBOOTSTRAP, ClientSettings
from penstock.client.values import EndpointTold, LeaderTold, TopicPartition
from penstock.protocol.address import Address, parse_bootstrap_servers
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.find_coordinator import FindCoordinatorResponse
from penstock.protocol.messages.metadata import MetadataResponse
from penstock.protocol.requests.api import ApiKey
from penstock.protocol.schema import Message

Result = TypeVar("Result")
LED_ELSEWHERE: Final = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
"""Refusals with which a node may name the leader (KIP-951)."""
_ELSEWHERE: Final = (ErrorCode.NOT_CONTROLLER, ErrorCode.BROKER_NOT_AVAILABLE)
"""Refusals after which the brokers and the controller may have changed."""

KEYS_AT_ONCE: Final = 1_000
"""Of which one request asks who coordinates them."""


class _Purpose(NamedTuple):
    """What a connection is for: one node, and there either what it coordinates or everything else."""

    node_id: int
    coordinator: bool = False


class ClusterClient:
    """Use it as an async context manager, or call `start` and `close`.

    `of_controllers`: the nodes are controllers.
    """

    of_controllers = False

    def __init__(self, bootstrap_servers: str | Sequence[Address], settings: ClientSettings | None = None) -> None:
        self.settings = settings or ClientSettings()
        self._bootstrap = (
            parse_bootstrap_servers(bootstrap_servers)
            if isinstance(bootstrap_servers, str)
            else tuple(bootstrap_servers)
        )
        self.metadata = ClusterMetadata()
        self._links: dict[_Purpose, Link] = {}
        self._seed: Connection | None = None
        self._seeking = asyncio.Lock()
        self._is_closed = False
        self._coordinators = KnownCoordinators[int]()
        self._looks = Looks(self.settings)
        self._reconnects = Reconnects(self.settings)
        self._asking_since_s: float | None = None
        """Since when Metadata have been asked for without success."""

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def start(self) -> None:
        """Reach one broker and learn of the others; `ClusterUnreachableError` if no bootstrap address answers."""
        self._is_closed = False
        await self._connect_seed()
        await self.refresh([])

    async def close(self) -> None:
        """Nothing opens connections from now on."""
        self._is_closed = True
        links, seed = list(self._links.values()), self._seed
        self._links.clear()
        self._seed = None
        for link in links:
            await link.close()
        if seed is not None:
            await seed.close()

    # Metadata

    async def refresh(self, topics: Collection[str] | None = None, *, create: bool = False) -> ClusterMetadata:
        """Ask for all topics (None), for these, or only for the brokers (empty); `create` lets the broker create."""
        connection = await self._connection_for_metadata()
        if not connection.serves(ApiKey.METADATA):
            raise KafkaError(
                ErrorCode.MISMATCHED_ENDPOINT_TYPE,
                f"{connection.address} is the listener of a controller, not of a broker",
            )
        response = await connection.request(metadata_request(topics, create=create), MetadataResponse)
        if response.error_code == ErrorCode.REBOOTSTRAP_REQUIRED and self._begins_anew:
            self._begin_anew(f"{connection.address} asks for it")
            raise ConnectionFailedError(f"{connection.address} wants its clients to begin with their bootstrap servers")
        raise_for(response.error_code)
        self._asking_since_s = None
        now_s = asyncio.get_running_loop().time()
        self._looks.note(topics, now_s)
        known = self.metadata.replace(topics=self._looks.in_use(self.metadata.topics, now_s))
        self.metadata = known.updated(response, all_topics=topics is None)
        for purpose in [one for one, link in self._links.items() if link.is_idle]:
            if purpose.node_id not in self.metadata.brokers:
                del self._links[purpose]
        return self.metadata

    async def _connection_for_metadata(self) -> Connection:
        """To any broker; a bootstrap server if the brokers have told nothing for too long."""
        now_s = asyncio.get_running_loop().time()
        if self._asking_since_s is None:
            self._asking_since_s = now_s
        waited_ms = (now_s - self._asking_since_s) * 1000
        if self._begins_anew and waited_ms > self.settings.metadata_recovery_rebootstrap_trigger_ms:
            self._asking_since_s = now_s
            self._begin_anew(f"no broker has told of the cluster for {round(waited_ms)} ms")
        return await self.any_connection()

    @property
    def _begins_anew(self) -> bool:
        return self.settings.metadata_recovery_strategy == REBOOTSTRAP

    def learn(
        self, refused_by: int, leaders: Mapping[TopicPartition, LeaderTold], endpoints: Sequence[EndpointTold]
    ) -> set[TopicPartition]:
        """Take the leaders that a node names where it refused partitions (KIP-951).

        Returns those whose new leader and its address are known now: no metadata request is needed for them.
        """
        self.metadata = self.metadata.with_leaders(leaders, endpoints)
        return {
            partition
            for partition, told in leaders.items()
            if (row := self.metadata.leader(partition)) is not None
            and row.leader != refused_by
            and row.leader_epoch >= told.leader_epoch >= 0
        }

    def old_at_s(self, topics: Iterable[str] | None) -> float:
        """When metadata.max.age.ms will have passed since the last look at one of these topics, or at all (None), in
        the time of the event loop. A later look only puts it off: what is not over need not be asked again.
        """
        return self._looks.old_at_s(topics)

    def is_old(self, topics: Iterable[str] | None) -> bool:
        """Whether that is over."""
        return self.old_at_s(topics) <= asyncio.get_running_loop().time()

    async def topic(self, name: str, *, create: bool = False, timeout_ms: int | None = None) -> TopicMetadata:
        """The topic's metadata, from memory if it is there and all its partitions have a leader."""
        known = self.metadata.topics.get(name)
        if known is not None and _is_complete(known):
            return known

        async def look() -> TopicMetadata:
            found = (await self.refresh([name], create=create)).topics.get(name)
            if found is None:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name!r} does not exist")
            if found.error:
                raise KafkaError(found.error, _about_topic(name, found.error))
            return found

        return await self.retrying(look, timeout_ms=timeout_ms, passing=topic_may_come if create else is_passing)

    # Connections

    async def any_connection(self) -> Connection:
        """The least busy open one; else a new one to any broker that answers."""
        open_ones = [
            connection
            for purpose, link in self._links.items()
            if not purpose.coordinator and (connection := link.connection) is not None
        ]
        if open_ones:
            return min(open_ones, key=lambda connection: connection.in_flight)
        if self._seed is not None and not self._seed.closed:
            return self._seed
        failure = None
        for node_id in list(self.metadata.brokers):
            try:
                return await self.connection(node_id)
            except ConnectionFailedError as error:
                failure = error
        if failure is not None and not self._begins_anew:
            raise failure
        return await self._connect_seed()

    async def connection(self, node_id: int) -> Connection:
        return await self._connection(_Purpose(node_id))

    async def coordinator_connection(self, key: str, key_type: int = GROUP_COORDINATOR) -> Connection:
        """A connection of its own: nothing of a group stands behind a long fetch."""
        return await self._connection(_Purpose(await self.coordinator(key, key_type), coordinator=True))

    def _check_open(self) -> None:
        if self._is_closed:
            raise ClientClosedError("this client is closed")

    async def _connection(self, purpose: _Purpose) -> Connection:
        self._check_open()
        link = self._links.get(purpose)
        if link is None:
            link = self._links[purpose] = Link(partial(self._connect, purpose.node_id))
        try:
            return await link.opened()
        except WrongNodeError as error:
            if self._begins_anew:
                self._begin_anew(str(error))
            raise

    def _begin_anew(self, why: str) -> None:
        """Forget the cluster: the next thing that is asked goes to a bootstrap server."""
        seed, self._seed = self._seed, None
        self._coordinators.clear()
        self.metadata = self.metadata.without_nodes()
        for link in self._links.values():
            link.give_up(f"the client begins anew, as {why}")
        if seed is not None:
            seed.abort(f"the client begins anew, as {why}")

    async def _connect(self, node_id: int) -> Connection:
        """The seed, if that is this node's; else a new connection."""
        broker = self.metadata.brokers.get(node_id)
        if broker is None:
            raise ConnectionFailedError(f"node {node_id} is not in the cluster now")
        if self._seed is not None and not self._seed.closed and self._seed.address == broker.address:
            connection, self._seed = self._seed, None
            return connection
        cluster_id = self.metadata.cluster_id if self.settings.metadata_cluster_check_enable else None
        node = None if cluster_id is None else KnownNode(cluster_id, node_id)
        try:
            return await self._reconnects.connect(broker.address, node)
        except ClusterUnreachableError as error:
            raise ClusterUnreachableError(f"{error}, which node {node_id} advertises as its address") from None

    async def _connect_seed(self) -> Connection:
        """Tasks that need one at the same time share it."""
        failures: list[str] = []
        async with self._seeking:
            if self._seed is not None and not self._seed.closed:
                return self._seed
            self._check_open()
            for address in await self._bootstrap_addresses():
                try:
                    found = await self._reconnects.connect(address)
                except ConnectionFailedError as error:
                    failures.append(str(error))
                    continue
                if self._is_closed:
                    found.abort("the client was closed meanwhile")
                self._check_open()
                self._seed = found
                return found
        raise ClusterUnreachableError("; ".join(failures))

    async def _bootstrap_addresses(self) -> Sequence[Address]:
        if self.settings.client_dns_lookup != CANONICAL_BOOTSTRAP:
            return self._bootstrap
        try:
            return await canonical(self._bootstrap)
        except OSError as error:
            names = ", ".join(map(str, self._bootstrap))
            raise ClusterUnreachableError(f"{names}: no name is known to the resolver ({reason(error)})") from None

    # Routing

    async def to_node(self, node_id: int, message: Message, answer: type[Answer], newest: int | None = None) -> Answer:
        return await (await self.connection(node_id)).request(message, answer, newest=newest)

    async def to_any(self, message: Message, answer: type[Answer], newest: int | None = None) -> Answer:
        """Ask the least busy broker."""
        return await (await self.any_connection()).request(message, answer, newest=newest)

    async def to_controller(self, message: Message, answer: type[Answer]) -> Answer:
        """Ask the broker that Metadata names as the controller (in KRaft any broker hands on to it)."""
        node_id = self.metadata.controller_id
        if node_id == NO_NODE or node_id not in self.metadata.brokers:
            return await self.to_any(message, answer)
        return await self.to_node(node_id, message, answer)

    async def coordinator(self, key: str, key_type: int = GROUP_COORDINATOR) -> int:
        """The node that coordinates the group, or what the key is, from memory or looked up.

        KafkaError while there is none.
        """
        known = self._coordinators.get((key_type, key))
        if known is not None and known in self.metadata.brokers:
            return known
        self.forget_coordinator(key, key_type)
        connection = await self.any_connection()
        request = coordinator_request(key, connection.version_for(ApiKey.FIND_COORDINATOR), key_type)
        node_id, _ = coordinator_in(await connection.request(request, FindCoordinatorResponse), key, key_type)
        if node_id not in self.metadata.brokers:
            await self.refresh([])
        self._coordinators[key_type, key] = node_id
        return node_id

    async def coordinators(self, keys: Sequence[str], key_type: int = GROUP_COORDINATOR) -> dict[str, int]:
        """The nodes that coordinate these, many looked up at once; a key that nobody coordinates now is left out."""
        found = {key: self._coordinators.get((key_type, key), NO_NODE) for key in keys}
        unknown = [key for key, node_id in found.items() if node_id not in self.metadata.brokers]
        found |= dict.fromkeys(unknown, NO_NODE)
        connection = await self.any_connection()
        if connection.version_for(ApiKey.FIND_COORDINATOR) < COORDINATORS_BY_KEYS:
            for key in unknown:
                with suppress(KafkaError):
                    found[key] = await self.coordinator(key, key_type)
            unknown = []
        for first in range(0, len(unknown), KEYS_AT_ONCE):
            request = coordinators_request(unknown[first : first + KEYS_AT_ONCE], key_type)
            for row in (await connection.request(request, FindCoordinatorResponse)).coordinators:
                self.forget_coordinator(row.key, key_type)
                if not row.error_code:
                    found[row.key] = self._coordinators[key_type, row.key] = row.node_id
        if any(found[key] not in self.metadata.brokers for key in unknown):
            await self.refresh([])
        return {key: node_id for key in keys if (node_id := found[key]) in self.metadata.brokers}

    def addresses_for(self, group_id: str) -> list[Address]:
        """Bootstrap addresses for another client of this group: its coordinator, the other brokers, our own ones."""
        known = self.metadata.brokers
        nodes = [
            node_id for node_id in (self._coordinators.get((GROUP_COORDINATOR, group_id)),) if node_id in known
        ] + list(known)
        return list(dict.fromkeys([known[node_id].address for node_id in nodes] + list(self._bootstrap)))

    def forget_coordinator(self, key: str, key_type: int = GROUP_COORDINATOR) -> None:
        """It has moved, or cannot be reached."""
        self._coordinators.pop((key_type, key), None)

    async def to_coordinator(
        self,
        key: str,
        message: Message,
        answer: type[Answer],
        newest: int | None = None,
        *,
        key_type: int = GROUP_COORDINATOR,
    ) -> Answer:
        """Ask the coordinator of a group, or of what the key is; it is forgotten when it cannot be reached."""
        try:
            connection = await self.coordinator_connection(key, key_type)
            return await connection.request(message, answer, newest=newest)
        except ConnectionFailedError:
            self.forget_coordinator(key, key_type)
            raise

    # Trying again

    async def retrying(
        self,
        attempt: Callable[[], Awaitable[Result]],
        *,
        timeout_ms: int | None = None,
        passing: "Callable[[Exception], bool] | None" = None,
    ) -> Result:
        """Repeat `attempt` while its failure may pass, at most for default.api.timeout.ms; raise the last failure."""
        loop = asyncio.get_running_loop()
        may_pass = passing or is_passing
        limit_ms = self.settings.default_api_timeout_ms if timeout_ms is None else timeout_ms
        deadline = loop.time() + limit_ms / 1000
        number = 0
        while True:
            try:
                return await attempt()
            except (ConnectionFailedError, KafkaError) as error:
                pause = self.settings.backoff_ms(number) / 1000
                if not may_pass(error) or loop.time() + pause >= deadline:
                    raise
                number += 1
                await asyncio.sleep(pause)
                if isinstance(error, ConnectionFailedError) or error.code in _ELSEWHERE:
                    await self.look_again()

    async def look_again(self, partitions: Iterable[TopicPartition] = ()) -> None:
        """Refresh the metadata after a failure, if the cluster can be reached: leaders may have changed."""
        try:
            await self.refresh(sorted({partition.topic for partition in partitions}))
        except (ClientError, KafkaError):
            pass  # the next attempt says so

    async def from_controller(self, message: Message, answer: type[Answer], *about: str | None) -> Answer:
        """The controller's answer, asked again while its failure may pass; raises a refusal of the whole request."""

        async def attempt() -> Answer:
            response: Any = await self.to_controller(message, answer)
            raise_for(response.error_code, getattr(response, "error_message", ""), *about)
            return cast("Answer", response)

        return await self.retrying(attempt)


def is_passing(error: Exception) -> bool:
    if isinstance(error, KafkaError):
        return error.retriable and error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return isinstance(error, ConnectionFailedError) and not isinstance(error, AnswerTooLargeError)


def topic_may_come(error: Exception) -> bool:
    """`is_passing`, where the topic was just created, and the broker that was asked may not have heard of it yet."""
    return is_passing(error) or (isinstance(error, KafkaError) and error.retriable)


def _is_complete(topic: TopicMetadata) -> bool:
    return bool(topic.partitions) and not topic.error and all(row.leader >= 0 for row in topic.partitions.values())


def _about_topic(name: str, code: ErrorCode) -> str:
    if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return f"topic {name!r} does not exist"
    if code == ErrorCode.INVALID_TOPIC_EXCEPTION:
        return f"{name!r} is no name for a topic: at most 249 of the characters a-z A-Z 0-9 . _ -"
    return f"topic {name!r}"
