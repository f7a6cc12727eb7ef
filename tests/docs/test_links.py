import re
from pathlib import Path

import pytest
from tools.generate_docs import ROOT

PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
DECISIONS = ROOT / "docs" / "decisions"
LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)")


def headings(page: Path) -> set[str]:
    found = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in found}


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_links_lead_somewhere(page: Path) -> None:
    for target, heading in LINK.findall(page.read_text(encoding="utf-8")):
        there = page.parent / target if target else page
        assert there.exists(), target
        assert not heading or heading in headings(there), f"{target}#{heading}"


def test_every_page_can_be_reached_from_the_readme() -> None:
    linked = {target for target, _ in LINK.findall((ROOT / "README.md").read_text(encoding="utf-8"))}
    assert {f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md")} <= linked


def test_every_decision_has_a_number_of_its_own_and_a_line_in_the_index() -> None:
    names = sorted(page.name for page in DECISIONS.glob("[0-9]*.md"))
    assert len({name[:4] for name in names}) == len(names)
    index = (DECISIONS / "README.md").read_text(encoding="utf-8")
    assert [target for target, _ in LINK.findall(index)] == names
    for name in names:
        title = (DECISIONS / name).read_text(encoding="utf-8").partition("\n")[0].removeprefix(f"# {name[:4]}: ")
        assert f"| [{name[:4]}]({name}) | {title} |" in index
