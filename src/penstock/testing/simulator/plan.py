"""What a seed decides at the beginning: the nodes, their configuration, the clients, and the faults to come.

With three replicas storage groups may replicate some topics. They go through all that others do: groups move, their
disks die, or are replaced by empty ones, and they are handed over by one of three schemes.
"""

from collections.abc import Iterator
from random import Random
from typing import Any

from penstock.client.security import Security
from penstock.metadata.configs.protection import STANDARD_AUTHORIZER
from penstock.protocol.value import Value
from penstock.testing.simulator.stand_in_tls import StandInSecurity, stand_in_keys

FAULTS = (
    "kill", "power", "kill in a call", "power in a call", "stop", "pause", "break", "cut", "one way", "slow",
    "slow sync", "full", "an error", "a dead disk",
)  # fmt: skip
FAULTS_OF_CLUSTERS = (
    "kill all", "power all", "kill the leader", "power of the leader", "pause the leader", "isolate",
    "isolate the leader", "isolate one way", "sync errors", "read errors",
)  # fmt: skip
LATER_FAULTS = (
    "clock",
)  # fmt: skip
LEASES = "leases "
TABLES = "tables 1126 "
"""Draws the tables of a plan, beside all other draws, and none for seeds that once found something without them."""
CONSENSUS = "consensus 29 "
"""Likewise whether storage groups replicate some topics."""
MOVING_GROUPS = "moving groups 9 "
"""The same for plans in which replicas move or disks die."""
ASKS = "asks 2188 "
"""Likewise whether a client asks brokers with leases where partitions end."""
GROUPS = "groups "
TRANSACTIONS = "transactions "
PREPARED = "prepared "
"""Likewise whether transactions are decided elsewhere."""
TWO_PHASES = {"transaction.two.phase.commit.enable": "true"}
FIRST_WITH_TRANSACTIONS = 1 << 32
"""From this seed on clients write transactions; the histories of those below are what they were before."""
MOST_BALANCE_S = 5
BROKER_PORT = 9092
CONTROLLER_PORT = 9093
OTHERS = tuple(f"other-{number}" for number in range(100))
_OF_OTHERS = " ".join(f'user_{name}="psst"' for name in OTHERS)
_USERS = f'username="node" password="between" user_node="between" user_client="hush" {_OF_OTHERS}'
_JAAS = f"org.apache.kafka.common.security.plain.PlainLoginModule required {_USERS};"
LOG_INS = {
    "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "sasl.mechanism.controller.protocol": "PLAIN",
    "connections.max.reauth.ms": "2000",
    "listener.name.plaintext.plain.sasl.jaas.config": _JAAS,
    "listener.name.controller.plain.sasl.jaas.config": _JAAS,
}
"""Settings of nodes at which everybody has to log in, and again every two seconds."""
OVER_TLS = {"listener.security.protocol.map": "PLAINTEXT:SASL_SSL,CONTROLLER:SASL_SSL"}
"""Besides: all that over TLS, with a stand-in for what encrypts."""
RIGHTS = LOG_INS | {
    "authorizer.class.name": STANDARD_AUTHORIZER,
    "super.users": "User:node",
    "allow.everyone.if.no.acl.found": "true",
    "leader.lease.on.quorum.loss": "refuse",
}
"""Of nodes that obey access rules as well, and lead within their leases alone."""


class NodePlan(Value):
    node_id: int
    roles: str = "broker,controller"

    @property
    def name(self) -> str:
        return f"node{self.node_id}"

    @property
    def is_broker(self) -> bool:
        return "broker" in self.roles

    @property
    def is_controller(self) -> bool:
        return "controller" in self.roles


