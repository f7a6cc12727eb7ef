"""Where metrics are pushed to, and with which headers: each thing that is wrong alone, and what is right at an edge."""

import pytest

from penstock.metadata.configs.definitions import ConfigError
from penstock.metadata.configs.listeners import parse_metrics_listener, parse_otlp_endpoint, parse_otlp_headers

HTTPS = "https://collector"


@pytest.mark.parametrize(
    ("text", "headers"),
    [
        (None, {}),
        ("", {}),
        (" , ,", {}),
        ("a=1", {"a": "1"}),
        (" a = 1 ,, b=2%2C3", {"a": "1", "b": "2,3"}),
        ("a=", {"a": ""}),
        ("a=x=y", {"a": "x=y"}),
        ("a=%20~", {"a": " ~"}),
        ("a=1,a=2", {"a": "2"}),
    ],
)
def test_headers(text: str | None, headers: dict[str, str]) -> None:
    assert parse_otlp_headers(HTTPS, text) == headers


@pytest.mark.parametrize("text", ["a", "a b=1", "=1", "a=\u00e9", "a=%0A", "Host=x", "content-length=1", "a=1,b"])
def test_headers_that_are_none(text: str) -> None:
    with pytest.raises(ConfigError, match="name=value"):
        parse_otlp_headers(HTTPS, text)


@pytest.mark.parametrize("endpoint", [None, HTTPS, "http://localhost:1", "http://127.0.0.1", "http://[::1]:4318"])
def test_headers_stay_here_or_go_encrypted(endpoint: str | None) -> None:
    assert parse_otlp_headers(endpoint, "a=1") == {"a": "1"}


def test_headers_do_not_go_in_the_clear() -> None:
    assert parse_otlp_headers("http://collector", None) == {}
    with pytest.raises(ConfigError, match="in the clear"):
        parse_otlp_headers("http://collector", "a=1")


@pytest.mark.parametrize(
    ("text", "endpoint"),
    [(None, None), ("", None), (" ", None), (" http://h:1 ", "http://h:1"), ("https://h/p", "https://h/p")],
)
def test_endpoints(text: str | None, endpoint: str | None) -> None:
    assert parse_otlp_endpoint(text) == endpoint


@pytest.mark.parametrize("text", ["h:1", "ftp://h", "http:/h", "http://", "https:///p"])
def test_endpoints_that_are_none(text: str) -> None:
    with pytest.raises(ConfigError, match="https://host:port"):
        parse_otlp_endpoint(text)


@pytest.mark.parametrize(
    ("text", "address"),
    [(None, None), ("", None), (" ", None), (":9", ("127.0.0.1", 9)), (" h:9 ", ("h", 9))],
)
def test_listeners_of_metrics(text: str | None, address: tuple[str, int] | None) -> None:
    found = parse_metrics_listener(text)
    assert (None if found is None else (found.host, found.port)) == address


@pytest.mark.parametrize("text", ["h", "h:x", "h:99999"])
def test_listeners_of_metrics_that_are_none(text: str) -> None:
    with pytest.raises(ConfigError, match="host:port"):
        parse_metrics_listener(text)
