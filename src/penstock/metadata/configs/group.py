"""The configuration keys of a group, and those of a client metrics subscription."""

from penstock.metadata.configs.table import read_table

GROUP_CONFIGS = read_table("""
consumer.assignment.interval.ms int 1000 0.. cluster medium | Pause between two assignments of a consumer group.
consumer.heartbeat.interval.ms int 5000 1.. cluster medium | How often a member of a consumer group sends heartbeats.
consumer.session.timeout.ms int 45000 1.. cluster medium | Silence after which a member of a consumer group is out.
errors.deadletterqueue.copy.record.enable boolean false * cluster medium
    | Whether a dead letter has key, value and headers of its record, and not only where that is and what happened.
errors.deadletterqueue.topic.name string "" * cluster medium
    | The topic that gets a dead letter of each record that a share group gives up; empty: none. It has to have
    | errors.deadletterqueue.group.enable, and a name as errors.deadletterqueue.topic.name.prefix wants it.
share.assignment.interval.ms int 1000 0.. cluster medium | Pause between two assignments of a share group.
share.assignor.offload.enable boolean true * cluster medium | Whether its assignments are worked out elsewhere.
share.auto.offset.reset string latest * cluster medium
    | Where a share group begins: earliest, latest or by_duration:<ISO 8601 duration>.
share.deadletter.max.rate int -1 1../-1 cluster medium
    | Dead letters of one partition in a minute, beyond which its deliveries pause, then go on with a few until a record
    | is accepted; -1: no limit. A key of Penstock's own.
share.delivery.count.durable boolean false * cluster medium
    | Whether each delivery is written before the records go out, so that no new leader forgets it.
share.delivery.count.limit int 5 2.. cluster medium | How often a record is delivered before it is given up.
share.heartbeat.interval.ms int 5000 1.. cluster medium | How often a member of a share group sends heartbeats.
share.isolation.level string read_uncommitted read_committed/read_uncommitted cluster medium
    | Whether a share group sees records of transactions that are open or aborted.
share.ordering string none none/key cluster medium
    | With key, one record of each key is in flight at a time, in the order in which they were produced.
share.partition.max.record.locks int 2000 100.. cluster medium | Records of a partition that are locked at once.
share.retry.backoff.ms int 0 0..86400000 cluster medium
    | How long a record that came back waits before it is delivered again, twice as long after each delivery.
share.retry.backoff.max.ms int 60000 0..86400000 cluster medium | The longest of these waits.
share.record.lock.duration.ms int 30000 1000.. cluster medium | How long a record belongs to the member that took it.
share.renew.acknowledge.enable boolean true * cluster medium | Whether members may renew the locks of records.
share.session.timeout.ms int 45000 1.. cluster medium | Silence after which a member of a share group is out.
streams.acceptable.recovery.lag long 10000 0.. cluster medium
    | How far a warm-up task may lag behind before it becomes active.
streams.assignment.interval.ms int 1000 0.. cluster medium | Pause between two assignments of a streams group.
streams.assignor.name string null * cluster medium | The assignor of a streams group; by default the broker's first.
streams.assignor.offload.enable boolean true * cluster medium | Whether its assignments are worked out elsewhere.
streams.heartbeat.interval.ms int 5000 1.. cluster medium | How often a member of a streams group sends heartbeats.
streams.initial.rebalance.delay.ms int 3000 0.. cluster medium | How long a new streams group waits for members.
streams.num.standby.replicas int 0 0.. cluster medium | Standby replicas of each task of a streams group.
streams.num.warmup.replicas int 2 0.. cluster medium | Warm-up tasks that a streams group has at once.
streams.rack.aware.assignment.tags list "" * cluster low | Keys of clients' tags by which standby tasks are spread.
streams.session.timeout.ms int 45000 1.. cluster medium | Silence after which a member of a streams group is out.
streams.task.offset.interval.ms int 60000 1.. cluster medium | How often members tell how far their tasks are.
""")

_WITHOUT_BROKER_KEY = (
    "errors.deadletterqueue.copy.record.enable",
    "errors.deadletterqueue.topic.name",
    "share.auto.offset.reset",
    "share.deadletter.max.rate",
    "share.delivery.count.durable",
    "share.isolation.level",
    "share.ordering",
    "share.renew.acknowledge.enable",
    "share.retry.backoff.max.ms",
    "share.retry.backoff.ms",
    "streams.assignor.name",
)

GROUP_SYNONYMS: dict[str, str] = {name: f"group.{name}" for name in GROUP_CONFIGS if name not in _WITHOUT_BROKER_KEY}
"""The broker key that gives a group key its default."""

CLIENT_METRICS_CONFIGS = read_table("""
interval.ms int 300000 100..3600000 cluster medium | How often clients push their metrics.
match list "" * cluster medium | Which clients push: a list of selector=pattern pairs.
metrics list "" * cluster medium | Which metrics are pushed: a list of prefixes of their names.
""")
