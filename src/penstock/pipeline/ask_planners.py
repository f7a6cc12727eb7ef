"""Instead of a planner of Spark's: asks `warm_planners` for one, and ends when that one is connected with Spark.

A program of its own that needs Python's library only, as it is started for each stream. Where nobody answers it becomes
the planner itself.
"""

import json
import os
import socket
import sys

RUNNER = "pyspark.sql.streaming.python_streaming_source_runner"
PLACE = "PENSTOCK_PLANNERS"
"""The variable that names the socket."""


def has_asked(place: str) -> bool:
    """Whether somebody answers there: then a planner is connected with this process' environment and output, or could
    not be, as this one could not.
    """
    try:
        with socket.socket(socket.AF_UNIX) as planners:
            planners.connect(place)
            socket.send_fds(planners, [b"\0"], [1, 2])
            planners.sendall(json.dumps(dict(os.environ)).encode())
            planners.shutdown(socket.SHUT_WR)
            planners.recv(1)
            return True
    except OSError:
        return False


if __name__ == "__main__" and not has_asked(os.environ.pop(PLACE)):
    os.execv(sys.executable, [sys.executable, "-m", RUNNER])
