"""Broker keys of the coordinators: offsets and groups, transactions, share and streams groups."""

from penstock.metadata.configs.table import read_table

GROUP_COORDINATOR_CONFIGS = read_table("""
offset.metadata.max.bytes int 4096 * fixed high | Longest text that a client may commit with an offset.
offsets.commit.timeout.ms int 5000 1.. fixed high | How long a commit may wait for a load, and then for the replicas.
offsets.load.buffer.size int 5242880 1.. fixed high | Bytes that are read at once when offsets are loaded.
offsets.retention.check.interval.ms long 600000 1.. fixed high | How often expired offsets are looked for.
offsets.retention.minutes int 10080 1.. fixed high | Time after which the offsets of an empty group are dropped.
offsets.topic.compression.codec int 0 * fixed high | Codec of the offsets topic, by its number.
offsets.topic.num.partitions int 50 1.. fixed high | Partitions of the offsets topic; never change it later.
offsets.topic.replication.factor short 3 1.. fixed high | Replicas of the offsets topic.
offsets.topic.segment.bytes int 104857600 1.. fixed high | Size of a segment of the offsets topic.
group.initial.rebalance.delay.ms int 3000 * fixed medium | How long a new group waits for more members.
group.max.session.timeout.ms int 1800000 * fixed medium | Longest session timeout that a member may ask for.
group.min.session.timeout.ms int 6000 * fixed medium | Shortest session timeout that a member may ask for.
group.max.size int 2147483647 1.. fixed medium | Members of one group.
group.coordinator.append.linger.ms int -1 -1.. fixed medium | How long a coordinator collects records; -1: it decides.
group.coordinator.cached.buffer.max.bytes int 1048588 1.. cluster low | Largest buffer that is kept for the next write.
group.coordinator.rebalance.protocols list classic,consumer,streams consumer/classic/share/streams fixed medium
    | The protocols of groups that are served.
group.coordinator.threads int 4 1.. fixed high | Accepted; one event loop does the work.
group.coordinator.background.threads int 2 1.. fixed high | Accepted; one event loop does the work.
group.consumer.assignors list uniform,range uniform/range fixed medium
    | The assignors that a broker offers to consumer groups.
group.consumer.assignor.offload.enable boolean true * fixed medium | Whether assignments are worked out elsewhere.
group.consumer.assignment.interval.ms int 1000 0.. fixed medium | Pause between two assignments of a group.
group.consumer.min.assignment.interval.ms int 0 0.. fixed medium | Least pause that a group may ask for.
group.consumer.max.assignment.interval.ms int 15000 0.. fixed medium | Longest pause that a group may ask for.
group.consumer.heartbeat.interval.ms int 5000 1.. fixed medium | Default of a group's consumer.heartbeat.interval.ms.
group.consumer.max.heartbeat.interval.ms int 15000 1.. fixed medium | Longest heartbeat interval of a group.
group.consumer.min.heartbeat.interval.ms int 5000 1.. fixed medium | Shortest heartbeat interval of a group.
group.consumer.session.timeout.ms int 45000 1.. fixed medium | Default of a group's consumer.session.timeout.ms.
group.consumer.max.session.timeout.ms int 60000 1.. fixed medium | Longest session timeout of a group.
group.consumer.min.session.timeout.ms int 45000 1.. fixed medium | Shortest session timeout of a group.
group.consumer.max.size int 2147483647 1.. fixed medium | Members of one group of the new protocol.
group.consumer.migration.policy string bidirectional bidirectional/upgrade/downgrade/disabled fixed medium
    | Which groups may change their protocol while they have members.
group.consumer.regex.refresh.interval.ms int 600000 10000.. fixed medium | How often patterns of topics are resolved.
group.share.assignment.interval.ms int 1000 0.. fixed medium | Pause between two assignments of a share group.
group.share.min.assignment.interval.ms int 0 0.. fixed medium | Least pause that a share group may ask for.
group.share.max.assignment.interval.ms int 15000 0.. fixed medium | Longest pause that a share group may ask for.
group.share.assignor.offload.enable boolean true * fixed medium | Whether assignments are worked out elsewhere.
group.share.initialize.retry.interval.ms int 30000 1.. fixed low
    | Longest pause before a share group tries again to begin in partitions.
group.share.assignors list simple * fixed medium | The assignors of share groups.
group.share.delivery.count.limit int 5 2..10 fixed medium | How often a record is delivered before it is given up.
group.share.max.delivery.count.limit int 10 5..25 fixed medium | Most deliveries that a share group may ask for.
group.share.min.delivery.count.limit int 2 2..5 fixed medium | Fewest deliveries that a share group may ask for.
group.share.heartbeat.interval.ms int 5000 1.. fixed medium | Default of a group's share.heartbeat.interval.ms.
group.share.max.heartbeat.interval.ms int 15000 1.. fixed medium | Longest heartbeat interval of a share group.
group.share.min.heartbeat.interval.ms int 5000 1.. fixed medium | Shortest heartbeat interval of a share group.
group.share.record.lock.duration.ms int 30000 1000..3600000 fixed medium | Default of share.record.lock.duration.ms.
group.share.max.record.lock.duration.ms int 60000 30000..3600000 fixed medium | Longest lock of a record.
group.share.min.record.lock.duration.ms int 15000 1000..30000 fixed medium | Shortest lock of a record.
group.share.partition.max.record.locks int 2000 100..10000 fixed medium | Records of a partition locked at once.
group.share.max.partition.max.record.locks int 4000 2000..10000 fixed medium | Most locks that a group may ask for.
group.share.min.partition.max.record.locks int 100 100..2000 fixed medium | Fewest locks that a group may ask for.
group.share.session.timeout.ms int 45000 1.. fixed medium | Default of a group's share.session.timeout.ms.
group.share.max.session.timeout.ms int 60000 1.. fixed medium | Longest session timeout of a share group.
group.share.min.session.timeout.ms int 45000 1.. fixed medium | Shortest session timeout of a share group.
group.share.max.share.sessions int 2000 1.. fixed medium | Share sessions that a broker keeps.
group.share.max.size int 200 1..1000 fixed medium | Members of one share group.
group.streams.heartbeat.interval.ms int 5000 1.. fixed medium | Default of a group's streams.heartbeat.interval.ms.
group.streams.max.heartbeat.interval.ms int 15000 1.. fixed medium | Longest heartbeat interval of a streams group.
group.streams.min.heartbeat.interval.ms int 5000 1.. fixed medium | Shortest heartbeat interval of a streams group.
group.streams.session.timeout.ms int 45000 1.. fixed medium | Default of a group's streams.session.timeout.ms.
group.streams.max.session.timeout.ms int 60000 1.. fixed medium | Longest session timeout of a streams group.
group.streams.min.session.timeout.ms int 45000 1.. fixed medium | Shortest session timeout of a streams group.
group.streams.max.size int 2147483647 1.. fixed medium | Members of one streams group.
group.streams.num.standby.replicas int 0 0.. fixed medium | Default of a group's streams.num.standby.replicas.
group.streams.max.standby.replicas int 2 0.. fixed medium | Most standby replicas of a streams group.
group.streams.initial.rebalance.delay.ms int 3000 0.. fixed medium | How long a new streams group waits for members.
group.streams.assignment.interval.ms int 1000 0.. fixed medium | Default of a group's streams.assignment.interval.ms.
group.streams.max.assignment.interval.ms int 15000 0.. fixed medium | Longest assignment interval of a streams group.
group.streams.min.assignment.interval.ms int 0 0.. fixed medium | Shortest assignment interval of a streams group.
group.streams.task.offset.interval.ms int 60000 1.. fixed medium | Default of a group's streams.task.offset.interval.ms.
group.streams.min.task.offset.interval.ms int 15000 1.. fixed medium | Shortest task offset interval of a streams group.
group.streams.acceptable.recovery.lag long 10000 0.. fixed medium
    | Default of a group's streams.acceptable.recovery.lag.
group.streams.num.warmup.replicas int 2 0.. fixed medium | Default of a group's streams.num.warmup.replicas.
group.streams.max.warmup.replicas int 20 0.. fixed medium | Most warm-up tasks of a streams group.
group.streams.assignors list sticky * fixed medium | The assignors that a broker offers to streams groups.
group.streams.assignor.offload.enable boolean true * fixed medium | Whether its assignments are worked out elsewhere.
group.streams.rack.aware.assignment.tags list "" * fixed low
    | Keys of clients' tags by which standby tasks are spread.
group.streams.topology.description.plugin.class class null * fixed medium
    | Accepted; descriptions of topologies are kept in the group's partition.
errors.deadletterqueue.auto.create.topics.enable boolean false * cluster medium
    | Whether a topic of dead letters that a share group names and that is missing is made.
errors.deadletterqueue.topic.name.prefix string dlq. * cluster medium
    | How names of topics of dead letters begin; empty: as they like.
share.coordinator.append.linger.ms int -1 -1.. fixed medium | How long the share coordinator collects records.
share.coordinator.cold.partition.snapshot.interval.ms int 300000 1.. fixed low | Snapshots of idle share partitions.
share.coordinator.load.buffer.size int 5242880 1.. fixed high | Bytes that are read at once when it loads.
share.coordinator.snapshot.update.records.per.snapshot int 500 0.. fixed medium | Updates between two snapshots.
share.coordinator.state.topic.compression.codec int 0 * fixed high | Codec of its topic, by its number.
share.coordinator.state.topic.min.isr short 2 1.. fixed high | min.insync.replicas of its topic.
share.coordinator.state.topic.num.partitions int 50 1.. fixed high | Partitions of its topic.
share.coordinator.state.topic.prune.interval.ms int 300000 1.. fixed low | How often its topic is pruned.
share.coordinator.state.topic.replication.factor short 3 1.. fixed high | Replicas of its topic.
share.coordinator.state.topic.segment.bytes int 104857600 1.. fixed high | Size of a segment of its topic.
share.coordinator.threads int 1 1.. fixed medium | Accepted; one event loop does the work.
share.coordinator.write.timeout.ms int 5000 1.. fixed high | How long its writes may wait for the replicas.
add.partitions.to.txn.retry.backoff.max.ms int 100 0.. fixed high
    | How long a request waits while the transaction before it gets its markers.
add.partitions.to.txn.retry.backoff.ms int 20 1.. fixed high | How often a broker asks again meanwhile.
transaction.max.timeout.ms int 900000 1.. fixed high | Longest transaction timeout that a producer may ask for.
transaction.state.log.load.buffer.size int 5242880 1.. fixed high | Bytes that are read at once when it is loaded.
transaction.state.log.min.isr int 2 1.. fixed high | min.insync.replicas of the transaction topic.
transaction.state.log.num.partitions int 50 1.. fixed high | Partitions of the transaction topic.
transaction.state.log.replication.factor short 3 1.. fixed high | Replicas of the transaction topic.
transaction.state.log.segment.bytes int 104857600 1.. fixed high | Size of a segment of the transaction topic.
transactional.id.expiration.ms int 604800000 1.. fixed high | Time after which an unused transactional id is dropped.
transaction.abort.timed.out.transaction.cleanup.interval.ms int 10000 1.. fixed low | How often they are looked for.
transaction.remove.expired.transaction.cleanup.interval.ms int 3600000 1.. fixed low | The same for unused ids.
transaction.partition.verification.enable boolean true * cluster low | Whether a write checks its transaction.
transaction.two.phase.commit.enable boolean false * fixed low | Whether producers may prepare transactions.
""")
