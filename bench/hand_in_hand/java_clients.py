"""Kafka's verifiable producer and consumer, each in a process of its own, and what they say of each record.

They work while leaders and coordinators are handed over: nothing is lost, twice or out of order, no member joins again.
"""

import asyncio
import json
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from bench.hand_in_hand.node import HEAP, HandError, Say, wait_until
from bench.process import AS_INSTALLED, Process
from bench.topics import create_topic
from bench.versus.kafka import java_command, write_properties
from penstock.client.admin import Admin
from penstock.client.values import TopicPartition
from penstock.protocol.internal_topics import CONSUMER_OFFSETS
from penstock.protocol.requests.own_apis import BalanceAction
from penstock.testing import Cluster

LOGGING: Final = Path(__file__).with_name("log4j2.properties")
LIMIT_S: Final = 120.0
DEFAULTS: Final = {"enable.idempotence": "true", "retries": str(2**31 - 1)}
"""Java's for producers; the tool has no retries of its own accord, and with that no idempotence."""
QUIET: Final = AS_INSTALLED
"""Settings of the nodes that such clients work on: a busy machine is not to be taken for a dead node."""
RATE: Final = 500
"""Records a second, of each producer."""
TOPIC: Final = "orders"

Position = tuple[int, int]
"""A partition, and an offset in it."""


class JavaClient(Process):
    """Its output is read as it comes; the library's log is kept."""

    take: Callable[[dict[str, Any]], None]
    counts: Callable[[], list[int]]

    def __init__(self, folder: Path, name: str, tool: str, words: Sequence[str], settings: Mapping[str, str]) -> None:
        self.name = name
        self.errors: list[str] = []
        properties = write_properties(folder / f"{name}.properties", settings)
        options = (*HEAP, f"-Dlog4j2.configurationFile={LOGGING}")
        program = java_command("kafka-tools", f"org.apache.kafka.tools.{tool}", *options)
        command = [*program, *words, str(properties)]
        super().__init__(command, folder / f"{name}.out", log=folder / f"{name}.log")
        self._read_to = 0

    def finish(self) -> None:
        """An orderly end: a producer sends what it has, a consumer leaves its group."""
        self.look()
        if not self.stop(LIMIT_S):
            raise HandError(f"{self.name} does not stop: {self.last_words()}")
        self._read()

    def look(self) -> None:
        """Reads the output so far. Raises HandError if the process has ended by itself."""
        if self.exit_code is not None:
            raise HandError(f"{self.name} has ended by itself: {self.last_words()}")
        self._read()

    def _read(self) -> None:
        with self.said.open("rb") as file:
            file.seek(self._read_to)
            data = file.read()
        data = data[: data.rfind(b"\n") + 1]
        self._read_to += len(data)
        for line in data.splitlines():
            if line.startswith(b"{"):
                self.take(json.loads(line))

    def check_order(self) -> None:
        """No refusals, and all in order. Raises HandError."""
        if self.errors:
            raise HandError(f"{self.name}: {len(self.errors)} errors: {self.errors[:3]}")

    @property
    def log(self) -> str:
        return self.log_file.read_text(errors="replace")

    def warnings(self) -> list[str]:
        lines = [line.split(" ", 2) for line in self.log.splitlines()]
        return [words[2] for words in lines if len(words) == 3 and words[1] in ("WARN", "ERROR")]


class JavaProducer(JavaClient):
    """The values of its records are `NUMBER.0`, `NUMBER.1` and so on, with some keys in turn."""

    def __init__(self, folder: Path, number: int, bootstrap: str) -> None:
        words = ["--bootstrap-server", bootstrap, "--topic", TOPIC, "--throughput", str(RATE)]
        words += ["--value-prefix", str(number), "--repeating-keys", "100", "--producer.config"]
        self.acknowledged: dict[str, Position] = {}
        self.longest_ms = 0
        """Without an acknowledgement, since this was set to 0."""
        self._last_ms = 0
        super().__init__(folder, f"producer-{number}", "VerifiableProducer", words, DEFAULTS)

    def take(self, event: dict[str, Any]) -> None:
        if event["name"] == "producer_send_error":
            self.errors.append(f"{event['value']}: {event['exception']}: {event['message']}")
        elif event["name"] == "producer_send_success":
            self.acknowledged[event["value"]] = (event["partition"], event["offset"])
            if self._last_ms:
                self.longest_ms = max(self.longest_ms, event["timestamp"] - self._last_ms)
            self._last_ms = event["timestamp"]

    def counts(self) -> list[int]:
        return [len(self.acknowledged)]

    def repeated(self) -> Counter[str]:
        """The refusals after which its library sent a batch again, each with how often."""
        return Counter(re.findall(r"retrying .* Error: ([A-Z_]+)", self.log))

    def check_order(self) -> None:
        """All its records were acknowledged, and lie in their order. Raises HandError."""
        super().check_order()
        last: dict[int, int] = {}
        numbers = sorted((int(value.partition(".")[2]), place) for value, place in self.acknowledged.items())
        if [number for number, _ in numbers] != list(range(len(numbers))):
            raise HandError(f"{self.name}: of {numbers[-1][0] + 1} records {len(numbers)} were acknowledged")
        for number, (partition, offset) in numbers:
            if offset <= last.get(partition, -1):
                raise HandError(f"{self.name}: record {number} is not behind those before it, {partition}:{offset}")
            last[partition] = offset


