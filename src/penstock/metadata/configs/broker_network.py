"""Broker keys of the process itself: its roles and identity, listeners, sockets, threads and the metadata quorum."""

from penstock.metadata.configs.table import read_table

NETWORK_CONFIGS = read_table("""
process.roles list "" broker/controller fixed high | What this process is: broker, controller, or both.
node.id int -1 * fixed high | The number of this node; no two nodes of a cluster share one.
broker.id int -1 * fixed high | The old name of node.id; both must agree if both are set.
broker.rack string null * fixed medium | The rack or zone of this broker, for the placement of replicas.
listeners list PLAINTEXT://:9092 * broker high
    | Where this node listens: name://host:port with commas between; port 0 takes any free port. While the node runs it
    | can get more, and lose them again; clients are told of those in its file alone.
advertised.listeners list null * fixed high | The addresses that clients are told; without it, those of listeners.
listener.security.protocol.map string SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT \
    * broker low | Which protocol each listener speaks: name:protocol pairs.
inter.broker.listener.name string null * fixed medium | The listener through which brokers talk to each other.
security.inter.broker.protocol string PLAINTEXT PLAINTEXT/SSL/SASL_PLAINTEXT/SASL_SSL fixed medium
    | Names the listener between brokers by its protocol, when inter.broker.listener.name is not set.
controller.listener.names list null * fixed high | The listeners that belong to the controller.
early.start.listeners string null * fixed low
    | Listeners of a controller that open before it has read the access rules, when only super users, and nodes by
    | listeners of theirs, are let in: all of them if nothing is said. Those of a broker open when it has caught up.
num.network.threads int 3 1.. cluster high | Threads that read requests. Accepted; one event loop does their work.
num.io.threads int 8 1.. cluster high | Threads that handle requests. Accepted; one event loop does their work.
background.threads int 10 1.. cluster high | Threads for work in the background.
queued.max.requests int 500 1.. fixed high | Requests that may wait before a listener stops reading.
queued.max.request.bytes long 8388608 * fixed medium
    | What large requests and answers may take together; others wait (Kafka: -1, no limit). Controllers: a third.
request.timeout.ms int 30000 * fixed high | How long a request to another node may take.
socket.send.buffer.bytes int 102400 * fixed high | SO_SNDBUF of a connection; -1: the system's.
socket.receive.buffer.bytes int 102400 * fixed high | SO_RCVBUF of a connection; -1: the system's.
socket.request.max.bytes int 104857600 1.. fixed high | Largest request; a connection that announces more is closed.
socket.listen.backlog.size int 50 1.. fixed medium
    | Connections that may wait to be accepted, where it is set; else 4096.
socket.connection.setup.timeout.ms long 10000 * fixed medium | How long a connection to another node may take.
socket.connection.setup.timeout.max.ms long 30000 * fixed medium | The same after several failures.
connections.max.idle.ms long 600000 * fixed medium | A connection without requests for so long is closed.
connection.failed.authentication.delay.ms int 100 0.. fixed low | Delay before a refused client is disconnected.
max.connections int 2147483647 0.. cluster medium | Connections that a broker serves at once.
max.connections.per.ip int 2147483647 0.. cluster medium | Connections from one address.
max.connections.per.ip.overrides string "" * cluster medium | Limits for single addresses: host:number pairs.
max.connection.creation.rate int 2147483647 0.. cluster medium | New connections in a second.
max.incremental.fetch.session.cache.slots int 1000 0.. fixed medium | Fetch sessions that are kept.
max.request.partition.size.limit int 2000 1.. fixed medium | Partitions in one DescribeTopicPartitions answer.
fetch.max.bytes int 57671680 1024.. fixed medium | Most bytes that one fetch returns.
fetch.purgatory.purge.interval.requests int 1000 * fixed medium | Accepted; finished waits are dropped at once.
producer.purgatory.purge.interval.requests int 1000 * fixed medium | Accepted; finished waits are dropped at once.
delete.records.purgatory.purge.interval.requests int 1 * fixed medium | Accepted; finished waits are dropped at once.
share.fetch.purgatory.purge.interval.requests int 1000 * fixed medium | Accepted; finished waits are dropped at once.
controller.quorum.voters list "" * fixed high | The voters of the metadata quorum: id@host:port with commas between.
controller.quorum.bootstrap.servers list "" * fixed high | Addresses through which the quorum is found: host:port.
controller.quorum.auto.join.enable boolean false * fixed low | Whether a new controller adds itself to the voters.
controller.quorum.election.timeout.ms int 1000 0.. fixed high | Time without a leader before an election.
controller.quorum.election.backoff.max.ms int 1000 0.. fixed high | Longest pause between two elections.
controller.quorum.fetch.timeout.ms int 2000 0.. fixed high | Time without a fetch before the leader counts as lost.
controller.quorum.fetch.snapshot.max.bytes int 1048576 0.. fixed medium | Bytes of a snapshot in one request.
controller.quorum.fetch.max.bytes int 1048576 0.. fixed medium | Bytes of metadata in one fetch of the quorum.
controller.quorum.append.linger.ms int 25 0.. fixed medium | How long the quorum's leader collects records.
controller.quorum.request.timeout.ms int 2000 0.. fixed medium | How long a request within the quorum may take.
controller.quorum.retry.backoff.ms int 20 0.. fixed low | Pause before a request within the quorum is repeated.
controller.socket.timeout.ms int 30000 * fixed medium | How long a request of the controller to a broker may take.
controller.performance.sample.period.ms long 60000 100.. fixed low | Period of the controller's own measurements.
controller.performance.always.log.threshold.ms long 2000 0.. fixed low | Slower events of the controller are logged.
controlled.shutdown.enable boolean true * fixed medium | Whether a broker hands over its partitions before it stops.
controlled.shutdown.max.retries int 3 * fixed medium | How often a broker asks again to be let go.
controlled.shutdown.retry.backoff.ms long 5000 * fixed medium | Pause before it asks again.
shutdown.timeout.ms int 300000 1.. fixed medium
    | How long a node that is asked to stop has for that, as where a disk hangs; then its process ends with 1, and the
    | next start recovers what was not written down. A second signal does not wait. A key of Penstock's own.
broker.heartbeat.interval.ms int 2000 * fixed medium | How often a broker tells the controller that it lives.
broker.session.timeout.ms int 9000 * fixed medium | Silence after which the controller fences a broker.
broker.session.refused.timeout.ms int 500 -1.. fixed medium
    | How long a broker's listener refuses connections, after the controller was connected to it, until its process is
    | known to have ended, and it is fenced before its session is over; -1: never. Not used where
    | leader.lease.on.quorum.loss is refuse. A key of Penstock's own.
initial.broker.registration.timeout.ms int 60000 * fixed medium
    | How long a broker tries to register at its start; a voter goes on while no controller is active.
metadata.log.dir string null * fixed high | Where the metadata log lies; without it, in the first of log.dirs.
metadata.log.segment.bytes int 1073741824 8388608.. fixed high | Size of a segment of the metadata log.
metadata.log.segment.ms long 604800000 * fixed high | Age of a segment of the metadata log.
metadata.log.max.record.bytes.between.snapshots long 20971520 1.. fixed high | Bytes after which a snapshot is due.
metadata.log.max.snapshot.interval.ms long 3600000 0.. fixed high | Time after which a snapshot is due.
metadata.max.retention.bytes long 104857600 * fixed high | Size beyond which old metadata is dropped.
metadata.max.retention.ms long 604800000 * fixed high | Age beyond which old metadata is dropped.
metadata.max.idle.interval.ms int 500 0.. fixed low | How often an idle quorum writes an empty record; 0: never.
auto.leader.rebalance.enable boolean true * fixed high | Whether leadership returns to the preferred replicas.
leader.balance.enable boolean true * fixed high
    | The same by another name: leadership returns by itself where neither is false. A key of Penstock's own.
leader.imbalance.check.interval.seconds long 300 1.. fixed high | How often leadership is compared with the ideal.
leader.imbalance.per.broker.percentage int 10 * fixed high
    | Share of what a broker should lead that others may lead before leadership is balanced.
leader.balance.move.timeout.ms int 10000 1.. fixed medium
    | How long a broker has to take over a partition; then who led before leads again. A key of Penstock's own.
leader.handover.timeout.ms int 5000 0.. fixed medium
    | How long a leader has to hand over a partition to the preferred replica, with what is being produced; then it is
    | moved without that. 0: always without, and a broker that stops hands over no partition. A key of Penstock's own.
handover.commit.first boolean false * fixed medium
    | Whether members of groups are asked to commit before their coordinator is handed over, which waits for them for
    | leader.handover.timeout.ms less 1.5 s at most. Only Penstock's own consumers know of this, and of these only
    | who commits automatically does. A key of Penstock's own.
propose.linger.ms int 0 0.. fixed medium
    | How long the leader of a storage group collects what is produced, for one proposal to its replicas. What comes
    | while another one is written shares a proposal anyway. A key of Penstock's own.
propose.max.bytes int 1048576 1.. fixed medium
    | So many bytes are enough for a proposal, however short it was collected. A key of Penstock's own.
storage.group.handover.scheme int 3 1..3 fixed medium
    | How the leader of a storage group gives way to another voter. 1: its lease runs out; 2: it ends 100 ms later;
    | 3: it is over at once. A key of Penstock's own.
storage.group.max.bytes.between.snapshots long 67108864 1.. fixed medium
    | After so many bytes a storage group's log is forgotten behind what its partitions' own logs hold: a start applies
    | so much again. A key of Penstock's own.
leader.lease.on.quorum.loss string serve serve/refuse fixed medium
    | What a broker does with partitions of several replicas when no controller renews its lease, although it was
    | awake: it leads on, as in Kafka, or refuses. All nodes must have the same. A key of Penstock's own.
leader.balance.pinned list "" * cluster medium
    | Who should lead whatever is most even: a list of topic:partition:broker. A key of Penstock's own.
unclean.leader.election.interval.ms long 300000 1.. fixed low | How often unclean elections are looked for.
replica.socket.timeout.ms int 30000 * fixed high | How long a fetch of a follower may take.
replica.socket.receive.buffer.bytes int 65536 * fixed high | SO_RCVBUF of a follower's connection.
replica.fetch.max.bytes int 1048576 0.. fixed medium | Bytes of one partition in a follower's fetch.
replica.fetch.response.max.bytes int 10485760 0.. fixed medium | Bytes of a follower's whole fetch.
replica.fetch.wait.max.ms int 500 * fixed high | How long a leader may wait with the answer to a follower.
replica.fetch.min.bytes int 1 * fixed high | Bytes for which a leader waits with the answer to a follower.
replica.fetch.backoff.ms int 1000 0.. fixed medium | Pause of a follower after an error.
replica.lag.time.max.ms long 30000 * fixed high | A follower that lags for longer leaves the in-sync replicas.
replica.high.watermark.checkpoint.interval.ms long 5000 * fixed high | How often high watermarks are written down.
replica.selector.class string null org.apache.kafka.common.replica.RackAwareReplicaSelector fixed medium
    | Chooses the replica that a consumer reads from: the rack-aware one sends those that set client.rack to a replica
    | in their rack, and followers hear of the high watermark at once. Without it consumers read from the leader.
num.replica.fetchers int 1 * cluster high | Connections to each leader.
num.replica.alter.log.dirs.threads int null * fixed high | Threads that move replicas between directories.
follower.replication.throttled.rate long 9223372036854775807 0.. cluster medium | Bytes a second a follower takes.
leader.replication.throttled.rate long 9223372036854775807 0.. cluster medium | Bytes a second a leader gives.
penstock.replication.throttled.until.moved boolean false * cluster medium
    | Whether the rates and lists for throttled replication are taken away when nothing has been on the move for ten
    | seconds, and this key with them. Commands that move replicas set it with the limits.
replica.alter.log.dirs.io.max.bytes.per.second long 9223372036854775807 0.. cluster medium | Speed of moves.
replication.quota.window.num int 11 1.. fixed low | Samples kept for replication quotas.
replication.quota.window.size.seconds int 1 1.. fixed low | Length of a sample for replication quotas.
alter.log.dirs.replication.quota.window.num int 11 1.. fixed low | Samples kept for quotas of moves.
alter.log.dirs.replication.quota.window.size.seconds int 1 1.. fixed low | Length of a sample for quotas of moves.
controller.quota.window.num int 11 1.. fixed low | Samples kept for quotas of the controller.
controller.quota.window.size.seconds int 1 1.. fixed low | Length of a sample for quotas of the controller.
quota.window.num int 11 1.. fixed low | Samples kept for client quotas.
quota.window.size.seconds int 1 1.. fixed low | Length of a sample for client quotas.
client.quota.callback.class class null * fixed low | Decides which quota counts for a client.
penstock.metrics.listener string null * fixed medium
    | Where this node tells its figures over HTTP, and whether it is ready: host:port, or :port for this machine alone;
    | off without it. A key of Penstock's own.
penstock.metrics.level string topics topics/partitions fixed medium
    | What is told of partitions: those that are not well and the rest by topic, or each. A key of Penstock's own.
penstock.metrics.max.topics int 1000 1.. fixed medium
    | So many topics are counted each by itself; those that come later share the name other. A key of Penstock's own.
penstock.otlp.endpoint string null * fixed medium
    | Where this node pushes its figures by OpenTelemetry's protocol over HTTP, such as http://collector:4318; off
    | without it. A key of Penstock's own.
penstock.otlp.headers password null * fixed medium
    | Headers of those requests, as a collector's log-in needs them: name=value, with commas between several, in the
    | form of OTEL_EXPORTER_OTLP_HEADERS. A key of Penstock's own.
penstock.otlp.interval.ms long 60000 1000.. fixed low
    | How often it does that; less often while it fails. A key of Penstock's own.
metric.reporters list org.apache.kafka.common.metrics.JmxReporter * cluster low | Classes that report metrics.
metrics.num.samples int 2 1.. fixed low | Samples kept for a metric.
metrics.recording.level string INFO * fixed low | Which metrics are kept.
metrics.sample.window.ms long 30000 1.. fixed low | Length of a metric's sample.
kafka.metrics.polling.interval.secs int 10 1.. fixed low | How often Kafka's own reporters run.
kafka.metrics.reporters list "" * fixed low | Reporters of Kafka's older metrics.
telemetry.max.bytes int 1048576 1.. fixed low
    | Largest push of client metrics, as it comes and unpacked.
config.providers list "" * fixed low
    | Names of providers, by which values stand elsewhere; config.providers.<name>.class says of which kind each is, and
    | config.providers.<name>.param.… what it may read.
""")
