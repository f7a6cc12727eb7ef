"""Every block that can be typed is run by a test, or stands in a table with the reason, and is read as far as can be.

What is not run has its commands and options looked up, its keys of a configuration, and its imports; YAML and TOML are
parsed.
"""

import ast
import importlib
import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import yaml
from tests.docs.blocks import ROOT

from penstock.cli.main import main
from penstock.metadata.configs.broker import BROKER_CONFIGS, is_free_key
from penstock.pipeline.jobs.keys import DRIVER, OF_A_WORKER

FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PAGES = ["README.md", "CONTRIBUTING.md", *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md"))]
RUN = {
    "python run": ["docs/testing.md", "docs/client.md", "docs/work.md", "docs/tutorials/break-a-cluster.md",
                   "docs/tutorials/delayed-orders.md", "docs/tutorials/exactly-once.md",
                   "docs/tutorials/first-topic.md", "docs/tutorials/from-kafka.md"],
    "sh run": ["docs/tutorials/delayed-orders.md", "docs/tutorials/flights.md",
               "docs/tutorials/first-topic.md", "docs/tutorials/from-kafka.md"],
    "properties file=server.properties": ["docs/tutorials/from-kafka.md"],
    "python file=flights.py": ["docs/tutorials/flights.md"],
    "yaml file=delays.yaml": ["docs/tutorials/flights.md"],
    "python file=conftest.py": ["docs/testing.md"],
    "python file=test_clicks.py": ["docs/testing.md"],
    "python file=total.py": ["docs/raft.md"],
    "python file=totals.py": ["docs/counting-once.md"],
    "python file=recipe.py": ["docs/counting-once.md"],
    "python spark": ["docs/spark.md"],
    "python pipeline": ["docs/spark.md"],
    "yaml pipeline": ["docs/spark.md"],
}  # fmt: skip
"""By what stands behind the three backquotes: the pages whose blocks `test_examples`, `test_tutorials`,
`test_counting_once` and `tests/spark/test_docs.py` run."""
MACHINES = "for several machines; local clusters of tests have other addresses"
PART = "a part of a file or program, which is nothing by itself; tests of what it shows have whole ones"
BY_TESTS = "test_examples runs it by what is in it"
OF_A_CLUSTER = "works on a cluster that has come to something; the wire tests of these commands have such"
NOT_RUN = {
    ("README.md", "sh"): f"{BY_TESTS}; the targets of make take minutes",
    ("README.md", "python"): f"{BY_TESTS}; tests/spark reads streams",
    ("docs/clusters.md", "sh"): MACHINES,
    ("docs/client.md", "python"): f"{PART}; tests/wire/test_share_consumer.py",
    ("docs/clusters.md", "console"): OF_A_CLUSTER,
    ("docs/clusters.md", "properties"): MACHINES,
    ("docs/compatibility.md", "xml"): "needs Maven and Java; `make kafka` does the same",
    ("docs/compatibility.md", "sh"): "needs Maven and Java; `make kafka` does the same",
    ("docs/connect.md", "properties"): PART,
    ("docs/connect.md", "python"): PART,
    ("docs/delayed.md", "python"): "waits for a day; tests/wire/test_delayed.py waits less",
    ("docs/disks.md", "sh"): OF_A_CLUSTER,
    ("docs/leadership.md", "sh"): OF_A_CLUSTER,
    ("docs/migration.md", "sh"): MACHINES,
    ("docs/migration.md", "properties"): f"{MACHINES}; tests/cluster/test_migration.py takes these steps",
    ("docs/pipelines.md", "yaml"): PART,
    ("docs/pipelines.md", "properties"): PART,
    ("docs/pipelines.md", "python"): PART,
    ("docs/policies.md", "toml"): PART,
    ("docs/policies.md", "python"): PART,
    ("docs/raft-kv.md", "sh"): "servers in three terminals; tests/cluster/test_raft_kv.py runs them",
    ("docs/raft.md", "python"): PART,
    ("docs/security.md", "sh"): f"{MACHINES}, with passwords that somebody types",
    ("docs/security.md", "properties"): f"{MACHINES}, with certificates of their own",
    ("docs/security.md", "python"): PART,
    ("docs/security.md", "toml"): PART,
    ("docs/share-groups.md", "python"): f"{PART}; tests/wire/test_share_consumer.py",
    ("docs/spark.md", "python"): PART,
    ("docs/streams.md", "python"): PART,
    ("docs/streams.md", "sh"): OF_A_CLUSTER,
    ("docs/streams.md", "toml"): PART,
    ("docs/transactions.md", "sh"): OF_A_CLUSTER,
    ("docs/tutorials/break-a-cluster.md", "sh"): "for three terminals; the program below does the same",
    ("docs/tutorials/first-topic.md", "sh"): "the node, which the test brings on a port of its own",
    ("docs/tutorials/flights.md", "sh"): "the installation, and the node, which the test brings on a port of its own",
    ("docs/tutorials/from-kafka.md", "sh"): "the node, whose file the test reads",
}
"""By page and language."""
OF_CLIENTS = re.compile(r"^(?:security\.|sasl\.|ssl\.|(?:penstock\.)?rest\.)")
"""Keys of clients and workers."""


def typed() -> Iterator[tuple[str, str, str]]:
    """Page, label and text; what is printed has no label."""
    for page in PAGES:
        for label, text in FENCE.findall((ROOT / page).read_text(encoding="utf-8")):
            if label:
                yield page, label, text


def test_each_block_is_run_or_has_a_reason() -> None:
    found = {(page, label) for page, label, _ in typed()}
    run = {(page, label) for label, pages in RUN.items() for page in pages}
    assert {one for one in found if " " in one[1]} == run
    assert {one for one in found if " " not in one[1]} == set(NOT_RUN)


def commands(text: str) -> Iterator[list[str]]:
    """The commands of ours in lines of a shell."""
    for line in text.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        for at, word in enumerate(words):
            if word == "penstock" and (at == 0 or words[at - 1] in ("|", "&&", "do")):
                rest = words[at + 1 :]
                ends = [rest.index(one) for one in ("|", "&", "&&", ";", ">", "<") if one in rest]
                yield rest[: min(ends, default=len(rest))]


def look_up(arguments: list[str]) -> None:
    """Raises click.UsageError for a command or an option that is not there."""
    command: click.Command = main
    context = click.Context(command)
    while isinstance(command, click.Group) and arguments:
        _, arguments, _ = command.make_parser(context).parse_args(list(arguments))
        if not arguments:
            return
        _, found, arguments = command.resolve_command(context, arguments)
        assert found is not None
        command, context = found, click.Context(found, context)
    command.make_parser(context).parse_args(arguments)


@pytest.mark.parametrize(("page", "text"), [(page, text) for page, label, text in typed() if label.split()[0] == "sh"])
def test_commands_and_options_are_there(page: str, text: str) -> None:
    for arguments in commands(text):
        look_up(arguments)


def test_one_that_is_not_there_is_noticed() -> None:
    assert list(commands("echo x | penstock produce --topic t # y\n")) == [["produce", "--topic", "t"]]
    for wrong in (["topcs"], ["topics", "--no-such"], ["cluster", "helth"]):
        with pytest.raises(click.UsageError):
            look_up(wrong)


@pytest.mark.parametrize(
    ("page", "label", "text"), [one for one in typed() if one[1] in ("properties", "yaml", "toml")]
)
def test_files_are_what_they_say(page: str, label: str, text: str) -> None:
    if label == "yaml":
        assert yaml.safe_load(text)
    elif label == "toml":
        assert tomllib.loads(text)
    else:
        lines = [line for line in text.replace("\\\n", "").splitlines() if line.strip() and not line.startswith("#")]
        names = [line.partition("=")[0].strip() for line in lines]
        assert [name for name in names if not is_known(name)] == []


def is_known(name: str) -> bool:
    of_a_worker = name in {key.name for key in OF_A_WORKER} or name.startswith(f"{DRIVER}.spark.")
    return name in BROKER_CONFIGS or is_free_key(name) or OF_CLIENTS.match(name) is not None or of_a_worker


@pytest.mark.parametrize(("page", "text"), [(page, text) for page, label, text in typed() if label == "python"])
def test_what_programs_import_is_there(page: str, text: str) -> None:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("penstock"):
            module = importlib.import_module(str(node.module))
            for alias in node.names:
                if not hasattr(module, alias.name):
                    importlib.import_module(f"{node.module}.{alias.name}")


def test_every_page_is_read() -> None:
    assert len(PAGES) > 40
    assert all((ROOT / Path(page)).is_file() for page in PAGES)