class JavaConsumer(JavaClient):
    """A member of a group. It commits after each poll and waits for that, unless it is told to commit automatically."""

    def __init__(
        self, folder: Path, name: str, bootstrap: str, group: str, *more: str, settings: Mapping[str, str] | None = None
    ) -> None:
        words = ["--bootstrap-server", bootstrap, "--topic", TOPIC, "--group-id", group, "--verbose"]
        self.group = group
        self.records: list[tuple[str, Position]] = []
        """Values and their positions, in the order in which they came."""
        self.commits = self.assigned = 0
        self._commits_itself = "--enable-autocommit" not in more
        super().__init__(folder, name, "VerifiableConsumer", [*words, *more, "--consumer.config"], settings or {})

    def take(self, event: dict[str, Any]) -> None:
        match event["name"]:
            case "record_data":
                self.records.append((event["value"], (event["partition"], event["offset"])))
            case "partitions_assigned":
                self.assigned += 1
            case "offsets_committed" if event["success"]:
                self.commits += 1
            case "offsets_committed":
                self.errors.append(event["error"])

    def counts(self) -> list[int]:
        return [len(self.records), self.commits] if self._commits_itself else [len(self.records)]

    def joins(self) -> int:
        return self.log.count("(Re-)joining group")

    def check_order(self) -> None:
        """Its commits were accepted, and it has seen the records of each partition in their order. Raises HandError."""
        super().check_order()
        last: dict[int, int] = {}
        for value, (partition, offset) in self.records:
            if offset != last.get(partition, offset - 1) + 1:
                raise HandError(f"{self.name}: {partition}:{offset}, {value}, comes after {last[partition]}")
            last[partition] = offset


class JavaClients:
    """Consumers, and two producers, which work during the block `at_work`."""

    def __init__(self, consumers: Sequence[JavaConsumer]) -> None:
        self.consumers = consumers
        self.producers: list[JavaProducer] = []

    @contextmanager
    def at_work(self, folder: Path, bootstrap: str) -> Iterator[None]:
        """In the end each group has read all, once and in order, and no request was refused. HandError."""
        try:
            wait_until(
                "all are members", lambda: self._look() and all(one.assigned for one in self.consumers), (), LIMIT_S
            )
            self.producers = [JavaProducer(folder, number, bootstrap) for number in (1, 2)]
            self.wait_for_more()
            yield
            for producer in self.producers:
                producer.finish()
            wait_until("all is read", self._is_all_read, (), LIMIT_S)
            for consumer in self.consumers:
                consumer.finish()
        finally:
            for client in self._all:
                client.kill()
        for client in self._all:
            client.check_order()
        self._check_all_read_once()

    @property
    def _all(self) -> list[JavaClient]:
        return [*self.producers, *self.consumers]

    def _look(self) -> bool:
        for client in self._all:
            client.look()
        return True

    def begin_round(self) -> None:
        self._look()
        for producer in self.producers:
            producer.longest_ms = 0

    @property
    def longest_ms(self) -> int:
        """The longest time of a producer without an acknowledgement, in this round."""
        return max(producer.longest_ms for producer in self.producers)

    def wait_for_more(self) -> None:
        """Until each producer has had an acknowledgement, and each consumer has read and committed more."""
        before: list[int] = []

        def more() -> bool:
            self._look()
            found = [count for client in self._all for count in client.counts()]
            before.extend(() if before else found)
            return all(now > earlier for now, earlier in zip(found, before, strict=True))

        wait_until("all clients go on", more, (), LIMIT_S)

    @property
    def acknowledged(self) -> int:
        return sum(len(producer.acknowledged) for producer in self.producers)

    @property
    def commits(self) -> int:
        return sum(consumer.commits for consumer in self.consumers)

    def _read(self) -> dict[str, list[tuple[str, Position]]]:
        found: dict[str, list[tuple[str, Position]]] = {}
        for consumer in self.consumers:
            found.setdefault(consumer.group, []).extend(consumer.records)
        return found

    def _is_all_read(self) -> bool:
        for consumer in self.consumers:
            consumer.look()
        return all(len(records) >= self.acknowledged for records in self._read().values())

    def _check_all_read_once(self) -> None:
        """Raises HandError unless each group has read what was acknowledged, once."""
        acknowledged = sorted(pair for producer in self.producers for pair in producer.acknowledged.items())
        for group, read in self._read().items():
            if sorted(read) != acknowledged:
                lost, more = Counter(acknowledged), Counter(read)
                raise HandError(
                    f"{group} has read {len(read)} records of {len(acknowledged)}; "
                    f"lost {list(lost - more)[:5]}, too many {list(more - lost)[:5]}"
                )


