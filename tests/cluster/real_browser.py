"""The Chromium that `make browser` brings, without a screen, and a tool that looks for what is not accessible."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

FOLDER = Path(sys.prefix) / "browser"
CHROMIUM, AXE = FOLDER / "chromium", FOLDER / "axe.min.js"


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
