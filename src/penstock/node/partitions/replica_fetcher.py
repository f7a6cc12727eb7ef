"""Follows the partitions that one broker leads: fetches their records, appends them, and cuts what the leader lacks.

One request is under way at a time, within a fetch session. Each names, for every partition whose log has changed, how
far it is and the epoch of its last record; a leader whose log parted from it says where (KIP-595), so that a follower
is cut and goes on in the same request that brings records to the others.

| the leader says          | what happens here                                                                      |
| ------------------------ | -------------------------------------------------------------------------------------- |
| records                  | are checked and appended; the high watermark and the log's start follow                |
| a diverging epoch        | the log is cut to the last offset that both may share                                  |
| OFFSET_OUT_OF_RANGE      | its log ends before ours (an unclean election): ours is cut; or it begins behind ours: |
|                          | ours begins anew there                                                                 |
| it leads another epoch   | one of the two is behind in the metadata: this partition rests for some milliseconds,  |
|                          | each time for twice as long as before, up to `replica.fetch.backoff.ms`                |
| another error            | this partition rests for `replica.fetch.backoff.ms`; the others go on                  |
| nothing, or nonsense     | the connection and the session are opened again after a pause                          |

A partition that is throttled, and that its leader does not wait for yet, rests as well while
`follower.replication.throttled.rate` is exceeded (KIP-73). So does one whose log directory is full: it comes in sync
again, and may lead, when there is room, and not for the one small batch that still finds some. Where `flush.messages`
wants a flush of what came, the next request waits `FLUSH_PATIENCE_S` for it, and then goes without the partition.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from penstock.client.connection import Connection, KnownNode, connect
from penstock.client.errors import (
    ClientError,
    ClusterUnreachableError,
    RequestTimedOutError,
    UnsupportedByBrokerError,
)
from penstock.client.link import Link
from penstock.client.settings import ClientSettings
from penstock.log.directories.directory import LogDirectories
from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.node.controlling.lease import BrokerLease
from penstock.node.environment.tasks import Tasks
from penstock.node.partitions.cuts import Cuts
from penstock.node.partitions.isr_partition import IsrPartition
from penstock.node.partitions.leader_offsets import EARLIEST, LATEST, leader_offset
from penstock.node.partitions.partition import Partition
from penstock.protocol.address import Address
from penstock.protocol.errors import DecodeError, ErrorCode, KafkaError
from penstock.protocol.requests.api import ApiKey
from penstock.protocol.requests.following import (
    OLDEST,
    Followed,
    FollowerRequest,
    Key,
    Position,
    encode_follower_request,
    read_follower_response,
)
from penstock.protocol.value import Value
from penstock.replication.fetch_session import FollowerSession

logger = logging.getLogger(__name__)

APPENDED_AT_ONCE: Final = 2 << 20
"""Bytes that are appended before the event loop gets to do something else: a millisecond or two."""
LOOKED_AT_ONCE: Final = 200
"""Partitions of an answer, likewise."""
NEW_SESSION: Final = (
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
)
"""Refusals after which a request with a new session is tried at once."""
PASSING: Final = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
)
"""One of the two brokers is behind in the metadata: no log line is needed."""
FLUSH_PATIENCE_S: Final = 0.1
PASSING_MS: Final = 10
"""How long a partition rests after the first such answer; after each further one twice as long."""


class Follower(Value, kw_only=True):
    """This broker. `address_of` says where another broker is, None if that is unknown."""

    node_id: int
    cluster_id: str
    lease: BrokerLease
    config: BrokerConfig
    settings: ClientSettings
    disks: LogDirectories
    address_of: Callable[[int], Address | None]

    def request(self) -> FollowerRequest:
        """What all its requests share as long as the broker epoch is the same: none of these keys changes meanwhile."""
        config = self.config
        return FollowerRequest(
            client_id=self.settings.client_id,
            replica_id=self.node_id,
            replica_epoch=self.lease.broker_epoch,
            max_wait_ms=config.replica_fetch_wait_max_ms,
            min_bytes=config.replica_fetch_min_bytes,
            max_bytes=config.replica_fetch_response_max_bytes,
            partition_max_bytes=config.replica_fetch_max_bytes,
        )


class ReplicaFetcher:
    """It works from the first partition on until `stop`."""

    def __init__(self, leader_id: int, follower: Follower) -> None:
        self.leader_id = leader_id
        self._follower = follower
        self._session = FollowerSession()
        self._partitions: dict[Key, IsrPartition] = {}
        self._resting: dict[Key, asyncio.TimerHandle] = {}
        self._passing: dict[Key, int] = {}
        """How long each partition rests next if one of the two brokers is behind."""
        leader = KnownNode(follower.cluster_id, leader_id)
        self._link = Link(partial(connect, settings=follower.settings, node=leader))
        self._connection: Connection | None = None
        """The one that the session is on: no other request has a place in between, so answers can be taken at once."""
        self._version = OLDEST
        self._request: FollowerRequest | None = None
        self._failures = 0
        self._asked_s = 0.0
        self._over: asyncio.Future[Exception | None] | None = None
        """Done when the next step is not another request; None while nothing is asked."""
        self._out_of_range: list[tuple[Key, IsrPartition, int]] = []
        """Partitions that ask for what is not there, and the leader epochs in which they did."""
        self._unkept: dict[Key, None] = {}  # partitions that are flushed, as long as there is `_patience` with them
        self._patience: asyncio.TimerHandle | None = None
        self._wanted = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._cuts = Cuts(follower.disks, self._could_not_be_cut)
        self._tasks = Tasks()
        self._tasks.keep(self._run, f"follow broker {leader_id}")

    def __len__(self) -> int:
        return len(self._partitions)

    def follow(self, partition: IsrPartition) -> None:
        """Fetch this partition from where its log ends, in its leader's epoch as it is now."""
        key = (partition.topic_id.bytes, partition.index)
        self._rest_no_longer(key)
        self._passing.pop(key, None)
        self._partitions[key] = partition
        self._want(key, partition)

    def leave(self, partition: Partition) -> None:
        key = (partition.topic_id.bytes, partition.index)
        self._rest_no_longer(key)
        self._passing.pop(key, None)
        if self._partitions.pop(key, None) is not None:
            self._session.forget(key)

    async def stop(self) -> None:
        for key in list(self._resting):
            self._rest_no_longer(key)
        await self._tasks.stop()
        await self._link.close()
        await self._cuts.settle()

    # -- what is wanted -----------------------------------------------------------------------------------------------

    def _want(self, key: Key, partition: IsrPartition) -> None:
        """Fetch on from where the log ends, or rest if that cannot be read now, or must not be."""
        log = partition.log
        if log.when_back(partial(self._is_back, key, partition)):
            self._session.forget(key)  # where it ends is not known before that is over
            return
        try:
            is_quick = partition.follower_quota is None and not log.health.is_full
            if not is_quick and (wait_ms := self._held_back_ms(partition)):
                self._rest(key, wait_ms)
                return
            if partition.when_kept(partial(self._is_kept, key, partition)):
                self._session.forget(key)
                self._unkept[key] = None
                return
            epochs = partition.leader_epoch, log.latest_epoch
            position = Position(log.log_end_offset, log.log_start_offset, *epochs)
        except KafkaError as error:
            logger.error("%s: cannot be followed: %s", partition, error)
            self._rest(key)
            return
        self._session.want(key, position)
        self._wanted.set()

    def _held_back_ms(self, partition: IsrPartition) -> int:
        """For how long to leave alone a partition that is throttled or has no room; 0 if it may go on."""
        follower, quota = partition.follower, partition.follower_quota
        if follower is None or not follower.may_be_held_back:
            return 0
        if partition.log.health.is_full:
            return self._follower.config.replica_fetch_backoff_ms
        return 0 if quota is None else quota.wait_ms(self._follower.settings.now_ms())

    def _is_back(self, key: Key, partition: IsrPartition) -> None:
        if self._partitions.get(key) is partition and key not in self._resting:
            self._want(key, partition)

    def _is_kept(self, key: Key, partition: IsrPartition) -> None:
        self._unkept.pop(key, None)
        self._is_back(key, partition)
        if self._patience is not None and not self._unkept:
            self._go_on_asking()

    def _wait_no_longer(self) -> None:
        self._unkept.clear()
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _could_not_be_cut(self, partition: IsrPartition) -> None:
        key = (partition.topic_id.bytes, partition.index)
        if self._partitions.get(key) is partition:
            self._rest(key)

    def _rest(self, key: Key, at_most_ms: int | None = None) -> None:
        """Leave a partition alone for a while: `replica.fetch.backoff.ms`, or less."""
        self._session.forget(key)
        self._rest_no_longer(key)
        backoff_ms = self._follower.config.replica_fetch_backoff_ms
        pause_ms = backoff_ms if at_most_ms is None else min(backoff_ms, at_most_ms)
        self._resting[key] = self._loop.call_later(pause_ms / 1000, self._go_on, key)

    def _passing_ms(self, key: Key) -> int:
        """How long the broker that is behind in the metadata gets to catch up."""
        pause_ms = self._passing.get(key, PASSING_MS)
        self._passing[key] = min(2 * pause_ms, self._follower.config.replica_fetch_backoff_ms)
        return pause_ms

    def _rest_no_longer(self, key: Key) -> None:
        if (timer := self._resting.pop(key, None)) is not None:
            timer.cancel()

    def _go_on(self, key: Key) -> None:
        del self._resting[key]
        if key in self._partitions:
            self._want(key, self._partitions[key])

    # -- the requests -------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        while True:
            if not len(self._session):
                self._wanted.clear()
                await self._wanted.wait()
            try:
                await self._fetch()
            except (ClientError, KafkaError, DecodeError, TimeoutError) as error:
                await self._failed(error)
            except Exception as error:
                logger.exception("a fetch from broker %d failed by our own fault", self.leader_id)
                await self._failed(error)

    async def _fetch(self) -> None:
        """Go from answer to request, until there is another step to do; an answer is taken as soon as it comes."""
        self._connection = connection = await self._connected()
        self._version = _version(connection)
        self._over = over = self._loop.create_future()
        try:
            self._ask(connection)
            await self._answered(connection, over)
        finally:
            self._over = None
            self._wait_no_longer()
        out_of_range, self._out_of_range = self._out_of_range, []
        for key, partition, leader_epoch in out_of_range:
            if self._partitions.get(key) is partition and leader_epoch == partition.leader_epoch:
                await self._find_its_end(key, partition, connection)

    async def _answered(self, connection: Connection, over: asyncio.Future[Exception | None]) -> None:
        """Wait until `over`, but for no single answer longer than `replica.socket.timeout.ms`."""
        while not over.done():
            limit_ms = self._follower.config.replica_socket_timeout_ms
            left_s = self._asked_s + limit_ms / 1000 - self._loop.time()
            if left_s <= 0:
                raise RequestTimedOutError(f"{connection.address} did not answer within {limit_ms} ms")
            await asyncio.wait([over], timeout=left_s)
        error = over.result()
        if error is not None:
            raise error

    def _end(self, error: Exception | None = None) -> None:
        if self._over is not None and not self._over.done():
            self._over.set_result(error)

    async def _failed(self, error: Exception) -> None:
        if not self._failures:
            logger.warning("could not fetch from broker %d: %s", self.leader_id, error)
        self._out_of_range.clear()
        await self._link.close()  # and so the session ends
        pause_ms = self._follower.settings.backoff_ms(self._failures)
        self._failures += 1
        await asyncio.sleep(pause_ms / 1000)

    async def _connected(self) -> Connection:
        address = self._follower.address_of(self.leader_id)
        if address is None:
            raise ClusterUnreachableError(f"nobody has said where broker {self.leader_id} listens")
        connection = await self._link.opened(address)
        if connection is not self._connection:
            self._session.reset()
        return connection

    def _ask(self, connection: Connection) -> None:
        asked, request = self._session.next(), self._request
        if request is None or request.replica_epoch != self._follower.lease.broker_epoch:
            request = self._request = self._follower.request()
        self._asked_s = self._loop.time()
        connection.exchange(
            ApiKey.FETCH,
            lambda correlation_id: encode_follower_request(
                request,
                self._version,
                correlation_id,
                (asked.session_id, asked.epoch),
                asked.positions,
                asked.forgotten,
            ),
            self,
        )

    # -- the answers --------------------------------------------------------------------------------------------------

    def fail(self, error: ClientError) -> None:
        self._end(error)

    def take(self, frame: memoryview) -> None:
        """Nothing is asked before all records are taken from where they were received."""
        if self._over is None:
            return
        response = read_follower_response(frame, self._version)
        if response.error_code:
            self._session.reset()
            self._end(None if response.error_code in NEW_SESSION else KafkaError(ErrorCode(response.error_code)))
            return
        if self._failures:
            logger.info("broker %d answers again", self.leader_id)
            self._failures = 0
        self._take_some(response.session_id, iter(response.partitions))

    def _take_some(self, session_id: int, answers: Iterator[Followed]) -> None:
        """Do as the leader says; after some of it the event loop gets to do something else."""
        if self._over is None:
            return
        appended = looked_at = 0
        try:
            for data in answers:
                self._take_partition(data)
                looked_at += 1
                appended += len(data.records)
                if appended >= APPENDED_AT_ONCE or looked_at >= LOOKED_AT_ONCE:
                    self._loop.call_soon(self._take_some, session_id, answers)
                    return
            self._session.answered(session_id)
            if self._unkept:
                self._patience = self._loop.call_later(FLUSH_PATIENCE_S, self._go_on_asking)
            else:
                self._go_on_asking()
        except Exception as error:
            self._end(error)

    def _go_on_asking(self) -> None:
        """All is flushed, or a disk takes long."""
        self._wait_no_longer()
        connection = self._connection
        assert connection is not None
        is_there = not connection.closed and connection.address == self._follower.address_of(self.leader_id)
        if is_there and len(self._session) and not self._out_of_range:
            self._ask(connection)
        else:
            self._end()

    def _take_partition(self, data: Followed) -> None:
        """Rest if it cannot be used; a log that changed under the request is asked about again."""
        key = data.key
        partition, asked = self._partitions.get(key), self._session.told(key)
        if partition is None or asked is None or asked.leader_epoch != partition.leader_epoch:
            return  # it is followed no longer, or in another epoch, since the request went out
        if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._out_of_range.append((key, partition, asked.leader_epoch))
            return
        if data.error_code:
            self._refused(partition, data.error_code)
            self._rest(key, self._passing_ms(key) if data.error_code in PASSING else None)
            return
        if self._passing:
            self._passing.pop(key, None)
        if partition.log.is_lent or asked.fetch_offset != partition.log.log_end_offset:
            self._want(key, partition)
            return
        try:
            if data.diverging is not None:
                self._cuts.where_it_parts(partition, *data.diverging)
            else:
                records = data.records
                if records and partition.follower_quota is not None:
                    partition.follower_quota.record(len(records), self._follower.settings.now_ms())
                partition.append_fetched(records, data.high_watermark, data.log_start_offset)
        except KafkaError as error:
            logger.error("%s: what broker %d sent is not appended: %s", partition, self.leader_id, error)
            self._rest(key)
            return
        except Exception:
            logger.exception("%s: what broker %d sent is not appended, by our own fault", partition, self.leader_id)
            self._rest(key)
            return
        self._want(key, partition)

    def _refused(self, partition: IsrPartition, error_code: int) -> None:
        level = logging.DEBUG if error_code in PASSING else logging.WARNING
        logger.log(level, "%s: broker %d says %s", partition, self.leader_id, ErrorCode(error_code).name)

    async def _find_its_end(self, key: Key, partition: IsrPartition, connection: Connection) -> None:
        """Our log ends where the leader's has not begun, or behind where the leader's ends."""
        log, node_id = partition.log, self._follower.node_id
        try:
            end_offset = await leader_offset(connection, node_id, partition, LATEST)
            is_cut = end_offset < log.log_end_offset
            start_offset = 0 if is_cut else await leader_offset(connection, node_id, partition, EARLIEST)
            if self._partitions.get(key) is not partition:
                return
            if is_cut:
                self._cuts.to_the_leaders_end(partition, end_offset)
            elif start_offset > log.log_end_offset:
                self._cuts.anew(partition, start_offset)
        except KafkaError as error:
            logger.warning("%s: cannot go on from its end: %s", partition, error)
            if self._partitions.get(key) is partition:
                self._rest(key)
        else:
            if self._partitions.get(key) is partition:
                self._want(key, partition)


def _version(connection: Connection) -> int:
    version = connection.version_for(ApiKey.FETCH)
    if version < OLDEST:
        raise UnsupportedByBrokerError(f"{connection.address} serves Fetch up to version {version}, needed is {OLDEST}")
    return version
