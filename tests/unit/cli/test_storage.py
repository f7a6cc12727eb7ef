import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from penstock.cli.storage import command

CLUSTER = "YkJwr6RESgSJv-sxa1R1mA"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "server.properties"
    file.write_text(f"node.id=7\nprocess.roles=broker,controller\nlog.dirs={tmp_path}/a,{tmp_path}/b\n" + QUORUM)
    return file


QUORUM = (
    "controller.quorum.voters=7@localhost:9093\ncontroller.listener.names=CONTROLLER\n"
    "listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093\n"
)


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(command, [str(argument) for argument in arguments], prog_name="storage")


def test_an_id_is_22_characters_and_never_the_same() -> None:
    first, second = run("random-uuid").output, run("random-uuid").output
    assert re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_-]{21}\n", first)
    assert first != second


def test_format_writes_the_identity_of_each_directory(file: Path) -> None:
    result = run("format", "-t", CLUSTER, "-c", file)
    assert (result.exit_code, result.output) == (0, f"Formatting {file.parent}/a\nFormatting {file.parent}/b\n")
    texts = [(file.parent / name / "meta.properties").read_text().splitlines() for name in "ab"]
    for text in texts:
        assert {f"cluster.id={CLUSTER}", "node.id=7", "version=1"} < set(text)
    assert texts[0] != texts[1], "each directory has an id of its own"


def test_what_is_formatted_is_left_alone(file: Path) -> None:
    run("format", "-t", CLUSTER, "-c", file)
    before = (file.parent / "a" / "meta.properties").read_text()
    again = run("format", "-t", CLUSTER, "-c", file)
    assert again.exit_code == 1
    assert f"log directory {file.parent}/a is already formatted" in again.output
    (file.parent / "b" / "meta.properties").unlink()
    assert run("format", "-t", CLUSTER, "-c", file, "--ignore-formatted").output == f"Formatting {file.parent}/b\n"
    assert (file.parent / "a" / "meta.properties").read_text() == before
    done = run("format", "-t", CLUSTER, "-c", file, "--ignore-formatted")
    assert done.output == "All of the log directories are already formatted.\n"


def test_a_directory_of_another_cluster_or_node_is_refused(file: Path) -> None:
    run("format", "-t", CLUSTER, "-c", file)
    (file.parent / "b" / "meta.properties").unlink()
    other = run("format", "-t", "another", "-c", file, "--ignore-formatted")
    assert other.exit_code == 1
    assert f"belongs to cluster.id {CLUSTER}" in other.output
    file.write_text(file.read_text().replace("node.id=7", "node.id=8").replace("7@", "8@"))
    assert "belongs to node.id 7" in run("format", "-t", CLUSTER, "-c", file, "--ignore-formatted").output
    assert not (file.parent / "b" / "meta.properties").exists()


@pytest.mark.parametrize("option", ["--initial-controllers", "--add-scram"])
def test_what_needs_several_nodes_says_so(file: Path, option: str) -> None:
    result = run("format", "-t", CLUSTER, "-c", file, option, "x")
    assert result.exit_code == 2
    assert f"{option} comes with the metadata quorum of several nodes" in result.output


def test_standalone_and_a_list_of_voters_exclude_each_other(file: Path) -> None:
    result = run("format", "-t", CLUSTER, "-c", file, "--standalone")
    assert result.exit_code == 2
    assert not (file.parent / "a").exists()


def test_info_shows_the_ids_and_what_is_wrong(file: Path) -> None:
    before = run("info", "-c", file)
    assert before.exit_code == 1
    assert f"  {file.parent}/a does not exist" in before.output
    run("format", "-t", CLUSTER, "-c", file)
    after = run("info", "-c", file)
    assert after.exit_code == 0, after.output
    assert f"Found metadata in {file.parent}/a: cluster.id={CLUSTER}, node.id=7" in after.output