class Plan(Value, kw_only=True):
    nodes: tuple[NodePlan, ...] = (NodePlan(1),)
    voters_may_change: bool = False
    """The voters stand in the metadata log instead of the configuration (KIP-853)."""
    operates: bool = False
    """An operator makes leaders resign and changes voters."""
    settings: dict[str, str]
    flushes_each: bool
    replicas: int = 1
    """Of each partition."""
    by_consensus: bool = False
    """Storage groups replicate every other topic."""
    moves: bool = False
    """A client moves replicas, between brokers and between log directories, storage groups, and leaders."""
    asks: bool = False
    """A client asks any broker where partitions end; for storage groups there always is one."""
    clocks: tuple[float, ...] = ()
    """The rate of each node's clock; all are right where it is empty."""
    may_not_wait: bool = False
    """Producers send with acks=0 now and then."""
    producers: int
    consumers: int
    groups: int
    topics: int
    tables: int = 0
    """Compacted topics with small segments, each with a client that writes and reads it."""
    revokes: bool = False
    """Users lose their rights one after the other, and must be refused then; the nodes have `RIGHTS`."""
    transacting: int = 0
    """Clients that write transactions, each to a topic of its own."""
    preparing: int = 0
    """Such whose transactions are decided elsewhere; the nodes have `TWO_PHASES`."""
    admin_pause_s: float = 1.0
    """The administrator's mean pause between two operations."""
    faults: tuple[str, ...]
    troubles: int = 1
    seconds: float
    delay_s: float
    socket_bytes: int
    max_open_segments: int | None = None

    def __str__(self) -> str:
        return (
            f"{', '.join(f'{node.name} ({node.roles})' for node in self.nodes)}"
            f"{', voters may change' if self.voters_may_change else ''}{', moves' if self.moves else ''}"
            f"{', storage groups' if self.by_consensus else ''}{', asks' if self.asks else ''}"
            f"{', revokes' if self.revokes else ''}"
            f"{f', clocks {self.clocks}' if self.clocks else ''}; {self.replicas} replicas, "
            f"{self.producers} producers, {self.consumers} consumers in {self.groups} groups, {self.topics} topics, "
            f"{f'{self.tables} tables, ' if self.tables else ''}"
            f"{f'{self.transacting} with transactions, ' if self.transacting else ''}"
            f"{f'{self.preparing} in two phases, ' if self.preparing else ''}"
            f"{self.seconds:.0f} s, {self.troubles} x faults: {', '.join(self.faults) or 'none'}; {self.settings}"
        )

    @property
    def is_cluster(self) -> bool:
        return len(self.nodes) > 1

    @property
    def session_s(self) -> float:
        return int(self.settings.get("broker.session.timeout.ms", "9000")) / 1000

    @property
    def balances_leaders(self) -> bool:
        """Whether leadership is where it should be soon after all is well."""
        return int(self.settings.get("leader.imbalance.check.interval.seconds", "300")) <= MOST_BALANCE_S

    @property
    def refuses_without_lease(self) -> bool:
        """Whether a broker that hears no controller stops leading."""
        return self.settings.get("leader.lease.on.quorum.loss") == "refuse"

    @property
    def has_leases(self) -> bool:
        """Whether brokers answer as leaders of replicated partitions only with a lease."""
        return self.refuses_without_lease and self.replicas > 1

    @property
    def commits_first(self) -> bool:
        """Whether consumers that commit by themselves commit before their coordinator is handed over."""
        return self.settings.get("handover.commit.first") == "true"

    @property
    def is_careless(self) -> bool:
        return self.settings.get("unclean.leader.election.enable") == "true"

    @property
    def keeps_tombstones(self) -> bool:
        """Whether tombstones stay for as long as a replica may be away."""
        return int(self.settings.get("log.cleaner.delete.retention.ms", "86400000")) > self.seconds * 10_000

    @property
    def retention_ms(self) -> int | None:
        """None for never."""
        retention_ms = int(self.settings.get("log.retention.ms", "-1"))
        return None if retention_ms < 0 else retention_ms

    @property
    def of_clients(self) -> dict[str, Any]:
        """How clients come to these nodes."""
        if "sasl.enabled.mechanisms" not in self.settings:
            return {}
        keys = {"sasl.mechanism": "PLAIN", "sasl.username": "client", "sasl.password": "hush"}
        kind = StandInSecurity if self._protocol == "SASL_SSL" else Security
        return {"security_protocol": self._protocol, "security": kind(keys)}

    @property
    def _protocol(self) -> str:
        """Of the listeners of brokers."""
        return self.settings.get("listener.security.protocol.map", ":PLAINTEXT").partition(",")[0].partition(":")[2]

    def settings_of(self, node: NodePlan) -> dict[str, str]:
        settings = self.settings | (stand_in_keys() if self._protocol == "SASL_SSL" else {})
        if self.is_cluster:
            return settings | dict(self._addresses(node))
        return settings | {"node.id": str(node.node_id), "listeners": f"PLAINTEXT://{node.name}:{BROKER_PORT}"}

    def _addresses(self, node: NodePlan) -> Iterator[tuple[str, str]]:
        listeners = []
        if node.is_broker:
            listeners.append(f"PLAINTEXT://{node.name}:{BROKER_PORT}")
        if node.is_controller:
            listeners.append(f"CONTROLLER://{node.name}:{CONTROLLER_PORT}")
        yield "process.roles", node.roles
        yield "node.id", str(node.node_id)
        yield "listeners", ",".join(listeners)
        yield "controller.listener.names", "CONTROLLER"
        controllers = [one for one in self.nodes if one.is_controller]
        if self.voters_may_change:
            addresses = (f"{one.name}:{CONTROLLER_PORT}" for one in controllers)
            yield "controller.quorum.bootstrap.servers", ",".join(addresses)
        else:
            voters = (f"{one.node_id}@{one.name}:{CONTROLLER_PORT}" for one in controllers)
            yield "controller.quorum.voters", ",".join(voters)


