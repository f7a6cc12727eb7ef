"""Seeds of which some run in each test run, and all in a soak."""

from collections.abc import Iterable

import pytest


def soaked_after(always: int, seeds: Iterable[object]) -> list[object]:
    """Parameters of which the first `always` run with `make test`, and the others with `make soak` alone."""
    each = [seed if isinstance(seed, tuple) else (seed,) for seed in seeds]
    return [
        pytest.param(*seed, marks=[pytest.mark.soak] if number >= always else []) for number, seed in enumerate(each)
    ]
