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
    subprocess.run(["promtool", "test", "rules", ROOT / "dashboards" / "alerts_test.yml"], check=True)


@promtool
async def test_promtool_finds_fault_with_names_of_kafkas_alone(tmp_path: Path) -> None:
    async with scraped(tmp_path) as it:
        _, _, body = await it.get("/metrics")
    found = subprocess.run(["promtool", "check", "metrics"], input=body, capture_output=True, check=False)
    assert [line for line in found.stderr.decode().splitlines() if not line.startswith("kafka_")] == []
