"""The console in a real browser: questions of newcomers, names that would be scripts, keyboard, colours, a death.

One cluster, one console, one browser and one page for all; `make browser` brings the browser.
"""

import json
import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import APIResponse, Browser, Locator, Page, Route, expect
from tests.cluster.console_shown import ADDRESSES, ORDER, SHOWN, begin_a_move, console, fill, report, run
from tests.cluster.real_browser import Scheme, chromium, faults_of, unreached_of, why_none
from tests.wire.in_a_thread import running
from tests.wire.schema_registry import SchemaRegistry, served
from tests.wire.stub_worker import stub_worker

from penstock.client.producer import Producer
from penstock.testing import Cluster

ANSWERED_MS = 40_000
"""How long a page may take on a busy machine."""

pytestmark = pytest.mark.skipif((reason := why_none()) is not None, reason=reason or "")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=3, process=True) as cluster:
        run(fill(cluster))
        yield cluster


@pytest.fixture(scope="module")
def registry() -> Iterator[SchemaRegistry]:
    with served() as registry:
        registry.register("orders-value", ORDER)
        yield registry


@pytest.fixture(scope="module")
def worker() -> Iterator[str]:
    server = stub_worker({"flights": 1}, report)
    with running(server):
        yield str(server.make_url("/"))


@pytest.fixture(scope="module")
def url(cluster: Cluster, registry: SchemaRegistry, worker: str) -> Iterator[str]:
    words = ("--bootstrap-server", cluster.bootstrap_servers, "--schema-registry", registry.url, "--worker", worker)
    with console(*words) as (url, _):
        yield url


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def faults() -> list[str]:
    """What the page complained of, a policy that was broken included."""
    return []


@pytest.fixture(scope="module")
def page(browser: Browser, url: str, faults: list[str]) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1100, "height": 800}, color_scheme="light", locale="en-US")
    context.set_default_timeout(ANSWERED_MS)
    expect.set_options(timeout=ANSWERED_MS)
    page = context.new_page()
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda said: faults.append(said.text) if said.type == "error" else None)
    page.on("request", lambda asked: None if asked.url.startswith(url) else faults.append(f"asked {asked.url}"))
    page.goto(url)
    yield page
    context.close()


@pytest.fixture
def home(page: Page, url: str) -> Page:
    """Where every question begins."""
    page.goto(f"{url}/#/")
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    return page


def go(page: Page, link: str) -> None:
    page.get_by_role("navigation", name="Pages").get_by_role("link", name=link).click()


def table(page: Page, name: str) -> Locator:
    return page.get_by_role("region", name=name, exact=True)


def row(page: Page, table_name: str, text: str) -> Locator:
    return table(page, table_name).get_by_role("row").filter(has_text=text)


# Questions, each within two clicks


def test_who_is_in_service_and_who_is_the_active_controller(home: Page) -> None:
    expect(home.get_by_text("3 of 3")).to_be_visible()
    expect(table(home, "Replicas of the metadata log").get_by_text("leader")).to_have_count(1)


def test_who_lags(home: Page) -> None:
    expect(row(home, "Groups furthest behind", "reports")).to_contain_text("37")


def test_how_far_behind_is_a_group_and_since_when(home: Page) -> None:
    table(home, "Groups furthest behind").get_by_role("link", name="reports").click()
    expect(row(home, "Offsets", "clicks")).to_contain_text("37")
    expect(home.get_by_role("img", name=re.compile("Lag: records behind 37"))).to_be_visible()


def test_why_did_a_group_rebalance(home: Page) -> None:
    go(home, "Groups")
    table(home, "Groups").get_by_role("link", name="readers").click()
    expect(table(home, "Why it rebalanced").get_by_role("row").last).to_contain_text("joined")


def test_who_leads_a_partition(home: Page) -> None:
    go(home, "Topics")
    table(home, "Topics").get_by_role("link", name="clicks", exact=True).click()
    expect(row(home, "Partitions", "40").get_by_role("link")).to_have_count(2)


