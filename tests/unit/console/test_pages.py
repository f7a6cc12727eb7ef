"""No page of the console is left out where browsers look at all of them."""

import re

from tests.cluster.console_shown import ADDRESSES
from tests.cluster.test_console_pages_of_all_kinds import DIALOGS

from penstock.console.serving.assets import FOLDER

MOVED = {"elect-leader"}
"""It has no fields, and is there where another replica leads than should."""


def test_every_page_and_every_tab_is_in_the_table() -> None:
    pages = re.findall(r"^  (\w+): \w+,$", (FOLDER / "app.js").read_text().partition("const PAGES")[2], re.MULTILINE)
    tabs = re.findall(r'^  \["(\w+)", "', (FOLDER / "topics.js").read_text().partition("const TABS")[2], re.MULTILINE)
    assert len(pages) >= 12
    assert len(tabs) >= 5
    looked_at = {address.partition("?")[0] or "overview" for address, _ in ADDRESSES}
    assert looked_at == set(pages)
    shown = {re.sub(r".*tab=", "", address) for address, _ in ADDRESSES if "tab=" in address}
    assert shown | {tabs[0]} == set(tabs), "the first one is shown by itself"


def test_a_dialog_of_every_kind_is_in_the_table() -> None:
    actions = {one for file in FOLDER.glob("*.js") for one in re.findall(r'\baction="([\w-]+)"', file.read_text())}
    assert len(actions) >= 13
    assert {action for action, *_ in DIALOGS} == actions - MOVED


def test_what_is_typed_is_kept_when_a_page_is_drawn_anew() -> None:
    """A field has the value that its page knows: one that is told of it only when it is left loses what is typed."""
    fields = [
        field
        for file in FOLDER.glob("*.js")
        for field in re.findall(r"<(?:input|textarea)\b.*?(?:/>|</textarea>)", file.read_text(), re.DOTALL)
        if re.search(r"\{\{ ?value\b", field)
    ]
    assert len(fields) >= 4
    assert [field for field in fields if "onInput" not in field] == []
