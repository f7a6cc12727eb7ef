"""Kafka Streams counts words with exactly_once_v2 while its instances and the nodes are killed: no count is wrong."""

from collections import Counter
from pathlib import Path
from random import Random
from typing import Final

from bench.hand_in_hand.node import HandError, Say, penstock, wait_until
from bench.process import said_by
from bench.topics import create_topic
from tests.java.kills import PARTITIONS, CommittedReader, Sender, kill_each_node
from tests.java.programs import LIMIT_S, Program, three_nodes

WORDS: Final = ("one", "two", "three", "four", "five", "six", "seven")
LINES_AT_ONCE: Final = 20
"""So many are sent between two looks at the counts."""
INSTANCES: Final = ("first", "second")
QUICK_GROUPS: Final = {
    "group.streams.initial.rebalance.delay.ms": "1000",
    "group.streams.min.heartbeat.interval.ms": "300",
    "group.streams.heartbeat.interval.ms": "500",
    "group.streams.min.session.timeout.ms": "3000",
    "group.streams.session.timeout.ms": "6000",
    "group.streams.num.standby.replicas": "1",
}
"""Settings of nodes that soon notice that an instance is gone."""
QUICK_MEMBERS: Final = {"streams": (), "classic": ("session.timeout.ms=6000", "num.standby.replicas=1")}
"""By the protocol, settings of instances whose nodes notice that as soon."""

PATIENT: Final = f"producer.max.block.ms={LIMIT_S * 1000:.0f}"
"""An instance gives up when it has waited twice for so long for the end of a transaction: a minute, as it is."""


class Words:
    """Those in `lines`, and how often `counts` says that each has come."""

    def __init__(self, servers: str) -> None:
        self._sender = Sender(servers, "lines")
        self._reader = CommittedReader(servers, "counts")
        self._lines = 0
        self.sent = Counter[str]()
        self.counted = Counter[str]()

    def send(self, lines: int = LINES_AT_ONCE) -> None:
        """Lines of one to four words."""
        for number in range(self._lines, self._lines + lines):
            words = [WORDS[(number * 3 + place * 2) % len(WORDS)] for place in range(1 + number % 4)]
            self._sender.send([" ".join(words)])
            self.sent.update(words)
        self._lines += lines

    def read(self) -> int:
        """How many have been counted. Raises HandError unless a word's counts are 1, 2, 3 and so on."""
        for message in self._reader.read():
            word, count = (message.key() or b"").decode(), int.from_bytes(message.value() or b"", "big")
            self.counted[word] += 1
            if count != self.counted[word]:
                raise HandError(f"the count of {word!r} is {count}, and {self.counted[word]} was due")
        return self.counted.total()

    def finish(self) -> None:
        """All are counted. Raises HandError where counts are not those of what was sent."""
        self._sender.finish()
        wait_until("all words are counted", lambda: self.read() >= self.sent.total(), (), LIMIT_S)
        self.read()
        self._reader.close()
        if self.counted != self.sent:
            raise HandError(f"{self.sent} were sent, and the counts are {self.counted}")


class Counting:
    """Lines come, and two instances count; these are killed in turn."""

    def __init__(self, folder: Path, servers: str, protocol: str) -> None:
        self.words = Words(servers)
        self._folder = folder
        self._settings = (
            f"bootstrap.servers={servers}",
            f"group.protocol={protocol}",
            PATIENT,
            *QUICK_MEMBERS[protocol],
        )
        self._running: dict[str, Program] = {}
        self.deaths = 0

    def start(self) -> None:
        for name in INSTANCES:
            self._start(name)

    def _start(self, name: str) -> None:
        """With what it had on disk."""
        folder = self._folder / name
        folder.mkdir(exist_ok=True)
        settings = (*self._settings, f"state.dir={folder / 'state'}", f"application.server={name}:80")
        self._running[name] = Program(folder, "WordCount", "kafka-streams", settings)

    @property
    def results(self) -> int:
        return self.words.counted.total()

    def go_on(self, count: int) -> None:
        """Until so many more words are counted."""
        wanted = self.words.read() + count
        wait_until("words are counted", lambda: self._counted() >= wanted, (), LIMIT_S)

    def _counted(self) -> int:
        for instance in self._running.values():
            instance.check()
        self.words.send()
        return self.words.read()

    def change_lives(self) -> None:
        name = INSTANCES[self.deaths % len(INSTANCES)]
        self._running[name].kill()
        self.deaths += 1
        self._start(name)

    def kill(self) -> None:
        for instance in self._running.values():
            instance.kill()


def count_words(folder: Path, say: Say, *, protocol: str) -> None:
    """`protocol` is that of the group: classic or streams."""
    with three_nodes(QUICK_GROUPS) as cluster:
        servers = cluster.bootstrap_servers
        for topic in ("lines", "counts"):
            create_topic(servers, topic, PARTITIONS, replicas=3)
        counting = Counting(folder, servers, protocol)
        counting.start()
        try:
            kill_each_node(cluster, counting, Random(protocol), say)
            counting.words.finish()
        finally:
            counting.kill()
        listed = said_by(penstock("transactions", "--bootstrap-server", servers, "list")).splitlines()[1:]
    words = counting.words
    say(
        f"{words.sent.total()} words were sent and counted once, after {counting.deaths} deaths of instances; "
        f"{len(listed)} transactional ids"
    )
