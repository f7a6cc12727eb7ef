"""Works with nats-py: a pull consumer of a work queue on disk. The last acknowledgement of what it took is confirmed,
and with it those before.
"""

import asyncio
import time

import nats  # type: ignore[import-not-found]
from nats.errors import TimeoutError as NothingError  # type: ignore[import-not-found]
from nats.js import JetStreamContext  # type: ignore[import-not-found]
from nats.js.api import ConsumerConfig, RetentionPolicy, StorageType  # type: ignore[import-not-found]
from tests.queues.working import Limit, asked, at_a_rate, job, late_ms, say, say_drained, say_late

QUEUE, AT_ONCE, POLL_S, LIMIT_S = "jobs", 500, 1.0, 60.0


async def work(jobs: JetStreamContext.PullSubscription, count: int, limit_s: float) -> int:
    done, limit = 0, Limit(limit_s)
    while done < count and limit.left_s:
        try:
            messages = await jobs.fetch(min(AT_ONCE, count - done), timeout=POLL_S)
        except NothingError:
            continue
        for message in messages[:-1]:
            await message.ack()
        await messages[-1].ack_sync(timeout=LIMIT_S)
        done += len(messages)
    return done


async def work_at_once(jobs: JetStreamContext.PullSubscription, count: int, limit_s: float) -> list[float]:
    """Each when it comes: a pull for several waits until there are so many."""
    late: list[float] = []
    limit = Limit(limit_s)
    while len(late) < count and limit.left_s:
        try:
            (message,) = await jobs.fetch(1, timeout=POLL_S)
        except NothingError:
            continue
        late.append(late_ms(message.data))
        await message.ack()
    return late


async def send(stream: JetStreamContext, rate: int, seconds: int) -> None:
    async with asyncio.TaskGroup() as tasks:
        for wait_s in at_a_rate(rate, seconds):
            await asyncio.sleep(wait_s)
            tasks.create_task(stream.publish(QUEUE, job()))


async def fill(stream: JetStreamContext, jobs: int, limit_s: float) -> int:
    """How many are acknowledged."""
    filled, limit = 0, Limit(limit_s)
    while filled < jobs and limit.left_s:
        some = min(AT_ONCE, jobs - filled)
        await asyncio.gather(*(stream.publish(QUEUE, job()) for _ in range(some)))
        filled += some
    return filled


async def main() -> None:
    address, jobs, rate, seconds, limit_s = asked()
    client = await nats.connect(f"nats://{address}")
    stream = client.jetstream(timeout=LIMIT_S)
    await stream.add_stream(
        name=QUEUE, subjects=[QUEUE], retention=RetentionPolicy.WORK_QUEUE, storage=StorageType.FILE
    )
    waiting = await stream.pull_subscribe(QUEUE, QUEUE, config=ConsumerConfig(max_ack_pending=2 * AT_ONCE))
    sending = asyncio.create_task(send(stream, rate, seconds))
    late = await work_at_once(waiting, rate * seconds, seconds + limit_s)
    await sending
    say_late(late, rate * seconds)
    filled = await fill(stream, jobs, limit_s)
    say("filled", filled)
    begun = time.perf_counter()
    done = await work(waiting, filled, limit_s)
    say_drained(done, time.perf_counter() - begun)
    await client.close()


if __name__ == "__main__":
    asyncio.run(main())
