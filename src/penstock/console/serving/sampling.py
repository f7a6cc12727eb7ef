"""Takes the samples of the last hour: more often while a page is open."""

import asyncio
import logging
import time
from contextlib import suppress
from typing import Final

from penstock.console.serving.live import Live
from penstock.console.views.cluster import COUNTED
from penstock.console.views.groups import lag_name
from penstock.console.watched import REFUSALS, WatchedCluster

WATCHED_S: Final = 5.0
UNWATCHED_S: Final = 60.0
logger = logging.getLogger(__name__)


async def keep_sampling(watched: WatchedCluster, live: Live, unwatched_s: float = UNWATCHED_S) -> None:
    """Until it is cancelled. With `unwatched_s` 0 nothing is asked while no page is open."""
    last_s = -unwatched_s
    while True:
        now_s = time.monotonic()
        is_due = live.is_watched or (unwatched_s > 0 and now_s - last_s >= unwatched_s)
        if is_due:
            last_s = now_s
            try:
                async with asyncio.timeout(unwatched_s or UNWATCHED_S):
                    watched.samples.take(time.time(), await _sample(watched))
            except TimeoutError:
                logger.warning("the figures of this minute could not be had in time")
            except Exception:
                logger.exception("the figures of this minute could not be had")
        await asyncio.sleep(WATCHED_S)


async def _sample(watched: WatchedCluster) -> dict[str, float]:
    found: dict[str, float] = {}
    with suppress(*REFUSALS):
        for metrics in (await watched.metrics()).values():
            for name, key in COUNTED.items():
                if metrics and key in metrics:
                    found[name] = found.get(name, 0.0) + float(metrics[key])
    with suppress(*REFUSALS):
        for group, rows in (await watched.lags()).items():
            found[lag_name(group)] = float(sum(rows.values()))
    return found
