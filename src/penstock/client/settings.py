"""How a client behaves: the names are those of Kafka's Java client in snake_case, and so are the defaults."""

import asyncio
import time
from collections.abc import Callable, Mapping
from random import Random, SystemRandom
from typing import TYPE_CHECKING, Final

from penstock.client.background import Background, BackgroundThread
from penstock.client.frames import MAX_FRAME_BYTES
from penstock.client.names import USE_ALL_DNS_IPS
from penstock.client.security import PLAINTEXT, WITH_SASL, WITH_TLS, Security
from penstock.protocol.compression import Compression
from penstock.protocol.value import Value, fresh

if TYPE_CHECKING:
    from penstock.client.login import Asked, Login
    from penstock.tls.opening import Opening

ACKS_ALL: Final = -1
REBOOTSTRAP: Final = "rebootstrap"
"""metadata.recovery.strategy: where no known broker tells of the cluster, begin anew (KIP-899, KIP-1102)."""
BY_DURATION: Final = "by_duration"
"""auto.offset.reset=by_duration:P1D begins with the first record of the last day (KIP-1106)."""


def wall_clock_ms() -> int:
    return time.time_ns() // 1_000_000


class ClientSettings(Value, kw_only=True):
    """`now_ms` and `random` are the seams for tests: record timestamps and the jitter of back-offs come from them."""

    client_id: str = "penstock"
    request_timeout_ms: int = 30_000
    default_api_timeout_ms: int = 60_000
    socket_connection_setup_timeout_ms: int = 10_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    metadata_max_age_ms: int = 300_000
    metadata_max_idle_ms: int = 300_000
    metadata_cluster_check_enable: bool = True
    metadata_recovery_strategy: str = REBOOTSTRAP
    metadata_recovery_rebootstrap_trigger_ms: int = 300_000
    reconnect_backoff_ms: int = 50
    reconnect_backoff_max_ms: int = 1_000
    connections_max_idle_ms: int = 540_000
    client_dns_lookup: str = USE_ALL_DNS_IPS
    security_protocol: str = PLAINTEXT
    security: Security = fresh(Security)
    """What begins with `ssl.` and `sasl.`, for `security_protocol`."""
    max_answer_bytes: int = MAX_FRAME_BYTES
    """A longer answer ends its connection before it is received."""
    now_ms: Callable[[], int] = wall_clock_ms
    random: Random = fresh(SystemRandom)

    @property
    def setup_limit_ms(self) -> int:
        """For each answer by which a connection begins."""
        return min(self.socket_connection_setup_timeout_ms, self.request_timeout_ms)

    def log_in_on(self, connection: "Asked") -> "Login | None":
        """What logs in on a connection; None where nobody logs in. ValueError for keys that cannot be used."""
        return self.security.log_in_on(connection, self.random) if self.security_protocol in WITH_SASL else None

    def opening(self, protocol: asyncio.BufferedProtocol, host: str, fail: Callable[[str], object]) -> "Opening | None":
        """Of a connection over TLS; None in the clear. UnusableSettingsError."""
        return self.security.opening(protocol, host, fail) if self.security_protocol in WITH_TLS else None

    def backoff_ms(self, attempt: int) -> float:
        """How long to wait after the failed attempt number `attempt` (from 0): doubling, bounded, 20 % of jitter."""
        return self._doubled(self.retry_backoff_ms, self.retry_backoff_max_ms, attempt)

    def reconnect_pause_ms(self, attempt: int) -> float:
        """The same, from the beginning of an attempt to connect to an address to the next one."""
        return self._doubled(self.reconnect_backoff_ms, self.reconnect_backoff_max_ms, attempt)

    def _doubled(self, first_ms: int, most_ms: int, attempt: int) -> float:
        full = min(first_ms * (1 << min(attempt, 20)), most_ms)
        return full * self.random.uniform(0.8, 1.2) if full else 0.0


class ProducerSettings(ClientSettings, kw_only=True):
    """`acks` is 0, 1 or -1 (all); idempotence needs -1 and is off with anything else. Transactions need idempotence.

    Batches of one partition are sent one after the other, so retries never change their order; what
    `max_in_flight_requests_per_connection` bounds is the requests that carry batches of different partitions.
    """

    acks: int = ACKS_ALL
    enable_idempotence: bool = True
    linger_ms: int = 5
    batch_size: int = 16_384
    compression_type: Compression = Compression.NONE
    compression_level: int | None = None
    max_request_size: int = 1_048_576
    buffer_memory: int = 33_554_432
    max_block_ms: int = 60_000
    delivery_timeout_ms: int = 120_000
    retries: int = 2_147_483_647
    max_in_flight_requests_per_connection: int = 5
    client_rack: str = ""
    partitioner_rack_aware: bool = False
    allow_auto_create_topics: bool = True
    transactional_id: str | None = None
    transaction_timeout_ms: int = 60_000
    transaction_two_phase_commit_enable: bool = False
    partitioner_class: str | None = None
    partitioner_settings: Mapping[str, str] = fresh(dict)
    """What `partitioner_class` is configured with besides, under names that begin with `partitioner.`."""

    @property
    def is_idempotent(self) -> bool:
        """Whether batches carry sequence numbers, by which a broker drops what it already has."""
        return self.enable_idempotence and self.acks == ACKS_ALL


class ConsumerSettings(ClientSettings, kw_only=True):
    """Kafka's defaults of today: the session timeout was 10 s before Kafka 3.0, now 45 s.

    `background` is a seam for simulations, which have no threads: where heartbeats are sent from.
    """

    group_id: str | None = None
    group_instance_id: str | None = None
    group_protocol: str = "classic"
    """Or consumer (KIP-848): the coordinator assigns, and says how often heartbeats are due and when a session ends."""
    group_remote_assignor: str | None = None
    """With the consumer protocol; None leaves it to the coordinator."""
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    max_poll_interval_ms: int = 300_000
    max_poll_records: int = 500
    enable_auto_commit: bool = True
    auto_commit_interval_ms: int = 5_000
    auto_offset_reset: str = "latest"
    isolation_level: str = "read_uncommitted"
    partition_assignment_strategy: tuple[str, ...] = ("range", "cooperative-sticky")
    fetch_min_bytes: int = 1
    fetch_max_bytes: int = 52_428_800
    fetch_max_wait_ms: int = 500
    max_partition_fetch_bytes: int = 1_048_576
    check_crcs: bool = True
    client_rack: str = ""
    exclude_internal_topics: bool = True
    allow_auto_create_topics: bool = True
    background: Callable[[str], Background] = BackgroundThread


class ShareConsumerSettings(ClientSettings, kw_only=True):
    """Of a member of a share group (KIP-932). `max_poll_records` is what a poll asks for: brokers give whole batches,
    unless `share_acquire_mode` is `record_limit` (KIP-1206). `background` as for `ConsumerSettings`.
    """

    group_id: str | None = None
    max_poll_interval_ms: int = 300_000
    max_poll_records: int = 500
    share_acknowledgement_mode: str = "implicit"
    share_acquire_mode: str = "batch_optimized"
    fetch_min_bytes: int = 1
    fetch_max_bytes: int = 52_428_800
    fetch_max_wait_ms: int = 500
    check_crcs: bool = True
    client_rack: str = ""
    allow_auto_create_topics: bool = True
    background: Callable[[str], Background] = BackgroundThread
