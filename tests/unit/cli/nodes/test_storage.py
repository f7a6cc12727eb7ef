import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from penstock.cli.dump.dump_log import command as dump_log
from penstock.cli.nodes.storage import command
from penstock.log.directories.meta_properties import read_meta_properties
from penstock.log.disk import Disk
from penstock.protocol.uuids import uuid_from_text, uuid_to_text
from penstock.raft.control import quorums_in
from penstock.raft.voters import Endpoint, Quorum

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


@pytest.mark.parametrize(
    "cluster_id", ["s0CW8EElSp2Hba/9+wrK3g==", "8e0e4b2e-7c0f-4f2e-9d54-0a4c8f2f3c11", "prod.eu_1"]
)
def test_an_id_that_another_tool_drew_is_taken(file: Path, cluster_id: str) -> None:
    assert run("format", "-t", cluster_id, "-c", file).exit_code == 0
    identity = read_meta_properties(Disk(), str(file.parent / "a"))
    assert identity is not None
    assert identity.cluster_id == cluster_id


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


ELR = "eligible.leader.replicas.version"
PENCIL = "SCRAM-SHA-256=[name=user,password=pencil,salt=W22ZaJ0SNY7soEsUEjb6gQ==]"


def test_a_cluster_may_begin_with_a_release_and_with_credentials(file: Path) -> None:
    result = run("format", "-t", CLUSTER, "-c", file, "--release-version", "4.1", "--add-scram", PENCIL)
    assert result.exit_code == 0, result.output
    _, level, _, _, elr, credential, _ = dumped(file.parent / "a" / SNAPSHOT)
    assert elr.endswith('"data":{"name":"eligible.leader.replicas.version","featureLevel":1}}')
    assert level.endswith('"data":{"name":"metadata.version","featureLevel":27}}')
    assert credential.startswith('payload: {"type":"USER_SCRAM_CREDENTIAL_RECORD","version":0,"data":{"name":"user",')
    assert run("info", "-c", file).exit_code == 0, "no voters are named"


@pytest.mark.parametrize(
    ("wishes", "levels"),
    [
        (["-r", "3.9"], ["metadata.version 21"]),
        (["-r", "4.0"], ["metadata.version 25", "transaction.version 2", "group.version 1"]),
        (
            ["-r", "4.0", "-f", f"{ELR}=1", "-f", "transaction.version=1", "-f", "group.version=0"],
            ["metadata.version 25", "transaction.version 1", "group.version 0", f"{ELR} 1"],
        ),
        (
            ["-f", f"{ELR}=0", "-f", "share.version=2"],
            [
                "metadata.version 33",
                "transaction.version 2",
                "group.version 1",
                f"{ELR} 0",
                "share.version 2",
                "streams.version 1",
            ],
        ),
    ],
)
def test_each_feature_may_be_had_at_another_level_or_not_at_all(
    file: Path, wishes: list[str], levels: list[str]
) -> None:
    assert run("format", "-t", CLUSTER, "-c", file, *wishes).exit_code == 0
    data = [json.loads(line.removeprefix("payload: "))["data"] for line in dumped(file.parent / "a" / SNAPSHOT)[1:-1]]
    assert [f"{row['name']} {row['featureLevel']}" for row in data] == levels


def test_without_wishes_and_voters_there_is_no_first_snapshot(file: Path) -> None:
    run("format", "-t", CLUSTER, "-c", file)
    assert not (file.parent / "a" / SNAPSHOT).exists()


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["-r", "9.9"], "--release-version 9.9: known are 3.3-IV3,"),
        (["-r", "4.0", "-f", "metadata.version=26"], "--release-version says 25 (4.0-IV3)"),
        (["-f", "metadata.version=99"], "--feature metadata.version=99: known are 7,"),
        (["-f", "metadata.version"], "expected NAME=LEVEL"),
        (["-f", "kraft.version=1"], "--feature kraft.version: it is 1 with --standalone"),
        (["-f", "streams.version=2"], "known are 0 to 1"),
        (["-f", "group.version=2"], "known are 0 to 1"),
        (["-f", "eligible.leader.replicas.version=2"], "known are 0 to 1"),
        (["-r", "3.9", "-f", "eligible.leader.replicas.version=1"], "it needs metadata.version 23 (4.0-IV1), not 21"),
        (["-f", "nonsense=1"], "--feature nonsense: known are metadata.version, kraft.version,"),
        (["-S", "x"], "it begins with SCRAM-SHA-256= or SCRAM-SHA-512="),
        (["-S", PENCIL, "-r", "3.4"], "credentials are there from metadata.version 11 (3.5-IV2) on"),
    ],
)
def test_what_a_cluster_cannot_begin_with(file: Path, options: list[str], complaint: str) -> None:
    result = run("format", "-t", CLUSTER, "-c", file, *options)
    assert result.exit_code == 2
    assert complaint in " ".join(result.output.split())
    assert not (file.parent / "a").exists()


