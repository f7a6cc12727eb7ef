"""A broker's life in its cluster: it registers, is let in, tells that it lives, and goes.

| step       | what the broker does                                            | it is over when                      |
| ---------- | --------------------------------------------------------------- | ------------------------------------ |
| `register` | asks for a broker epoch, again while no controller answers: for | its registration was applied here    |
|            | `initial.broker.registration.timeout.ms`; a voter without end   |                                      |
| `unfence`  | sends heartbeats: it has seen its registration                  | the image says that it is not fenced |
| alive      | a heartbeat every `broker.heartbeat.interval.ms`                | `leave`                              |
| `leave`    | asks to be relieved of what it leads, until it may go           | it may go, or no controller answers  |

A log directory that fails is told in the next heartbeat, which comes at once, and in all later ones; a broker that
cannot tell it within `log.dir.failure.timeout.ms` ends, as no other broker would ever lead what lies there.

A partition that gets another leader is told at once by the brokers that have it: the controller moves the next one when
it knows (`penstock.leadership.balancer`).

A broker whose registration is gone registers anew. One whose epoch is stale was replaced: another process registered
under its id. Two cannot serve as one, so this one ends: `on_replaced`.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final
from uuid import UUID

from penstock.metadata.features import CORDONED_LEVEL, SUPPORTED_FEATURES, beyond
from penstock.metadata.image import BrokerImage, ClusterImage, Endpoint
from penstock.metadata.records import MetadataRecord, PartitionChangeRecord
from penstock.metadata.security import is_gone_by
from penstock.node.controlling.commands import ActiveController
from penstock.node.controlling.lease import BrokerLease
from penstock.node.environment.tasks import Tasks, all_ended
from penstock.node.quorum.metadata_log import MetadataLog
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from penstock.protocol.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    Feature,
    Listener,
)
from penstock.protocol.value import Value

UNKNOWN_EPOCH = -1
RETRY_S: Final = 0.1
"""After a controller's refusal that may pass."""
LEAVE_LIMIT_S: Final = 5.0
"""How long a broker that stops waits until others have taken over what it leads, ..."""
LEAVE_ANSWER_MS: Final = 2_000
"""... and how long for a controller to answer at all."""

MAY_PASS: Final = (
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NOT_CONTROLLER,
    ErrorCode.DUPLICATE_BROKER_REGISTRATION,
    ErrorCode.THROTTLING_QUOTA_EXCEEDED,
    ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.NETWORK_EXCEPTION,
)
"""Refusals of a registration that need not stay: a process that died holds its registration for a while."""
WITHOUT_CONTROLLER: Final = (
    ErrorCode.NONE,  # and what it has done is not committed
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NOT_CONTROLLER,
    ErrorCode.NETWORK_EXCEPTION,
)
"""The last answers that a broker may have had where no controller is active any more."""

logger = logging.getLogger(__name__)


class BrokerIdentity(Value, kw_only=True):
    """Of one run of its process; `previous_epoch` is known after a clean stop only (KIP-966).

    `log_dirs`, `offline_log_dirs` and `cordoned_log_dirs` give the ids of its log directories as they are now.
    """

    node_id: int
    incarnation_id: UUID
    endpoints: Sequence[Endpoint]
    rack: str | None = None
    log_dirs: Callable[[], Sequence[UUID]] = tuple
    offline_log_dirs: Callable[[], Sequence[UUID]] = tuple
    cordoned_log_dirs: Callable[[], Sequence[UUID]] = tuple
    previous_epoch: int = UNKNOWN_EPOCH


class LifecycleTimes(Value, kw_only=True):
    heartbeat_interval_ms: int = 2_000
    registration_timeout_ms: int = 60_000
    directory_failure_timeout_ms: int = 30_000
    votes: bool = False
    """Whether the node votes in the quorum as well."""


def _reason_of_silence(last: ErrorCode) -> str:
    if last == ErrorCode.REQUEST_TIMED_OUT:
        return (
            "no active controller was found: does a majority of the controllers run, at the addresses where this node"
            " looks for them?"
        )
    return f"the last answer was {last.name}" if last else "the metadata did not come"


