"""The documentation under /docs: its own files and no others, of the version that runs."""

from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from penstock.console.errors import ConsoleError
from penstock.console.serving.guard import HEADERS
from penstock.console.serving.site import Site


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    site = tmp_path / "site"
    (site / "decisions").mkdir(parents=True)
    (site / "index.html").write_text("<h1>Penstock</h1>")
    (site / "decisions" / "0101.html").write_text("<h1>0101</h1>")
    (site / "version.txt").write_text("1.2\n")
    (tmp_path / "secret.html").write_text("not for you")
    (site / "elsewhere.html").symlink_to(tmp_path / "secret.html")
    return site


def request_of(name: str) -> web.Request:
    return make_mocked_request("GET", f"/docs/{name}", match_info={"name": name})


async def asked(site: Site, name: str) -> tuple[int, str]:
    answer = await site.page(request_of(name))
    assert answer.content_type == "text/html"
    return answer.status, answer.body.decode() if isinstance(answer.body, bytes) else ""


async def test_pages_are_found_in_their_folders(folder: Path) -> None:
    site = Site(folder, "1.2")
    assert await asked(site, "") == (200, "<h1>Penstock</h1>")
    assert await asked(site, "decisions/0101.html") == (200, "<h1>0101</h1>")
    for name in (
        "version.txt",
        "../secret.html",
        "elsewhere.html",
        "decisions",
        "decisions/../index.html",
        "/index.html",
    ):
        with pytest.raises(ConsoleError) as refused:
            await site.page(request_of(name))
        assert refused.value.status == 404


async def test_their_search_may_be_sent_and_all_else_is_as_for_the_console(folder: Path) -> None:
    policy = (await Site(folder, "1.2").page(request_of(""))).headers["Content-Security-Policy"]
    assert policy == HEADERS["Content-Security-Policy"].replace("form-action 'none'", "form-action 'self'")
    assert "form-action 'self'" in policy


async def test_where_there_is_none_of_this_version_a_page_tells_the_command(folder: Path) -> None:
    for site in (Site(None, "1.2"), Site(folder, "1.3")):
        status, text = await asked(site, "index.html")
        assert status == 404
        assert "make site" in text
    assert "1.2, and this is 1.3" in text
    (folder / "version.txt").unlink()
    _, text = await asked(Site(folder, "<1.2>"), "")
    assert "&lt;1.2&gt;" in text
