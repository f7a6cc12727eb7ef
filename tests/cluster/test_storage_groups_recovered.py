"""A storage group whose log is gone on two of three nodes goes on from the third one, with all records."""

from __future__ import annotations

import shutil
from pathlib import Path

from click.testing import CliRunner
from tests.cluster.nodes_in_a_loop import Nodes
from tests.cluster.storage_groups import FORGETFUL, create, ends, is_whole, leaders_of, produce, replica, three, until

from penstock.cli.main import main

GROUP_LOG = "__storage_group-0"


async def fill(cluster: Nodes) -> None:
    await create(cluster, "orders", partitions=2)
    await cluster.until_everywhere(is_whole)
    for _ in range(20):
        await produce(cluster, "orders")


class Operator:
    """Works on the directories of nodes that are stopped."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def loses(self, *node_ids: int) -> None:
        for node_id in node_ids:
            shutil.rmtree(self._directory / f"node-{node_id}" / GROUP_LOG)

    def recover(self, node_id: int, *options: str, answer: str = "") -> tuple[int, str]:
        """The exit code and what is printed."""
        file = self._directory / f"node-{node_id}.properties"
        file.write_text(
            f"process.roles=broker\nnode.id={node_id}\nlog.dirs={self._directory / f'node-{node_id}'}\n"
            "listeners=PLAINTEXT://127.0.0.1:9092\ncontroller.listener.names=CONTROLLER\n"
            "controller.quorum.voters=9@127.0.0.1:9093\n"
        )
        asked = ["storage-groups", "recover", "--config", str(file), "--group", "0", *options]
        result = CliRunner().invoke(main, asked, input=answer)
        return result.exit_code, result.output

    def report(self, node_id: int) -> str:
        path = str(self._directory / f"report-{node_id}.json")
        assert self.recover(node_id, "--report", path)[0] == 0
        return path


async def test_it_goes_on_from_the_replica_that_has_the_log(tmp_path: Path) -> None:
    operator = Operator(tmp_path)
    async with three(tmp_path, **FORGETFUL) as cluster:
        await fill(cluster)
        before = cluster.image(1).storage_groups[0].replicas
        code, said = operator.recover(1, "--gone", "2,3", "--yes")
        assert (code, "another process" in said) == (1, True), said
        await cluster.stop()
        reports = [option for node_id in (2, 3) for option in ("--other", operator.report(node_id))]
        code, said = operator.recover(1, *reports, "--yes")
        assert (code, "start the nodes, and they go on by themselves" in said) == (1, True), said
        operator.loses(2, 3)
        code, said = operator.recover(1, "--other", operator.report(2), "--yes")
        assert (code, "nobody says what the nodes [3] have" in said) == (1, True), said
        code, said = operator.recover(2, "--other", operator.report(1), "--gone", "3", "--yes")
        assert (code, "recover it where it is" in said) == (1, True), said
        reports = [option for node_id in (2, 3) for option in ("--other", operator.report(node_id))]
        code, said = operator.recover(1, *reports, answer="n\n")
        assert (code, "Go on from this replica?" in said) == (1, True), said
        code, said = operator.recover(1, *reports, answer="y\n")
        assert code == 0, said
        await cluster.start()
        assert await produce(cluster, "orders") >= 20
        await cluster.until_everywhere(is_whole)
        await until(lambda: len(set(ends(cluster, "orders"))) == 1)
        assert cluster.image(1).storage_groups[0].replicas == before
        await until(lambda: replica(cluster, leaders_of(cluster)[0]).quorum.quorum.ids == [1, 2, 3])
        await cluster.stop(1)
        assert await produce(cluster, "orders") >= 21, "the others have their votes back"


async def test_what_another_replica_has_more_is_not_lost(tmp_path: Path) -> None:
    operator = Operator(tmp_path)
    async with three(tmp_path, **FORGETFUL) as cluster:
        await fill(cluster)
        await cluster.stop(1)
        last = 0
        for _ in range(5):
            last = await produce(cluster, "orders")
        await until(lambda: set(ends(cluster, "orders")) == {last + 1})
        await cluster.stop()
        operator.loses(2, 3)
        reports = [option for node_id in (2, 3) for option in ("--other", operator.report(node_id))]
        code, said = operator.recover(1, *reports, "--yes")
        assert (code, f"node 2 has records of orders-0 up to {last + 1} that are not here" in said) == (1, True), said
        shutil.rmtree(tmp_path / "node-1" / "orders-0")
        shutil.copytree(tmp_path / "node-2" / "orders-0", tmp_path / "node-1" / "orders-0")
        code, said = operator.recover(1, *reports, "--yes")
        assert code == 0, said
        await cluster.start()
        assert await produce(cluster, "orders") > last
        await cluster.until_everywhere(is_whole)
        await until(lambda: len(set(ends(cluster, "orders"))) == 1)
