"""The HTTP sink against a web server: what is sent, sent again, split and refused."""

import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from penstock.client.values import TopicPartition
from penstock.work.connect.api import RetriableError, SinkContext, SinkRecord
from penstock.work.connect.built_in.http_sink import HttpSinkConnector, HttpSinkTask
from penstock.work.connect.config import ConfigError


class Receiver:
    """A web server: `answers` are the next statuses, then 200; a body with `poison` in it is a bad request."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self.headers: list[dict[str, str]] = []
        self.answers: list[int] = []
        self.retry_after = ""
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._answer)
        self.server = TestServer(app)

    async def _answer(self, request: web.Request) -> web.Response:
        body = await request.text()
        self.asked.append((f"{request.method} {request.raw_path}", body))
        self.headers.append(dict(request.headers))
        status = self.answers.pop(0) if self.answers else 400 if "poison" in body else 200
        headers = {"Location": "/elsewhere"} if status == 302 else {"Retry-After": self.retry_after}
        return web.Response(status=status, text=f"answer {status}", headers=headers)

    @property
    def url(self) -> str:
        return str(self.server.make_url("/in"))

    @property
    def bodies(self) -> list[str]:
        return [body for _, body in self.asked]


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    receiver = Receiver()
    await receiver.server.start_server()
    yield receiver
    await receiver.server.close()


@pytest.fixture
async def sink(receiver: Receiver) -> AsyncIterator["Sink"]:
    sink = Sink(receiver)
    yield sink
    await sink.task.stop()


class Sink:
    """A task by hand."""

    def __init__(self, receiver: Receiver) -> None:
        self.receiver = receiver
        self.context = SinkContext()
        self.task = HttpSinkTask()

    async def start(self, **more: str) -> "Sink":
        named = {key.replace("_", "."): value for key, value in more.items()}
        await self.task.start({"http.url": self.receiver.url, "batch.max.size": "4"} | named, self.context)
        return self

    def refused(self) -> list[int]:
        return [record.offset for record, _ in self.context.reported]


def records(*values: Any) -> Sequence[SinkRecord]:
    return [SinkRecord("t", 0, f"k/{number}", value, offset=number) for number, value in enumerate(values)]


async def test_each_record_is_a_request(sink: Sink) -> None:
    more = {"http_headers_additional": "x-one: 1, x-two:2:3", "http_headers_content_type": "text/plain"}
    await sink.start(**more, http_method="PUT", http_authorization_type="static", http_headers_authorization="Bearer b")
    await sink.task.put(records({"n": 1, "b": b"\x01"}, "text", b"bytes", None))
    assert sink.receiver.asked == [("PUT /in", body) for body in ('{"n":1,"b":"AQ=="}', "text", "bytes", "null")]
    sent = sink.receiver.headers[0]
    assert [sent[name] for name in ("x-one", "x-two", "Content-Type", "Authorization")] == [
        "1", "2:3", "text/plain", "Bearer b",
    ]  # fmt: skip


async def test_batches_and_what_stands_in_the_url(sink: Sink) -> None:
    url = sink.receiver.url
    await sink.start(http_url=f"{url}/${{topic}}", batching_enabled="true", http_authorization_type="basic",
                     http_authorization_user="me", http_authorization_password="secret")  # fmt: skip
    await sink.task.put([*records(*range(5)), *(one.replace(topic="two/") for one in records("6"))])
    assert sink.receiver.asked == [
        ("POST /in/t", "[0,1,2,3]"),
        ("POST /in/t", "[4]"),
        ("POST /in/two%2F", "[6]"),
    ]
    assert sink.receiver.headers[0]["Authorization"] == "Basic bWU6c2VjcmV0"


async def test_keys_in_the_url(sink: Sink) -> None:
    await sink.start(http_url=f"{sink.receiver.url}/${{key}}", http_method="PUT")
    await sink.task.put(records(1, 2))
    assert sink.receiver.asked == [("PUT /in/k%2F0", "1"), ("PUT /in/k%2F1", "2")]


@pytest.mark.parametrize("status", [429, 500, 503, 408])
async def test_later_means_later_and_what_was_taken_is_not_sent_again(sink: Sink, status: int) -> None:
    await sink.start(batching_enabled="true", retry_backoff_ms="100")
    sink.receiver.answers = [200, status, status]
    some, pauses = records(*range(6)), []
    for _ in range(2):
        with pytest.raises(RetriableError, match=f"answer {status}"):
            await sink.task.put(some)
        pauses.append(sink.context.pause_ms)
    await sink.task.put(some)
    assert sink.receiver.bodies == ["[0,1,2,3]", "[4,5]", "[4,5]", "[4,5]"]
    assert 80 <= (pauses[0] or 0) <= 120 < 160 <= (pauses[1] or 0) <= 240
    await sink.task.put(records(7))
    assert sink.receiver.bodies[-1] == "[7]"


@pytest.mark.parametrize(("said", "pause_ms"), [("7", 7_000), ("999", 60_000), ("Sun, 06 Nov 1994 08:49:37 GMT", None)])
async def test_the_server_says_when(sink: Sink, said: str, pause_ms: int | None) -> None:
    await sink.start()
    sink.receiver.answers, sink.receiver.retry_after = [429], said
    with pytest.raises(RetriableError):
        await sink.task.put(records(1))
    assert pause_ms is None or sink.context.pause_ms == pause_ms


async def test_retries_are_used_up(sink: Sink) -> None:
    await sink.start(max_retries="1")
    sink.receiver.answers = [500, 500]
    with pytest.raises(RetriableError):
        await sink.task.put(records(1))
    with pytest.raises(RuntimeError, match=r"max\.retries=1 are used up: the server said 500"):
        await sink.task.put(records(1))


async def test_a_server_that_is_not_there(sink: Sink) -> None:
    url = sink.receiver.url
    await sink.start(http_url=f"{url}?token=s3same")
    await sink.receiver.server.close()
    with pytest.raises(RetriableError, match=f"^{url} has not answered: (?!.*s3same)"):
        await sink.task.put(records(1))


async def test_the_bad_one_of_many_is_found(sink: Sink) -> None:
    await sink.start(batching_enabled="true")
    await sink.task.put(records(0, 1, "poison", 3, object(), 5))
    assert sink.refused() == [2, 4]
    assert [json.loads(body) for body in sink.receiver.bodies if "poison" not in body] == [[0, 1], [3], [5]]


async def test_halves_that_were_taken_or_refused_are_not_sent_again(sink: Sink) -> None:
    await sink.start(batching_enabled="true")
    sink.receiver.answers = [400, 400, 200, 400, 500]
    with pytest.raises(RetriableError):
        await sink.task.put(records(0, 1, 2, 3))
    sink.context.take_back(records(0, 1, 2, 3))
    await sink.task.put(records(0, 1, 2, 3))
    assert sink.refused() == [1]
    assert sink.receiver.bodies == ["[0,1,2,3]", "[0,1]", "[0]", "[1]", "[2,3]", "[2,3]"]


async def test_what_was_refused_before_a_retry_is_reported_by_the_call_that_returns(sink: Sink) -> None:
    await sink.start()
    some, sink.receiver.answers = records("one", "bad", "three", "bad too"), [200, 400, 503, 503, 200, 400]
    for _ in range(2):
        with pytest.raises(RetriableError):
            await sink.task.put(some)
        sink.context.take_back(some)
    await sink.task.put(some)
    assert (sink.refused(), sink.receiver.bodies[-2:]) == ([1, 3], ["three", "bad too"])
    sink.context.take_back(some)
    await sink.task.put(some)
    assert (sink.refused(), sink.receiver.bodies[-4:]) == ([], ["one", "bad", "three", "bad too"]), (
        "that is another call"
    )


async def test_a_retry_without_a_partition_that_went_leaves_out_nothing_of_the_others(sink: Sink) -> None:
    await sink.start()
    gone, stays = (
        [one.replace(partition=number) for one in records(f"{number}-0", f"{number}-1", f"bad {number}")]
        for number in range(2)
    )
    sink.receiver.answers = [200, 200, 400, 200, 503]
    with pytest.raises(RetriableError):
        await sink.task.put([*gone, *stays])
    sink.context.take_back([*gone, *stays])
    await sink.task.close([TopicPartition("t", 0)])
    sink.receiver.answers = [200, 400]
    await sink.task.put(stays)
    assert sink.receiver.bodies[-2:] == ["1-1", "bad 1"]
    assert [record.value for record, _ in sink.context.reported] == ["bad 1"]
    await sink.task.put(gone)
    assert sink.receiver.bodies[-3:] == ["0-0", "0-1", "bad 0"], "when they are its own again, all of them come"


@pytest.mark.parametrize(("goes", "retries"), [(0, 2), (1, 1)])
async def test_retries_begin_anew_when_the_records_that_failed_have_gone(sink: Sink, goes: int, retries: int) -> None:
    await sink.start(max_retries="2", batching_enabled="true")
    some = [*records("0"), *(one.replace(partition=1) for one in records("1"))]
    sink.receiver.answers = [503] * 9
    with pytest.raises(RetriableError):
        await sink.task.put(some)
    await sink.task.close([TopicPartition("t", goes)])
    left = [one for one in some if one.partition != goes]
    for _ in range(retries):
        with pytest.raises(RetriableError):
            await sink.task.put(left)
    with pytest.raises(RuntimeError, match=r"max\.retries=2 are used up"):
        await sink.task.put(left)


@pytest.mark.parametrize("status", [401, 404, 302])
async def test_what_is_wrong_for_all_is_not_split(sink: Sink, status: int) -> None:
    await sink.start(batching_enabled="true")
    sink.receiver.answers = [status]
    await sink.task.put(records(0, 1))
    assert (sink.refused(), len(sink.receiver.asked)) == ([0, 1], 1)


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"http.url": "ftp://x"}, "neither http"),
        ({"http.url": "http://x", "http.authorization.type": "basic"}, "needs http.authorization.user"),
        ({"http.url": "http://x", "http.headers.additional": "a:b,alone"}, "is not name:value$"),
    ],
)
def test_a_configuration_that_cannot_be(config: dict[str, str], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        HttpSinkConnector().start(config)