def test_what_is_in_record_17(home: Page) -> None:
    go(home, "Topics")
    table(home, "Topics").get_by_role("link", name="Records of clicks").click()
    expect(home.get_by_role("list", name="Records").get_by_role("button").filter(has_text="0:17")).to_contain_text(
        '{"click": 17, "id": 9007199254740993}'
    )


def test_how_large_is_a_topic(home: Page) -> None:
    go(home, "Topics")
    expect(row(home, "Topics", "clicks")).to_contain_text(re.compile(r"\d B|kB"))


def test_is_a_disk_full(home: Page) -> None:
    table(home, "Brokers").get_by_role("link", name="1", exact=True).click()
    expect(row(home, "Log directories", "online")).to_contain_text("GB")


def test_who_may_do_what(home: Page) -> None:
    go(home, "Security")
    expect(home.get_by_text("authorizer.class.name")).to_be_visible()


# What strangers wrote


def test_names_stay_text_and_what_is_not_seen_is_shown(home: Page, url: str) -> None:
    expect(home.get_by_role("link", name=SHOWN)).to_have_count(1)
    home.get_by_role("link", name=SHOWN).click()
    expect(home.get_by_role("heading", level=1)).to_have_text(SHOWN)
    expect(row(home, "Offsets", "hostile")).to_contain_text("1")
    home.goto(f"{url}/#/topic?name=hostile&tab=records")
    home.get_by_role("list", name="Records").get_by_role("button").first.click()
    shown = home.locator(".whole")
    expect(shown).to_contain_text(SHOWN.removesuffix("\\u{7}"))
    expect(shown.locator("dt").last).to_have_text(SHOWN)
    expect(shown.get_by_text("a value")).to_be_visible()
    expect(home.locator("main img, main b")).to_have_count(0)
    assert home.title() != "1"
    expect(shown.get_by_role("button", name="Send it again")).to_have_count(0)  # a form of lines has no such header


def test_a_name_that_nobody_can_type_is_typed_as_it_is_shown(home: Page) -> None:
    home.get_by_role("link", name=SHOWN).click()
    home.get_by_role("button", name="Delete").click()
    home.get_by_role("dialog").get_by_role("textbox").fill(SHOWN)
    home.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(home.get_by_role("heading", name="Groups")).to_be_visible()
    expect(table(home, "Groups").get_by_role("link", name=SHOWN)).to_have_count(0)


# Keyboard, colours, width


def test_the_keyboard_suffices(home: Page) -> None:
    home.reload()
    expect(home.get_by_role("heading", name="Overview")).to_be_focused()
    home.keyboard.press("Shift+Tab")
    for _ in range(20):
        if home.locator(":focus").inner_text() == "Topics":
            break
        home.keyboard.press("Shift+Tab")
    home.keyboard.press("Enter")
    expect(home.get_by_role("heading", name="Topics")).to_be_focused()
    home.keyboard.press("Tab")
    home.keyboard.press("Enter")
    expect(home.get_by_label("Name")).to_be_focused()
    home.keyboard.type("typed")
    expect(home.get_by_text("penstock topics --create --topic typed")).to_be_visible()
    home.keyboard.press("Enter")
    expect(home.get_by_role("status").filter(has_text="topic typed was created")).to_be_visible()
    expect(table(home, "Topics").get_by_role("link", name="typed", exact=True)).to_be_visible()


def test_what_destroys_asks_for_the_name(home: Page, url: str) -> None:
    home.goto(f"{url}/#/topic?name=typed")
    home.get_by_role("button", name="Delete").click()
    dialog = home.get_by_role("dialog")
    expect(dialog).to_contain_text("penstock topics --delete --topic typed")
    confirm = dialog.get_by_role("button", name="Delete")
    dialog.get_by_role("textbox").fill("typo")
    expect(confirm).to_be_disabled()
    dialog.get_by_role("textbox").fill("typed")
    confirm.click()
    expect(home.get_by_role("heading", name="Topics")).to_be_visible()
    expect(table(home, "Topics").get_by_role("link", name="typed", exact=True)).to_have_count(0)


