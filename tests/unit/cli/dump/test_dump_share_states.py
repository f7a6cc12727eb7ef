"""`penstock dump-log --share-group-state-decoder` says what the records of `__share_group_state` mean."""

import json
from pathlib import Path

from click.testing import CliRunner
from tests.unit.coordinator.share.bench import GROUP, TOPIC, Bench

from penstock.cli.main import main
from penstock.protocol.records import Record, encode_batch
from penstock.protocol.uuids import uuid_to_text


def test_snapshots_updates_and_tombstones_are_told(tmp_path: Path) -> None:
    bench = Bench()
    bench.initialize(start_offset=10)
    bench.write((10, 14, 2, 1), start_offset=10)
    bench.delete()
    segment = tmp_path / "00000000000000000000.log"
    segment.write_bytes(encode_batch([Record(timestamp_ms=1, key=key, value=value) for key, value in bench.log]))
    result = CliRunner().invoke(
        main, ["dump-log", "--files", str(segment), "--share-group-state-decoder", "--skip-record-metadata", "--json"]
    )
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    told = [line for line in lines if line["kind"] == "record"]
    where = {"group": GROUP, "topicId": uuid_to_text(TOPIC), "partition": 0}
    assert [one["key"] for one in told] == [
        {"type": kind} | where for kind in ("share_snapshot", "share_update", "share_snapshot")
    ]
    assert told[0]["payload"]["startOffset"] == 10
    assert told[1]["payload"]["stateBatches"][0]["lastOffset"] == 14
    assert told[2]["payload"] is None
