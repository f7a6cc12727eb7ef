import pytest
from examples.raft_kv.__main__ import main
from tests.unit.raft_kv.conftest import NewAddress


def test_nobody_there(capsys: pytest.CaptureFixture[str], new_address: NewAddress) -> None:
    address = str(new_address(1).address)
    assert main(["client", address, "key", "value", "--timeout", "0.1"]) == 1
    shown = capsys.readouterr()
    assert shown.err == "error: no leader answered within 0.1 s, the last try: connection refused\n"
    assert shown.out == ""


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["server", "localhost:16010", "localhost:16010:1"], "'localhost:16010' is no server: write host:port:id"),
        (["client", "localhost:x", "key"], "'x' is no port"),
        (["admin", "localhost:16010", "add-peers", "a:1:1,a:2:1"], "names an id twice"),
        (["admin", "localhost:16010"], "the following arguments are required: ACTION"),
        ([], "the following arguments are required: COMMAND"),
    ],
)
def test_what_cannot_be_understood(arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert complaint in capsys.readouterr().err


def test_a_directory_that_cannot_be_made(capsys: pytest.CaptureFixture[str], new_address: NewAddress) -> None:
    me = str(new_address(1))
    assert main(["server", me, me, "--data-dir", "/dev/null/here"]) == 1
    assert capsys.readouterr().err.startswith("error: ")
