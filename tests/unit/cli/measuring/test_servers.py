"""Where commands that measure find the cluster, and which settings go before which."""

from pathlib import Path

import click
import pytest

from penstock.cli.measuring.settings import Servers
from penstock.client.settings import ProducerSettings


def found(
    path: Path, server: str | None, of_file: str, given: tuple[str, ...], **options: str | None
) -> tuple[str, str]:
    """The servers, and the client's id."""
    file = path / "client.properties"
    file.write_text(of_file)
    servers = Servers(bootstrap_server=server, more_properties=())
    where, settings = servers.client(file, given, ProducerSettings(client_id="usual"), options)
    return where, settings.client_id


@pytest.mark.parametrize(
    ("server", "of_file", "given", "where"),
    [
        (None, "", (), "127.0.0.1:9092"),
        ("a:1", "", (), "a:1"),
        (None, "bootstrap.servers=b:2\n", (), "b:2"),
        ("a:1", "bootstrap.servers=b:2\n", (), "a:1"),
        (None, "bootstrap.servers=b:2\n", ("bootstrap.servers=c:3",), "c:3"),
        ("a:1", "", ("bootstrap.servers=c:3",), "a:1"),
    ],
)
def test_where_the_cluster_is(
    server: str | None, of_file: str, given: tuple[str, ...], where: str, tmp_path: Path
) -> None:
    assert found(tmp_path, server, of_file, given) == (where, "usual")


def test_options_go_before_properties_and_these_before_the_file(tmp_path: Path) -> None:
    of_file, given, key = "client.id=file\n", ("client.id=given",), "client.id"
    assert found(tmp_path, None, of_file, ())[1] == "file"
    assert found(tmp_path, None, of_file, given)[1] == "given"
    assert found(tmp_path, None, of_file, given, **{key: "option"})[1] == "option"
    assert found(tmp_path, None, of_file, given, **{key: None})[1] == "given"


def test_what_is_wrong_is_told(tmp_path: Path) -> None:
    with pytest.raises(click.UsageError):
        found(tmp_path, "a:port", "", ())
    with pytest.raises(click.UsageError, match="--command-property: 'x' is not key=value"):
        found(tmp_path, None, "", ("x",))
    lonely = Servers(bootstrap_server=None, more_properties=("a=1", "b=2"))
    with pytest.raises(click.UsageError, match="'a=1' belongs to no option"):
        lonely.client(None, (), ProducerSettings(), {})
    _, settings = lonely.replace(more_properties=("client.id=more",)).client(None, ("acks=1",), ProducerSettings(), {})
    assert settings.client_id == "more"