def draw(random: Random, nodes: int | None = None, *, transacts: bool = False) -> Plan:
    """By chance; `nodes` fixes their number. `transacts`: with clients that write transactions."""
    plan = _draw(random, _draw_nodes(random, random.choice((1, 3, 3, 5)) if nodes is None else nodes))
    if plan.is_cluster and Random(f"{LEASES}{plan}").random() < 0.5:
        plan = plan.replace(settings=plan.settings | {"leader.lease.on.quorum.loss": "refuse"})
    is_moving = plan.moves or "a dead disk" in plan.faults
    if plan.replicas > 2 and Random(f"{MOVING_GROUPS if is_moving else CONSENSUS}{plan}").random() < 0.5:
        plan = _draw_groups(Random(f"{GROUPS}{plan}"), plan)
    if "full" in plan.faults and plan.replicas > 1 and "," in plan.settings["log.dirs"]:
        plan = plan.replace(faults=(*plan.faults, "a full disk"))
    if plan.has_leases and not plan.is_careless and Random(f"{ASKS}{plan}").random() < 0.5:
        plan = plan.replace(asks=True)
    return _draw_transactions(Random(f"{TRANSACTIONS}{plan}"), plan) if transacts else plan


def _draw_transactions(random: Random, plan: Plan) -> Plan:
    settings = {
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": str(random.choice((500, 2000))),
        "transaction.state.log.num.partitions": str(random.randrange(1, 4)),
    }
    plan = plan.replace(transacting=random.randrange(1, 4), settings=plan.settings | settings)
    if Random(f"{PREPARED}{plan}").random() < 0.5:
        return plan
    return plan.replace(preparing=1, settings=plan.settings | TWO_PHASES)


def _draw_groups(random: Random, plan: Plan) -> Plan:
    """Storage groups, and how they and those of consumers go to other nodes."""
    settings = {
        "storage.group.handover.scheme": str(random.choice((1, 2, 3))),
        "handover.commit.first": random.choice(("true", "false")),
    }
    faults = ("a new disk",) if "," in plan.settings["log.dirs"] and random.random() < 0.5 else ()
    return plan.replace(by_consensus=True, settings=plan.settings | settings, faults=plan.faults + faults)


