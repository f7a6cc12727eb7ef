"""Keys that are accepted and change nothing, each with the reason: what every other key says, some code obeys.

A test holds both: a key without a reason has a reader, and a key with one has none.
"""

from typing import Final

_REASONS: Final[dict[str, tuple[str, ...]]] = {
    "one event loop does the work, so there are no threads to count": (
        "num.network.threads",
        "num.io.threads",
        "background.threads",
        "num.replica.alter.log.dirs.threads",
        "group.coordinator.threads",
        "group.coordinator.background.threads",
        "share.coordinator.threads",
    ),
    "queued.max.request.bytes and what one connection may have waiting are the limits": ("queued.max.requests",),
    "what waits is let go when its event or its time comes, so nothing is left to purge": (
        "fetch.purgatory.purge.interval.requests",
        "producer.purgatory.purge.interval.requests",
        "delete.records.purgatory.purge.interval.requests",
        "share.fetch.purgatory.purge.interval.requests",
    ),
    "request.timeout.ms holds between nodes": (
        "controller.socket.timeout.ms",
        "socket.connection.setup.timeout.ms",
        "socket.connection.setup.timeout.max.ms",
    ),
    "GSSAPI (Kerberos) is not there": ("sasl.kerberos.",),
    "TLS is OpenSSL's, and not Java's": (
        "security.providers",
        "ssl.keymanager.algorithm",
        "ssl.provider",
        "ssl.secure.random.implementation",
        "ssl.trustmanager.algorithm",
    ),
    "the newest version that both sides know is spoken": ("ssl.protocol",),
    "quotas of clients count in buckets, which forget nothing": ("quota.window.num",),
    "it would be a class of Java's, and a node that is to use one does not start": (
        "client.quota.callback.class",
        "principal.builder.class",
    ),
    "classes of the user's would be Java": (
        "metric.reporters",
        "kafka.metrics.reporters",
    ),
    "metrics are asked for when somebody wants them, and are not sampled": (
        "metrics.num.samples",
        "metrics.recording.level",
        "metrics.sample.window.ms",
        "kafka.metrics.polling.interval.secs",
    ),
    "what is decided in one turn is written together, without a pause": (
        "controller.quorum.append.linger.ms",
        "group.coordinator.append.linger.ms",
        "share.coordinator.append.linger.ms",
    ),
    "how long the controller takes is told by its metrics and not logged": ("controller.performance.",),
    "a broker that stops asks until the controller lets it go": (
        "controlled.shutdown.max.retries",
        "controlled.shutdown.retry.backoff.ms",
    ),
    "an idle quorum writes nothing, and learns what is committed all the same": ("metadata.max.idle.interval.ms",),
    "segments of the metadata log end by their size": ("metadata.log.segment.ms",),
    "the metadata log goes as far as the newest snapshot needs it": ("metadata.max.retention.",),
    "followers' connections have the system's buffers": ("replica.socket.receive.buffer.bytes",),
    "log start offsets are written down with the recovery points": ("log.flush.start.offset.checkpoint.interval.ms",),
    "an append extends the file of a segment": ("preallocate", "log.preallocate"),
    "tiered storage is not there yet": (
        "remote.",
        "local.retention.",
        "log.local.retention.",
    ),
    "a coordinator takes its partition up in pieces of its own size": (
        "offsets.load.buffer.size",
        "transaction.state.log.load.buffer.size",
        "share.coordinator.load.buffer.size",
    ),
    "group.version says whether there are consumer groups": ("group.coordinator.rebalance.protocols",),
    "no buffer is kept from one write to the next": ("group.coordinator.cached.buffer.max.bytes",),
    "a large assignment is always worked out elsewhere, and a small one never": (
        "group.consumer.assignor.offload.enable",
        "group.share.assignor.offload.enable",
        "share.assignor.offload.enable",
        "group.streams.assignor.offload.enable",
        "streams.assignor.offload.enable",
    ),
    "share groups have one assignor": ("group.share.assignors",),
    "as in Kafka 4.4, no warm-up task is given out yet": (
        "group.streams.num.warmup.replicas",
        "group.streams.max.warmup.replicas",
        "streams.num.warmup.replicas",
    ),
    "descriptions of topologies are kept in the group's partition": (
        "group.streams.topology.description.plugin.class",
    ),
    "a coordinator of transactions answers when it can": ("add.partitions.to.txn.retry.backoff.ms",),
}
"""Why a key has no effect; an entry that ends with a dot stands for all keys that begin so."""

_REASON_OF: Final = {name: reason for reason, names in _REASONS.items() for name in names}
_PREFIXES: Final = tuple(name for name in _REASON_OF if name.endswith("."))


def why_no_effect(name: str) -> str | None:
    """None for a key that is obeyed."""
    exact = _REASON_OF.get(name)
    if exact is not None:
        return exact
    prefix = max((prefix for prefix in _PREFIXES if name.startswith(prefix)), key=len, default=None)
    return None if prefix is None else _REASON_OF[prefix]
