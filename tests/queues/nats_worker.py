"""Works with nats-py: a pull consumer of a work queue on disk. The last acknowledgement of what it took is confirmed,
and with it those before.
"""

import asyncio
import time

import nats  # type: ignore[import-not-found]
from nats.errors import TimeoutError as NothingError  # type: ignore[import-not-found]
from nats.js import JetStreamContext  # type: ignore[import-not-found]
from nats.js.api import ConsumerConfig, RetentionPolicy, StorageType  # type: ignore[import-not-found]
from tests.queues.working import asked, at_a_rate, job, late_ms, say, tell_late

QUEUE, AT_ONCE, POLL_S, LIMIT_S = "jobs", 500, 1.0, 60.0


async def work(jobs: JetStreamContext.PullSubscription, count: int) -> list[float]:
    late: list[float] = []
    while len(late) < count:
        try:
            messages = await jobs.fetch(min(AT_ONCE, count - len(late)), timeout=POLL_S)
        except NothingError:
            continue
        for message in messages[:-1]:
            late.append(late_ms(message.data))
            await message.ack()
        late.append(late_ms(messages[-1].data))
        await messages[-1].ack_sync(timeout=LIMIT_S)
    return late


async def work_at_once(jobs: JetStreamContext.PullSubscription, count: int) -> list[float]:
    """Each when it comes: a pull for several waits until there are so many."""
    late: list[float] = []
    while len(late) < count:
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


async def main() -> None:
    address, jobs, rate, seconds = asked()
    client = await nats.connect(f"nats://{address}")
    stream = client.jetstream(timeout=LIMIT_S)
    await stream.add_stream(
        name=QUEUE, subjects=[QUEUE], retention=RetentionPolicy.WORK_QUEUE, storage=StorageType.FILE
    )
    for begin in range(0, jobs, AT_ONCE):
        await asyncio.gather(*(stream.publish(QUEUE, job()) for _ in range(min(AT_ONCE, jobs - begin))))
    waiting = await stream.pull_subscribe(QUEUE, QUEUE, config=ConsumerConfig(max_ack_pending=2 * AT_ONCE))
    say("filled", jobs)
    begun = time.perf_counter()
    await work(waiting, jobs)
    say("drained", time.perf_counter() - begun)
    sending = asyncio.create_task(send(stream, rate, seconds))
    tell_late(await work_at_once(waiting, rate * seconds))
    await sending
    await client.close()


if __name__ == "__main__":
    asyncio.run(main())
