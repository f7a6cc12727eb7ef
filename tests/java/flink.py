"""Flink's exactly-once sink copies a topic while its process and the nodes are killed: each record is there once.

Flink commits a transaction when the checkpoint that it belongs to is complete; after its process is killed the next one
begins at the last of those, commits the transactions in it, which may be committed already, and aborts all later ones.
It finds these by asking for the ids one after the other (INCREMENTING), or by listing those that are open (POOLING).
"""

from collections import Counter
from pathlib import Path
from random import Random
from typing import Final

from bench.hand_in_hand.node import HandError, Say, penstock, wait_until
from bench.process import said_by
from bench.topics import create_topic
from tests.java.kills import PARTITIONS, CommittedReader, Sender, kill_each_node
from tests.java.programs import LIMIT_S, Program, three_nodes

AT_ONCE: Final = 50
"""So many numbers are sent between two looks at the copies."""
MODULES: Final = ("java.util", "java.lang", "java.time", "java.util.concurrent")


class Numbers:
    """Those in `numbers`, which come while somebody looks, and those of them that are in `copies`."""

    def __init__(self, servers: str) -> None:
        self._sender = Sender(servers, "numbers")
        self._reader = CommittedReader(servers, "copies")
        self.sent = 0
        self.copies = Counter[bytes]()

    def send(self) -> None:
        self._sender.send(str(number) for number in range(self.sent, self.sent + AT_ONCE))
        self.sent += AT_ONCE

    def read(self) -> int:
        """How many there are. Raises HandError for one that is there twice."""
        self.copies.update(message.value() or b"" for message in self._reader.read())
        if len(self.copies) != self.copies.total():
            twice = [number for number, count in self.copies.items() if count > 1]
            raise HandError(f"{len(twice)} copies are there more than once: {twice[:5]}")
        return len(self.copies)

    def finish(self) -> None:
        """All copies come. Raises HandError for one that is not there."""
        self._sender.finish()
        wait_until("all numbers are copied", lambda: self.read() >= self.sent, (), LIMIT_S)
        self.read()
        self._reader.close()
        if self.copies.keys() != {b"%d" % number for number in range(self.sent)}:
            raise HandError("there are copies of what was never sent")


class Flink:
    """Its processes, one after the other, each of which begins where the one before has completed a checkpoint."""

    def __init__(self, folder: Path, servers: str, naming: str) -> None:
        self._folder, self._arguments = folder, [servers, naming]
        self._program: Program | None = None
        self.lives = 0

    def start(self) -> None:
        checkpoints = self._folder / "checkpoints"
        settings = {
            "parallelism.default": "2",
            "execution.checkpointing.interval": "500 ms",
            "execution.checkpointing.storage": "filesystem",
            "execution.checkpointing.dir": checkpoints.as_uri(),
            "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
            "execution.checkpointing.num-retained": "2",
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.attempts": "1000",
            "restart-strategy.fixed-delay.delay": "1 s",
            "io.tmp.dirs": str(self._folder),
        }
        complete = sorted(checkpoints.glob("*/chk-*/_metadata"), key=lambda file: file.stat().st_mtime_ns)
        if complete:
            settings["execution.state-recovery.path"] = complete[-1].parent.as_uri()
        options = [f"--add-opens=java.base/{module}=ALL-UNNAMED" for module in MODULES]
        words = [*self._arguments, *(f"{name}={value}" for name, value in settings.items())]
        self._program = Program(self._folder, "Copy", "flink", words, *options)
        self.lives += 1

    def look(self) -> None:
        assert self._program is not None
        self._program.check()

    def kill(self) -> None:
        if self._program is not None:
            self._program.kill()


class Copying:
    """Numbers come, and Flink copies them."""

    def __init__(self, folder: Path, servers: str, naming: str) -> None:
        self.numbers = Numbers(servers)
        self.flink = Flink(folder, servers, naming)

    @property
    def results(self) -> int:
        return len(self.numbers.copies)

    def go_on(self, count: int) -> None:
        """Until so many more are copied."""
        wanted = self.numbers.read() + count
        wait_until("copies come", lambda: self._copied() >= wanted, (), LIMIT_S)

    def _copied(self) -> int:
        self.flink.look()
        self.numbers.send()
        return self.numbers.read()

    def change_lives(self) -> None:
        self.flink.kill()
        self.flink.start()


def copy_with_flink(folder: Path, say: Say, *, naming: str) -> None:
    """`naming` is a `TransactionNamingStrategy` of Flink's."""
    with three_nodes() as cluster:
        servers = cluster.bootstrap_servers
        for topic in ("numbers", "copies"):
            create_topic(servers, topic, PARTITIONS, replicas=3)
        copying = Copying(folder, servers, naming)
        numbers, flink = copying.numbers, copying.flink
        flink.start()
        try:
            kill_each_node(cluster, copying, Random(naming), say)
            numbers.finish()
        finally:
            flink.kill()
        listed = said_by(penstock("transactions", "--bootstrap-server", servers, "list")).splitlines()[1:]
    say(f"{numbers.sent} numbers are there once, after {flink.lives - 1} deaths; {len(listed)} transactional ids")
