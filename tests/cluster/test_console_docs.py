"""The documentation as the console serves it, in a real browser, under its policy."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect
from tests.cluster.real_browser import chromium, why_none
from tools.site.__main__ import Site

from penstock.client.settings import ClientSettings
from penstock.console.serving.server import ConsoleServer
from penstock.console.serving.settings import ConsoleSettings

pytestmark = [pytest.mark.soak, pytest.mark.skipif((reason := why_none()) is not None, reason=reason or "")]


@pytest.fixture
def documented(tmp_path: Path) -> Iterator[str]:
    """A console in a thread, of a cluster that is not there."""
    Site(tmp_path).write()
    settings = ConsoleSettings(bootstrap_servers="127.0.0.1:1", client=ClientSettings(), port=0, site=tmp_path)
    loop, begun, over = asyncio.new_event_loop(), Future[str](), asyncio.Event()

    async def serve() -> None:
        async with ConsoleServer(settings, sample_s=0) as server:
            begun.set_result(server.url)
            await over.wait()

    with ThreadPoolExecutor(1) as pool:
        served = pool.submit(loop.run_until_complete, serve())
        yield begun.result(30)
        loop.call_soon_threadsafe(over.set)
        served.result(30)
        loop.close()


def test_the_documentation_is_searched_without_a_network(documented: str) -> None:
    with chromium() as browser:
        search(browser.new_page(), documented)


def search(page: Page, documented: str) -> None:
    problems: list[str] = []
    page.on("console", lambda said: problems.append(said.text) if "Content Security Policy" in said.text else None)
    page.on("request", lambda asked: None if asked.url.startswith(documented) else problems.append(asked.url))
    page.goto(documented)
    page.get_by_role("link", name="Documentation").click()
    page.get_by_role("searchbox").fill("replace a disk")
    page.keyboard.press("Enter")
    expect(page.get_by_role("status")).to_contain_text("sections for")
    page.locator("#found a").first.click()
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    assert problems == []
