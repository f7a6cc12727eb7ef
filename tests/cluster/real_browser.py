"""The Chromium that `make browser` brings, without a screen, and a tool that looks for what is not accessible."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Literal

from playwright.sync_api import Browser, Page, expect, sync_playwright

Scheme = Literal["light", "dark"]
WIDE: Final = (1100, 800)
NARROW: Final = (360, 740)
FOLDER = Path(sys.prefix) / "browser"
CHROMIUM, AXE = FOLDER / "chromium", FOLDER / "axe.min.js"
SERIOUS = """axe.run(document, {resultTypes: ["violations"]}).then(({violations}) => JSON.stringify(violations
    .filter(({impact}) => impact === "serious" || impact === "critical")
    .map(({id, nodes}) => [id, nodes.slice(0, 3).map(({html}) => html.slice(0, 200))])))"""
USABLE = """[...(document.querySelector("dialog[open]") ?? document.querySelector("main"))
    .querySelectorAll(":is(a[href], button, input, select, textarea, [tabindex='0'])")]
    .filter((it) => !it.disabled && it.checkVisibility())"""


def why_none() -> str | None:
    if not (CHROMIUM.exists() and AXE.exists()):
        return f"there is no browser in {FOLDER}: `make browser` brings one, with npm"
    tried = subprocess.run([CHROMIUM, "--version"], capture_output=True, text=True)
    return f"the browser does not start: {tried.stderr.strip()[:200]}" if tried.returncode else None


@contextmanager
def chromium() -> Iterator[Browser]:
    options = ["--no-sandbox", "--no-zygote", "--headless=shell", "--disable-gpu"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=options)
        yield browser
        browser.close()


def faults_of(
    page: Page, url: str, scheme: Scheme, addresses: tuple[tuple[str, str], ...], *, is_narrow: bool
) -> dict[str, Any]:
    """What axe finds serious on each page (address, heading), and whether it is wider than the screen, by address."""
    found = {}
    with dressed(page, scheme, is_narrow=is_narrow):
        for address, heading in addresses:
            opened(page, url, address, heading)
            if address.endswith("records"):
                page.get_by_role("list", name="Records").get_by_role("button").first.click()
            if fault := fault_now(page):
                found[address] = fault
    return found


@contextmanager
def dressed(page: Page, scheme: Scheme, *, is_narrow: bool) -> Iterator[None]:
    """In these colours and of that width, and then as before."""

    def sized(size: tuple[int, int]) -> None:
        page.set_viewport_size({"width": size[0], "height": size[1]})

    page.emulate_media(color_scheme=scheme)
    sized(NARROW if is_narrow else WIDE)
    yield
    page.emulate_media(color_scheme="light")
    sized(WIDE)


def opened(page: Page, url: str, address: str, heading: str) -> None:
    """All of it is there."""
    page.goto(f"{url}/#/{address}")
    expect(page.get_by_role("heading", level=1)).to_have_text(heading)
    expect(page.locator("main :is(table, ol, pre, .empty) >> visible=true").first).to_be_visible()
    expect(page.locator(".loading")).to_have_count(0)


def fault_now(page: Page) -> tuple[Any, bool] | None:
    """What axe finds serious as the page is now, and whether it is wider than the screen; None for neither."""
    tools = page.context.new_cdp_session(page)
    if not in_the_page(tools, "!!window.axe"):
        in_the_page(tools, AXE.read_text())
    faults = json.loads(in_the_page(tools, SERIOUS))
    is_wider = in_the_page(tools, "document.documentElement.scrollWidth > innerWidth")
    tools.detach()
    return (faults, is_wider) if faults or is_wider else None


def unreached_of(page: Page, url: str, addresses: tuple[tuple[str, str], ...]) -> dict[str, int]:
    """How much of what can be used on each page Tab does not come to, by address."""
    found = {}
    for address, heading in addresses:
        opened(page, url, address, heading)
        page.locator("h1").focus()
        if missed := unreached_now(page):
            found[address] = missed
    return found


def unreached_now(page: Page) -> int:
    """How much of what can be used as the page is now, within a dialog where one is open, Tab does not come to."""
    tools = page.context.new_cdp_session(page)
    count = in_the_page(tools, f"{USABLE}.length")
    reached = {in_the_page(tools, f"{USABLE}.indexOf(document.activeElement)")}
    for _ in range(count):
        page.keyboard.press("Tab")
        reached.add(in_the_page(tools, f"{USABLE}.indexOf(document.activeElement)"))
    tools.detach()
    return int(count) - len(reached - {-1})


def in_the_page(tools: Any, expression: str) -> Any:
    """By the way of developers' tools, for which the page's policy does not hold: it allows no evaluation."""
    answer = tools.send("Runtime.evaluate", {"expression": expression, "awaitPromise": True, "returnByValue": True})
    assert "exceptionDetails" not in answer, answer["exceptionDetails"]
    return answer["result"].get("value")