def _draw_nodes(random: Random, count: int) -> tuple[NodePlan, ...]:
    if count == 1:
        return (NodePlan(1),)
    ids = random.sample(range(100), count)
    controllers = random.choice([number for number in (1, 3, 5) if number <= count])
    if controllers == count or random.random() < 0.5:  # every node is a broker, and the first few control as well
        return tuple(NodePlan(i, "broker,controller" if n < controllers else "broker") for n, i in enumerate(ids))
    return tuple(NodePlan(i, "controller" if n < controllers else "broker") for n, i in enumerate(ids))


def _draw(random: Random, nodes: tuple[NodePlan, ...]) -> Plan:
    is_cluster = len(nodes) > 1
    flushes_each = random.random() < 0.5
    settings = {
        "metadata.log.max.record.bytes.between.snapshots": str(random.choice((512, 4096, 1 << 20))),
        "offsets.topic.num.partitions": str(random.randrange(1, 4)),
        "group.initial.rebalance.delay.ms": str(random.choice((0, 200, 3000))),
        "log.flush.offset.checkpoint.interval.ms": str(random.choice((1000, 60_000))),
        "replica.high.watermark.checkpoint.interval.ms": str(random.choice((500, 5000))),
        "auto.create.topics.enable": "false",
    }
    if flushes_each:
        settings["log.flush.interval.messages"] = "1"
    brokers = sum(node.is_broker for node in nodes)
    replicas = min(brokers, random.choice((1, 2, 3, 3, 3))) if is_cluster else 1
    if is_cluster:
        settings |= _draw_quorum(random) | _draw_replication(random, replicas)
    settings |= _draw_logs(random)
    kinds = FAULTS + FAULTS_OF_CLUSTERS if is_cluster else FAULTS
    plan = Plan(
        nodes=nodes,
        voters_may_change=is_cluster and random.random() < 0.5,
        operates=is_cluster and random.random() < 0.5,
        settings=settings,
        flushes_each=flushes_each,
        replicas=replicas,
        producers=random.randrange(1, 4),
        consumers=random.randrange(1, 5),
        groups=random.randrange(1, 3),
        topics=random.randrange(1, 6),
        admin_pause_s=random.choice((1.0, 0.1)) if is_cluster else 1.0,
        faults=tuple(fault for fault in kinds if random.random() < (0.25 if is_cluster else 0.4)),
        troubles=random.choice((1, 1, 2)) if is_cluster else 1,
        seconds=random.uniform(10, 40),
        delay_s=random.choice((0.000_2, 0.002, 0.02)),
        socket_bytes=random.choice((2_000, 65_536)),
        max_open_segments=random.choice((None, None, 1, 5)),
    )
    if is_cluster or "," in settings["log.dirs"]:
        plan = _draw_more(random, plan)
    if random.random() >= 0.7:
        return plan
    plan = plan.replace(settings=plan.settings | _draw_compaction(random))
    return plan.replace(tables=Random(f"{TABLES}{plan}").choice((0, 0, 1, 2)))


def _draw_more(random: Random, plan: Plan) -> Plan:
    """Parts that plans of one node with one disk lack: seeds that found something there find it again."""
    has_odd_clocks = random.random() < 0.3
    settings = plan.settings | {
        "leader.imbalance.check.interval.seconds": str(random.choice((1, MOST_BALANCE_S, 300))),
        "leader.imbalance.per.broker.percentage": "0",
    }
    if plan.replicas > 1 and random.random() < 0.1:
        settings |= {"unclean.leader.election.enable": "true", "unclean.leader.election.interval.ms": "1000"}
    return plan.replace(
        moves=random.random() < 0.5,
        clocks=tuple(round(random.uniform(0.97, 1.03), 3) for _ in plan.nodes) if has_odd_clocks else (),
        may_not_wait=plan.is_cluster and random.random() < 0.3,
        settings=settings,
        faults=plan.faults + tuple(fault for fault in LATER_FAULTS if random.random() < 0.2),
    )


