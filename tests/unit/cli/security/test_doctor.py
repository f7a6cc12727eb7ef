"""What the doctor makes of a client's file, before it goes anywhere."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from penstock.cli.main import main
from penstock.cli.security.examination import Examination
from penstock.client.oauth.allowed import URLS
from penstock.client.properties import with_properties
from penstock.client.settings import ClientSettings
from penstock.protocol.address import Address

TOKEN = "org.apache.kafka.common.security.scram.ScramLoginModule required username=id password=hmac tokenauth=true;"
PROVIDER = "https://identity.example/token"


def test_values_that_stand_elsewhere_are_looked_up_as_for_other_commands(tmp_path: Path) -> None:
    (tmp_path / "secrets.properties").write_text("protocol=PLAINTEXT\n")
    file = tmp_path / "client.properties"
    file.write_text(
        "bootstrap.servers=127.0.0.1:1\nconfig.providers=file\n"  # nobody listens there
        "config.providers.file.class=org.apache.kafka.common.config.provider.FileConfigProvider\n"
        f"security.protocol=${{file:{tmp_path}/secrets.properties:protocol}}\n"
    )
    done = CliRunner().invoke(main, ["security", "doctor", "--command-config", str(file)])
    assert "it ends at TCP" in done.output
    file.write_text(file.read_text().replace(":protocol}", ":missing}"))
    done = CliRunner().invoke(main, ["security", "doctor", "--command-config", str(file)])
    assert "it ends at SETTINGS: security.protocol=${file:" in done.output
    assert "has no key missing" in done.output


def test_of_several_addresses_it_is_told_where_each_way_ends() -> None:
    addresses = ["127.0.0.1:1", "127.0.0.1:2"]  # nobody listens there
    done = CliRunner().invoke(main, ["security", "doctor", "--bootstrap-server", ",".join(addresses)])
    ways = [(f"{address}, a bootstrap server", "  DNS", "  TCP") for address in addresses]
    for line, begins in zip(done.output.splitlines(), [*ways[0], *ways[1], "Error: it ends at TCP"], strict=True):
        assert line.startswith(begins)


@pytest.mark.parametrize(
    ("properties", "who"),
    [
        ({"sasl.mechanism": "PLAIN", "sasl.username": "ada", "sasl.password": "x"}, "User:ada"),
        ({"sasl.mechanism": "SCRAM-SHA-256", "sasl.jaas.config": TOKEN}, "User:<the token's owner>"),
        (
            {
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.oauthbearer.token.endpoint.url": PROVIDER,
                "sasl.oauthbearer.client.credentials.client.id": "c",
                "sasl.oauthbearer.client.credentials.client.secret": "s",
            },
            "User:<whom the token names>",
        ),
    ],
)
def test_who_a_client_is_to_access_rules(properties: dict[str, str], who: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(URLS, PROVIDER)
    settings = with_properties(ClientSettings(), {"security.protocol": "SASL_SSL"} | properties)
    assert Examination(Address("127.0.0.1", 9092), settings).principal == who
