"""Which addresses nodes of a secured cluster have, on both sides of each limit; and which authority signs."""

from __future__ import annotations

import datetime as dt
import re
from pathlib import Path

import pytest

from penstock.testing.secured.authorities import (
    AUTHORITY_DAYS,
    CERTIFICATE,
    KEY,
    NODE_DAYS,
    SIGNS,
    Authorities,
    AuthorityError,
)
from penstock.testing.secured.places import CLIENTS, CONTROLLER, MOST_PORT, NODES, is_loopback, parse_places

NOW = dt.datetime(2030, 1, 1, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("a", ["1 a 9092"]),
        (" a , b ,", ["1 a 9092", "2 b 9092"]),
        ("a:1", ["1 a 1"]),
        (f"a:{MOST_PORT}", [f"1 a {MOST_PORT}"]),
        ("a,a,a", ["1 a 9092", "2 a 9093", "3 a 9094"]),
        ("a:100,a", ["1 a 100", "2 a 101"]),
        ("a:100,b,a:90,a", ["1 a 100", "2 b 9092", "3 a 90", "4 a 101"]),
        ("[::1],localhost", ["1 ::1 9092", "2 localhost 9093"]),
        ("127.0.0.1,127.0.0.2", ["1 127.0.0.1 9092", "2 127.0.0.2 9093"]),
        ("a/a/b/a", ["1 a/b 9092"]),
        ("[fe80::1]/[::2]:7", ["1 fe80::1/::2 7"]),
        ("a-b_c.d9", ["1 a-b_c.d9 9092"]),
        ("10.0.0.1:9092,10.0.0.2:9092", ["1 10.0.0.1 9092", "2 10.0.0.2 9092"]),
        ("a:9092,a:14093", ["1 a 9092", "2 a 14093"]),
    ],
)
def test_what_people_write(text: str, read: list[str]) -> None:
    found = parse_places(text)
    assert [f"{one.node_id} {'/'.join(one.names)} {one.ports[CLIENTS]}" for one in found] == read
    for one in found:
        port = one.ports[CLIENTS]
        assert one.ports == {CLIENTS: port, NODES: port + 5_000, CONTROLLER: port + 10_000}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a:65536", "a:65536: a node's port is at most 55535, as it listens 5000 and 10000 above as well"),
        (f"a:{MOST_PORT + 1}", f"a:{MOST_PORT + 1}: a node's port is at most 55535"),
        ("a:", "a:: '' is no port"),
        ("a:-1", "a:-1: '-1' is no port"),
        ("a:0", "a:0: '0' is no port"),
        (" , ", "no node is given: write their hosts with commas between"),
        ("a/", "a/: '' is no name of a host, and no address"),
        ("a.-.b", "a.-.b: 'a.-.b' is no name of a host, and no address"),
        ("ä", "ä: 'ä' is no name of a host"),
        ("a:9092,a:19092", "the nodes 1 and 2 would both listen on a:19092: give other ports"),
        ("a:9092,a:4092", "the nodes 1 and 2 would both listen on a:9092: give other ports"),
    ],
)
def test_what_is_wrong(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(why)}"):
        parse_places(text)


@pytest.mark.parametrize(
    ("host", "loops"), [("localhost", True), ("127.9.9.9", True), ("::1", True), ("10.0.0.1", False), ("a", False)]
)
def test_this_machine(host: str, loops: bool) -> None:
    assert is_loopback(host) is loops
    (one,) = parse_places(f"{host}:7" if ":" not in host else f"[{host}]:7")
    shown = f"[{host}]" if ":" in host else host
    assert one.address(NODES) == f"{shown}:5007"
    assert one.binding(CONTROLLER) == f"CONTROLLER://{shown if loops else ''}:10007"


def test_authorities_come_sign_and_go(tmp_path: Path) -> None:
    folder = tmp_path / "authority"
    some = Authorities(folder, NOW)
    assert some.numbers == []
    with pytest.raises(AuthorityError, match=r"has no authority: `penstock security init` makes one"):
        _ = some.signing
    assert (some.add(), some.numbers, some.signing) == (1, [1], 1)
    first = some.certificate(1)
    assert first == (folder / "1" / CERTIFICATE).read_text()
    assert (some.shown(first).ends - NOW).days == AUTHORITY_DAYS
    (folder / "2").mkdir()
    (folder / "2" / KEY).write_text("half of it")
    (folder / "notes").mkdir()
    (folder / "notes" / CERTIFICATE).write_text("")
    assert some.numbers == [1], "what was not finished is none"
    assert (some.add(), some.numbers, some.signing) == (2, [1, 2], 1)
    assert some.trusted == first + some.certificate(2)
    some.let_sign(2)
    assert ((folder / SIGNS).read_text(), some.signing) == ("2\n", 2)
    signed, other = some.sign("node", ["a"], NODE_DAYS), some.sign("node", ["a"], 3, 1)
    assert [some.has_signed(number, signed.certificate) for number in (1, 2)] == [False, True]
    assert [some.has_signed(number, other.certificate) for number in (1, 2)] == [True, False]
    assert [(some.shown(one.certificate).ends - NOW).days for one in (signed, other)] == [NODE_DAYS, 3]
    some.let_sign(9)
    assert some.signing == 1, "one that is not there signs nothing"
    some.let_sign(2)
    some.keep_only(2)
    assert (some.numbers, some.signing, (folder / SIGNS).exists()) == ([2], 2, True)
    assert not (folder / "1").exists()
    with pytest.raises(AuthorityError, match="a certificate cannot be read: "):
        some.shown("nonsense")


@pytest.mark.parametrize(("days", "signs"), [(2, True), (1, False), (0, False)])
def test_an_authority_signs_until_the_day_before_it_ends(tmp_path: Path, days: int, signs: bool) -> None:
    Authorities(tmp_path, NOW - dt.timedelta(days=AUTHORITY_DAYS - days)).add()
    some = Authorities(tmp_path, NOW)
    if signs:
        assert some.sign("node", ["a"], 1).certificate
    else:
        with pytest.raises(AuthorityError, match="rotate-ca"):
            some.sign("node", ["a"], 1)
