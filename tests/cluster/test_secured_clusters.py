"""Clusters that are secured from their first start: from nothing to a producer and a consumer."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cluster.started import SECONDS, environment, refused, started
from tests.cluster.test_start_nodes import QUICK, THREE, line_with, pids

from penstock.client.admin import Admin
from penstock.client.admin.topics import NewTopic
from penstock.client.errors import AuthenticationFailedError, ClientError
from penstock.client.properties import with_properties
from penstock.client.settings import ClientSettings
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.testing import Cluster

PENSTOCK = (sys.executable, "-m", "penstock")


def settings_of(cluster: Cluster, user: str, **changes: str) -> ClientSettings:
    properties = cluster.client_properties(user) | {key.replace("_", "."): text for key, text in changes.items()}
    del properties["bootstrap.servers"]
    return with_properties(ClientSettings(default_api_timeout_ms=5_000), properties)


async def test_who_has_no_password_is_not_let_in_and_others_do_what_they_may(tmp_path: Path) -> None:
    with Cluster(secure=True, nodes=2, directory=tmp_path) as cluster:
        servers, flights = cluster.bootstrap_servers, NewTopic(name="flights", partitions=1, replication_factor=2)
        assert cluster.active_controller in (1, 2)
        async with Admin(servers, settings_of(cluster, "app")) as app:
            await app.topics.create(flights)
            with pytest.raises(KafkaError) as raised:
                await app.topics.delete("flights")
            assert raised.value.code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        async with Admin(servers, settings_of(cluster, "admin")) as admin:
            assert set(await admin.users.describe()) == {"admin", "app"}
            await admin.topics.delete("flights")
        for wrong in (
            settings_of(cluster, "app", security_protocol="SSL"),
            settings_of(cluster, "app", security_protocol="PLAINTEXT"),
            ClientSettings(),
        ):
            with pytest.raises(ClientError):
                async with Admin(servers, wrong.replace(default_api_timeout_ms=300)) as stranger:
                    await stranger.describe_cluster()
        with pytest.raises(KeyError):
            cluster.client_properties("eve")
    with Cluster(secure=True, nodes=2, directory=tmp_path) as cluster:  # the same users, with the passwords of before
        async with Admin(cluster.bootstrap_servers, settings_of(cluster, "app")) as app:
            await app.topics.names()


async def test_a_single_node_is_secured_as_well() -> None:
    with Cluster(secure=True) as cluster:
        assert cluster.active_controller == 1
        other = settings_of(cluster, "app").security.properties["sasl.jaas.config"].replace('"app"', '"admin"')
        with pytest.raises(AuthenticationFailedError):
            async with Admin(cluster.bootstrap_servers, settings_of(cluster, "admin", sasl_jaas_config=other)):
                pass


def penstock(directory: Path, *words: str, given: str = "") -> str:
    done = subprocess.run(
        [*PENSTOCK, *words],
        cwd=directory,
        env=environment(),
        input=given,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.soak
def test_three_commands_make_a_secured_cluster_with_a_producer_and_a_consumer(tmp_path: Path) -> None:
    with started(tmp_path, *THREE, "--secure") as cluster:
        file = cluster.value("clients").partition(" ")[0]
        assert file == str(tmp_path / "penstock-data/clients/app/client.properties")
        penstock(tmp_path, "produce", "--topic", "flights", "--command-config", file, given="LH400\n")
        wanted = ("--from-beginning", "--max-messages", "1", "--command-config", file)
        assert penstock(tmp_path, "consume", "--topic", "flights", *wanted) == "LH400\n"
        second = pids(cluster)[1]
        os.kill(second, signal.SIGKILL)
        again = line_with(cluster, "start it again").rpartition(" ")[2]
        with started(tmp_path, again, *QUICK) as alone:
            assert alone.ends_after(signal.SIGTERM)[0] == 0
        assert cluster.ends_after(signal.SIGINT)[0] == 0
    with started(tmp_path, "--nodes", "3", *QUICK) as cluster:  # it is secured, whether that is said again or not
        assert "LH400" in penstock(tmp_path, "consume", "--topic", "flights", *wanted)
        program = [sys.executable, str(Path(file).with_name("client.py"))]
        client = subprocess.run(program, env=environment(), capture_output=True, text=True, timeout=SECONDS)
        assert client.stdout.splitlines() == ["flights"], client.stderr
        assert cluster.ends_after(signal.SIGTERM)[0] == 0


def test_what_is_not_secured_does_not_become_so_by_a_flag(tmp_path: Path) -> None:
    (tmp_path / "penstock-data").mkdir()
    (tmp_path / "penstock-data/node-1.properties").write_text("node.id=1\nlisteners=PLAINTEXT://127.0.0.1:0\n")
    done = refused(tmp_path, "--nodes", "1", "--secure")
    assert done.returncode == 1
    assert "has a cluster that is not secured" in done.stderr
    assert "docs/migration.md" in done.stderr
    assert refused(tmp_path, "--secure").returncode == 2
