"""The dashboard and the alerts ask for figures that a node has, and each alert has its page."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from tests.wire.scraped import scraped

from penstock.pipeline.jobs.report import ABOUT, JobReport
from penstock.work.connect.metrics import page

ROOT = Path(__file__).resolve().parents[2]
ALERTS = ROOT / "dashboards" / "alerts.yml"
PAGE = ROOT / "docs" / "metrics.md"
NAME = re.compile(r"\b(?:kafka|penstock|process)_[a-z0-9_]+")
promtool = pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")


def rules() -> list[dict[str, str]]:
    return [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]


def expressions() -> dict[str, str]:
    """By what they are for."""
    document = json.loads((ROOT / "dashboards" / "penstock.json").read_text())
    found = {
        f"{panel['title']} {target['refId']}": target["expr"]
        for panel in document["panels"]
        for target in panel.get("targets", ())
    }
    found |= {one["name"]: one["query"] for one in document["templating"]["list"]}
    return found | {rule["alert"]: rule["expr"] for rule in rules()}


async def names(directory: Path) -> set[str]:
    """Of all samples that a node can tell, whatever it has just now."""
    async with scraped(directory) as it:
        _, _, body = await it.get("/metrics")
    kinds = dict(re.findall(r"^# TYPE (\S+) (\S+)$", body.decode(), re.MULTILINE))
    ends = {"histogram": ("_bucket", "_sum", "_count"), "summary": ("", "_sum", "_count")}
    return {name + end for name, kind in kinds.items() for end in ends.get(kind, ("",))}


async def test_what_is_asked_for_is_there(tmp_path: Path) -> None:
    told = await names(tmp_path)
    asked = {what: set(NAME.findall(expression)) for what, expression in expressions().items()}
    assert {what: sorted(of - told) for what, of in asked.items() if of - told} == {}
    assert len(set().union(*asked.values())) > 30


async def test_names_that_the_page_says_are_there(tmp_path: Path) -> None:
    told = await names(tmp_path)
    cells = re.findall(r"^\| .*? \| (.*?) \|", PAGE.read_text(), re.MULTILINE)
    said = {name for cell in cells for name in re.findall(r"`((?:kafka|process)_[a-z0-9_]+)`", cell)}
    assert said - told == set()
    assert len(said) >= 20


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["alert"])
def test_an_alert_has_a_section_that_says_what_to_do(rule: dict[str, dict[str, str]]) -> None:
    path, _, anchor = rule["annotations"]["runbook"].partition("#")
    assert ROOT / path == PAGE
    assert anchor == str(rule["alert"]).lower()
    assert f"\n### {rule['alert']}\n" in PAGE.read_text()


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["alert"])
def test_an_alert_is_tried_where_it_should_fire_and_where_it_should_not(rule: dict[str, str]) -> None:
    well, unwell = yaml.safe_load((ROOT / "dashboards" / "alerts_test.yml").read_text())["tests"]
    assert [case.get("exp_alerts", []) for case in well["alert_rule_test"] if case["alertname"] == rule["alert"]] == [
        []
    ]
    assert [True for case in unwell["alert_rule_test"] if case["alertname"] == rule["alert"] and case["exp_alerts"]]


@promtool
def test_alerts_fire_where_they_should_and_not_otherwise() -> None:
    subprocess.run(["promtool", "check", "rules", "--lint-fatal", ALERTS], check=True)
    subprocess.run(["promtool", "test", "rules", ROOT / "dashboards" / "alerts_test.yml"], check=True)


def of_a_pipeline() -> str:
    """What a worker tells of a query that has had everything."""
    report = JobReport(("a",))
    report.event({"event": "running"})
    figures = {"input_rows": 1, "output_rows": 1, "rows_per_second": 1.5, "duration_ms": 5, "watermark_ms": 5}
    named = {"broken": {"x": 1}, "read": {"t": 2}, "read_bytes": {"s": 3}, "phases_ms": {"p": 4}, "lags": {"t-0": 1}}
    state = {"rows": 1, "memory_bytes": 2, "disk_bytes": 3, "late_rows": 4}
    report.event({"event": "batch", "query": "p: a", "state": state, **figures, **named})
    return page(report.metrics())


def test_each_figure_of_a_pipeline_says_what_it_is() -> None:
    told = of_a_pipeline()
    assert set(re.findall(r"^# HELP penstock_pipeline_(\S+) \S", told, re.MULTILINE)) == set(ABOUT)


@promtool
def test_promtool_finds_no_fault_with_figures_of_pipelines() -> None:
    found = subprocess.run(["promtool", "check", "metrics"], input=of_a_pipeline(), capture_output=True, text=True)
    assert (found.returncode, found.stderr) == (0, "")


@promtool
async def test_promtool_finds_fault_with_names_of_kafkas_alone(tmp_path: Path) -> None:
    async with scraped(tmp_path) as it:
        _, _, body = await it.get("/metrics")
    found = subprocess.run(["promtool", "check", "metrics"], input=body, capture_output=True, check=False)
    assert [line for line in found.stderr.decode().splitlines() if not line.startswith("kafka_")] == []
