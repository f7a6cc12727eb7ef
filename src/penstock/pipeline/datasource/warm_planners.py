"""Planners of streams, forked from a process that has imported all: `python -m …datasource.warm_planners PLACE`.

Spark starts a Python for each stream that it reads, of 60 MB. Where many run side by side it starts `ask_planners`
instead, which asks here, at a socket: what a planner has not changed it shares with the others. With the reader come
pyarrow, whose allocator has a thread that knows of forks, and numpy, which the driver tells to have no threads.

Nothing is read before the fork: who asks and says nothing keeps nobody waiting.
"""

import gc
import json
import os
import signal
import socket
import sys
import traceback
from importlib import import_module
from typing import Final

import numpy as np
from pyspark.worker_util import get_sock_file_to_executor

from penstock.pipeline.arrow.decode import decode_chunk
from penstock.pipeline.arrow.record_spans import Chunk
from penstock.pipeline.ask_planners import RUNNER
from penstock.pipeline.warm_workers import READER

BEFORE_THE_FORK: Final = (RUNNER, READER)
WAITING: Final = 128
SPAN_COLUMNS: Final = 8


def load_all() -> None:
    """Compiled code as well, which a planner needs that reads the rows of small batches."""
    for name in BEFORE_THE_FORK:
        import_module(name)
    decode_chunk(Chunk(memoryview(b""), np.empty((0, SPAN_COLUMNS), np.int64)), 0, 0, include_headers=True)


def serve(place: str) -> None:
    """For ever: it ends with the process group of its driver."""
    load_all()
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(place)
        listener.listen(WAITING)
        while True:
            asked, _ = listener.accept()
            if os.fork() == 0:
                listener.close()
                plan_and_end(asked)
            asked.close()


def plan_and_end(asked: socket.socket) -> None:
    """As the process that asks would, with its environment and its output; never returns."""
    code = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        _, outputs, _, _ = socket.recv_fds(asked, 1, 2)
        for descriptor, own in zip((os.open(os.devnull, os.O_RDONLY), *outputs), (0, 1, 2), strict=True):
            os.dup2(descriptor, own)
            os.close(descriptor)
        with asked.makefile("rb") as said:
            variables = json.loads(said.read())
        os.environ.clear()
        os.environ.update(variables)
        with get_sock_file_to_executor(timeout=None) as spark:
            asked.sendall(b"\0")
            asked.close()
            import_module(RUNNER).main(spark, spark)
        code = 0
    except SystemExit as error:
        code = int(error.code or 0)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    serve(sys.argv[1])