@pytest.mark.parametrize(
    "options",
    [["-f", "kraft.version=0"], ["-f", "group.version=0"], ["-f", "group.version=1"], ["-f", "metadata.version=25"]],
)
def test_levels_that_are_so_anyway_may_be_named(file: Path, options: list[str]) -> None:
    assert run("format", "-t", CLUSTER, "-c", file, *options).exit_code == 0


DYNAMIC = (
    "controller.quorum.bootstrap.servers=localhost:9093\ncontroller.listener.names=CONTROLLER\n"
    "listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://localhost:9093\n"
)
LIST = "6@other:9093:JEXY6aqzQY-32P5TStzaFg,7@localhost:9093:MvDxzVmcRsaTz33bUuRU6A"
SNAPSHOT = "__cluster_metadata-0/00000000000000000000-0000000000.checkpoint"


@pytest.fixture
def dynamic(file: Path) -> Path:
    file.write_text(file.read_text().replace(QUORUM, DYNAMIC))
    return file


def dumped(path: Path) -> list[str]:
    """The control records of a snapshot, and the metadata records."""
    result = CliRunner().invoke(dump_log, ["--cluster-metadata-decoder", "--files", str(path)])
    assert result.exit_code == 0, result.output
    return [line.partition("headerKeys: [] ")[2] for line in result.output.splitlines() if line.startswith("| ")]


def test_a_standalone_controller_is_its_first_voter(dynamic: Path) -> None:
    result = run("format", "-t", CLUSTER, "-c", dynamic, "--standalone")
    assert result.exit_code == 0, result.output
    directory = dynamic.parent / "a"
    identity = read_meta_properties(Disk(), str(directory))
    assert identity is not None
    assert identity.directory_id is not None
    directory_id = uuid_to_text(identity.directory_id)
    assert f"Formatting {directory}, first voters: 7@localhost:9093:{directory_id}\n" in result.output
    _, version, voters, feature, _, _, elr, _, _, _ = dumped(directory / SNAPSHOT)
    assert '"name":"eligible.leader.replicas.version","featureLevel":1' in elr
    assert version == 'KRaftVersion {"version":0,"kRaftVersion":1}'
    assert voters == (
        f'KRaftVoters {{"version":0,"voters":[{{"voterId":7,"voterDirectoryId":"{directory_id}","endpoints":'
        '[{"name":"CONTROLLER","host":"localhost","port":9093}],'
        '"kRaftVersionFeature":{"minSupportedVersion":0,"maxSupportedVersion":1}}]}'
    )
    assert '"name":"metadata.version","featureLevel":33' in feature
    assert not (dynamic.parent / "b" / SNAPSHOT).exists()
    assert f"Found first voters in {directory}: 7@localhost:9093:{directory_id}\n" in run("info", "-c", dynamic).output


def test_the_list_of_first_voters_gives_this_node_its_directory_id(dynamic: Path) -> None:
    result = run("format", "-t", CLUSTER, "-c", dynamic, "--initial-controllers", LIST)
    assert result.exit_code == 0, result.output
    identity = read_meta_properties(Disk(), str(dynamic.parent / "a"))
    assert identity is not None
    assert identity.directory_id == uuid_from_text("MvDxzVmcRsaTz33bUuRU6A")
    assert read_meta_properties(Disk(), str(dynamic.parent / "b")) != identity
    quorum = Quorum()
    for _, named in quorums_in((dynamic.parent / "a" / SNAPSHOT).read_bytes(), quorum):
        quorum = named
    assert quorum.kraft_version == 1
    assert [(voter.key.id, voter.endpoints) for voter in quorum.voters] == [
        (6, (Endpoint("CONTROLLER", "other", 9093),)),
        (7, (Endpoint("CONTROLLER", "localhost", 9093),)),
    ]


def test_a_node_that_is_none_of_the_first_voters_is_told_of_them_nevertheless(dynamic: Path) -> None:
    result = run("format", "-t", CLUSTER, "-c", dynamic, "-I", LIST.partition(",")[0])
    assert result.exit_code == 0, result.output
    assert "6@other:9093:JEXY6aqzQY-32P5TStzaFg" in run("info", "-c", dynamic).output


