"""The tables of settings in `docs/client.md`: ours with their defaults, and Kafka's beside them.

Kafka's names and defaults are in `kafka_client_defaults.json`, as its own ConfigDefs list them.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from penstock.client.assignors import KAFKAS_PACKAGE, assignor_named
from penstock.client.properties import as_properties
from penstock.client.security import KNOWN
from penstock.client.settings import ClientSettings, ConsumerSettings, ProducerSettings, ShareConsumerSettings

DATA: Final = Path(__file__).parent / "kafka_client_defaults.json"
SECURITY: Final = ("ssl.", "sasl.", "security.")
MEANINGS: Final[Mapping[str, str]] = {
    "acks": "who must have a batch before it counts as delivered: `0`, `1`, `all`",
    "allow.auto.create.topics": "whether asking for a topic may create it",
    "auto.commit.interval.ms": "how often positions are committed by themselves",
    "auto.offset.reset": "where to begin without a committed offset: `earliest`, `latest`, `none`, `by_duration:P1D`",
    "batch.size": "bytes of a batch",
    "buffer.memory": "bytes that wait to be sent at most",
    "check.crcs": "whether the checksums of batches are checked",
    "client.dns.lookup": "what names stand for: `use_all_dns_ips`, or `resolve_canonical_bootstrap_servers_only`",
    "client.id": "the name under which the broker knows this client",
    "client.rack": "where this client runs: a consumer reads from a replica there, with `replica.selector.class`, "
    "a producer writes there with `partitioner.rack.aware`",
    "compression.level": "the codec's level",
    "compression.type": "`none`, `gzip`, `snappy`, `lz4`, `zstd`",
    "connections.max.idle.ms": "how long a connection over which nothing is asked stays open; -1: for ever",
    "default.api.timeout.ms": "how long a call is tried again",
    "delivery.timeout.ms": "how long a record may take from `send` to its acknowledgement",
    "enable.auto.commit": "whether positions are committed by themselves",
    "enable.idempotence": "whether the broker drops what it has already",
    "exclude.internal.topics": "whether a pattern passes over internal topics",
    "fetch.max.bytes": "bytes of an answer to a fetch",
    "fetch.max.wait.ms": "how long a fetch may wait for `fetch.min.bytes`",
    "fetch.min.bytes": "how many bytes a fetch waits for",
    "group.id": "the group; none to read alone",
    "group.instance.id": "the name of a static member (KIP-345)",
    "group.protocol": (
        "`classic`, or `consumer`: the coordinator assigns (KIP-848), and says how long a session is and how often it"
        " wants heartbeats"
    ),
    "group.remote.assignor": "`uniform` or `range`, with `group.protocol=consumer`; none leaves it to the coordinator",
    "heartbeat.interval.ms": "how often a member tells that it lives",
    "isolation.level": "`read_uncommitted`, `read_committed`",
    "linger.ms": "how long a batch waits for more",
    "max.block.ms": "how long `send` waits for metadata and room",
    "max.in.flight.requests.per.connection": "requests to one node that wait for an answer",
    "max.partition.fetch.bytes": "bytes of one partition in an answer to a fetch",
    "max.poll.interval.ms": "how long an application may go without polling",
    "max.poll.records": "records of one poll",
    "max.request.size": "bytes of a request",
    "metadata.cluster.check.enable": "whether a broker is told which node of which cluster is looked for (KIP-1242)",
    "metadata.max.age.ms": "how old what is known of the cluster may be",
    "metadata.max.idle.ms": "after how long without use what is known of a topic is forgotten, or at most"
    " `metadata.max.age.ms` later; in Kafka producers alone have it",
    "metadata.recovery.rebootstrap.trigger.ms": "after how long without an answer to Metadata it begins anew",
    "metadata.recovery.strategy": "where no known broker answers: `rebootstrap` begins anew, or `none`",
    "partitioner.class": "`RoundRobinPartitioner`, or your own as `module:Class`; none for Kafka's usual way",
    "partition.assignment.strategy": "the assignors, in the order of preference",
    "partitioner.rack.aware": "whether records without a key go to partitions led in `client.rack` (KIP-1123)",
    "reconnect.backoff.max.ms": "the longest pause before an address is tried again",
    "reconnect.backoff.ms": "the first pause before an address that could not be reached is tried again",
    "request.timeout.ms": "how long a broker may take to answer",
    "retries": "how often a batch is sent again",
    "retry.backoff.max.ms": "the longest pause between two attempts",
    "retry.backoff.ms": "the first pause between two attempts",
    "security.protocol": "what the listener speaks: `PLAINTEXT`, `SSL`, `SASL_PLAINTEXT`, `SASL_SSL`",
    "session.timeout.ms": "how long a member may go without a heartbeat",
    "share.acknowledgement.mode": "`implicit`: the next poll accepts all of the last one; `explicit`: each record is "
    "acknowledged by itself",
    "share.acquire.mode": "`batch_optimized`: brokers give whole batches; `record_limit`: no more than "
    "`max.poll.records`",
    "socket.connection.setup.timeout.ms": "how long setting up a connection may take",
    "transaction.timeout.ms": "after how long an open transaction is aborted, and its producer fenced",
    "transaction.two.phase.commit.enable": "whether transactions are decided elsewhere, and never time out (KIP-939)",
    "transactional.id": "the name of a producer of transactions; the next one of this name fences it",
}


def settings_tables() -> str:
    """A table for each kind of client, and what Kafka's clients have beyond that."""
    kafka = json.loads(DATA.read_text(encoding="utf-8"))
    common = as_properties(ClientSettings())
    producer = {key: value for key, value in as_properties(ProducerSettings()).items() if key not in common}
    consumer = {key: value for key, value in as_properties(ConsumerSettings()).items() if key not in common}
    shared = {key: value for key, value in as_properties(ShareConsumerSettings()).items() if key not in common}
    parts = [f"Kafka's are those of {kafka['kafka']}."]
    for title, ours, theirs in (
        ("Every client", common, kafka["producer"] | kafka["admin"]),
        ("Producer", producer, kafka["producer"]),
        ("Consumer", consumer, kafka["consumer"]),
        ("Share consumer", shared, kafka["consumer"]),
    ):
        parts += [f"### {title}", "| setting | meaning | default | Kafka's |\n| --- | --- | --- | --- |"]
        parts[-1] += "".join(_rows(ours, theirs))
    have = {"bootstrap.servers", *common, *producer, *consumer, *shared, *KNOWN}
    missing = sorted({key for kind in ("producer", "consumer", "admin") for key in kafka[kind]} - have)
    others = [key for key in missing if not key.startswith(SECURITY)]
    parts.append(
        f"Besides, the keys of `ssl.`, [as Kafka has them](security.md#tls), and of `sasl.` [those for log-ins]"
        f"(security.md#clients-with-a-name). Not there: "
        f"{', '.join(f'`{key}`' for key in others)}; and those of GSSAPI and brokers ({len(missing) - len(others)} "
        "settings). Serializers and interceptors are given to the client as objects, not by name."
    )
    return "\n\n".join(parts)


def _rows(ours: Mapping[str, str], theirs: Mapping[str, str]) -> Iterator[str]:
    for key, value in ours.items():
        kafkas = theirs.get(key)
        if kafkas is None:
            shown = "not Kafka's"
        else:
            shown = "the same" if _same(key, value, kafkas) else f"`{kafkas}`" if kafkas else "none"
        yield f"\n| `{key}` | {MEANINGS[key]} | {f'`{value}`' if value else 'none'} | {shown} |"


def _same(key: str, ours: str, theirs: str) -> bool:
    if key == "partition.assignment.strategy":
        names = [assignor_named(KAFKAS_PACKAGE + name).name for name in theirs.split(",")]
        return ours == ",".join(names)
    return ours == ("" if theirs == "null" else theirs)
