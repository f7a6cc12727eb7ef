"""Which loop a node runs on, and that it does without uvloop."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import uvloop

from penstock.node.environment.event_loop import loop_ms, new_event_loop, steady_clock

WITHOUT = Path(__file__).parents[3] / "without_uvloop"
PROGRAM = """
from penstock.node.environment.event_loop import new_event_loop
from penstock.testing import Cluster
loop = new_event_loop()
loop.close()
with Cluster() as cluster:
    print(type(loop).__module__, cluster.bootstrap_servers)
"""


def test_a_node_runs_on_uvloop_where_it_is() -> None:
    loop = new_event_loop()
    loop.close()
    assert isinstance(loop, uvloop.Loop)


def test_a_node_runs_on_asyncios_own_loop_elsewhere() -> None:
    environment = {**os.environ, "PYTHONPATH": str(WITHOUT)}
    said = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True)
    assert said.stdout.startswith("asyncio.")


@pytest.mark.parametrize("now_ms", [0, 1, 1001, 4_142_135])
def test_a_whole_millisecond_is_read_back_as_itself(now_ms: int) -> None:
    class Loop(uvloop.Loop):
        def time(self) -> float:
            return now_ms / 1000

    loop = Loop()
    loop.close()
    assert loop_ms(loop) == now_ms


@pytest.mark.parametrize("elapsed_s", [0.0, 50.0])
async def test_a_steady_clock_begins_with_the_wall_clock_and_goes_on_by_what_it_is_given(elapsed_s: float) -> None:
    now_ms = steady_clock(lambda: 1_700_000_000_000, lambda: elapsed_s)
    assert now_ms() == 1_700_000_000_000
    elapsed_s += 3600
    assert now_ms() == 1_700_003_600_000
