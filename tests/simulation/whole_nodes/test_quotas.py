"""A whole node on virtual time holds greedy clients to their quotas, and nobody else notices."""

from __future__ import annotations

import asyncio

import pytest
from tests.simulation.whole_nodes.quota_world import (
    EXCEEDED,
    PIECE,
    RATE,
    SOON_S,
    World,
    create,
    fetch,
    in_world,
    produce,
    records_in,
    told,
)

from penstock.client.admin import Admin
from penstock.client.errors import ConnectionFailedError
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from penstock.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from penstock.protocol.requests.own_apis import DescribeMetricsRequest, DescribeMetricsResponse


@pytest.mark.parametrize("in_flight", [1, 5])
def test_a_producer_gets_its_rate_and_its_neighbour_all(in_flight: int) -> None:
    async def live(world: World) -> None:
        await world.alter({"client-id": "greedy"}, producer_byte_rate=RATE)
        greedy, neighbour = await world.connect("greedy"), await world.connect("neighbour")
        begun_s = world.loop.time()
        taken, slowest_s = 0, 0.0

        async def take() -> None:
            nonlocal taken
            while world.loop.time() < begun_s + 30:
                answer = await produce(greedy)
                assert answer.responses[0].partition_responses[0].error_code == 0
                taken += PIECE

        async def live_beside() -> None:
            nonlocal slowest_s
            while world.loop.time() < begun_s + 30:
                took_s, answer = await world.timed(produce(neighbour))
                assert answer.throttle_time_ms == 0
                slowest_s = max(slowest_s, took_s)
                await asyncio.sleep(0.2)

        async with asyncio.TaskGroup() as tasks:
            for _ in range(in_flight):
                tasks.create_task(take())
            tasks.create_task(live_beside())
        assert taken == pytest.approx(30 * RATE, rel=0.05)
        assert slowest_s < SOON_S

    in_world(live)


def test_the_answer_comes_at_once_and_then_nothing_until_the_time_that_it_tells() -> None:
    async def live(world: World) -> None:
        await world.alter({"client-id": "greedy"}, producer_byte_rate=RATE)
        client = await world.connect("greedy")
        took_s, answer = await world.timed(produce(client, 400_000))
        assert took_s < SOON_S
        assert answer.throttle_time_ms == pytest.approx(3000, rel=0.05)
        took_s, answer = await world.timed(produce(client, 1))
        assert took_s == pytest.approx(3, abs=SOON_S)

        other = await world.connect("greedy")
        took_s, answer = await world.timed(produce(other, 200_000))
        assert took_s < SOON_S, "another connection is heard"
        assert answer.throttle_time_ms > 1000, "and owes what all of this client owe"

    in_world(live)


def test_a_consumer_gets_its_rate_and_its_session_goes_on_through_empty_answers() -> None:
    async def live(world: World) -> None:
        producer = await world.connect("producer")
        for _ in range(80):
            await produce(producer, 10_000)
        await world.alter({"client-id": "greedy"}, consumer_byte_rate=RATE)
        client = await world.connect("greedy")
        begun_s, answer = world.loop.time(), await fetch(client, session=(0, 0))
        session_id, epoch, taken, throttled = answer.session_id, 0, records_in(answer), 0
        assert session_id > 0
        offset = taken // 10_000
        while world.loop.time() < begun_s + 30:
            epoch += 1
            took_s, answer = await world.timed(fetch(client, offset % 80, session=(session_id, epoch)))
            assert (answer.error_code, answer.session_id) == (0, session_id)
            if answer.throttle_time_ms:
                throttled += 1
                assert took_s < SOON_S
                assert records_in(answer) == 0
            taken += records_in(answer)
            offset += records_in(answer) // 10_000
        assert throttled > 2
        assert taken == pytest.approx(30 * RATE, rel=0.05)

    in_world(live)


def test_a_full_fetch_that_is_throttled_begins_no_session() -> None:
    async def live(world: World) -> None:
        await produce(await world.connect("producer"), 300_000)
        await world.alter({"client-id": "greedy"}, consumer_byte_rate=RATE)
        client = await world.connect("greedy")
        first = await fetch(client, session=(0, 0))
        assert (records_in(first) > 300_000, first.throttle_time_ms) == (True, 0)
        second = await fetch(client, session=(0, 0))
        assert (records_in(second), second.session_id, second.error_code) == (0, 0, 0)
        assert second.throttle_time_ms > 1500
        broker = world.machine.serving
        assert broker is not None
        assert len(broker.fetch_sessions) == 1, "that of the first one"

    in_world(live)


