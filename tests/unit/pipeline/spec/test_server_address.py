"""The address of a server of Spark Connect: each part by itself, and what is no address."""

import pytest

from penstock.pipeline.server_address import ServerAddress, server_address


@pytest.mark.parametrize(
    ("text", "place", "said"),
    [
        ("sc://spark", "sc://spark:15002", ()),
        ("sc://spark/", "sc://spark:15002", ()),
        ("sc://spark/;", "sc://spark:15002", ()),
        (" sc://spark:1 ", "sc://spark:1", ()),
        ("sc://SPARK:65535", "sc://spark:65535", ()),
        ("sc://[::1]:7", "sc://[::1]:7", ()),
        ("sc://[::1]", "sc://[::1]:15002", ()),
        ("sc://a:1/;token=x", "sc://a:1", (("token", "x"),)),
        ("sc://a:1/;b=;c=1=2".replace("1=2", "1%3D2"), "sc://a:1", (("b", ""), ("c", "1%3D2"))),
        ("sc://a:1/;;use_ssl=true;;user_id=ada;", "sc://a:1", (("use_ssl", "true"), ("user_id", "ada"))),
    ],
)
def test_an_address_is_a_place_and_what_is_said_behind_it(
    text: str, place: str, said: tuple[tuple[str, str], ...]
) -> None:
    found = server_address(text)
    assert found == ServerAddress(place, said)
    assert str(found) == (f"{place}/;{';'.join(f'{key}={value}' for key, value in said)}" if said else place)
    assert server_address(str(found)) == found


@pytest.mark.parametrize(
    "text",
    ["", "spark", "http://spark", "sc://", "sc://:1", "sc://a:0", "sc://a:", "sc://a:x", "sc://a:65536", "sc://[::1",
     "sc://a b", "sc://a/x", "sc://a?b=c", "sc://a#b", "sc://a@b", "sc://a;b=c", "sc://a/;b=c/d", "sc://a/;b=c?d"],
)  # fmt: skip
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(ValueError, match=r"^what is given is no address of a server of Spark Connect: say sc://host:p"):
        server_address(text)


@pytest.mark.parametrize("said", ["token", "=x", "a=b=c", "a=1;token", "token;a=1"])
def test_what_is_behind_it_is_told_to_nobody(said: str) -> None:
    with pytest.raises(ValueError, match=r"^what is behind sc://a is not as Spark takes it: ") as raised:
        server_address(f"sc://a:1/;{said}")
    assert "token" not in str(raised.value)


def test_what_may_be_written_down_has_no_secret() -> None:
    address = server_address("sc://a:1/;token=x;use_ssl=true;session_id=1;user_id=ada")
    assert str(address.public) == "sc://a:1/;use_ssl=true;user_id=ada"
    assert (address.user, server_address("sc://a").user) == ("ada", None)


def test_something_else_may_be_said() -> None:
    address = server_address("sc://a:1/;user_id=ada;token=x")
    assert str(address.saying("user_id", "bob")) == "sc://a:1/;token=x;user_id=bob"
    assert str(address.saying("user_id", None)) == "sc://a:1/;token=x"
    assert str(address.saying("new", "1")) == "sc://a:1/;user_id=ada;token=x;new=1"
    assert str(address.saying("new", None)) == str(address)
