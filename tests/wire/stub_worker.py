"""A worker's REST interface as far as the console asks it: what runs, and what tasks report."""

from collections.abc import Callable, Mapping
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer

PIPELINE = "penstock.pipeline"


def stub_worker(
    tasks: Mapping[str, int], report: Callable[[str], Any], plugin: str = PIPELINE, trace: str = ""
) -> TestServer:
    """It runs these connectors with so many tasks; each task reports the same. With `trace` the tasks have failed."""

    def status(count: int) -> dict[str, Any]:
        state = {"state": "FAILED" if trace else "RUNNING", "worker_id": "w:1", "trace": trace}
        return {
            "connector": {"state": "RUNNING", "worker_id": "w:1"},
            "tasks": [{"id": number, **state} for number in range(count)],
            "type": "source",
        }

    async def connectors(_: web.Request) -> web.Response:
        config = {"connector.class": plugin, "password": "s3cret"}
        return web.json_response(
            {name: {"info": {"config": config}, "status": status(count)} for name, count in tasks.items()}
        )

    async def answer(request: web.Request) -> web.Response:
        return web.json_response(report(request.match_info["name"]))

    app = web.Application()
    app.router.add_get("/connectors", connectors)
    app.router.add_get("/connectors/{name}/tasks/{number}/report", answer)
    return TestServer(app)