def test_followers_are_not_held_back() -> None:
    async def live(world: World) -> None:
        await produce(await world.connect("producer"), 300_000)
        await world.alter({"user": None}, consumer_byte_rate=1)
        follower = await world.connect("follower")
        for _ in range(3):
            took_s, answer = await world.timed(fetch(follower, replica_id=7))
            assert answer.throttle_time_ms == 0
            assert took_s < SOON_S

    in_world(live)


def test_a_quota_that_is_removed_holds_no_longer_and_nothing_is_left_at_work() -> None:
    async def live(world: World) -> None:
        node = world.machine.node
        assert node is not None
        throttling = node.parts.throttling
        assert not throttling.is_loaded
        await world.alter({"user": "ANONYMOUS"}, producer_byte_rate=RATE)
        assert throttling.active is not None
        assert (await produce(await world.connect("c"), 400_000)).throttle_time_ms > 2900
        await world.alter({"user": "ANONYMOUS"}, producer_byte_rate=None)
        assert throttling.active is None
        assert (await produce(await world.connect("c"), 400_000)).throttle_time_ms == 0

    in_world(live)


def test_quotas_hold_after_a_restart() -> None:
    async def live(world: World) -> None:
        await world.alter({"user": None, "client-id": "c"}, producer_byte_rate=RATE)
        world.machine.crash(power_lost=False)
        await world.machine.start()
        assert (await produce(await world.connect("c"), 400_000)).throttle_time_ms > 2900

    in_world(live)


def test_mutations_are_refused_topic_by_topic_while_the_client_owes() -> None:
    async def live(world: World) -> None:
        await world.alter({"user": None}, controller_mutation_rate=2)
        client = await world.connect("maker")
        took_s, answer = await world.timed(create(client, 7, a=22, b=30, c=1))
        assert took_s < SOON_S
        assert told(answer.topics) == {"a": 0, "b": 0, "c": EXCEEDED}
        assert answer.throttle_time_ms == pytest.approx(15_000, abs=100)

        took_s, answer = await world.timed(create(client, 7, c=1))
        assert took_s == pytest.approx(15, abs=SOON_S), "the connection was muted"
        assert (told(answer.topics), answer.throttle_time_ms) == ({"c": 0}, 0)

        more = CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="c", count=5)])
        grown = await client.submit(more, CreatePartitionsResponse)
        assert told(grown.results) == {"c": EXCEEDED}
        await asyncio.sleep(1)
        assert told((await client.submit(more, CreatePartitionsResponse)).results) == {"c": 0}
        gone = DeleteTopicsRequest(topics=[DeleteTopicState(name="a")])
        deleted = await client.submit(gone, DeleteTopicsResponse)
        assert [(one.name, one.error_code) for one in deleted.responses] == [("a", EXCEEDED)]
        await asyncio.sleep(3)
        assert (await client.submit(gone, DeleteTopicsResponse)).responses[0].error_code == 0

    in_world(live)


def test_what_fails_for_another_reason_is_given_back() -> None:
    async def live(world: World) -> None:
        await world.alter({"user": None}, controller_mutation_rate=1)
        client = await world.connect("maker")
        for _ in range(3):
            assert told((await create(client, 7, t=20)).topics) == {"t": ErrorCode.TOPIC_ALREADY_EXISTS}
            assert told((await create(client, 7, a=0)).topics) == {"a": ErrorCode.INVALID_PARTITIONS}
        assert told((await create(client, 7, a=10, b=1)).topics) == {"a": 0, "b": 0}

    in_world(live)


def test_an_older_client_is_obeyed_and_waits() -> None:
    async def live(world: World) -> None:
        await world.alter({"user": None}, controller_mutation_rate=1)
        client = await world.connect("maker")
        answer = await create(client, 5, a=20, b=1)
        assert told(answer.topics) == {"a": 0, "b": 0}
        assert answer.throttle_time_ms == pytest.approx(10_000, abs=100)
        took_s, _ = await world.timed(produce(client, 1))
        assert took_s == pytest.approx(10, abs=SOON_S)

    in_world(live)


