"""The public way to run a node in tests: in this process, as a process of its own, and as a pytest fixture."""

from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from penstock.testing import Cluster

pytest_plugins = ["pytester"]


def topics(cluster: Cluster) -> list[str]:
    return sorted(AdminClient({"bootstrap.servers": cluster.bootstrap_servers}).list_topics(timeout=60).topics)


def create(cluster: Cluster, name: str) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(60)


@pytest.mark.parametrize("process", [False, True], ids=["thread", "process"])
def test_topics_and_the_address_outlive_a_restart(process: bool) -> None:
    with Cluster(process=process) as cluster:
        create(cluster, "orders")
        address = cluster.bootstrap_servers
        cluster.restart()
        assert cluster.bootstrap_servers == address
        assert "orders" in topics(cluster)


def test_topics_outlive_a_kill() -> None:
    with Cluster(process=True) as cluster:
        create(cluster, "orders")
        cluster.kill()
        cluster.start()
        assert "orders" in topics(cluster)


async def test_it_can_be_used_in_an_event_loop() -> None:
    async with Cluster() as cluster:
        assert topics(cluster) == []


def test_the_data_goes_with_the_cluster_unless_it_has_a_place(tmp_path: Path) -> None:
    with Cluster() as cluster:
        assert (cluster.directory / "data" / "meta.properties").is_file()
    assert not cluster.directory.exists()
    with Cluster(directory=tmp_path):
        pass
    assert (tmp_path / "data" / "meta.properties").is_file()


def test_a_cluster_that_was_not_started_has_no_address() -> None:
    cluster = Cluster()
    with pytest.raises(RuntimeError, match="was not started"):
        _ = cluster.bootstrap_servers
    cluster.close()


def test_only_a_process_can_be_killed() -> None:
    with Cluster() as cluster, pytest.raises(RuntimeError, match="process=True"):
        cluster.kill()


@pytest.mark.parametrize("process", [False, True], ids=["thread", "process"])
def test_why_it_does_not_start_is_told(process: bool) -> None:
    with (
        pytest.raises(RuntimeError, match=r"did not start: .*node.id: 'one' is not allowed"),
        Cluster(config={"node.id": "one"}, process=process),
    ):
        pass


def test_the_fixtures_give_one_cluster_to_the_whole_session(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        """
        import pytest

        pytest_plugins = ["penstock.testing.pytest_plugin"]

        @pytest.fixture(scope="session")
        def penstock_config():
            return {"node.id": "12"}
        """
    )
    pytester.makepyfile(
        """
        from confluent_kafka.admin import AdminClient

        seen = []

        def test_first(penstock_bootstrap_servers):
            seen.append(penstock_bootstrap_servers)
            metadata = AdminClient({"bootstrap.servers": penstock_bootstrap_servers}).list_topics(timeout=60)
            assert list(metadata.brokers) == [12]

        def test_second(penstock_cluster):
            assert seen == [penstock_cluster.bootstrap_servers]
        """
    )
    pytester.runpytest("-p", "no:cacheprovider", "-o", "asyncio_default_fixture_loop_scope=function").assert_outcomes(
        passed=2
    )