def _draw_compaction(random: Random) -> dict[str, str]:
    """Compaction that often has something to do."""
    return {
        "log.cleaner.backoff.ms": str(random.choice((100, 1000))),
        "log.cleaner.min.cleanable.ratio": str(random.choice((0.0, 0.1, 0.5))),
        "log.cleaner.delete.retention.ms": str(random.choice((0, 1000, 86_400_000))),
        "log.cleaner.min.compaction.lag.ms": str(random.choice((0, 0, 2000))),
        "log.cleaner.dedupe.buffer.size": str(random.choice((10_000, 134_217_728))),
        "log.cleaner.threads": str(random.choice((1, 2))),
    }


def _draw_logs(random: Random) -> dict[str, str]:
    """Disks, and logs of many small segments, whose indexes fill up or get old first."""
    settings = {"log.dirs": ",".join(("/data", "/data2", "/data3")[: random.choice((1, 1, 2, 3))])}
    if random.random() < 0.7:
        settings |= {
            "log.index.size.max.bytes": str(random.choice((36, 60, 240, 1024))),
            "log.index.interval.bytes": str(random.choice((0, 0, 200, 4096))),
            "log.roll.ms": str(random.choice((500, 5000, 604_800_000))),
            "log.segment.delete.delay.ms": str(random.choice((0, 1000, 60_000))),
        }
    if random.random() < 0.4:
        settings |= {
            "log.retention.ms": str(random.choice((1000, 5000, 20_000))),
            "log.retention.check.interval.ms": str(random.choice((100, 1000))),
        }
    return settings


def _draw_quorum(random: Random) -> dict[str, str]:
    return quorum_settings(
        election_ms=random.choice((300, 1000)),
        patience_ms=random.choice((500, 1000, 2000)),
        heartbeat_ms=random.choice((200, 500)),
        session_ms=random.choice((2000, 5000)),
    )


def _draw_replication(random: Random, replicas: int) -> dict[str, str]:
    return replica_settings(replicas, random.randrange(1, replicas + 1)) | {
        "replica.lag.time.max.ms": str(random.choice((1500, 5000))),
        "replica.fetch.wait.max.ms": str(random.choice((100, 500))),
        "replica.fetch.max.bytes": str(random.choice((4_000, 1 << 20))),
        "replica.fetch.backoff.ms": "100",
        "max.incremental.fetch.session.cache.slots": str(random.choice((0, 1, 1000, 1000))),
        "num.replica.fetchers": str(random.choice((1, 2))),
    }


def quorum_settings(
    *, election_ms: int = 500, patience_ms: int = 1000, heartbeat_ms: int = 200, session_ms: int = 2000
) -> dict[str, str]:
    """For all nodes of a cluster: time-outs that fit the length of a simulation, and internal topics."""
    return {
        "controller.quorum.election.timeout.ms": str(election_ms),
        "controller.quorum.election.backoff.max.ms": str(election_ms),
        "controller.quorum.fetch.timeout.ms": str(patience_ms),
        "controller.quorum.request.timeout.ms": str(patience_ms),
        "broker.heartbeat.interval.ms": str(heartbeat_ms),
        "broker.session.timeout.ms": str(session_ms),
        **replica_settings(1, 1),
    }


def replica_settings(replicas: int, min_in_sync: int) -> dict[str, str]:
    """`min_in_sync` is for acks=all."""
    return {
        "default.replication.factor": str(replicas),
        "min.insync.replicas": str(min_in_sync),
        "offsets.topic.replication.factor": str(replicas),
        "transaction.state.log.replication.factor": str(replicas),
        "transaction.state.log.min.isr": str(min_in_sync),
        "share.coordinator.state.topic.replication.factor": str(replicas),
        "share.coordinator.state.topic.min.isr": str(min_in_sync),
    }
