"""What options of `penstock balance` say."""

import click
import pytest

from penstock.cli.replicas.balance import capacities_in


def test_capacities_are_read() -> None:
    assert capacities_in("4=2, 5=0.5", (4, 5)) == {4: 2.0, 5: 0.5}


@pytest.mark.parametrize("wrong", ["4", "4=", "4=0", "4=0.0", "4=-1", "4=nan", "x=1", "4=1,", "4=1;5=1"])
def test_what_is_no_capacity_is_refused(wrong: str) -> None:
    with pytest.raises(click.UsageError, match="no broker with a number above 0, such as 4=2"):
        capacities_in(wrong, (4, 5))


def test_a_broker_that_is_not_there_has_none() -> None:
    with pytest.raises(click.ClickException, match="there is no broker 9"):
        capacities_in("9=1", (4, 5))
