"""Figures grow run by run; in the file of results stays what a run did not measure, with the date that it has."""

from pathlib import Path

from bench.measure import Budget, Figures, measure, merged, percentile, rows, write

BEFORE = {"when": "2026-01-01", "machine": {"cores": 2}}
NOW = {"when": "2026-02-02", "machine": {"cores": 4}}


def test_a_run_replaces_its_own_rows_where_they_stand() -> None:
    others = [{"name": name, "median": 1.0} | BEFORE for name in ("boot", "round trip", "memory")]
    found = merged(others, [measure("round trip", "ms", [2, 3, 4]), measure("new", "s", [5], Budget(6))], NOW)
    assert [row["name"] for row in found] == ["boot", "round trip", "memory", "new"]
    assert [row["median"] for row in found] == [1.0, 3, 1.0, 5]
    assert [row["when"] for row in found] == ["2026-01-01", "2026-02-02", "2026-01-01", "2026-02-02"]
    assert [row["machine"]["cores"] for row in found] == [2, 4, 2, 4]
    assert found[3]["budget"] == {"bound": 6, "side": "at most"}


def test_a_run_of_all_leaves_no_row_that_nobody_measures_any_more(tmp_path: Path) -> None:
    path = tmp_path / "new" / "budgets.json"
    write(path, [measure("of old", "ms", [2])], is_all=False)
    write(path, [measure("boot", "s", [1])], is_all=True)
    assert [row["name"] for row in rows(path)] == ["boot"]


def test_figures_are_measures_in_the_order_in_which_they_were_first_told_of() -> None:
    figures = Figures()
    for seconds in (3.0, 1.0, 2.0):
        assert figures.add("took", "s", seconds, Budget(2.5)) == seconds
        figures.add("count", "", 1)
    took, count = figures.measures()
    assert (took.name, took.unit, took.values, took.verdict) == ("took", "s", (3.0, 1.0, 2.0), "met")
    assert count.values == (1, 1, 1)
    assert figures.most("took") == 3.0


def test_the_run_that_warms_up_leaves_no_figure() -> None:
    figures = Figures()
    for kind in ("heartbeat", "fetch"):
        for number in figures.runs(2):
            figures.add(kind, "ms", number)
    assert [(one.name, one.values) for one in figures.measures()] == [("heartbeat", (1, 2)), ("fetch", (1, 2))]


def test_a_percentile_is_a_value_that_was_measured() -> None:
    values = [float(number) for number in range(200, 0, -1)]
    assert percentile(values, 50) == 101
    assert percentile(values, 99) == 199
    assert percentile([7.0], 99.9) == 7
