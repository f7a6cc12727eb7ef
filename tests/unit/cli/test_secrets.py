"""Values of sensitive configs and credentials leave files of metadata in no form, unless they are asked for."""

import base64
from pathlib import Path

import pytest
from click.testing import CliRunner

from penstock.cli.main import main
from penstock.metadata.record_frames import encode_record
from penstock.metadata.records import ConfigRecord, MetadataRecord
from penstock.metadata.resources import ResourceType
from penstock.metadata.security_records import UserScramCredentialRecord
from penstock.protocol.records import Record, encode_batch

SECRET = "sesame-open"
KEYS = (
    "ssl.keystore.password",
    "listener.name.external.ssl.keystore.password",
    "listener.name.external.plain.sasl.jaas.config",
    "listener.name.external.of.a.plugin",
    "com.example.plugin.token",
)
RECORDS: list[MetadataRecord] = [
    *(
        ConfigRecord(resource_type=ResourceType.BROKER, resource_name=name, name=key, value=SECRET)
        for key in KEYS
        for name in ("", "1")
    ),
    ConfigRecord(resource_type=ResourceType.TOPIC, resource_name="t", name="unknown.key", value=SECRET),
    ConfigRecord(resource_type=ResourceType.BROKER, resource_name="", name="log.retention.ms", value="604800123"),
    UserScramCredentialRecord(
        name="ada", mechanism=1, salt=SECRET.encode(), stored_key=SECRET.encode(), server_key=SECRET.encode()
    ),
]
FORMS = (SECRET, base64.b64encode(SECRET.encode()).decode())
OF_A_DUMP = ("dump-log", "--files", "{file}")
WAYS = [
    ("metadata-shell", "--directory", "{directory}", "tree", "/"),
    ("metadata-shell", "--snapshot", "{file}", "cat", "/config/brokers/1"),
    ("metadata-shell", "--snapshot", "{file}", "cat", "/image/configs/BROKER:1/ssl.keystore.password"),
    (*OF_A_DUMP, "--cluster-metadata-decoder"),
    (*OF_A_DUMP, "--cluster-metadata-decoder", "--json"),
    (*OF_A_DUMP, "--print-data-log"),
    (*OF_A_DUMP, "--print-data-log", "--json"),
    (*OF_A_DUMP, "--deep-iteration"),
]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    directory = tmp_path / "__cluster_metadata-0"
    directory.mkdir()
    path = directory / f"{0:020d}.log"
    records = [Record(timestamp_ms=1, value=encode_record(record)) for record in RECORDS]
    path.write_bytes(encode_batch(records, partition_leader_epoch=1))
    return path


def run(file: Path, way: tuple[str, ...], *more: str) -> str:
    arguments = [part.format(file=file, directory=file.parent.parent) for part in way]
    result = CliRunner().invoke(main, [*arguments[:1], *more, *arguments[1:]], prog_name="penstock")
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.parametrize("way", WAYS, ids=" ".join)
def test_secrets_are_hidden(file: Path, way: tuple[str, ...]) -> None:
    shown = run(file, way)
    assert not [form for form in FORMS if form in shown]
    if "tree" in way or "--cluster-metadata-decoder" in way:
        assert "604800123" in shown, "what is no secret is shown"


@pytest.mark.parametrize("way", WAYS[:5], ids=" ".join)
def test_secrets_in_files_are_shown_where_that_is_asked_for(file: Path, way: tuple[str, ...]) -> None:
    assert SECRET in run(file, way, "--show-secrets")


def test_a_cluster_does_not_tell_secrets() -> None:
    arguments = ["metadata-shell", "--bootstrap-server", "127.0.0.1:1", "--show-secrets", "tree", "/"]
    result = CliRunner().invoke(main, arguments, prog_name="penstock")
    assert (result.exit_code, "--show-secrets: a cluster tells nobody" in result.output) == (2, True)