PARTITIONS: Final = 6
CONFIG: Final = QUIET | {"auto.leader.rebalance.enable": "false"}
ROUNDS: Final = 6
CALM_S: Final = (12.0, 4.0)
"""Pauses between rounds, in turns: long enough that no request is forwarded any more; and short enough that the next
round comes before.
"""
COOPERATIVE: Final = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"


def hand_over_under_java_clients(folder: Path, say: Say) -> None:
    with Cluster(nodes=3, process=True, config=CONFIG) as cluster:
        bootstrap = cluster.bootstrap_servers
        create_topic(bootstrap, TOPIC, PARTITIONS, replicas=3)
        consumers = [JavaConsumer(folder, f"reader-{number}", bootstrap, "readers") for number in (1, 2)]
        saver = ["--enable-autocommit", "--assignment-strategy", COOPERATIVE]
        frequent = {"auto.commit.interval.ms": "500"}
        consumers += [JavaConsumer(folder, "saver", bootstrap, "savers", *saver, settings=frequent)]
        consumers += [JavaConsumer(folder, "newer", bootstrap, "newer", "--group-protocol", "CONSUMER")]
        clients = JavaClients(consumers)
        with clients.at_work(folder, bootstrap):
            joins = [consumer.joins() for consumer in consumers]
            for number in range(ROUNDS):
                clients.begin_round()
                begun_s = time.monotonic()
                moved = asyncio.run(_hand_all_over(bootstrap))
                took_s = time.monotonic() - begun_s
                time.sleep(CALM_S[number % len(CALM_S)])
                clients.wait_for_more()
                say(
                    f"round {number + 1}: {moved} handed over in {took_s:.1f} s; no producer waited for longer than"
                    f" {clients.longest_ms} ms"
                )
            if [consumer.joins() for consumer in consumers] != joins:
                raise HandError("a member has joined its group again")
    refused = [len(consumer.warnings()) for consumer in consumers]
    if min(refused) >= ROUNDS:  # on a busy machine one takes longer than requests are held, now and then
        raise HandError(f"each change of the coordinators was a refusal: {consumers[0].warnings()[:3]}")
    say(f"consumers have warned of {sum(refused)} refusals")
    for producer in clients.producers:
        say(f"{producer.name} has sent again after {dict(producer.repeated())}")
    say(f"{clients.acknowledged} records acknowledged, each read once by each group; {clients.commits} commits")


async def _hand_all_over(bootstrap: str) -> int:
    """The second replica of each partition becomes its leader; returns their number when all are."""
    async with Admin(bootstrap) as admin:
        before = await _replicas(admin)
        wanted = {one: [*replicas[1:], replicas[0]] for one, (replicas, _) in before.items()}
        await admin.partitions.reassign(wanted)
        deadline_s = time.monotonic() + LIMIT_S
        told = await admin.partitions.balance_leaders(BalanceAction.BEGIN)
        while any(leader != wanted[one][0] for one, (_, leader) in (await _replicas(admin)).items()):
            if told.late or time.monotonic() > deadline_s:
                raise HandError(f"not all are handed over within {LIMIT_S:g} s: {told}")
            await asyncio.sleep(0.1)
            # Again, as the active controller may be another one by now.
            told = await admin.partitions.balance_leaders(BalanceAction.BEGIN)
    return len(wanted)


async def _replicas(admin: Admin) -> dict[TopicPartition, tuple[Sequence[int], int]]:
    return {
        TopicPartition(topic.name, index): (partition.replicas, partition.leader)
        for topic in await admin.topics.describe([TOPIC, CONSUMER_OFFSETS])
        for index, partition in topic.partitions.items()
    }
