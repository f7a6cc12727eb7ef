"""Pages of rules, users, quotas and groups of all kinds, with something on each, are accessible, on a phone as well."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect
from tests.cluster.console_shown import console, run
from tests.cluster.real_browser import Scheme, chromium, faults_of, why_none
from tests.wire.test_cli_streams_groups import running

from penstock.client.admin import Admin
from penstock.client.admin.features import UpgradeType
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


async def fill(bootstrap: str) -> None:
    async with Admin(bootstrap) as admin:
        await admin.features.update({"share.version": 1, "streams.version": 1}, UpgradeType.UPGRADE)
    async with Admin(bootstrap) as admin:
        await admin.topics.create(NewTopic(name="words", partitions=2))
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
        with console("--bootstrap-server", cluster.bootstrap_servers) as (url, _), chromium() as browser:
            page = browser.new_context(locale="en-US").new_page()
            page.set_default_timeout(ANSWERED_MS)
            expect.set_options(timeout=ANSWERED_MS)
            page.goto(url)
            yield url, page


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
