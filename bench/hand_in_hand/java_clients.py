"""Kafka's verifiable producer and consumer, each in a process of its own, and what they say of each record."""

import json
import os
import re
import subprocess
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from bench.hand_in_hand.kafkas_tools import TOOLS
from bench.hand_in_hand.node import HEAP, HandError, wait_until
from bench.versus.maven import fetch, java

LOGGING: Final = """\
appender.err.type=Console
appender.err.name=err
appender.err.target=SYSTEM_ERR
appender.err.layout.type=PatternLayout
appender.err.layout.pattern=%d{HH:mm:ss.SSS} %p %m%n
rootLogger.level=info
rootLogger.appenderRef.err.ref=err
"""
LIMIT_S: Final = 120.0
DEFAULTS: Final = {"enable.idempotence": "true", "retries": str(2**31 - 1)}
"""Java's for producers; the tool has no retries of its own accord, and with that no idempotence."""
QUIET: Final = {
    # Kafka's defaults: a busy machine is not to be taken for a dead node.
    "broker.session.timeout.ms": "9000",
    "controller.quorum.fetch.timeout.ms": "2000",
    "controller.quorum.election.timeout.ms": "1000",
}
"""Settings of the nodes that such clients work on."""

Position = tuple[int, int]
"""A partition, and an offset in it."""


class JavaClient:
    """A process, what it says, which is read as it comes, and what its library logs."""

    def __init__(self, folder: Path, name: str, tool: str, words: Sequence[str], settings: Mapping[str, str]) -> None:
        self.name = name
        self._said, self._log = folder / f"{name}.out", folder / f"{name}.log"
        logging, properties = folder / "log4j2.properties", folder / f"{name}.properties"
        logging.write_text(LOGGING)
        properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        jars = os.pathsep.join(str(jar) for jar in fetch("kafka-tools", TOOLS))
        program = [
            java(),
            *HEAP,
            f"-Dlog4j2.configurationFile={logging}",
            "-cp",
            jars,
            f"org.apache.kafka.tools.{tool}",
        ]
        with self._said.open("wb") as said, self._log.open("wb") as log:
            self._process = subprocess.Popen([*program, *words, str(properties)], stdout=said, stderr=log)
        self._read_to = 0

    def wait(self) -> None:
        """Until it ends by itself."""
        self._process.wait(LIMIT_S)

    def stop(self) -> None:
        """Let it end in its own way: a producer sends what it has, a consumer leaves its group."""
        self.look()
        self._process.terminate()
        try:
            self._process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise HandError(f"{self.name} does not stop: {self.log[-2000:]}") from None
        self._read()

    def kill(self) -> None:
        """End it as kill -9 does."""
        self._process.kill()
        self._process.wait()

    def look(self) -> None:
        """Take in what it has said since. Raises HandError if it has ended by itself."""
        if self._process.poll() is not None:
            raise HandError(f"{self.name} has ended by itself: {self.log[-2000:]}")
        self._read()

    def _read(self) -> None:
        """As far as there are whole lines."""
        with self._said.open("rb") as file:
            file.seek(self._read_to)
            data = file.read()
        data = data[: data.rfind(b"\n") + 1]
        self._read_to += len(data)
        for line in data.splitlines():
            if line.startswith(b"{"):
                self._take(json.loads(line))

    def _take(self, event: dict[str, Any]) -> None:
        """It has said this."""
        raise NotImplementedError

    def counts(self) -> list[int]:
        """What grows as long as it goes on."""
        raise NotImplementedError

    def check_order(self) -> None:
        """It was refused nothing, and what it did is in order. Raises HandError."""
        raise NotImplementedError

    @property
    def log(self) -> str:
        """What its library has logged."""
        return self._log.read_text(errors="replace")

    def warnings(self) -> list[str]:
        """What its library has warned of."""
        lines = [line.split(" ", 2) for line in self.log.splitlines()]
        return [words[2] for words in lines if len(words) == 3 and words[1] in ("WARN", "ERROR")]