def test_a_node_that_joins_later_is_told_of_nobody(dynamic: Path) -> None:
    result = run("format", "-t", CLUSTER, "-c", dynamic, "--no-initial-controllers")
    assert result.exit_code == 0, result.output
    assert not (dynamic.parent / "a" / "__cluster_metadata-0").exists()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ([], r"does not set controller.quorum.voters.*give one of --standalone, --initial-controllers or --no-initial"),
        (["-s", "-N"], "only one of --standalone, --initial-controllers or --no-initial-controllers can be"),
        (["-s", "-I", LIST], "only one of"),
        (["-I", ""], "--initial-controllers: it names no controller"),
        (["-I", "7@localhost:JEXY6aqzQY-32P5TStzaFg"], "is not id@host:port:directory"),
        (["-I", "7@localhost:9093:short"], "has no id of a directory behind the port"),
        (["-I", LIST + "," + LIST], "node 6 is named twice"),
    ],
)
def test_a_controller_has_to_be_told_once_and_well_who_votes_first(
    dynamic: Path, options: list[str], text: str
) -> None:
    result = run("format", "-t", CLUSTER, "-c", dynamic, *options)
    assert result.exit_code == 2
    assert re.search(text, result.output.replace("\n", " ")), result.output
    assert not (dynamic.parent / "a").exists()


@pytest.mark.parametrize("options", [["--standalone"], ["--initial-controllers", LIST]])
def test_fixed_voters_and_first_voters_exclude_each_other(file: Path, options: list[str]) -> None:
    result = run("format", "-t", CLUSTER, "-c", file, *options)
    assert result.exit_code == 2
    assert "sets controller.quorum.voters" in result.output
    assert "set controller.quorum.bootstrap.servers" in result.output
    assert not (file.parent / "a").exists()


def test_a_broker_needs_no_voters_and_is_never_alone(dynamic: Path) -> None:
    text = dynamic.read_text().replace("broker,controller", "broker").replace(",CONTROLLER://localhost:9093", "")
    dynamic.write_text(text)
    alone = run("format", "-t", CLUSTER, "-c", dynamic, "-s")
    assert alone.exit_code == 2
    assert "has no controller in process.roles" in alone.output
    assert run("format", "-t", CLUSTER, "-c", dynamic).exit_code == 0


def test_a_list_that_contradicts_the_formatted_directory_is_refused(dynamic: Path) -> None:
    run("format", "-t", CLUSTER, "-c", dynamic, "-s")
    result = run("format", "-t", CLUSTER, "-c", dynamic, "-g", "-I", LIST)
    assert result.exit_code == 1
    assert "names the directory MvDxzVmcRsaTz33bUuRU6A for node 7" in result.output


def test_a_formatting_that_was_interrupted_is_done_anew_and_a_log_is_never_overwritten(dynamic: Path) -> None:
    run("format", "-t", CLUSTER, "-c", dynamic, "-s")
    for name in "ab":
        (dynamic.parent / name / "meta.properties").unlink()
    assert run("format", "-t", CLUSTER, "-c", dynamic, "-I", LIST).exit_code == 0
    assert "6@other:9093" in run("info", "-c", dynamic).output
    for name in "ab":
        (dynamic.parent / name / "meta.properties").unlink()
    (dynamic.parent / "a" / "__cluster_metadata-0" / "00000000000000000000.log").write_bytes(b"records")
    result = run("format", "-t", CLUSTER, "-c", dynamic, "-s")
    assert result.exit_code == 1
    assert "holds a metadata log" in result.output
    assert not (dynamic.parent / "a" / "meta.properties").exists()


def test_the_metadata_log_may_have_a_directory_of_its_own(dynamic: Path) -> None:
    with dynamic.open("a") as lines:
        lines.write(f"metadata.log.dir={dynamic.parent}/m\n")
    result = run("format", "-t", CLUSTER, "-c", dynamic, "-I", LIST)
    assert result.exit_code == 0, result.output
    identities = {name: read_meta_properties(Disk(), str(dynamic.parent / name)) for name in "abm"}
    assert None not in identities.values()
    assert identities["m"] is not None
    assert identities["m"].directory_id == uuid_from_text("MvDxzVmcRsaTz33bUuRU6A")
    assert (dynamic.parent / "m" / SNAPSHOT).exists()
    assert not (dynamic.parent / "a" / SNAPSHOT).exists()
    assert f"Found metadata in {dynamic.parent}/m" in run("info", "-c", dynamic).output


def test_info_shows_the_ids_and_what_is_wrong(file: Path) -> None:
    before = run("info", "-c", file)
    assert before.exit_code == 1
    assert f"  {file.parent}/a does not exist" in before.output
    run("format", "-t", CLUSTER, "-c", file)
    after = run("info", "-c", file)
    assert after.exit_code == 0, after.output
    assert f"Found metadata in {file.parent}/a: cluster.id={CLUSTER}, node.id=7" in after.output
