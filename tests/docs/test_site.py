"""The site: each link leads somewhere, nothing comes from elsewhere, and a search finds what people look for."""

import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest
from tools.site.__main__ import Site
from tools.site.contents import CONTENTS, ROOT, pages
from tools.site.versions import NoSuchVersionError, write_versions

QUESTIONS = {
    "replace a disk": "recovery.html disks.html clusters.html",
    "min.insync.replicas": "clusters.html configuration.html",
    "reset offsets of a group": "scripts.html cli.html",
    "delegation token": "security.html",
    "exactly once spark": "spark.html",
    "kubernetes": "running.html",
    "under replicated alert": "metrics.html",
    "kill a node": "tutorials/break-a-cluster.html clusters.html testing.html",
    "dead letter queue": "connect.html",
    "quota bytes": "quotas.html",
}
"""What somebody asks, and the pages of which one has to be among the first three."""


class Links(HTMLParser):
    """What a page refers to, the anchors that it has, and what a strict server would forbid."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.to: set[str] = set()
        self.loads: set[str] = set()
        self.anchors: set[str] = set()
        self.forbidden: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id":
                self.anchors.add(str(value))
            elif name in ("href", "action") and tag in ("a", "form"):
                self.to.add(str(value))
            elif name in ("href", "src"):
                self.loads.add(str(value))
            elif name == "style" or name.startswith("on"):
                self.forbidden.append(f"{tag} {name}")
        if tag == "style" or (tag == "script" and "src" not in dict(attrs)):
            self.forbidden.append(tag)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("site")
    Site(directory).write()
    return directory


def test_every_page_stands_in_the_contents_once() -> None:
    listed = [name for names in CONTENTS.values() for name in names]
    assert len(set(listed)) == len(listed)
    there = {*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")}
    assert set(pages()) == there


def test_links_lead_somewhere_and_nothing_comes_from_elsewhere(site: Path) -> None:
    read = {path: Links(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}
    broken = []
    for path, links in read.items():
        assert links.forbidden == [], path
        for link in links.to | links.loads:
            if link in links.to and link.startswith(("http:", "https:")):
                continue
            name, _, anchor = link.partition("#")
            there = (path.parent / name).resolve() if name else path
            if not there.is_file() or (anchor and anchor not in read[there].anchors):
                broken.append(f"{path.relative_to(site)}: {link}")
    assert broken == []
    assert len(read) > 80


def test_pages_do_without_scripts(site: Path) -> None:
    with_script = [path.name for path in site.rglob("*.html") if "<script" in path.read_text(encoding="utf-8")]
    assert with_script == ["search.html"]


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_a_search_finds_what_people_look_for(site: Path) -> None:
    program = (
        'const fs = require("fs"), { found } = require("./search.js");'
        'const INDEX = new Function(fs.readFileSync("index.js", "utf8") + "; return INDEX")();'
        f"const asked = {json.dumps(list(QUESTIONS))};"
        "console.log(JSON.stringify(asked.map((one) => found(INDEX, one, 3).map((section) => section[0]))));"
    )
    done = subprocess.run(["node", "-e", program], cwd=site, capture_output=True, text=True, check=True, timeout=60)
    answers = dict(zip(QUESTIONS, json.loads(done.stdout), strict=True))
    missed = {
        asked: sections
        for asked, sections in answers.items()
        if not any(re.sub("#.*", "", one) in QUESTIONS[asked].split() for one in sections)
    }
    assert missed == {}


@pytest.mark.soak
def test_sites_of_several_versions_lead_to_each_other(tmp_path: Path) -> None:
    write_versions(tmp_path, ["HEAD"])
    for name in ("current", "HEAD"):
        assert f'href="{name}/index.html"' in (tmp_path / "index.html").read_text()
        assert (tmp_path / name / "search.html").is_file()
    decision = next((tmp_path / "current/decisions").glob("0*.html"))
    assert 'href="../../index.html"' in decision.read_text()
    with pytest.raises(NoSuchVersionError, match="no-such-version"):
        write_versions(tmp_path, ["no-such-version"])
