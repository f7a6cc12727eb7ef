from collections.abc import Callable, Iterable

import pytest
from tests.golden.controller_script import ControllerScript

Transcript = Callable[[str, Callable[[str], Iterable[object]]], None]


@pytest.mark.parametrize(
    "lecture", ["topics", "partitions", "racks", "configs", "brokers", "leaders", "balance", "moves", "groups", "drawn"]
)
def test_the_controller(lecture: str, transcript: Transcript) -> None:
    transcript(f"controller_{lecture}.txt", ControllerScript().handle)
