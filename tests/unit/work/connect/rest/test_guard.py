from types import SimpleNamespace
from typing import Any, cast

import pytest
from aiohttp import web

from penstock.work.connect.rest.errors import RestError
from penstock.work.connect.rest.guard import Guard


def guard(**settings: Any) -> Guard:
    named = {name.replace("_", "."): value for name, value in settings.items()}
    usual: dict[str, Any] = {
        "rest.advertised.host.name": None,
        "rest.allowed.hosts": (),
        "access.control.allow.origin": (),
        "access.control.allow.methods": (),
    }
    return Guard(usual | named, ["", "worker.internal"])


def hears(one: Guard, **headers: str) -> bool:
    try:
        one.check(cast("web.Request", SimpleNamespace(headers=headers)))
    except RestError:
        return False
    return True


@pytest.mark.parametrize(
    "host",
    ["localhost", "localhost:8083", "LocalHost.", "worker.internal:1", "127.0.0.1:8083", "10.1.2.3", "[::1]:8083"],
)
def test_own_names_and_addresses_are_heard(host: str) -> None:
    assert hears(guard(), Host=host)


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8083",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "",
        "[::1",
        "a@localhost:x",
    ],
)
def test_other_names_are_not(host: str) -> None:
    assert not hears(guard(), Host=host)


def test_a_client_that_names_no_host_is_no_browser() -> None:
    assert hears(guard())


def test_names_are_given_in_the_configuration() -> None:
    named = guard(rest_advertised_host_name="connect-1.example", rest_allowed_hosts=("connect", "*.svc.cluster"))
    for host, heard in (("connect-1.example:8083", True), ("connect", True), ("x.svc.cluster", True), ("x.svc", False)):
        assert hears(named, Host=host) is heard
    assert hears(guard(rest_allowed_hosts=("*",)), Host="anything.example")


def test_a_name_by_which_workers_were_told_to_ask_is_heard() -> None:
    one = guard()
    assert not hears(one, Host="machine.example")
    one.know("machine.example")
    assert hears(one, Host="machine.example:8083")


def test_a_page_needs_a_name_of_its_own() -> None:
    allowed = guard(access_control_allow_origin=("http://*.example",))
    assert hears(allowed, Host="localhost", Origin="http://page.example")
    assert not hears(allowed, Host="localhost", Origin="http://page.evil")
    assert not hears(allowed, Host="page.evil", Origin="http://page.example")
