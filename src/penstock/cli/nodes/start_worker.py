"""`penstock start --worker`: a Connect worker in the process of a node, for a look; an installation has its own."""

import asyncio

from penstock.cli.nodes.start_console import reachable
from penstock.cli.terminal.lines import say


def worker_config(broker: tuple[str, int], port: int) -> dict[str, str]:
    """This node is the worker's cluster, and its REST interface listens on the loopback address."""
    stores = ("config", "offset", "status")
    return {
        "bootstrap.servers": reachable(*broker),
        "group.id": "connect",
        **{f"{store}.storage.topic": f"connect-{store}" for store in stores},
        **{f"{store}.storage.replication.factor": "-1" for store in stores},
        "listeners": f"http://127.0.0.1:{port}",
    }


async def run_beside(broker: tuple[str, int], port: int) -> None:
    """Until this is cancelled. Without a worker says why: the node runs on."""
    try:
        from penstock.work.connect.distributed.worker import DistributedWorker
        from penstock.work.connect.rest.running import RunningWorker

        async with RunningWorker(DistributedWorker, worker_config(broker, port)) as running:
            say(f"  worker      {running.server.urls[0]} (`penstock connect`)")
            await asyncio.Event().wait()
    except ModuleNotFoundError as error:
        say(f"there is no worker: {error}: pip install 'penstock[work]'", err=True)
    except Exception as error:
        say(f"there is no worker: {error}", err=True)
