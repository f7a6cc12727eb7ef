"""Which log the cleaner takes next, and what it may use for it."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.unit.node.on_disk import Node, node_on
from tests.unit.node.partitions.test_cleaner import cleaner_of, topics, write

from penstock.log.compaction.plain_keys import BYTES_PER_KEY, PlainKeys
from penstock.log.compaction.preparing import Buffers
from penstock.log.partition_log import PartitionLog
from penstock.node.partitions import cleaner as module
from penstock.node.partitions.cleaner_metrics import _percent
from penstock.node.partitions.isr_partition import IsrPartition


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    with node_on(tmp_path, *topics("orders", "payments")) as node:
        yield node


def partition(**changes: Any) -> Any:
    """One that may be compacted, but for these changes."""
    fields = {"is_compacted": True, "owns_log": True, "is_loaded": True, "failure": None} | changes
    one = SimpleNamespace(**fields)
    log = SimpleNamespace(config=SimpleNamespace(is_compacted=one.is_compacted), is_loaded=one.is_loaded)
    hashed = type("Log", (), vars(log) | {"health": SimpleNamespace(failure=one.failure)})()
    return SimpleNamespace(log=hashed, owns_log=one.owns_log, topic="t", index=0)


@pytest.mark.parametrize(
    ("changes", "may"),
    [
        ({}, True),
        ({"is_compacted": False}, False),
        ({"owns_log": False}, False),
        ({"is_loaded": False}, False),
        ({"failure": OSError(5, "broken")}, False),
    ],
)
def test_which_logs_may_be_compacted(node: Node, changes: dict[str, Any], may: bool) -> None:
    cleaner, one = cleaner_of(node), partition(**changes)
    assert cleaner._may_clean(one) is may
    busy: list[dict[Any, Any]] = [cleaner._busy, cleaner.uncleanable, node.directories.futures]
    for known, key in zip(busy, (one.log, one.log, ("t", 0)), strict=True):
        known[key] = None
        assert not cleaner._may_clean(one)
        del known[key]
        assert cleaner._may_clean(one) is may


@pytest.mark.parametrize(("threads", "share"), [(0, 1), (1, 1), (2, 2), (4, 4)])
def test_threads_share_what_there_is(node: Node, threads: int, share: int) -> None:
    settings = {"log_cleaner_dedupe_buffer_size": "8000000", "log_cleaner_io_buffer_size": "400000"}
    cleaner = cleaner_of(node, log_cleaner_threads=str(threads), **settings)
    assert cleaner._buffers() == Buffers(
        dedupe_bytes=8_000_000 // share,
        load_factor=cleaner._config.log_cleaner_io_buffer_load_factor,
        io_bytes=400_000 // share // 2,
    )


@pytest.mark.parametrize(("factor", "share"), [("0.5", 0.5), ("1e999", 1.0), ("1.5", 1.0), ("-1e999", 0.0)])
def test_no_more_of_the_memory_for_keys_is_used_than_there_is(node: Node, factor: str, share: float) -> None:
    buffers = cleaner_of(node, log_cleaner_io_buffer_load_factor=factor)._buffers()
    assert PlainKeys(buffers.dedupe_bytes, buffers.load_factor).capacity == max(
        1, int(buffers.dedupe_bytes * share) // BYTES_PER_KEY
    )


async def test_the_dirtiest_that_is_due_is_taken(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """The metrics are of all of them."""
    rows = {"orders": (0.5, 7, True), "payments": (0.9, 3, False)}

    def look_at(log: PartitionLog, *_: object) -> Any:
        ratio, delay_ms, is_due = rows[log.topic]
        return SimpleNamespace(ratio=ratio, delay_ms=delay_ms, is_due=lambda config: is_due)

    for topic in rows:
        write(node, topic)
    monkeypatch.setattr(module, "look_at", look_at)
    cleaner = cleaner_of(node)
    for due, taken in (((True, False), "orders"), ((True, True), "payments"), ((False, False), None)):
        rows = {topic: (*row[:2], is_due) for (topic, row), is_due in zip(rows.items(), due, strict=True)}
        found = await cleaner._dirtiest()
        assert (None if found is None else found[0].topic) == taken
        assert (cleaner.metrics.dirtiest_ratio, cleaner.metrics.delay_ms) == (0.9, 7)


@pytest.mark.parametrize("how", ["closed", "moved"])
async def test_a_log_that_is_another_one_when_it_is_flushed_is_given_up(
    node: Node, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    log, cleaner = write(node), cleaner_of(node)
    found = await cleaner._dirtiest()
    assert found is not None
    assert isinstance(found[0], IsrPartition)

    def flush(self: PartitionLog) -> None:
        if how == "closed":
            monkeypatch.setattr(PartitionLog, "is_loaded", False)
        else:
            monkeypatch.setattr(PartitionLog, "directory", "/elsewhere")

    monkeypatch.setattr(PartitionLog, "flush", flush)
    assert log.recovery_point < found[1].first_uncleanable
    with pytest.raises(module._GivenUpError):
        await cleaner._do_round(*found, None, module._Before(log))  # type: ignore[arg-type]
    monkeypatch.undo()


def test_shares_of_nothing(node: Node) -> None:
    assert [_percent(0, 0), _percent(5, 0), _percent(1, 2), _percent(3, 3)] == [0, 0, 50, 100]
    metrics = cleaner_of(node).metrics
    assert (metrics._recopied(), metrics._used()) == (0, 0), "there was no round"
