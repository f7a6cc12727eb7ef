"""The configuration keys of a topic, and the broker keys that give each its default.

The links are Kafka's: for `retention.ms` the broker is asked for `log.retention.ms`, then `log.retention.minutes`, then
`log.retention.hours`; the first that has a value counts.
"""

from typing import Final

from penstock.metadata.configs.table import read_table
from penstock.protocol.value import Value

TOPIC_CONFIGS = read_table("""
cleanup.policy list delete compact/delete cluster medium
    | How old data goes: delete drops whole segments by age and size, compact keeps the last record of each key.
compression.gzip.level int -1 1..9/-1 cluster medium | Level for gzip when compression.type is gzip.
compression.lz4.level int 9 1..17 cluster medium | Level for lz4 when compression.type is lz4.
compression.type string producer uncompressed/zstd/lz4/snappy/gzip/producer cluster medium
    | Codec of the batches on disk; producer keeps each batch as it was sent.
compression.zstd.level int 3 -131072..22 cluster medium | Level for zstd when compression.type is zstd.
delete.retention.ms long 86400000 0.. cluster medium | How long a compacted topic keeps a tombstone.
errors.deadletterqueue.group.enable boolean false * cluster medium
    | Whether share groups may write dead letters to the topic.
file.delete.delay.ms long 60000 0.. cluster medium | How long a segment that was dropped stays on disk.
flush.messages long 9223372036854775807 1.. cluster medium | Records after which the log is forced to disk.
flush.ms long 9223372036854775807 0.. cluster medium | Milliseconds after which the log is forced to disk.
follower.replication.throttled.replicas list "" * cluster medium
    | Followers whose replication is slowed down: a list of partition:broker pairs, or * for all.
index.interval.bytes int 4096 0.. cluster medium | Bytes of log between two entries of the offset index.
leader.replication.throttled.replicas list "" * cluster medium
    | Leaders whose replication is slowed down: a list of partition:broker pairs, or * for all.
local.retention.bytes long -2 -2.. cluster medium | Bytes to keep locally with tiered storage; -2: as retention.bytes.
local.retention.ms long -2 -2.. cluster medium | Time to keep data locally with tiered storage; -2: as retention.ms.
max.compaction.lag.ms long 9223372036854775807 1.. cluster medium | Longest time a record may wait for compaction.
max.message.bytes int 1048588 0.. cluster medium | Largest record batch that is accepted, in bytes.
message.timestamp.after.max.ms long 3600000 0.. cluster medium
    | How far a record's timestamp may lie ahead of the broker's clock.
message.timestamp.before.max.ms long 9223372036854775807 0.. cluster medium
    | How far a record's timestamp may lie behind the broker's clock.
message.timestamp.type string CreateTime CreateTime/LogAppendTime cluster medium
    | Whose time a record carries: the producer's or the broker's.
min.cleanable.dirty.ratio double 0.5 0..1 cluster medium | Share of a log that must be new before it is compacted.
min.compaction.lag.ms long 0 0.. cluster medium | Time for which a record is safe from compaction.
min.insync.replicas int 1 1.. cluster medium | Replicas that must have a record that is sent with acks=all.
preallocate boolean false * cluster medium | Whether a new segment's file gets its full size at once.
remote.log.copy.disable boolean false * cluster medium | Whether tiered data becomes read-only.
remote.log.delete.on.disable boolean false * cluster medium | Whether tiered data is deleted when tiering is disabled.
remote.storage.enable boolean false * cluster medium | Whether segments are moved to remote storage.
retention.bytes long -1 * cluster medium | Size beyond which a partition drops old segments; -1: no limit.
retention.ms long 604800000 -1.. cluster medium | Age beyond which segments are dropped; -1: no limit.
segment.bytes int 1073741824 1048576.. cluster medium | Size at which a new segment begins.
segment.index.bytes int 10485760 4.. cluster medium | Largest size of a segment's index files.
segment.jitter.ms long 0 0.. cluster medium | Random time taken off segment.ms, so that not all logs roll at once.
segment.ms long 604800000 1.. cluster medium | Age at which a new segment begins.
unclean.leader.election.enable boolean false * cluster high
    | Whether a replica that lags may become leader when no other is left, at the price of lost records.
""")