class JavaProducer(JavaClient):
    """Numbers its records: their values are `NUMBER.0`, `NUMBER.1` and so on, with some keys in turn."""

    def __init__(
        self, folder: Path, number: int, bootstrap: str, topic: str, rate: int, settings: Mapping[str, str]
    ) -> None:
        words = ["--bootstrap-server", bootstrap, "--topic", topic, "--throughput", str(rate)]
        words += ["--value-prefix", str(number), "--repeating-keys", "100", "--producer.config"]
        self.acknowledged: dict[str, Position] = {}
        self.errors: list[str] = []
        self.longest_ms = 0
        """Without an acknowledgement, since this was set to 0."""
        self._last_ms = 0
        super().__init__(folder, f"producer-{number}", "VerifiableProducer", words, settings)

    def _take(self, event: dict[str, Any]) -> None:
        if event["name"] == "producer_send_error":
            self.errors.append(f"{event['value']}: {event['exception']}: {event['message']}")
        elif event["name"] == "producer_send_success":
            self.acknowledged[event["value"]] = (event["partition"], event["offset"])
            if self._last_ms:
                self.longest_ms = max(self.longest_ms, event["timestamp"] - self._last_ms)
            self._last_ms = event["timestamp"]

    def counts(self) -> list[int]:
        """Acknowledgements."""
        return [len(self.acknowledged)]

    def repeated(self) -> Counter[str]:
        """The refusals after which its library sent a batch again, each with how often."""
        return Counter(re.findall(r"retrying .* Error: ([A-Z_]+)", self.log))

    def check_order(self) -> None:
        """All records that it has sent were acknowledged, and lie in their order. Raises HandError."""
        if self.errors:
            raise HandError(f"{self.name}: {len(self.errors)} errors: {self.errors[:3]}")
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
        self, folder: Path, name: str, bootstrap: str, topic: str, group: str, settings: Mapping[str, str], *more: str
    ) -> None:
        words = ["--bootstrap-server", bootstrap, "--topic", topic, "--group-id", group, "--verbose"]
        self.group = group
        self.records: list[tuple[str, Position]] = []
        """Values, and where they lay, in the order in which they came."""
        self.errors: list[str] = []
        self.commits = self.assigned = 0
        self._commits_itself = "--enable-autocommit" not in more
        super().__init__(folder, name, "VerifiableConsumer", [*words, *more, "--consumer.config"], settings)

    def _take(self, event: dict[str, Any]) -> None:
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
        """Records, and commits as far as it says so."""
        return [len(self.records), self.commits] if self._commits_itself else [len(self.records)]

    def joins(self) -> int:
        """How often it has joined its group, or has begun to."""
        return self.log.count("(Re-)joining group")

    def check_order(self) -> None:
        """Its commits were accepted, and it has seen the records of each partition in their order. Raises HandError."""
        if self.errors:
            raise HandError(f"{self.name}: {len(self.errors)} errors: {self.errors[:3]}")
        last: dict[int, int] = {}
        for value, (partition, offset) in self.records:
            if offset != last.get(partition, offset - 1) + 1:
                raise HandError(f"{self.name}: {partition}:{offset}, {value}, comes after {last[partition]}")
            last[partition] = offset


def check_all_read_once(producers: Sequence[JavaProducer], consumers: Sequence[JavaConsumer]) -> None:
    """What was acknowledged is what each group has read, once. Raises HandError."""
    acknowledged = sorted(pair for producer in producers for pair in producer.acknowledged.items())
    for group in sorted({consumer.group for consumer in consumers}):
        read = sorted(pair for one in consumers if one.group == group for pair in one.records)
        if read != acknowledged:
            lost, more = Counter(acknowledged), Counter(read)
            raise HandError(
                f"{group} has read {len(read)} records of {len(acknowledged)}; "
                f"lost {list(lost - more)[:5]}, too many {list(more - lost)[:5]}"
            )


def wait_for_more(clients: Sequence[JavaClient]) -> None:
    """Until each producer has had an acknowledgement, and each consumer has read and committed more."""
    counts: list[int] = []

    def more() -> bool:
        for client in clients:
            client.look()
        found = [count for client in clients for count in client.counts()]
        if not counts:
            counts.extend(found)
        return all(now > before for now, before in zip(found, counts, strict=True))

    wait_until("all clients go on", more, [], LIMIT_S)


def wait_for_members(consumers: Sequence[JavaConsumer]) -> None:
    """Until each has partitions to read."""

    def are_in() -> bool:
        for consumer in consumers:
            consumer.look()
        return all(consumer.assigned for consumer in consumers)

    wait_until("all are members", are_in, [], LIMIT_S)


def wait_all_read(producers: Sequence[JavaProducer], consumers: Sequence[JavaConsumer]) -> None:
    """Until each group has read so many records as there are."""
    count = sum(len(producer.acknowledged) for producer in producers)

    def all_read() -> bool:
        for consumer in consumers:
            consumer.look()
        groups = {consumer.group for consumer in consumers}
        return all(sum(len(one.records) for one in consumers if one.group == group) >= count for group in groups)

    wait_until("all is read", all_read, [], LIMIT_S)
