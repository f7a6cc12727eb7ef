import json
import re
from pathlib import Path

import pytest
from tools.generate_docs import ROOT, measured_pages, pages
from tools.kafka_scripts import DATA

from penstock.pipeline.options.source import source_options
from penstock.pipeline.options.table import CLIENT_OPTIONS, SOURCE_OPTIONS, read_options

PAGES = pages()


@pytest.mark.parametrize(("path", "page"), PAGES.items(), ids=[path.name for path in PAGES])
def test_derived_page_is_up_to_date(path: Path, page: str) -> None:
    assert path.read_text(encoding="utf-8") == page, "run `make docs`"


def test_what_was_measured_on_a_simulated_clock_comes_out_again() -> None:
    for path, page in measured_pages().items():
        assert path.read_text(encoding="utf-8") == page, "run `make docs`"


def test_every_script_that_the_readme_claims_has_its_table() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    claim = readme.partition("have the options of Kafka's scripts:")[2].partition(";")[0]
    commands = {row["command"] for row in json.loads(DATA.read_text(encoding="utf-8"))["scripts"].values()}
    assert set(re.findall(r"`([a-z0-9-]+)`", claim)) == commands


def test_defaults_that_the_page_names_are_those_of_the_code() -> None:
    named = {"bootstrap.servers": "a:1", "subscribe": "a"}
    for name in ("kafkaConsumer.pollTimeoutMs", "failOnDataLoss", "includeHeaders", "maxTriggerDelay"):
        named[name] = SOURCE_OPTIONS[name].default.strip("`")
    for name in (
        *("client.id", "isolation.level", "max.partition.fetch.bytes", "request.timeout.ms"),
        *("default.api.timeout.ms", "socket.connection.setup.timeout.ms"),
    ):
        named[name] = CLIENT_OPTIONS[name].default.strip("`")
    unset = read_options({"bootstrap.servers": "a:1", "subscribe": "a"})
    assert source_options(read_options(named), streaming=True) == source_options(unset, streaming=True)
