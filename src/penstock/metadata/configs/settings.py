"""The broker keys that Penstock's code reads, with their types. A new reader adds its key here, in snake_case."""

from collections.abc import Iterator


class BrokerSettings:
    """Names are keys with underscores for dots."""

    # network
    broker_rack: str | None
    connections_max_idle_ms: int
    fetch_max_bytes: int
    max_connection_creation_rate: int
    max_connections: int
    max_connections_per_ip: int
    max_incremental_fetch_session_cache_slots: int
    max_request_partition_size_limit: int
    request_timeout_ms: int
    penstock_metrics_level: str
    penstock_metrics_listener: str | None
    penstock_metrics_max_topics: int
    penstock_otlp_endpoint: str | None
    penstock_otlp_headers: str | None
    penstock_otlp_interval_ms: int
    queued_max_request_bytes: int
    quota_window_size_seconds: int
    socket_listen_backlog_size: int
    socket_receive_buffer_bytes: int
    socket_request_max_bytes: int
    socket_send_buffer_bytes: int
    telemetry_max_bytes: int

    # access rules
    allow_everyone_if_no_acl_found: bool
    authorizer_class_name: str
    penstock_authorizer_audit_format: str
    penstock_authorizer_audit_topic: str
    penstock_authorizer_mode: str
    penstock_authorizer_node_listeners: tuple[str, ...]
    super_users: str

    # the quorum, and brokers as the controller sees them
    broker_heartbeat_interval_ms: int
    broker_session_refused_timeout_ms: int
    broker_session_timeout_ms: int
    controlled_shutdown_enable: bool
    shutdown_timeout_ms: int
    controller_quorum_auto_join_enable: bool
    controller_quorum_election_backoff_max_ms: int
    controller_quorum_election_timeout_ms: int
    controller_quorum_fetch_max_bytes: int
    controller_quorum_fetch_snapshot_max_bytes: int
    controller_quorum_fetch_timeout_ms: int
    controller_quorum_request_timeout_ms: int
    controller_quorum_retry_backoff_ms: int
    initial_broker_registration_timeout_ms: int

    # metadata and replication
    alter_config_policy_class_name: str | None
    alter_log_dirs_replication_quota_window_num: int
    alter_log_dirs_replication_quota_window_size_seconds: int
    auto_create_topics_enable: bool
    auto_leader_rebalance_enable: bool
    controller_quota_window_num: int
    controller_quota_window_size_seconds: int
    cordoned_log_dirs: tuple[str, ...]
    create_topic_policy_class_name: str | None
    default_replication_factor: int
    delete_topic_enable: bool
    follower_replication_throttled_rate: int
    handover_commit_first: bool
    leader_balance_enable: bool
    leader_balance_move_timeout_ms: int
    leader_handover_timeout_ms: int
    leader_imbalance_check_interval_seconds: int
    leader_imbalance_per_broker_percentage: int
    leader_lease_on_quorum_loss: str
    penstock_security_ignored: bool
    sasl_server_max_receive_size: int
    delegation_token_secret_key: str | None
    delegation_token_expiry_time_ms: int
    delegation_token_max_lifetime_ms: int
    delegation_token_expiry_check_interval_ms: int
    connection_failed_authentication_delay_ms: int
    leader_replication_throttled_rate: int
    metadata_log_max_record_bytes_between_snapshots: int
    metadata_log_max_snapshot_interval_ms: int
    metadata_log_segment_bytes: int
    num_partitions: int
    num_replica_fetchers: int
    propose_linger_ms: int
    propose_max_bytes: int
    replica_fetch_backoff_ms: int
    replica_fetch_max_bytes: int
    replica_fetch_min_bytes: int
    replica_fetch_response_max_bytes: int
    replica_fetch_wait_max_ms: int
    replica_high_watermark_checkpoint_interval_ms: int
    replica_lag_time_max_ms: int
    replica_selector_class: str | None
    replica_socket_timeout_ms: int
    replication_quota_window_num: int
    replication_quota_window_size_seconds: int
    storage_group_handover_scheme: int
    storage_group_max_bytes_between_snapshots: int
    unclean_leader_election_interval_ms: int

    # log
    log_cleaner_backoff_ms: int
    log_cleaner_dedupe_buffer_size: int
    log_cleaner_enable: bool
    log_cleaner_io_buffer_load_factor: float
    log_cleaner_io_buffer_size: int
    log_cleaner_io_max_bytes_per_second: float
    log_cleaner_threads: int
    log_dir_failure_timeout_ms: int
    log_flush_offset_checkpoint_interval_ms: int
    log_flush_timeout_ms: int
    log_retention_check_interval_ms: int
    log_segment_delete_delay_ms: int
    num_recovery_threads_per_data_dir: int
    min_insync_replicas: int
    penstock_policy_file: str | None
    penstock_produce_first_sequence: str
    penstock_produce_validate: str
    producer_id_expiration_ms: int
    replica_alter_log_dirs_io_max_bytes_per_second: int

    # share partitions
    errors_deadletterqueue_auto_create_topics_enable: bool
    errors_deadletterqueue_topic_name_prefix: str
    group_share_delivery_count_limit: int
    group_share_max_delivery_count_limit: int
    group_share_max_partition_max_record_locks: int
    group_share_max_record_lock_duration_ms: int
    group_share_max_share_sessions: int
    group_share_min_delivery_count_limit: int
    group_share_min_partition_max_record_locks: int
    group_share_min_record_lock_duration_ms: int
    group_share_partition_max_record_locks: int
    group_share_record_lock_duration_ms: int

    # groups
    group_consumer_assignment_interval_ms: int
    group_consumer_assignors: tuple[str, ...]
    group_consumer_heartbeat_interval_ms: int
    group_consumer_max_assignment_interval_ms: int
    group_consumer_max_heartbeat_interval_ms: int
    group_consumer_max_session_timeout_ms: int
    group_consumer_max_size: int
    group_consumer_migration_policy: str
    group_consumer_min_assignment_interval_ms: int
    group_consumer_min_heartbeat_interval_ms: int
    group_consumer_min_session_timeout_ms: int
    group_consumer_regex_refresh_interval_ms: int
    group_consumer_session_timeout_ms: int
    group_initial_rebalance_delay_ms: int
    group_max_session_timeout_ms: int
    group_max_size: int
    group_min_session_timeout_ms: int
    offset_metadata_max_bytes: int
    offsets_commit_timeout_ms: int
    offsets_retention_check_interval_ms: int
    offsets_retention_minutes: int
    offsets_topic_compression_codec: int
    offsets_topic_num_partitions: int
    offsets_topic_replication_factor: int
    offsets_topic_segment_bytes: int

    # share groups
    group_share_assignment_interval_ms: int
    group_share_heartbeat_interval_ms: int
    group_share_initialize_retry_interval_ms: int
    group_share_max_assignment_interval_ms: int
    group_share_max_heartbeat_interval_ms: int
    group_share_max_session_timeout_ms: int
    group_share_max_size: int
    group_share_min_assignment_interval_ms: int
    group_share_min_heartbeat_interval_ms: int
    group_share_min_session_timeout_ms: int
    group_share_session_timeout_ms: int
    share_coordinator_cold_partition_snapshot_interval_ms: int
    share_coordinator_snapshot_update_records_per_snapshot: int
    share_coordinator_state_topic_compression_codec: int
    share_coordinator_state_topic_min_isr: int
    share_coordinator_state_topic_num_partitions: int
    share_coordinator_state_topic_prune_interval_ms: int
    share_coordinator_state_topic_replication_factor: int
    share_coordinator_state_topic_segment_bytes: int
    share_coordinator_write_timeout_ms: int

    # streams groups
    group_streams_acceptable_recovery_lag: int
    group_streams_assignment_interval_ms: int
    group_streams_assignors: tuple[str, ...]
    group_streams_heartbeat_interval_ms: int
    group_streams_initial_rebalance_delay_ms: int
    group_streams_max_assignment_interval_ms: int
    group_streams_max_heartbeat_interval_ms: int
    group_streams_max_session_timeout_ms: int
    group_streams_max_size: int
    group_streams_max_standby_replicas: int
    group_streams_min_assignment_interval_ms: int
    group_streams_min_heartbeat_interval_ms: int
    group_streams_min_session_timeout_ms: int
    group_streams_min_task_offset_interval_ms: int
    group_streams_num_standby_replicas: int
    group_streams_rack_aware_assignment_tags: tuple[str, ...]
    group_streams_session_timeout_ms: int
    group_streams_task_offset_interval_ms: int

    # transactions
    add_partitions_to_txn_retry_backoff_max_ms: int
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int
    transaction_max_timeout_ms: int
    transaction_partition_verification_enable: bool
    transaction_remove_expired_transaction_cleanup_interval_ms: int
    transaction_state_log_min_isr: int
    transaction_state_log_num_partitions: int
    transaction_state_log_replication_factor: int
    transaction_state_log_segment_bytes: int
    transaction_two_phase_commit_enable: bool
    transactional_id_expiration_ms: int

    @classmethod
    def attributes(cls) -> Iterator[tuple[str, str]]:
        for attribute in BrokerSettings.__annotations__:
            yield attribute, attribute.replace("_", ".")
