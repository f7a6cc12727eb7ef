"""Pages of rules, users, quotas and groups of all kinds, with something on each, dialogs that are open and the log-in
are accessible, on a phone as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect
from tests.cluster.console_shown import ORDER, console, run
from tests.cluster.real_browser import Scheme, chromium, dressed, fault_now, faults_of, opened, unreached_now, why_none
from tests.wire.schema_registry import served
from tests.wire.test_cli_streams_groups import running

from penstock.client.admin import Admin
from penstock.client.admin.quotas import USER
from penstock.client.admin.topics import NewTopic
from penstock.client.values import OffsetAndMetadata, TopicPartition
from penstock.metadata.configs.protection import STANDARD_AUTHORIZER
from penstock.protocol.acls import AclBinding, Operation, PatternType, Permission, Resource
from penstock.protocol.secret import Secret
from penstock.testing import Cluster

pytestmark = [
    pytest.mark.soak,
    pytest.mark.skipif((reason := why_none()) is not None, reason=reason or ""),
]
ANSWERED_MS = 60_000
CONFIG = {"authorizer.class.name": STANDARD_AUTHORIZER, "allow.everyone.if.no.acl.found": "true"}
ADDRESSES = (
    ("security", "Security"),
    ("groups", "Groups"),
    ("group?name=workers", "workers"),
    ("group?name=app", "app"),
)
DIALOGS = (
    ("create-topic", "topics", "Topics", "Create topic"),
    ("produce", "topic?name=words", "words", "Send a record"),
    ("delete-topic", "topic?name=words", "words", "Delete"),
    ("alter-config", "topic?name=words&tab=configs", "words", "Change"),
    ("reset-offsets", "group?name=readers", "readers", "Reset offsets"),
    ("delete-group", "group?name=readers", "readers", "Delete"),
    ("register-schema", "schemas", "Schemas", "Register a schema"),
    ("add-acl", "security", "Security", "Add a rule"),
    ("delete-acl", "security", "Security", "Remove"),
    ("set-password", "security", "Security", "Add a user"),
    ("remove-user", "security", "Security", "Remove"),
    ("alter-quotas", "security", "Security", "Set a quota"),
)
"""What is changed, the page, its heading, the button: `tests/unit/console/test_pages.py` says which is missing."""

AT_ONCE = {
    *("produce", "delete-topic", "alter-config", "reset-offsets", "delete-group", "delete-acl", "remove-user"),
}
"""Nothing has to be filled in before the command is shown."""


async def fill(bootstrap: str) -> None:
    async with Admin(bootstrap) as admin:
        await admin.topics.create(NewTopic(name="words", partitions=2))
        await admin.groups.set_offsets("readers", {TopicPartition("words", 0): OffsetAndMetadata(0)})
        await admin.share_groups.set_offsets("workers", {TopicPartition("words", 0): OffsetAndMetadata(0)})
        for who, permission in (("User:ada", Permission.ALLOW), ("User:bob", Permission.DENY)):
            rule = AclBinding(Resource.TOPIC, "secret-", PatternType.PREFIXED, who, "*", Operation.READ, permission)
            await admin.acls.create([rule])
        await admin.users.set_password("ada", Secret("lovelace"))
        await admin.quotas.alter({USER: "ada"}, {"producer_byte_rate": 1e6})


@pytest.fixture(scope="module")
def shown() -> Iterator[tuple[str, Page]]:
    with Cluster(config=CONFIG, process=True) as cluster:
        run(fill(cluster.bootstrap_servers))
        with running(cluster.bootstrap_servers, "app", "words"):
            pass  # a group without members stays
        with served() as registry, chromium() as browser:
            registry.register("words-value", ORDER)
            words = ("--bootstrap-server", cluster.bootstrap_servers, "--schema-registry", registry.url)
            with console(*words) as (url, _):
                page = page_of(browser)
                page.goto(url)
                yield url, page


def page_of(browser: Browser) -> Page:
    page = browser.new_context(locale="en-US").new_page()
    page.set_default_timeout(ANSWERED_MS)
    expect.set_options(timeout=ANSWERED_MS)
    return page


def test_there_is_something_on_each(shown: tuple[str, Page]) -> None:
    url, page = shown
    for address, words in (
        ("security", ("User:ada", "User:bob", "SCRAM-SHA-512", "1,000,000")),
        ("groups", ("workers", "share", "app", "streams")),
    ):
        page.goto(f"{url}/#/{address}")
        for word in words:
            expect(page.locator("main td").get_by_text(word).first).to_be_visible()


@pytest.mark.parametrize("is_narrow", [False, True])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(shown: tuple[str, Page], scheme: Scheme, is_narrow: bool) -> None:
    url, page = shown
    assert faults_of(page, url, scheme, ADDRESSES, is_narrow=is_narrow) == {}


def test_the_keyboard_reaches_every_button(shown: tuple[str, Page]) -> None:
    url, page = shown
    page.goto(f"{url}/#/groups")
    expect(page.get_by_role("heading", level=1)).to_have_text("Groups")
    page.goto(f"{url}/#/security")
    expect(page.get_by_role("heading", name="Security", level=1)).to_be_focused()
    buttons = page.locator("main").get_by_role("button")
    expect(buttons.first).to_be_visible()
    seen = set()
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.locator("main button:focus").count():
            seen.add(page.locator("main button:focus").inner_text())
    assert seen == set(buttons.all_inner_texts())
    page.get_by_role("button", name="Add a user").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog").get_by_label("User")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="Add a user")).to_be_focused()


def dialog_of(page: Page, url: str, action: str, address: str, heading: str, label: str) -> tuple[Locator, Locator]:
    """The button, and the dialog that it has opened, with the command in it where nothing is left to fill in."""
    opened(page, url, address, heading)
    where = page.get_by_role("region", name="Users") if action == "remove-user" else page.locator("main")
    button = where.get_by_role("button", name=label, exact=True).first
    button.focus()
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog")
    expect(dialog).to_be_visible()
    if action in AT_ONCE:
        expect(dialog.locator(".command")).to_be_visible()
    return button, dialog


@pytest.mark.parametrize("is_narrow", [False, True])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious_in_a_dialog(shown: tuple[str, Page], scheme: Scheme, is_narrow: bool) -> None:
    url, page = shown
    found = {}
    with dressed(page, scheme, is_narrow=is_narrow):
        for action, *where in DIALOGS:
            _, dialog = dialog_of(page, url, action, *where)
            if fault := fault_now(page):
                found[action] = fault
            page.keyboard.press("Escape")
            expect(dialog).to_have_count(0)
    assert found == {}


def test_the_keyboard_reaches_all_of_a_dialog_and_comes_back_to_its_button(shown: tuple[str, Page]) -> None:
    url, page = shown
    missed = {}
    for action, *where in DIALOGS:
        button, _ = dialog_of(page, url, action, *where)
        if count := unreached_now(page):
            missed[action] = count
        page.keyboard.press("Escape")
        expect(button).to_be_focused()
    assert missed == {}


@pytest.mark.parametrize("is_narrow", [False, True])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_one_can_log_in_by_keyboard_and_axe_finds_nothing_serious(
    shown: tuple[str, Page], tmp_path: Path, scheme: Scheme, is_narrow: bool
) -> None:
    users = tmp_path / "users"
    users.write_text("ada=lovelace\n")
    users.chmod(0o600)
    browser = shown[1].context.browser
    assert browser is not None
    with console("--bootstrap-server", "127.0.0.1:1", "--users", str(users)) as (url, _):
        page = page_of(browser)
        with dressed(page, scheme, is_narrow=is_narrow):
            page.goto(url)
            expect(page.get_by_role("button", name="Log in")).to_be_visible()
            assert fault_now(page) is None
            assert unreached_now(page) == 0
            page.get_by_label("User").focus()
            for typed in ("ada", "byron"):
                page.keyboard.type(typed)
                page.keyboard.press("Tab")
            page.keyboard.press("Enter")
            expect(page.get_by_role("alert")).to_be_visible()
            assert fault_now(page) is None
            page.get_by_label("Password").focus()
            page.keyboard.press("Control+a")
            page.keyboard.type("lovelace")
            page.keyboard.press("Enter")
            expect(page.get_by_role("button", name="Log out ada")).to_be_visible()
        page.context.close()