class BrokerLifecycle:
    def __init__(
        self,
        identity: BrokerIdentity,
        controller: ActiveController,
        log: MetadataLog,
        times: LifecycleTimes = LifecycleTimes(),
        *,
        lease: BrokerLease,
        on_replaced: Callable[[KafkaError], None],
    ) -> None:
        self.epoch = UNKNOWN_EPOCH
        self._lease = lease
        self._identity = identity
        self._controller = controller
        self._log = log
        self._image = log.image
        self._times = times
        self._on_replaced = on_replaced
        self._knows_namesake = False
        self._last_answer = ErrorCode.REQUEST_TIMED_OUT
        self._is_out = False
        self._was_over = False
        """Whether the last log line about the lease says that it is over."""
        self._tasks = Tasks()
        self._beating: asyncio.Task[None] | None = None
        self._has_news = asyncio.Event()
        self._untold_since_s: float | None = None
        self._metadata_changed = asyncio.Event()
        log.add_listener(self._applied_records, self._metadata_changed.set)

    @property
    def image(self) -> ClusterImage:
        return self._image

    def _applied_records(self, records: Sequence[MetadataRecord]) -> None:
        self._metadata_changed.set()
        if any(self._is_waited_for(record) for record in records):
            self._has_news.set()

    def _is_waited_for(self, record: MetadataRecord) -> bool:
        """Whether the controller is to hear soon that this broker has applied it."""
        if isinstance(record, PartitionChangeRecord):
            return self._has_new_leader(record)
        return is_gone_by(record)

    def _has_new_leader(self, record: PartitionChangeRecord) -> bool:
        topic = self._image.topics_by_id.get(record.topic_id) if record.leader >= 0 else None
        return topic is not None and self._identity.node_id in topic.partitions[record.partition_id].replicas

    # -- coming -------------------------------------------------------------------------------------------------------

    async def register(self) -> None:
        """Returns once applied here. Raises KafkaError as the controller refused, or REQUEST_TIMED_OUT without one."""
        await self._within_limit(self._is_registered, "this broker could not be registered")

    async def _is_registered(self) -> bool:
        if await self._ask_to_register() != ErrorCode.NONE:
            self._tell_of_namesake(self._last_answer)
            return False
        await self._applied(lambda: self._registered is not None)
        return True

    async def _within_limit(self, is_done: Callable[[], Awaitable[bool]], what: str) -> None:
        """Tries until that is so, for as long as a start may take; a voter goes on while no controller is active: if it
        ended, it would take along the vote that the others may need to elect one.
        """
        limit_ms = self._times.registration_timeout_ms
        while True:
            self._last_answer = ErrorCode.REQUEST_TIMED_OUT
            try:
                async with asyncio.timeout(limit_ms / 1000):
                    while not await is_done():
                        await asyncio.sleep(RETRY_S)
                    return
            except TimeoutError:
                why = f"{what} within {limit_ms} ms: {_reason_of_silence(self._last_answer)}"
            if not self._times.votes or self._last_answer not in WITHOUT_CONTROLLER:
                raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, why) from None
            logger.warning("%s; this node stays, for its vote is needed to elect one, and goes on trying", why)

    def _tell_of_namesake(self, code: ErrorCode) -> None:
        """Says once that another process lives, or lived until now, as this broker."""
        if code != ErrorCode.DUPLICATE_BROKER_REGISTRATION or self._knows_namesake:
            return
        self._knows_namesake = True
        logger.warning(
            "broker %d is registered with other log directories, and was alive a moment ago: this one waits until that"
            " process has been silent for broker.session.timeout.ms; if it lives, two nodes have the same node.id",
            self._identity.node_id,
        )

    async def unfence(self) -> None:
        """Sends heartbeats until the broker is let in, and goes on with them until `leave`. Raises KafkaError."""
        await self._within_limit(self._is_let_in, "the controller did not let this broker in")
        self._beating = self._tasks.keep(self._beat, "broker heartbeats")

    async def _is_let_in(self) -> bool:
        """One heartbeat, and after a good answer a while for the metadata to say so, too. Raises KafkaError."""
        reply = await self._heartbeat()
        self._last_answer = ErrorCode(reply.error_code)
        if reply.error_code == ErrorCode.STALE_BROKER_EPOCH:
            raise self._replaced()
        if reply.error_code or reply.is_fenced:
            return False
        try:
            async with asyncio.timeout(self._times.heartbeat_interval_ms / 1000):
                await self._applied(lambda: (own := self._registered) is not None and not own.fenced)
        except TimeoutError:
            return False  # it may have been fenced again meanwhile, and must not fall silent
        return True

    @property
    def _registered(self) -> BrokerImage | None:
        known = self._image.brokers.get(self._identity.node_id)
        return known if known is not None and known.incarnation_id == self._identity.incarnation_id else None

    @property
    def is_registered(self) -> bool:
        """Whether the cluster knows this run of the broker."""
        return self._registered is not None

    @property
    def is_unfenced(self) -> bool:
        return (own := self._registered) is not None and not own.fenced

    async def _applied(self, is_so: Callable[[], bool]) -> None:
        while not is_so():
            self._metadata_changed.clear()
            await self._metadata_changed.wait()

    async def _ask_to_register(self) -> ErrorCode:
        """What the controller answers, if that may pass. Raises KafkaError for what does not."""
        identity = self._identity
        command = BrokerRegistrationRequest(
            broker_id=identity.node_id,
            cluster_id=self._image.cluster_id,
            incarnation_id=identity.incarnation_id,
            listeners=[
                Listener(name=e.listener, host=e.host, port=e.port, security_protocol=e.security_protocol)
                for e in identity.endpoints
            ],
            features=[
                Feature(name=name, min_supported_version=levels.lowest, max_supported_version=levels.newest)
                for name, levels in SUPPORTED_FEATURES.items()
            ],
            rack=identity.rack,
            log_dirs=list(identity.log_dirs()),
            previous_broker_epoch=identity.previous_epoch if self.epoch == UNKNOWN_EPOCH else self.epoch,
        )
        try:
            reply = await self._controller.submit(command, BrokerRegistrationResponse)
        except KafkaError as error:
            reply = BrokerRegistrationResponse(error_code=error.code)
        code = self._last_answer = ErrorCode(reply.error_code)
        if code == ErrorCode.NONE:
            self.epoch = reply.broker_epoch
            self._lease.is_registered(self.epoch)
        elif code not in MAY_PASS:
            raise KafkaError(code, f"the controller refuses this broker: {code.name}{self._reason(code)}")
        return code

    def _reason(self, code: ErrorCode) -> str:
        """What the answer leaves out: it has room for a code alone."""
        if code != ErrorCode.UNSUPPORTED_VERSION:
            return ""
        levels = self._image.features
        too_new = beyond(levels)
        if not too_new:
            return (
                ": the cluster has a feature at a level at which this node does not run (`penstock features describe`)"
            )
        told = [
            f"{name} is at {levels[name]}, and this node runs it at most at {too_new[name].newest}" for name in too_new
        ]
        lower = " ".join(f"--feature {name}={runs_at.newest}" for name, runs_at in too_new.items())
        return f": {'; '.join(told)}. `penstock features downgrade {lower}` lowers them; or start a newer release here"

    # -- living -------------------------------------------------------------------------------------------------------

    async def _heartbeat(self, *, want_shut_down: bool = False) -> BrokerHeartbeatResponse:
        command = BrokerHeartbeatRequest(
            broker_id=self._identity.node_id,
            broker_epoch=self.epoch,
            current_metadata_offset=self._log.told_offset,
            want_shut_down=want_shut_down,
            offline_log_dirs=list(self._identity.offline_log_dirs()),
            cordoned_log_dirs=self._cordoned(),
        )
        asked_s = self._lease.beats()
        deadline_s = asyncio.get_running_loop().time() + self._lease.length_s / 2  # the next one counts from later
        try:
            reply = await self._controller.submit(command, BrokerHeartbeatResponse, deadline_s=deadline_s)
        except KafkaError as error:
            self._lease.beats()
            return BrokerHeartbeatResponse(error_code=error.code)
        self._is_out = not reply.error_code and reply.is_fenced
        if self._is_out or reply.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED:
            self._lease.ends()
        elif not reply.error_code:
            self._lease.is_renewed(asked_s)
        return reply

    def _cordoned(self) -> list[UUID] | None:
        is_known = self._image.metadata_version >= CORDONED_LEVEL
        return list(self._identity.cordoned_log_dirs()) if is_known else None

    def beat_soon(self) -> None:
        """The next heartbeat says something new."""
        self._has_news.set()

    def tell_of_directories(self) -> None:
        if self._untold_since_s is None:
            self._untold_since_s = asyncio.get_running_loop().time()
        self._has_news.set()

    async def _pause(self) -> None:
        interval_s = self._times.heartbeat_interval_ms / 1000
        with suppress(TimeoutError):
            async with asyncio.timeout(min(interval_s, RETRY_S) if self._is_out else interval_s):
                await self._has_news.wait()
        self._has_news.clear()

    async def _beat(self) -> None:
        """Tells that the broker lives, until it ends or is replaced."""
        is_replaced = False
        while not is_replaced:
            await self._pause()
            try:
                is_replaced = await self._beat_once()
            except Exception:
                logger.exception("a heartbeat failed by our own fault; the next one follows")

    async def _beat_once(self) -> bool:
        """One heartbeat, and what follows from its answer; whether this broker has to end."""
        untold_since_s = self._untold_since_s
        self._tell_of_lease()
        code = ErrorCode((await self._heartbeat()).error_code)
        self._tell_of_lease()
        if code == ErrorCode.STALE_BROKER_EPOCH and not self._is_own_newer():
            self._on_replaced(self._replaced())
            return True
        if code == ErrorCode.BROKER_ID_NOT_REGISTERED:
            await self._register_anew()
        elif code != ErrorCode.NONE:
            logger.warning("no controller has taken the heartbeat: %s", code.name)
        elif self._untold_since_s == untold_since_s:
            self._untold_since_s = None
        return self._ends_untold()

    def _tell_of_lease(self) -> None:
        """The log tells an operator why clients are refused."""
        if self._lease.is_over == self._was_over:
            return
        self._was_over = not self._was_over
        if self._was_over:
            logger.warning("the lease of this broker is over: until it is renewed it leads nothing that others may")
        else:
            logger.warning("the controller has renewed the lease of this broker: it leads again what is still its own")

    def _ends_untold(self) -> bool:
        """Whether the controller could not be told for too long that a log directory failed."""
        limit_ms = self._times.directory_failure_timeout_ms
        now_s = asyncio.get_running_loop().time()
        if self._untold_since_s is None or now_s - self._untold_since_s < limit_ms / 1000:
            return False
        self._on_replaced(
            KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"a log directory failed, and no controller could be told within {limit_ms} ms",
            )
        )
        return True

    def _is_own_newer(self) -> bool:
        """Whether the newer registration is this broker's own: its answer was lost, and it was asked for twice."""
        known = self._registered
        if known is None or known.epoch <= self.epoch:
            return False
        self.epoch = known.epoch
        self._lease.is_registered(self.epoch)
        return True

    async def _register_anew(self) -> None:
        logger.warning("this broker is not registered any more: it registers anew")
        try:
            await self._ask_to_register()
        except KafkaError as error:
            self._on_replaced(error)

    def _replaced(self) -> KafkaError:
        self._lease.ends()
        return KafkaError(
            ErrorCode.STALE_BROKER_EPOCH,
            f"another process has registered as broker {self._identity.node_id} since: two brokers have the same"
            " node.id, this one stops",
        )

    # -- going --------------------------------------------------------------------------------------------------------

    async def leave(self, *, hand_over: bool = True) -> None:
        """Sends no more heartbeats. With `hand_over`, waits a while until others lead what this broker led."""
        if self._beating is None:
            return
        beating, self._beating = self._beating, None
        beating.cancel()
        await all_ended([beating])
        if not hand_over or len(self._image.brokers) < 2:
            return
        self._lease.is_laid_down()
        try:
            async with asyncio.timeout(LEAVE_LIMIT_S):
                while True:
                    async with asyncio.timeout(LEAVE_ANSWER_MS / 1000):
                        reply = await self._heartbeat(want_shut_down=True)
                    if reply.error_code or reply.should_shut_down:
                        return
                    await asyncio.sleep(RETRY_S)
        except TimeoutError:
            logger.warning("this broker goes without handing over what it leads: no controller says that it may")