@pytest.mark.parametrize(
    ("scheme", "is_narrow", "addresses"),
    [
        ("light", False, ADDRESSES[::2]),
        ("dark", True, ADDRESSES[1::2]),
        *(
            pytest.param(scheme, is_narrow, ADDRESSES, marks=pytest.mark.soak)
            for scheme in ("light", "dark")
            for is_narrow in (False, True)
        ),
    ],
)
def test_axe_finds_nothing_serious_and_nothing_is_wider_than_the_screen(
    page: Page, url: str, scheme: Scheme, is_narrow: bool, addresses: tuple[tuple[str, str], ...]
) -> None:
    assert faults_of(page, url, scheme, addresses, is_narrow=is_narrow) == {}


@pytest.mark.soak
def test_the_keyboard_reaches_all_there_is_on_every_page(page: Page, url: str) -> None:
    assert unreached_of(page, url, ADDRESSES) == {}


# Pipelines, imports


def test_which_pipeline_reads_a_topic_and_why_it_fails(home: Page) -> None:
    go(home, "Pipelines")
    expect(row(home, "Queries of pipelines", "late")).to_contain_text("28.5")
    expect(row(home, "Queries of pipelines", "failing")).to_contain_text(SHOWN)
    table(home, "Queries of pipelines").get_by_role("link", name="orders").click()
    expect(home.get_by_role("heading", name="orders", level=1)).to_be_visible()
    home.get_by_role("link", name="Consumers").click()
    expect(table(home, "Queries of pipelines").get_by_role("row")).to_have_count(2)


def test_a_file_is_imported_piece_by_piece(home: Page, url: str) -> None:
    home.goto(f"{url}/#/topic?name=imported&tab=import")
    inch = {9: '"'}  # within a cell a quote is a letter
    rows = "".join(
        f'k{number}{inch.get(number, "")},"{{""n"": {number}}}\n{"x" * 400}"\n' for number in range(1_500)
    )  # of two lines each
    home.get_by_label("File").set_input_files(
        {"name": "a.csv", "mimeType": "text/csv", "buffer": f"key,value\n{rows}".encode()}
    )
    expect(row(home, "The first of them", "k4")).to_contain_text('{"n": 4}')
    home.get_by_role("button", name="Send them").click()
    expect(home.get_by_role("status").filter(has_text="1,500 records were sent to imported")).to_be_visible()
    home.get_by_label("File").set_input_files(
        {"name": "b.json", "mimeType": "", "buffer": b'[{"value": 1},\n{"values": 2}]'}
    )
    expect(home.get_by_role("alert")).to_contain_text("line 2: 'values' is no part of a record")
    expect(home.get_by_role("button", name="Send them")).to_be_disabled()


def test_a_file_is_imported_by_a_schema(home: Page, url: str) -> None:
    home.goto(f"{url}/#/topic?name=by-schema&tab=import")
    home.get_by_label("File").set_input_files(
        {"name": "a.jsonl", "mimeType": "", "buffer": b'{"n": 1, "<b>": "x"}\n{"n": 2}\n'}
    )
    home.get_by_label("Each line is").select_option("a value")
    home.get_by_label("Values by the latest schema of").fill("orders-value")
    home.keyboard.press("Enter")
    expect(home.get_by_role("alert")).to_contain_text("line 2: it is no value of schema")
    expect(home.get_by_role("progressbar")).to_have_count(0)
    expect(home.get_by_role("button", name="Send them")).to_be_disabled()
    home.get_by_label("File").set_input_files(
        {"name": "b.jsonl", "mimeType": "", "buffer": b'{"n": 1, "<b>": "x"}\n{"n": 2, "<b>": "y"}\n'}
    )
    home.get_by_role("button", name="Send them").click()
    expect(home.get_by_role("status").filter(has_text="2 records were sent to by-schema")).to_be_visible()
    home.get_by_role("link", name="Records", exact=True).click()
    rows = home.get_by_role("list", name="Records").get_by_role("button")
    expect(rows.filter(has_text='{"n": 2, "<b>": "y"}')).to_have_count(1)


