"""The administrator of a simulation: makes, enlarges, configures and deletes topics, and asks how far groups are."""

from collections.abc import Awaitable, Sequence
from random import Random

from penstock.client.admin import Admin
from penstock.client.admin.configs import ConfigChange, ConfigOperation, ResourceType
from penstock.client.admin.topics import NewTopic
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from penstock.testing.simulator.admin_client import AdminClient
from penstock.testing.simulator.clients import World
from penstock.testing.simulator.plan import Plan
from penstock.testing.simulator.promised_topics import CONFIG_KEY, TopicPromises

MAX_PARTITIONS = 6
SMALLEST_VALUE = 100_000
SHORTEST_BACKOFF_S = 0.08
EXISTS = (ErrorCode.TOPIC_ALREADY_EXISTS,)
"""Names are unique to this client: an earlier attempt of its own made the topic."""
HAS_SO_MANY = (ErrorCode.INVALID_PARTITIONS,)
IS_GONE = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,)
NO_BROKERS = ErrorCode.INVALID_REPLICATION_FACTOR
"""The refusal that is right while too few brokers run."""


class AdministratingClient(AdminClient):
    """The ledger hears of each operation before it begins and when it is acknowledged."""

    def __init__(self, world: World, name: str, random: Random, groups: Sequence[str], plan: Plan) -> None:
        super().__init__(world, name, random, plan.admin_pause_s)
        self.acknowledged = 0
        self._groups = groups
        self._max_topics = plan.topics
        self._replicas = plan.replicas
        self._by_consensus = plan.by_consensus
        self._tried = 0
        self._values = 0

    @property
    def _promises(self) -> TopicPromises:
        return self._world.ledger.promises

    async def _act(self, admin: Admin) -> None:
        topics = list(self._promises.counts)
        lot = self._random.random()
        if not topics or (self._tried < self._max_topics and lot < 0.5):
            await self._create(admin)
        elif lot < 0.6:
            await self._ask(admin, self._random.choice(self._groups))
        elif lot < 0.7:
            await self._take_producer_id(admin)
        elif lot < 0.85:
            await self._configure(admin, self._random.choice(topics))
        elif lot < 0.95:
            await self._enlarge(admin, self._random.choice(topics))
        elif len(topics) > 1:
            await self._delete(admin, self._random.choice(topics))

    async def _create(self, admin: Admin) -> None:
        name, count = f"t{self._tried}", self._random.randrange(1, 4)
        configs = {"replication.mode": "consensus"} if self._by_consensus and self._tried % 2 == 0 else {}
        self._tried += 1
        self._promises.creating(name, count)
        topic = NewTopic(name=name, partitions=count, replication_factor=self._replicas, configs=configs)
        at_once = await self._do(f"create {name} with {count} partitions", admin.topics.create(topic), EXISTS)
        self._promises.created(name, at_once=at_once)

    async def _enlarge(self, admin: Admin, name: str) -> None:
        count = self._promises.counts[name] + 1
        if count > MAX_PARTITIONS:
            return
        self._promises.enlarging(name, count)
        await self._do(f"enlarge {name} to {count}", admin.topics.create_partitions(name, count), HAS_SO_MANY)
        self._promises.enlarged(name, count)

    async def _configure(self, admin: Admin, name: str) -> None:
        self._values += 1
        value = str(SMALLEST_VALUE + self._values)
        self._promises.configuring(name, value)
        change = ConfigChange(CONFIG_KEY, ConfigOperation.SET, value)
        at_once = await self._do(f"configure {name}: {value}", admin.configs.alter(ResourceType.TOPIC, name, [change]))
        self._promises.configured(name, value, at_once=at_once)

    async def _delete(self, admin: Admin, name: str) -> None:
        self._promises.deleting(name)
        await self._do(f"delete {name}", admin.topics.delete(name), IS_GONE)
        self._promises.deleted(name)

    async def _do(self, what: str, work: Awaitable[None], as_good: Sequence[ErrorCode] = ()) -> bool:
        """Errors in `as_good` tell that it was done before. Returns whether one try was enough."""
        self._note(what)
        before = self._world.loop.time()
        try:
            await work
        except KafkaError as error:
            if error.code not in as_good:
                if not error.retriable and error.code != NO_BROKERS:
                    self._world.ledger.violated(f"{what}: refused with {error!r}")
                raise
        self.acknowledged += 1
        self._note(f"{what}: acknowledged")
        return self._world.loop.time() - before < SHORTEST_BACKOFF_S

    async def _take_producer_id(self, admin: Admin) -> None:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        known = list(admin.cluster.metadata.brokers)
        if not known:
            return  # the only one was away for so long that it is fenced
        node_id = self._random.choice(known)
        found = await admin.cluster.to_node(node_id, request, InitProducerIdResponse)
        self._note(f"node {node_id} gave producer id {found.producer_id} ({found.error_code})")
        if not found.error_code:
            self._values += 1
            self._world.ledger.agreement.producer_id(found.producer_id, f"{self.name} {self._values}")

    async def _ask(self, admin: Admin, group: str) -> None:
        ledger = self._world.ledger
        before, losses = ledger.promised_offsets(group), ledger.lossy_crashes
        found = await admin.groups.offsets(group)
        if losses == ledger.lossy_crashes:
            for partition, promised in before.items():
                if partition.topic in self._promises.counts:
                    offset = found[partition].offset if partition in found else -1
                    ledger.found_committed(group, partition, offset, promised)
