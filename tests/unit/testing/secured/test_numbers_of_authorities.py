"""Which number a new authority has."""

import datetime as dt
from pathlib import Path

from penstock.testing.secured.authorities import Authorities


def test_a_new_authority_is_behind_all_others(tmp_path: Path) -> None:
    authorities = Authorities(tmp_path, dt.datetime(2026, 1, 1, tzinfo=dt.UTC))
    assert [authorities.add() for _ in range(3)] == [1, 2, 3]
    assert authorities.numbers == [1, 2, 3]
