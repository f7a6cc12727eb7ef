from pathlib import Path

import pytest

from penstock.metadata.configs.definitions import ConfigError
from penstock.metadata.configs.pairs import PropertiesError, parse_properties
from penstock.node.assembly.properties import load_config, read_properties

COMBINED = """
# One node that is broker and controller.
! Both signs begin a comment.
process.roles = broker,controller
node.id=5
controller.quorum.voters=5@localhost:9093
listeners=PLAINTEXT://:9092,\\
          CONTROLLER://:9093
advertised.listeners : PLAINTEXT://localhost:9092
controller.listener.names CONTROLLER
log.dirs=/data/with\\ space
offsets.topic.replication.factor=1
num.partitions=1
num.partitions=2
"""


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("a=1", {"a": "1"}),
        ("a = 1 ", {"a": "1 "}),
        ("a:1\nb 2\nc", {"a": "1", "b": "2", "c": ""}),
        ("a==1", {"a": "=1"}),
        ("a=1\\\n  2", {"a": "12"}),
        ("a=1\\\\\nb=2", {"a": "1\\", "b": "2"}),
        ("a\\=b=\\u00e4\\t\\q", {"a=b": "ä\tq"}),
        ("a=\\ud83d\\ude00", {"a": "😀"}),
        ("# x\\\na=1", {"a": "1"}),
        ("a=1\\", {"a": "1"}),
        ("a=\\\n# not a comment", {"a": "# not a comment"}),
        ("", {}),
    ],
)
def test_the_format_is_that_of_java(text: str, settings: dict[str, str]) -> None:
    assert parse_properties(text) == settings


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_a_file_that_cannot_be_read_names_itself(tmp_path: Path) -> None:
    with pytest.raises(PropertiesError, match=r"nothing\.properties: cannot be read: No such file or directory"):
        read_properties(tmp_path / "nothing.properties")
    with pytest.raises(PropertiesError, match=r"bad\.properties: .*four hexadecimal digits"):
        read_properties(write(tmp_path / "bad.properties", "a=\\u12"))
    with pytest.raises(PropertiesError, match="password: ") as raised:
        parse_properties("password=sesame\\users")
    assert "sesame" not in str(raised.value)


def test_a_file_that_is_not_utf_8_is_latin_1(tmp_path: Path) -> None:
    file = tmp_path / "old.properties"
    file.write_bytes("a=ä".encode("latin-1"))
    assert read_properties(file) == {"a": "ä"}


def test_a_combined_node_of_a_file(tmp_path: Path) -> None:
    loaded = load_config(write(tmp_path / "server.properties", COMBINED))
    assert loaded.config.node_id == 5
    assert loaded.config.log_dirs == ("/data/with space",)
    assert loaded.config.num_partitions == 2
    assert [str(listener) for listener in loaded.config.listeners] == ["PLAINTEXT://:9092", "CONTROLLER://:9093"]
    assert loaded.warnings == ()


def test_set_goes_before_the_environment_and_that_before_the_file(tmp_path: Path) -> None:
    file = write(tmp_path / "server.properties", COMBINED + "default.replication.factor=1\nlog.roll.hours=1\n")
    config = load_config(
        file,
        environment={"PENSTOCK_NUM_PARTITIONS": "3", "PENSTOCK_LOG_ROLL_HOURS": "2", "HOME": "/"},
        overrides=["log.roll.hours=4"],
    ).config
    assert (config.text("num.partitions"), config.text("log.roll.hours")) == ("3", "4")
    assert config.text("default.replication.factor") == "1"


def test_without_a_file_it_is_the_embedded_node() -> None:
    config = load_config(overrides=["listeners=PLAINTEXT://127.0.0.1:0"]).config
    assert [listener.port for listener in config.listeners] == [0]
    assert config.log_dirs == ("./penstock-data",)


def test_the_old_names_of_keys_go_before_the_embedded_node_too() -> None:
    config = load_config(environment={"PENSTOCK_LOG_DIR": "/elsewhere"}, overrides=["broker.id=7"]).config
    assert config.log_dirs == ("/elsewhere",)
    assert config.node_id == 7


def test_a_misspelt_variable_is_a_warning_and_a_foreign_one_is_nothing() -> None:
    loaded = load_config(environment={"PENSTOCK_NUM_PARTITION": "3", "PENSTOCK_COLOUR": "blue"})
    assert loaded.warnings == ("unknown variable PENSTOCK_NUM_PARTITION; did you mean PENSTOCK_NUM_PARTITIONS?",)


def test_a_key_of_one_listener_can_come_from_the_environment() -> None:
    loaded = load_config(environment={"PENSTOCK_LISTENER_NAME_PLAINTEXT_MAX_CONNECTIONS": "5"})
    assert loaded.config.static["listener.name.plaintext.max.connections"] == "5"
    assert loaded.warnings == ()


def test_a_misspelt_key_is_a_warning() -> None:
    loaded = load_config(overrides=["log.dir.s=x"])
    assert loaded.warnings == ("unknown key log.dir.s; did you mean log.dirs?",)


@pytest.mark.parametrize("override", ["num.partitions", "=3", ""])
def test_an_override_is_key_and_value(override: str) -> None:
    with pytest.raises(PropertiesError, match="expected key=value"):
        load_config(overrides=[override])


def test_a_file_without_roles_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="ZooKeeper mode, which does not exist here"):
        load_config(write(tmp_path / "server.properties", "broker.id=1\nzookeeper.connect=localhost:2181\n"))
