"""A function in a process of its own."""

import math

import pytest
from bench.child import Child


def test_a_child_returns_what_its_function_returned() -> None:
    assert Child(math.dist, (0.0, 0.0), (3.0, 4.0)).result() == 5.0


def test_a_child_that_fails_says_why() -> None:
    with pytest.raises(RuntimeError, match=r"math\.sqrt failed: (?s:.*)ValueError"):
        Child(math.sqrt, -1.0).result()