def test_a_key_is_found_in_its_partition(home: Page, url: str) -> None:
    home.goto(f"{url}/#/topic?name=imported&tab=records")
    home.get_by_label("Key", exact=True).fill("k17")
    home.get_by_label("That is").select_option("the key, in its partition")
    home.get_by_role("button", name="Read").click()
    expect(home.get_by_text("where Java’s clients put this key")).to_be_visible()
    expect(home.get_by_role("list", name="Records").get_by_role("button")).to_have_count(1)


# Schemas, expressions, rights


def send_by_schema(home: Page, url: str, value: str) -> None:
    home.goto(f"{url}/#/topic?name=orders")
    home.get_by_role("button", name="Send a record").click()
    dialog = home.get_by_role("dialog")
    dialog.get_by_label("Value", exact=True).fill(value)
    dialog.get_by_label("Value by the latest schema of").fill("orders-value")
    expect(dialog).to_contain_text("--value-schema orders-value")
    dialog.get_by_role("button", name="Send a record").click()


def test_a_record_is_sent_and_shown_by_its_schema(home: Page, url: str) -> None:
    for number in (9, 17):
        send_by_schema(home, url, json.dumps({"n": number, "<b>": "<i>bold</i>"}))
        expect(home.get_by_role("status").filter(has_text=re.compile("the record is at offset"))).to_be_visible()
    home.get_by_role("link", name="Records", exact=True).click()
    rows = home.get_by_role("list", name="Records").get_by_role("button")
    expect(rows).to_have_count(2)
    home.get_by_label("Expression").fill("value.n > `10`")
    home.get_by_role("button", name="Read").click()
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text('{"n": 17, "<b>": "<i>bold</i>"}')
    rows.click()
    expect(home.locator(".whole")).to_contain_text("AVRO, schema 100000")
    expect(home.locator("main .whole i, main .whole b")).to_have_count(0)


def test_what_is_no_value_of_the_schema_and_no_expression_is_said(home: Page, url: str) -> None:
    send_by_schema(home, url, '{"n": "nine"}')
    expect(home.get_by_role("dialog").get_by_role("alert")).to_contain_text("no value of schema")
    home.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    home.goto(f"{url}/#/topic?name=orders&tab=records")
    home.get_by_label("Expression").fill("value.n >")
    home.get_by_role("button", name="Read").click()
    expect(home.get_by_role("alert")).to_contain_text("the expression cannot be read")


def test_subjects_are_a_page_with_their_schemas(home: Page) -> None:
    go(home, "Schemas")
    table(home, "Subjects").get_by_role("link", name="orders-value").click()
    expect(home.get_by_label("Schema")).to_contain_text('"name": "<b>"')


def test_a_next_version_is_registered_where_it_fits(home: Page, registry: SchemaRegistry) -> None:
    go(home, "Schemas")
    home.get_by_role("button", name="Register a schema").click()
    dialog = home.get_by_role("dialog")
    dialog.get_by_label("Subject").fill("clicks-value")
    dialog.get_by_label("Kind").select_option("AVRO")
    dialog.get_by_label("Text").fill('"long"')
    expect(dialog).to_contain_text("penstock schemas --register --subject clicks-value --type AVRO")
    dialog.get_by_role("button", name="Register a schema").click()
    expect(home.get_by_role("status").filter(has_text="is version 1 of clicks-value")).to_be_visible()
    table(home, "Subjects").get_by_role("link", name="clicks-value").click()
    registry.incompatible.add("clicks-value")
    home.get_by_role("button", name="New version").click()
    dialog.get_by_label("Text").fill('"string"')
    dialog.get_by_role("button", name="New version").click()
    expect(dialog.get_by_role("alert")).to_contain_text("it does not fit the latest version of clicks-value")
    registry.incompatible.clear()
    dialog.get_by_role("button", name="New version").click()
    expect(home.get_by_text("AVRO, version 2 of 2")).to_be_visible()
    expect(home.get_by_label("Schema")).to_have_text('"string"')


