"""What the comparison makes of its figures: ratios, verdicts, the page and its page."""

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from bench.versus import page, results
from bench.versus.kafka import POMS, version_of
from bench.versus.page import HEADINGS, cells
from bench.versus.results import Answer
from bench.versus.systems import Better, Effort, Figure, Line, Sample, in_turn, lines_of
from rich.console import Console

RATE = Figure("MB/s", "MB/s", "higher")
COST = Figure("CPU ms/MB", "ms", "lower", bar=1.0, limit=1.5)


def test_a_ratio_above_one_means_that_penstock_is_ahead_whichever_way_is_better() -> None:
    assert Line("", RATE, kafka=(100.0, 200.0), penstock=(150.0, 300.0)).ratios == (1.5, 1.5)
    assert Line("", COST, kafka=(3.0, 3.0), penstock=(2.0, 1.0)).ratios == (1.5, 3.0)
    assert Line("", COST, kafka=(0.0,), penstock=(0.0,)).ratios == (1.0,), "neither lost anything"


@pytest.mark.parametrize(
    ("penstock", "verdict"),
    [((0.1, 1.0, 3.0), "met"), ((0.5, 0.9, 0.9), "even"), ((0.5, 0.89, 9.0), "short")],
)
def test_a_verdict_is_of_the_median_and_no_lucky_pair_changes_it(penstock: tuple[float, ...], verdict: str) -> None:
    assert Line("", RATE, kafka=(1.0, 1.0, 1.0), penstock=penstock).verdict == verdict


def test_the_distance_to_the_bare_loop_is_told_for_costs_and_for_rates() -> None:
    cost = Line("", COST, kafka=(9.0,), penstock=(3.2,), bare=(2.0,))
    assert cost.times_bare == pytest.approx(1.6)
    assert cost.verdict == "met, over 1.5 × bare"
    assert Line("", RATE, kafka=(1.0,), penstock=(50.0,), bare=(100.0,)).times_bare == 2.0
    assert Line("", RATE, kafka=(1.0,), penstock=(50.0,)).times_bare is None


@pytest.mark.parametrize(("better", "verdict"), [("higher", "missed: ≥ 0.5"), ("lower", "met: ≤ 0.5")])
def test_a_figure_may_have_to_reach_something_of_its_own(better: Better, verdict: str) -> None:
    figure = Figure("of acks=1", "×", better, bar=None, own=0.5)
    assert Line("", figure, kafka=(0.1, 0.1, 0.1), penstock=(0.6, 0.4, 0.3)).verdict == verdict


def test_lines_take_each_figure_from_the_runs_that_have_it() -> None:
    samples = {"kafka": [{"MB/s": 1.0, "CPU ms/MB": 2.0}], "penstock": [{"MB/s": 3.0, "CPU ms/MB": 4.0}]}
    rate, cost = lines_of("case", (RATE, COST), samples | {"bare": [{"CPU ms/MB": 5.0}]})
    assert (rate.kafka, rate.penstock, rate.bare) == ((1.0,), (3.0,), ())
    assert (cost.kafka, cost.penstock, cost.bare) == ((2.0,), (4.0,), (5.0,))
    assert len(cells(rate)) == len(HEADINGS)


def test_plots_are_svg_whatever_the_names_hold() -> None:
    line = Line("1 < 2 & 3", COST, kafka=(9.0, 8.0), penstock=(3.0, 4.0), bare=(2.0,))
    answer = Answer("P1", "Bulk", "command", "now", {}, [line])
    for text in (page.ratios([answer]), page.costs([answer]), page.ratios([])):
        assert ET.fromstring(text).tag.endswith("svg")


def test_what_one_kind_of_processor_showed_stays_beside_what_another_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "FOLDER", tmp_path)
    line = Line("1", COST, kafka=(9.0,), penstock=(3.0,), bare=(2.0,))
    answers = [
        Answer("P2", "Small", "command", "now", {"processor": name}, [line]) for name in ("AMD EPYC", "Intel(R) X")
    ]
    for answer in answers:
        results.save(answer)
    assert results.load_all(["P1", "P2"]) == answers
    assert sorted(path.name for path in tmp_path.iterdir()) == ["amd-epyc", "intel-r-x"]


def test_only_the_cases_that_are_asked_for_are_measured_and_give_lines() -> None:
    def work(_: str, number: int) -> Sample:
        asked.append(number)
        return {RATE.name: 1.0}

    asked: list[int] = []
    effort = Effort(pairs=1, scale=1.0, console=Console(quiet=True), case="1 KB")
    for case, lines in (("1 KB", 1), ("10 KB", 0)):
        assert len(lines_of(case, [RATE], in_turn(effort, f"P15 {case}", {"kafka": "", "penstock": ""}, work))) == lines
    assert asked == [0, 0, 1, 1]


def test_an_answer_to_some_cases_leaves_the_lines_of_others_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(when: str, value: float, *cases: str) -> Answer:
        lines = [Line(case, RATE, (1.0,), (value,), when=when) for case in cases]
        return Answer("P11", "Three", "command", when, {"processor": "AMD EPYC"}, lines)

    monkeypatch.setattr(results, "FOLDER", tmp_path)
    results.save(results.among_others(answer("monday", 2.0, "bulk", "single")))
    results.save(results.among_others(answer("tuesday", 3.0, "single", "other")))
    (found,) = results.load_all(["P11"])
    assert [(line.case, line.penstock, line.when) for line in found.lines] == [
        ("bulk", (2.0,), "monday"),
        ("single", (3.0,), "tuesday"),
        ("other", (3.0,), "tuesday"),
    ]
    assert "in parts from monday to tuesday" in page.section(found)


@pytest.mark.parametrize(("name", "artifact"), [("kafka", "kafka_2.13"), ("spark", "spark-sql-kafka-0-10_2.13")])
def test_a_pom_tells_the_version_that_the_page_names(name: str, artifact: str) -> None:
    root = ET.parse(POMS / f"{name}.xml").getroot()
    pom = "{http://maven.apache.org/POM/4.0.0}"
    found = {one.findtext(f"{pom}artifactId"): one.findtext(f"{pom}version") for one in root.iter(f"{pom}dependency")}
    assert version_of(name, artifact) == found[artifact]
