"""Rounds of compaction between appends, rolls, cuts and restarts, against a dictionary and the list of all records."""

import tempfile
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.unit.log.compaction.rounds import COMPACTED, NOW, Pair, batches, compact, last_values, pairs, records
from tests.unit.log.logs import open_log

from penstock.log.compaction.plain_keys import BYTES_PER_KEY
from penstock.log.compaction.preparing import Buffers
from penstock.log.disk import Disk
from penstock.protocol.compression import Compression

KEYS = st.sampled_from(["a", "b", "c", "d", "a long key that is not like the others"])
VALUES = st.one_of(st.none(), st.sampled_from(["", "1", "2", "v" * 80]))


class LogAndDictionary(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name)
        self.history: list[tuple[int, str, str | None]] = []
        self.sequence = 0
        self.stable = 0
        self.now_ms = NOW

    @initialize(segment_bytes=st.integers(700, 1200), lag_ms=st.sampled_from([0, 0, 5]))
    def begin(self, segment_bytes: int, lag_ms: int) -> None:
        self.config = COMPACTED.replace(
            segment_bytes=segment_bytes, index_interval_bytes=1, min_compaction_lag_ms=lag_ms, delete_retention_ms=10
        )
        self.log = open_log(self.path, self.config)

    def teardown(self) -> None:
        if hasattr(self, "log"):
            self.log.abandon()
        self.folder.cleanup()

    @rule(
        sent=st.lists(st.tuples(KEYS, VALUES), min_size=1, max_size=5),
        codec=st.sampled_from(list(Compression)),
        is_idempotent=st.booleans(),
    )
    def append(self, sent: list[Pair], codec: Compression, is_idempotent: bool) -> None:
        producer = (3, 0, self.sequence) if is_idempotent else None
        batch = pairs(*sent, timestamp_ms=self.now_ms, compression=codec, producer=producer)
        base_offset = self.log.append_as_leader(batch, leader_epoch=0, now_ms=self.now_ms).base_offset
        self.history += [(base_offset + number, key, value) for number, (key, value) in enumerate(sent)]
        self.sequence += len(sent) if is_idempotent else 0

    @rule(gap_ms=st.integers(1, 20))
    def wait(self, gap_ms: int) -> None:
        self.now_ms += gap_ms

    @rule(keys=st.integers(5, 20), share=st.floats(0, 1))
    def compact(self, keys: int, share: float) -> None:
        if len(self.log.segments) > 1:
            start = max(self.stable, self.log.log_start_offset)
            self.stable = start + int((self.log.log_end_offset - start) * share)
            buffers = Buffers(dedupe_bytes=keys * BYTES_PER_KEY, load_factor=1.0, io_bytes=1)
            compact(self.log, Disk(), now_ms=self.now_ms, stable_offset=self.stable, buffers=buffers)

    @rule()
    def restart(self) -> None:
        end_offset, cleaned_to = self.log.log_end_offset, self.log.cleaned_to
        self.log.close()
        self.log = open_log(self.path, self.config, is_clean=True, recovery_point=end_offset)
        self.log.cleaned_to = cleaned_to

    @rule(loses_snapshots=st.booleans())
    def crash(self, loses_snapshots: bool) -> None:
        self.log.abandon()
        for snapshot in self.path.glob("t-0/*.snapshot") if loses_snapshots else ():
            snapshot.unlink()  # a replica that begins anew has none either: batches tell of their producers
        self.log = open_log(self.path, self.config)  # also without the mark: all is dirty again

    @rule(share=st.floats(0, 1))
    def cut(self, share: float) -> None:
        """A leader that was elected uncleanly lacks what was not stable."""
        end_offset = self.log.log_end_offset
        wanted = self.stable + int((end_offset - self.stable) * share)
        if wanted < end_offset:
            cut = self.log.truncate_to(wanted)
            self.history = [record for record in self.history if record[0] < cut]
            known = self.log.producers.get(3)
            self.sequence = 0 if known is None else known.last_sequence + 1

    @invariant()
    def a_reader_ends_with_what_the_whole_history_gives(self) -> None:
        if not hasattr(self, "log"):
            return
        found = records(self.log)
        assert last_values(found) == last_values(self.history)
        assert set(found) <= set(self.history)
        assert [offset for offset, _, _ in found] == sorted({offset for offset, _, _ in found})
        assert [record for record in found if record[0] >= self.stable] == [
            record for record in self.history if record[0] >= self.stable
        ]
        if self.log.log_end_offset > 0 and found:
            assert batches(self.log)[-1][0].last_offset == self.log.log_end_offset - 1
        known = self.log.producers.get(3)
        assert (known.last_sequence + 1 if known else 0) == self.sequence


TestLogAndDictionary = LogAndDictionary.TestCase
TestLogAndDictionary.settings = settings(
    deadline=None, suppress_health_check=[HealthCheck.too_slow], stateful_step_count=30, max_examples=60
)
