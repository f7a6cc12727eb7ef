"""How far share groups are, for the retention of what was consumed: never further than what is written down."""

from tests.unit.coordinator.share.bench import GROUP, TOPIC, Bench

ACKNOWLEDGED, ARCHIVING, ARCHIVED = 2, 3, 4


def positions(bench: Bench) -> dict[str, dict[int, int]]:
    return {group: found for some in bench.shard.positions("t", TOPIC) for group, found in some.items()}


def test_what_is_finished_with_behind_the_start_offset_counts_as_well() -> None:
    bench = Bench()
    bench.initialize(start_offset=-1)
    assert positions(bench) == {GROUP: {}}, "its leader has not said where it begins"
    bench.write(
        (5, 6, ACKNOWLEDGED, 1), (7, 7, ARCHIVED, 5), (8, 8, ARCHIVING, 5), (9, 9, ACKNOWLEDGED, 1), start_offset=5
    )
    assert positions(bench) == {GROUP: {0: 8}}


def test_what_is_about_to_be_deleted_is_known_until_then() -> None:
    bench = Bench()
    bench.initialize()
    bench.write(start_offset=5)
    bench.holds = True
    bench.delete()
    assert positions(bench) == {GROUP: {}}, "it may fail"
    bench.fail()
    assert positions(bench) == {GROUP: {0: 5}}


def test_what_is_not_committed_does_not_count() -> None:
    bench = Bench()
    bench.initialize()
    bench.write(start_offset=5)
    bench.holds = True
    bench.write((5, 9, ACKNOWLEDGED, 1), start_offset=5)
    assert positions(bench) == {GROUP: {0: 5}}
    bench.holds = False
