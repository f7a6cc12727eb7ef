"""Has the cluster looked at now and then, so that there is an hour to show: more often while a page is open."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from penstock.console.serving.live import Live
from penstock.console.watched import REFUSALS, WatchedCluster

WATCHED_S: Final = 5.0
UNWATCHED_S: Final = 60.0
Look = Callable[[], Awaitable[Any]]
logger = logging.getLogger(__name__)


async def keep_sampling(watched: WatchedCluster, live: Live, unwatched_s: float = UNWATCHED_S) -> None:
    """Until it is cancelled. With `unwatched_s` 0 nothing is asked while no page is open; else all topics are looked at
    as well to begin with, which takes a while where there are very many: the first page then need not wait for them.
    """
    last_s = -unwatched_s
    looks: list[Look] = [watched.first_topics, watched.topics] if unwatched_s else []
    while True:
        now_s = time.monotonic()
        if live.is_watched or (unwatched_s > 0 and now_s - last_s >= unwatched_s):
            last_s = now_s
            await _look([*looks, watched.metrics, watched.lags])
            looks.clear()
        await asyncio.sleep(WATCHED_S)


async def _look(looks: Sequence[Look]) -> None:
    for look in looks:
        try:
            await look()
        except REFUSALS:
            pass  # a page that is open says so
        except Exception:
            logger.exception("the figures of this minute could not be had")
