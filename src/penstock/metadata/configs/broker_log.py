"""Broker keys of topics and of the log: directories, segments, retention, flushes, compaction and tiered storage."""

from penstock.metadata.configs.table import read_table

LOG_CONFIGS = read_table("""
log.dir string /tmp/kafka-logs * fixed high | The one directory for data; log.dirs goes before it.
log.dirs list null * fixed high | The directories for data, with commas between them.
cordoned.log.dirs list "" * broker medium
    | Directories of log.dirs that take no new replicas, or * for all: the broker gets none then.
num.partitions int 1 1.. fixed medium | Partitions of a topic that is created without a number.
default.replication.factor int 1 1.. fixed medium | Replicas of a topic that is created without a number.
auto.create.topics.enable boolean true * fixed high | Whether a topic that a client asks for is created.
delete.topic.enable boolean true * fixed high | Whether topics can be deleted.
create.topic.policy.class.name class null * fixed low
    | A class of Python that may refuse new topics, of a controller: module:Class, or the name that a package offers.
alter.config.policy.class.name class null * fixed low
    | A class of Python that may refuse changes of configuration, of a controller: as for the key above.
penstock.policy.file string null * fixed low
    | A file of rules for names, sizes and configs of topics, of a controller (docs/policies.md).
message.max.bytes int 1048588 0.. cluster high | Default of a topic's max.message.bytes.
min.insync.replicas int 1 1.. cluster high | Replicas that must have a record that is sent with acks=all.
unclean.leader.election.enable boolean false * cluster high | Default of the topic key of the same name.
penstock.produce.first.sequence string any any/zero fixed low
    | The sequence of a producer's first batch where nothing was ever written: any, or zero, as of Kafka 4.5.
penstock.produce.validate string header header/full fixed low
    | What is checked of a produced batch: its header and the first bytes of its records, or every record as in Kafka.
compression.type string producer uncompressed/zstd/lz4/snappy/gzip/producer cluster high
    | Default of the topic key of the same name.
compression.gzip.level int -1 1..9/-1 cluster medium | Default of the topic key of the same name.
compression.lz4.level int 9 1..17 cluster medium | Default of the topic key of the same name.
compression.zstd.level int 3 -131072..22 cluster medium | Default of the topic key of the same name.
log.cleanup.policy list delete compact/delete cluster medium | Default of a topic's cleanup.policy.
log.segment.bytes int 1073741824 1048576.. cluster high | Default of a topic's segment.bytes.
log.segment.delete.delay.ms long 60000 0.. cluster high
    | How long the log of a deleted topic stays on disk; default of a topic's file.delete.delay.ms.
log.roll.ms long null 1.. cluster high | Default of a topic's segment.ms; without it log.roll.hours counts.
log.roll.hours int 168 1.. fixed high | Default of a topic's segment.ms, in hours.
log.roll.jitter.ms long null 0.. cluster high | Default of segment.jitter.ms; without it log.roll.jitter.hours counts.
log.roll.jitter.hours int 0 0.. fixed high | Default of a topic's segment.jitter.ms, in hours.
log.retention.ms long null -1.. cluster high | Default of retention.ms; without it log.retention.minutes counts.
log.retention.minutes int null -1.. fixed high | Default of retention.ms, in minutes; without it the hours count.
log.retention.hours int 168 -1.. fixed high | Default of a topic's retention.ms, in hours.
log.retention.bytes long -1 * cluster high | Default of a topic's retention.bytes, for each partition.
log.retention.check.interval.ms long 300000 1.. fixed medium | How often old segments are looked for.
log.index.interval.bytes int 4096 0.. cluster medium | Default of a topic's index.interval.bytes.
log.index.size.max.bytes int 10485760 4.. cluster medium | Default of a topic's segment.index.bytes.
log.preallocate boolean false * cluster medium | Default of a topic's preallocate.
log.flush.interval.messages long 9223372036854775807 1.. cluster high | Default of a topic's flush.messages.
log.flush.interval.ms long null 0.. cluster high
    | Default of a topic's flush.ms; without it log.flush.scheduler.interval.ms counts.
log.flush.scheduler.interval.ms long 9223372036854775807 * fixed high | How often it is looked which logs need a flush.
log.flush.offset.checkpoint.interval.ms int 60000 0.. fixed high | How often recovery points are written down.
log.flush.start.offset.checkpoint.interval.ms int 60000 0.. fixed high | How often log start offsets are written down.
log.flush.timeout.ms long 10000 1.. fixed medium
    | How long what flush.messages wants on the disk may wait for it: then the disk hangs, and another replica in sync
    | is to lead. A key of Penstock's own.
log.message.timestamp.type string CreateTime CreateTime/LogAppendTime cluster medium
    | Default of a topic's message.timestamp.type.
log.message.timestamp.before.max.ms long 9223372036854775807 0.. cluster medium
    | Default of a topic's message.timestamp.before.max.ms.
log.message.timestamp.after.max.ms long 3600000 0.. cluster medium
    | Default of a topic's message.timestamp.after.max.ms.
log.cleaner.enable boolean true * fixed medium | Whether compacted topics are compacted.
log.cleaner.threads int 1 0.. cluster medium | Threads that compact.
log.cleaner.backoff.ms long 15000 0.. cluster medium | Pause when there is nothing to compact.
log.cleaner.dedupe.buffer.size long 134217728 * cluster medium | Memory for the keys of one compaction.
log.cleaner.io.buffer.size int 524288 0.. cluster medium | Memory for reading and writing while compacting.
log.cleaner.io.buffer.load.factor double 0.9 * cluster medium | How full the memory for keys may get.
log.cleaner.io.max.bytes.per.second double 1.7976931348623157E308 * cluster medium | Speed limit of compaction.
log.cleaner.delete.retention.ms long 86400000 0.. cluster medium | Default of a topic's delete.retention.ms.
log.cleaner.min.cleanable.ratio double 0.5 0..1 cluster medium | Default of a topic's min.cleanable.dirty.ratio.
log.cleaner.min.compaction.lag.ms long 0 0.. cluster medium | Default of a topic's min.compaction.lag.ms.
log.cleaner.max.compaction.lag.ms long 9223372036854775807 1.. cluster medium
    | Default of a topic's max.compaction.lag.ms.
log.dir.failure.timeout.ms long 30000 1.. fixed low | How long a broker that lost a directory waits before it stops.
log.local.retention.bytes long -2 -2.. cluster medium | Default of a topic's local.retention.bytes.
log.local.retention.ms long -2 -2.. cluster medium | Default of a topic's local.retention.ms.
num.recovery.threads.per.data.dir int 2 1.. cluster high
    | Threads that look, after a crash, for logs to recover.
producer.id.expiration.ms int 86400000 1.. cluster low | Time after which a silent idempotent producer is forgotten.
remote.log.storage.system.enable boolean false * fixed medium | Whether this broker can do tiered storage.
remote.log.storage.manager.class.name string null * fixed medium | The class that stores segments remotely.
remote.log.storage.manager.class.path string null * fixed medium | Where that class is found.
remote.log.storage.manager.impl.prefix string rsm.config. * fixed medium | Prefix of that class's own keys.
remote.log.metadata.manager.class.name string \
    org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager * fixed medium
    | The class that remembers which segments are remote.
remote.log.metadata.manager.class.path string null * fixed medium | Where that class is found.
remote.log.metadata.manager.impl.prefix string rlmm.config. * fixed medium | Prefix of that class's own keys.
remote.log.metadata.manager.listener.name string null * fixed medium | The listener that it uses.
remote.log.metadata.custom.metadata.max.bytes int 128 0.. fixed low | Bytes of custom metadata of a segment.
remote.log.index.file.cache.total.size.bytes long 1073741824 1.. cluster low | Room for indexes of remote segments.
remote.log.manager.task.interval.ms long 30000 1.. fixed low | How often segments are looked at for tiering.
remote.log.manager.thread.pool.size int 2 1.. cluster medium | Threads for tiering.
remote.log.manager.copier.thread.pool.size int 10 1.. cluster medium | Threads that copy segments.
remote.log.manager.expiration.thread.pool.size int 10 1.. cluster medium | Threads that delete remote segments.
remote.log.manager.follower.thread.pool.size int 2 1.. cluster medium | Threads for followers of tiered partitions.
remote.log.manager.copy.max.bytes.per.second long 9223372036854775807 1.. cluster medium | Speed limit of copies.
remote.log.manager.copy.quota.window.num int 11 1.. fixed medium | Samples kept for that limit.
remote.log.manager.copy.quota.window.size.seconds int 1 1.. fixed medium | Length of a sample for that limit.
remote.log.manager.fetch.max.bytes.per.second long 9223372036854775807 1.. cluster medium | Speed limit of reads.
remote.log.manager.fetch.quota.window.num int 11 1.. fixed medium | Samples kept for that limit.
remote.log.manager.fetch.quota.window.size.seconds int 1 1.. fixed medium | Length of a sample for that limit.
remote.log.reader.threads int 10 1.. cluster medium | Threads that read remote segments.
remote.log.reader.max.pending.tasks int 100 1.. fixed medium | Remote reads that may wait.
remote.fetch.max.wait.ms int 500 1.. cluster medium | How long a fetch waits for a remote segment.
remote.list.offsets.request.timeout.ms long 30000 1.. cluster medium | How long a look-up in remote segments may take.
""")
