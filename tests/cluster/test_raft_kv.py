"""The key-value example with real servers: its commands, its files, and what clients see when servers die."""

import asyncio
import json
import signal
from pathlib import Path

import pytest
from examples.raft_kv.client import ClientOptions, KvClient, OutcomeUnknownError
from tests.cluster.kv_servers import KvCluster, KvServer, kv_cluster, run

from penstock.testing.linearizability import History, violations

SET = 'set request, key=hello value=world response={"success":true}\n'
GET = 'world\nget request, key=hello, response={"value":"world"}\n'
KEYS = ("a", "b", "c", "d")


async def client(cluster: KvCluster, *arguments: str) -> str:
    code, output = await run("examples.raft_kv", "client", cluster.text, *arguments)
    assert code == 0, output
    return output


async def admin(cluster: KvCluster, *arguments: str) -> str:
    code, output = await run("examples.raft_kv", "admin", cluster.text, *arguments)
    assert code == 0, output
    return output


async def stored(server: KvServer) -> dict[str, str]:
    """What a server has on its disk, as `penstock dump-log` shows it: the newest snapshot, and the log behind it."""
    files = [*sorted(server.log.glob("*.checkpoint"))[-1:], *sorted(server.log.glob("*.log"))]
    code, output = await run("penstock", "dump-log", "--print-data-log", "--json", "--files", ",".join(map(str, files)))
    assert code == 0, output
    found = [json.loads(line) for line in output.splitlines()]
    return {line["key"]: line["payload"] for line in found if str(line.get("key", "\0")).isprintable()}


async def test_values_outlive_the_leader_and_lie_on_all_servers(tmp_path: Path) -> None:
    async with kv_cluster(tmp_path) as cluster:
        assert await client(cluster, "hello", "world") == SET
        assert await client(cluster, "hello") == GET
        assert await client(cluster, "nothing") == "\nget request, key=nothing, response={}\n"
        leader = await cluster.leader()
        assert (await admin(cluster, "leader")).startswith(f"{leader.me} leads epoch ")
        await leader.kill()
        assert await client(cluster, "hello") == GET
        await cluster.start(leader.me.id)
        await client(cluster, "hello", "again")
        await caught_up(cluster)
        for server in cluster.servers.values():
            await server.stop()
            assert await stored(server) == {"hello": "again"}


async def caught_up(cluster: KvCluster) -> None:
    """All voters have the same end of the log."""
    while True:
        lines = (await admin(cluster, "configuration")).splitlines()
        if len({line.split()[-1] for line in lines if " observer, " not in line}) == 1:
            return


async def test_snapshots_take_the_place_of_the_log(tmp_path: Path) -> None:
    """Segments roll at 1 MB, and those that a snapshot holds go, on each server for itself; a restart loads it."""
    async with kv_cluster(tmp_path, "--snapshot-period-seconds", "0.1") as cluster:
        written: dict[str, str] = {}
        async with KvClient([server.address for server in cluster.first]) as kv:

            async def write(number: int) -> None:
                key = f"key {number % 10}"
                written[key] = f"{number} {'v' * 100_000}"
                await kv.set(key.encode(), written[key].encode())

            for number in range(50):
                await write(number)
            number = 50
            while not all(has_forgotten(server) for server in cluster.servers.values()):
                await write(number)
                number += 1
            for server in cluster.servers.values():
                await server.kill()
            for server in cluster.servers.values():
                assert all(path.stat().st_size <= 1024 * 1024 for path in server.log.glob("*.log"))
            await cluster.start(1, 2, 3)
            for key, value in written.items():
                assert (await kv.get(key.encode())).value == value.encode()


def has_forgotten(server: KvServer) -> bool:
    first_segment = min((int(path.stem) for path in server.log.glob("*.log")), default=0)
    newest_snapshot = max((int(path.name.split("-")[0]) for path in server.log.glob("*.checkpoint")), default=0)
    return 0 < first_segment <= newest_snapshot