def test_a_user_and_a_quota_are_made_and_go(home: Page) -> None:
    go(home, "Security")
    home.get_by_role("button", name="Add a user").click()
    dialog = home.get_by_role("dialog")
    dialog.get_by_label("User").fill("ada")
    dialog.get_by_label("Password").fill("lovelace")
    expect(dialog).to_contain_text("penstock users --set-password --user ada")
    expect(dialog.locator(".command")).not_to_contain_text("lovelace")
    dialog.get_by_label("Type ada to confirm").fill("ada")
    dialog.get_by_role("button", name="Add a user").click()
    expect(row(home, "Users", "ada")).to_contain_text("SCRAM-SHA-512")

    home.get_by_role("button", name="Set a quota").click()
    dialog.get_by_label("User").fill("ada")
    dialog.get_by_label("Limits").fill("producer_byte_rate=1000000")
    dialog.get_by_role("button", name="Set a quota").click()
    expect(row(home, "Quotas", "ada")).to_contain_text("1,000,000")

    row(home, "Users", "ada").get_by_role("button", name="Remove").click()
    dialog.get_by_role("textbox").fill("ada")
    dialog.get_by_role("button", name="Remove").click()
    expect(home.get_by_text("No user logs in with a password.")).to_be_visible()


# Changes that come by themselves


def test_records_are_seen_as_they_come(home: Page, url: str, cluster: Cluster) -> None:
    """And stay when a read ends that began before them."""
    held: list[tuple[Route, APIResponse]] = []
    home.route("**/api/records?*", lambda route: held.append((route, route.fetch())))
    home.goto(f"{url}/#/topic?name=hostile&tab=records")
    home.get_by_role("button", name="Watch them come").click()
    expect(home.get_by_text("Watching the end")).to_be_visible()
    seen = home.get_by_role("list", name="Records").get_by_role("button").filter(has_text="just now")

    async def write() -> None:
        async with Producer(cluster.bootstrap_servers) as producer:
            await producer.send_and_wait("hostile", b"just now")

    run(write())
    expect(seen).to_have_count(1)
    for route, response in held:
        route.fulfill(response=response)
    expect(home.get_by_role("button", name="Read", exact=True)).to_be_visible()
    expect(seen).to_have_count(1)
    home.unroute_all()


def test_tabs_share_one_stream(home: Page, url: str) -> None:
    streams: list[str] = []
    second = home.context.new_page()
    second.on("request", lambda asked: streams.append(asked.url) if asked.url.endswith("/events") else None)
    second.goto(f"{url}/#/topics")
    expect(table(second, "Topics")).to_be_visible()
    assert streams == []
    home.get_by_role("navigation", name="Pages").get_by_role("link", name="Topics").click()
    home.get_by_role("button", name="Create topic").click()
    home.get_by_label("Name").fill("from-the-other-tab")
    home.get_by_role("dialog").get_by_role("button", name="Create topic").click()
    expect(table(second, "Topics").get_by_text("from-the-other-tab")).to_be_visible()
    second.close()


def test_a_node_that_is_killed_is_shown_and_the_page_goes_on(home: Page, cluster: Cluster, faults: list[str]) -> None:
    """And with it the last two questions: who is not in sync, which move is under way."""
    expect(home.get_by_text("3 of 3")).to_be_visible()
    assert [fault for fault in faults if "Failed to load" not in fault] == []
    cluster.kill(3)
    run(begin_a_move(cluster))
    expect(home.get_by_role("alert").filter(has_text="Broker 3")).to_be_visible()
    expect(home.get_by_text("2 of 3")).to_be_visible()
    expect(row(home, "Under-replicated partitions", "clicks").first).to_be_visible()

    go(home, "Replicas")
    expect(row(home, "Moves under way", "moving")).to_contain_text("3")
    cluster.start()
    go(home, "Overview")
    expect(home.get_by_text("3 of 3")).to_be_visible()
    assert [fault for fault in faults if "Failed to load" not in fault] == []