def test_connections_that_come_too_fast_are_heard_when_their_turn_comes() -> None:
    async def live(world: World) -> None:
        await asyncio.sleep(10)
        begun_s = world.loop.time()
        heard_s = []
        for number in range(6):
            await world.connect(f"client {number}")
            heard_s.append(world.loop.time() - begun_s)
        assert heard_s == pytest.approx([0, 0, 0.5, 1, 1.5, 2], abs=SOON_S)

    in_world(live, max_connection_creation_rate="2")


def test_a_listener_has_a_rate_of_its_own() -> None:
    async def live(world: World) -> None:
        await asyncio.sleep(10)
        begun_s = world.loop.time()
        for _ in range(3):
            await world.connect("client")
        assert world.loop.time() - begun_s == pytest.approx(2, abs=SOON_S)

    in_world(live, listener_name_plaintext_max_connection_creation_rate="1")


def test_who_comes_and_goes_keeps_nobody_waiting() -> None:
    async def live(world: World) -> None:
        await asyncio.sleep(10)
        flood = [asyncio.ensure_future(world.connect("client")) for _ in range(50)]
        await asyncio.sleep(0.1)
        for one in flood:
            one.cancel()
        await asyncio.gather(*flood, return_exceptions=True)
        await asyncio.sleep(1)
        begun_s = world.loop.time()
        await world.connect("client")
        assert world.loop.time() - begun_s == pytest.approx(0, abs=1 + SOON_S)

    in_world(live, max_connection_creation_rate="2")


def test_too_many_connections_from_one_address_are_refused() -> None:
    async def live(world: World) -> None:
        await world.alter({"ip": None}, connection_creation_rate=2)
        for _ in range(3):
            await world.connect("client")
        with pytest.raises(ConnectionFailedError):
            await world.connect("client")
        await asyncio.sleep(0.6)
        await world.connect("client")
        with pytest.raises(ConnectionFailedError):
            await world.connect("client")

    in_world(live)


def test_a_listener_has_a_limit_of_its_own() -> None:
    async def live(world: World) -> None:
        found = [await world.connect("client") for _ in range(3)]
        with pytest.raises(ConnectionFailedError):
            await world.connect("client")
        await found[0].close()
        await asyncio.sleep(1)
        await world.connect("client")

    in_world(live, listener_name_plaintext_max_connections="3")


def test_figures_are_told_once_there_are_quotas() -> None:
    async def live(world: World) -> None:
        async def figures() -> dict[str, str]:
            async with Admin(world.machine.address, world.settings("admin")) as admin:
                rows = await admin.cluster.to_any(DescribeMetricsRequest(), DescribeMetricsResponse)
                kinds = ("Produce", "Fetch", "ControllerMutation", "Request")
                return {f"{row.group} {row.name}": row.value for row in rows.metrics if row.group in kinds}

        assert await figures() == {}
        await world.alter({"user": None, "client-id": "c"}, producer_byte_rate=RATE, controller_mutation_rate=1)
        client = await world.connect("c")
        await produce(client, 200_000)
        await create(await world.connect("c"), 5, a=12)
        found = await figures()
        assert int(found.pop("Produce user-ANONYMOUS.client-id-c.byte-total")) == pytest.approx(200_000, rel=0.01)
        throttled_ms = int(found.pop("Produce user-ANONYMOUS.client-id-c.throttle-time-total"))
        assert throttled_ms == pytest.approx(1000, rel=0.05)
        throttled_ms = int(found.pop("ControllerMutation user-ANONYMOUS.client-id-c.throttle-time-total"))
        assert throttled_ms == pytest.approx(1000, rel=0.05)
        assert found == {"ControllerMutation user-ANONYMOUS.client-id-c.mutation-total": "12"}
        await world.alter({"user": None, "client-id": "c"}, producer_byte_rate=None, controller_mutation_rate=None)
        await world.alter({"user": None, "client-id": "c"}, producer_byte_rate=RATE)
        assert "Produce user-ANONYMOUS.client-id-c.byte-total" in await figures(), "they go on"

    in_world(live)