async def test_servers_come_and_go_while_the_store_runs(tmp_path: Path) -> None:
    async with kv_cluster(tmp_path) as cluster:
        await client(cluster, "hello", "world")
        newcomer = cluster.new_server(4)
        await newcomer.start(cluster.first)
        shown = await admin(cluster, "add-peers", str(newcomer.me))
        assert f"{newcomer.me} voter" in shown
        for number in (1, 2):
            shown = await admin(cluster, "remove-peers", str(cluster.servers[number].me))
            assert f"{cluster.servers[number].me} voter" not in shown
            await cluster.servers.pop(number).stop()
        assert await client(cluster, "hello") == GET
        assert await client(cluster, "more", "x") == 'set request, key=more value=x response={"success":true}\n'
        await caught_up(cluster)
        await newcomer.stop()
        assert await stored(newcomer) == {"hello": "world", "more": "x"}


class Clients:
    """Concurrent clients, each with its own turn of sets and gets, and the history of what they were told."""

    def __init__(self, cluster: KvCluster, count: int) -> None:
        self.history = History()
        self.answered = 0
        self.stopping = False
        self._progress = asyncio.Condition()
        addresses = [server.address for server in cluster.first]
        options = ClientOptions(timeout_s=10, attempt_timeout_s=1)
        self.clients = [KvClient(addresses[n % 3 :] + addresses[: n % 3], options) for n in range(count)]
        self._tasks = [asyncio.ensure_future(self._act(f"c{n}", kv)) for n, kv in enumerate(self.clients)]

    async def until(self, more: int) -> None:
        """Until so many more were answered."""
        goal = self.answered + more
        async with self._progress:
            await self._progress.wait_for(lambda: self.answered >= goal or any(task.done() for task in self._tasks))

    async def stop(self) -> None:
        self.stopping = True
        await asyncio.gather(*self._tasks)
        for kv in self.clients:
            kv.disconnect()

    async def _act(self, name: str, kv: KvClient) -> None:
        number = 0
        while not self.stopping:
            number += 1
            key = KEYS[number % len(KEYS)]
            try:
                await (self._set(name, kv, key, f"{name}.{number}") if number % 3 else self._get(name, kv, key))
            except OutcomeUnknownError:
                continue
            async with self._progress:
                self.answered += 1
                self._progress.notify_all()

    async def _set(self, name: str, kv: KvClient, key: str, value: str) -> None:
        operation = self.history.call(name, key, write=value)
        await kv.set(key.encode(), value.encode())
        self.history.returned(operation)

    async def _get(self, name: str, kv: KvClient, key: str) -> None:
        operation = self.history.call(name, key)
        value = (await kv.get(key.encode())).value
        self.history.returned(operation, None if value is None else value.decode())


@pytest.mark.soak
async def test_what_clients_see_is_linearizable(tmp_path: Path) -> None:
    """kill -9 of the leader, of a majority and of all, a leader that stands still, and connections that are cut."""
    async with kv_cluster(tmp_path, "--snapshot-period-seconds", "0.5") as cluster:
        clients = Clients(cluster, 6)
        await clients.until(100)

        async def kill(*servers: KvServer) -> None:
            for server in servers:
                await server.kill()
            if len(servers) == 1:
                await clients.until(50)
            await cluster.start(*(server.me.id for server in servers))
            await clients.until(50)

        await kill(await cluster.leader())
        for kv in clients.clients:
            await clients.until(1)
            kv.disconnect()
        await kill(cluster.servers[1], cluster.servers[2])
        paused = await cluster.leader()
        paused.signal(signal.SIGSTOP)
        await clients.until(100)
        paused.signal(signal.SIGCONT)
        await clients.until(100)
        await kill(*cluster.servers.values())
        await clients.stop()
        assert violations(clients.history.operations) == []
        assert len(clients.history.operations) > 500
