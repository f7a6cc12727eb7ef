"""What a node's directory begins with, whose it is, and what a node has where nobody says otherwise."""

from __future__ import annotations

from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.log.directories.meta_properties import read_meta_properties
from penstock.log.disk import Disk
from penstock.node.environment.environment import Environment
from penstock.raft.voters import Endpoint, Quorum, ReplicaKey, Voter
from penstock.replicated.addresses import ServerAddress
from penstock.replicated.directory import format_directory
from penstock.replicated.errors import NodeError
from penstock.replicated.machine import StateMachine
from penstock.replicated.node import start_node
from penstock.replicated.options import NodeOptions
from penstock.replicated.snapshot import encode_snapshot

SERVERS = (ServerAddress("a", 1, 1), ServerAddress("b", 2, 2))


def options(path: Path, me: ServerAddress = SERVERS[0], servers: Any = SERVERS, **others: Any) -> NodeOptions:
    return NodeOptions(servers=servers, me=me, directory=str(path), **others)


def test_defaults(tmp_path: Path) -> None:
    found = options(tmp_path)
    assert (found.cluster_id, found.max_entry_bytes) == ("penstock-replicated", 1_048_576)
    assert (found.snapshot_min_log_size, found.snapshot_period_seconds) == (10_240, 30)
    assert (found.max_segment_file_size, found.quorum.leases) == (1_048_576, True)


def test_first_voters_know_each_other(tmp_path: Path) -> None:
    ids = [format_directory(options(tmp_path / str(me.id), me), Disk(), Random(1)) for me in SERVERS]
    turned = format_directory(options(tmp_path / "turned", servers=SERVERS[::-1]), Disk(), Random(2))
    assert turned == ids[0], "in whatever order they are named"
    assert [one.version for one in ids] == [4, 4]
    other = format_directory(options(tmp_path / "other", servers=SERVERS[:1]), Disk(), Random(3))
    assert len({*ids, other}) == 3
    voters = [
        Voter(ReplicaKey(me.id, directory_id), (Endpoint("CONTROLLER", me.host, me.port),))
        for me, directory_id in zip(SERVERS, ids, strict=True)
    ]
    first = b"".join(encode_snapshot([], Quorum.of(voters), epoch=0, last_timestamp_ms=0, now_ms=0))
    name = "__cluster_metadata-0/00000000000000000000-0000000000.checkpoint"
    assert [(tmp_path / str(me.id) / name).read_bytes() for me in SERVERS] == [first, first]


def test_a_directory_has_one_owner(tmp_path: Path) -> None:
    newcomer = ServerAddress("c", 3, 3)
    first = format_directory(options(tmp_path / "deep" / "er", newcomer, cluster_id="own"), Disk(), Random(1))
    again = format_directory(options(tmp_path / "deep" / "er", newcomer, cluster_id="own"), Disk(), Random(2))
    other = format_directory(options(tmp_path / "other", newcomer, cluster_id="own"), Disk(), Random(2))
    assert first == again != other
    assert list(tmp_path.rglob("*.checkpoint")) == []
    found = read_meta_properties(Disk(), str(tmp_path / "deep" / "er"))
    assert found is not None
    assert (found.cluster_id, found.node_id, found.directory_id) == ("own", 3, first)


class Nothing(StateMachine[None]):
    def apply(self, entry: Any) -> None: ...

    def snapshot(self) -> list[Any]:
        return []

    def restore(self, piece: Any) -> None: ...


async def test_who_cannot_start_listens_no_longer(tmp_path: Path) -> None:
    format_directory(options(tmp_path), Disk(), Random(1))
    closed: list[str] = []

    def bind(*_: Any) -> Any:
        return SimpleNamespace(close=lambda: closed.append("closed"))

    with pytest.raises(NodeError, match="cluster"):
        await start_node(options(tmp_path, cluster_id="another"), Nothing, Environment(bind=bind))
    assert closed == ["closed"]
