"""What holds where nothing is said: as Kafka's Java clients have it, by their names."""

from penstock.client.settings import ClientSettings, ConsumerSettings, ProducerSettings
from penstock.protocol.value import Value

OF_ALL = {
    "request_timeout_ms": 30_000,
    "default_api_timeout_ms": 60_000,
    "socket_connection_setup_timeout_ms": 10_000,
    "retry_backoff_ms": 100,
    "retry_backoff_max_ms": 1_000,
    "metadata_max_age_ms": 300_000,
    "metadata_max_idle_ms": 300_000,
    "metadata_recovery_strategy": "rebootstrap",
    "metadata_recovery_rebootstrap_trigger_ms": 300_000,
    "reconnect_backoff_ms": 50,
    "reconnect_backoff_max_ms": 1_000,
    "connections_max_idle_ms": 540_000,
    "client_dns_lookup": "use_all_dns_ips",
}
OF_PRODUCERS = {
    "acks": -1,
    "enable_idempotence": True,
    "linger_ms": 5,
    "batch_size": 16_384,
    "compression_type": 0,
    "max_request_size": 1_048_576,
    "buffer_memory": 33_554_432,
    "max_block_ms": 60_000,
    "delivery_timeout_ms": 120_000,
    "retries": 2_147_483_647,
    "max_in_flight_requests_per_connection": 5,
    "partitioner_rack_aware": False,
}
OF_CONSUMERS = {
    "session_timeout_ms": 45_000,
    "heartbeat_interval_ms": 3_000,
    "max_poll_interval_ms": 300_000,
    "max_poll_records": 500,
    "enable_auto_commit": True,
    "auto_commit_interval_ms": 5_000,
    "auto_offset_reset": "latest",
    "isolation_level": "read_uncommitted",
    "fetch_min_bytes": 1,
    "fetch_max_bytes": 52_428_800,
    "fetch_max_wait_ms": 500,
    "max_partition_fetch_bytes": 1_048_576,
    "check_crcs": True,
    "exclude_internal_topics": True,
    "allow_auto_create_topics": True,
}


def test_defaults_are_those_of_kafkas_clients() -> None:
    expected: list[tuple[Value, dict[str, object]]] = [
        (ClientSettings(), {**OF_ALL}),
        (ProducerSettings(), {**OF_ALL, **OF_PRODUCERS}),
        (ConsumerSettings(), {**OF_ALL, **OF_CONSUMERS}),
    ]
    for settings, defaults in expected:
        assert {name: getattr(settings, name) for name in defaults} == defaults