DELAY_ENABLE: Final = "penstock.delay.enable"

OWN_TOPIC_CONFIGS = read_table("""
penstock.delay.enable boolean false * cluster medium
    | Whether records may wait until they are due: those with a header penstock-deliver-at or penstock-delay. Once it is
    | on it stays on, as records may wait. A key of Penstock's own.
penstock.delay.max.ms long 31622400000 1..3155760000000 cluster low
    | How far ahead a record may be due where penstock.delay.enable is on; what is due later is refused.
    | A key of Penstock's own.
penstock.delay.ms long 0 0..3155760000000 cluster low
    | Where penstock.delay.enable is on, how long every record waits; its headers are not asked. 0 leaves it to them.
    | A key of Penstock's own.
replication.mode string isr isr/consensus fixed medium
    | How a topic is replicated: isr is Kafka's way; with consensus a record is on the disks of a majority before it is
    | acknowledged. Decided when the topic is created. A key of Penstock's own.
storage.group int null 0.. fixed low
    | The storage group of a topic with replication.mode=consensus: it shares one log with the other topics of the
    | group. Decided when the topic is created, by the controller if nobody names one. A key of Penstock's own.
retention.consumed boolean false * cluster medium
    | Whether records go that all groups have consumed, as far as retention.ms and retention.bytes have left them. Needs
    | delete in cleanup.policy; segment.bytes says how much goes at a time. A key of Penstock's own.
retention.consumed.grace.ms long 604800000 -1.. cluster medium
    | How long a group that reads a topic with retention.consumed and has committed no offset keeps all records; -1:
    | as long as it reads. A key of Penstock's own.
""")

INTERNAL_TOPIC_CONFIGS = OWN_TOPIC_CONFIGS | read_table("""
internal.segment.bytes int null 1.. cluster low | Size of a segment below the floor of segment.bytes, for tests.
""")
"""They are accepted, but shown only where they are set."""


class BrokerSynonym(Value):
    """A broker key that gives a topic key its default; its value times `factor` is the topic's value."""

    name: str
    factor: int = 1


_HOUR_MS = 3_600_000
_MINUTE_MS = 60_000


def _same(*names: str, prefix: str = "") -> dict[str, tuple[BrokerSynonym, ...]]:
    return {name: (BrokerSynonym(prefix + name),) for name in names}


TOPIC_SYNONYMS: dict[str, tuple[BrokerSynonym, ...]] = {
    **_same(
        "compression.gzip.level",
        "compression.lz4.level",
        "compression.type",
        "compression.zstd.level",
        "min.insync.replicas",
        "unclean.leader.election.enable",
    ),
    **_same(
        "cleanup.policy",
        "index.interval.bytes",
        "local.retention.bytes",
        "local.retention.ms",
        "message.timestamp.after.max.ms",
        "message.timestamp.before.max.ms",
        "message.timestamp.type",
        "preallocate",
        "retention.bytes",
        "segment.bytes",
        prefix="log.",
    ),
    **_same("delete.retention.ms", "max.compaction.lag.ms", "min.compaction.lag.ms", prefix="log.cleaner."),
    "file.delete.delay.ms": (BrokerSynonym("log.segment.delete.delay.ms"),),
    "flush.messages": (BrokerSynonym("log.flush.interval.messages"),),
    "flush.ms": (BrokerSynonym("log.flush.interval.ms"), BrokerSynonym("log.flush.scheduler.interval.ms")),
    "max.message.bytes": (BrokerSynonym("message.max.bytes"),),
    "min.cleanable.dirty.ratio": (BrokerSynonym("log.cleaner.min.cleanable.ratio"),),
    "retention.ms": (
        BrokerSynonym("log.retention.ms"),
        BrokerSynonym("log.retention.minutes", _MINUTE_MS),
        BrokerSynonym("log.retention.hours", _HOUR_MS),
    ),
    "segment.index.bytes": (BrokerSynonym("log.index.size.max.bytes"),),
    "segment.jitter.ms": (BrokerSynonym("log.roll.jitter.ms"), BrokerSynonym("log.roll.jitter.hours", _HOUR_MS)),
    "segment.ms": (BrokerSynonym("log.roll.ms"), BrokerSynonym("log.roll.hours", _HOUR_MS)),
}
