"""APIs of our own on a controller listener, on real sockets, over the consensus core."""

import asyncio
import threading

import pytest
from tests.unit.node.api.controller.quorum_of_core import LISTENER, CoreQuorum, controller_node
from tests.unit.node.metadata_node import context
from tests.unit.node.served_node import serving_node

from penstock.metadata.image import ClusterImage
from penstock.metadata.records import FeatureLevelRecord
from penstock.node.api.describe_metadata import describe_metadata
from penstock.protocol.errors import ErrorCode
from penstock.protocol.requests.framing import api_of_request
from penstock.protocol.requests.own_apis import (
    DescribeMetadataRequest,
    DescribeMetadataResponse,
    ResignControllerRequest,
    ResignControllerResponse,
)
from penstock.protocol.schema import Message
from penstock.raft.requests import EndEpoch


async def asked(member: CoreQuorum, *requests: Message) -> list[Message]:
    node = controller_node(member, lambda command: command)
    node.image.apply(FeatureLevelRecord(name="metadata.version", feature_level=25))
    node.image.applied_to(7)
    answers = []
    async with serving_node(node, LISTENER) as server:
        client = await server.connect()
        for request in requests:
            client.send(request, 0)
            answers.append((await client.receive(api_of_request(request).key, 0))[1])
    return answers


async def test_who_does_not_lead_cannot_resign() -> None:
    (answer,) = await asked(CoreQuorum(1, 2, 3), ResignControllerRequest(leader_epoch=0))
    assert isinstance(answer, ResignControllerResponse)
    assert answer.error_code == ErrorCode.NOT_CONTROLLER


@pytest.mark.parametrize(
    ("epochs_later", "error"), [(-1, ErrorCode.FENCED_LEADER_EPOCH), (1, ErrorCode.UNKNOWN_LEADER_EPOCH)]
)
async def test_only_the_epoch_that_is_meant_ends(epochs_later: int, error: ErrorCode) -> None:
    member = CoreQuorum(1, 2, 3)
    member.lead()
    (answer,) = await asked(member, ResignControllerRequest(leader_epoch=member.epoch + epochs_later))
    assert isinstance(answer, ResignControllerResponse)
    assert answer.error_code == error
    assert member.is_leader(member.epoch)


async def test_a_leader_resigns_once_and_names_who_is_wished_for() -> None:
    member = CoreQuorum(1, 2, 3)
    member.lead()
    request = ResignControllerRequest(leader_epoch=member.epoch, successor_id=3)
    first, second = await asked(member, request, request)
    assert isinstance(first, ResignControllerResponse)
    assert isinstance(second, ResignControllerResponse)
    assert (first.error_code, second.error_code) == (ErrorCode.NONE, ErrorCode.NOT_CONTROLLER)
    successors = [[key.id for key in said.successors] for said in member.told if isinstance(said, EndEpoch)]
    assert successors == [[3, 2], [3, 2]]


@pytest.mark.parametrize("successor_id", [1, 4, -2])
async def test_only_another_voter_can_follow(successor_id: int) -> None:
    member = CoreQuorum(1, 2, 3)
    member.lead()
    (answer,) = await asked(member, ResignControllerRequest(leader_epoch=member.epoch, successor_id=successor_id))
    assert isinstance(answer, ResignControllerResponse)
    assert (answer.error_code, member.told) == (ErrorCode.INVALID_REQUEST, [])
    assert "voters are 2, 3" in (answer.error_message or "")


async def test_a_node_tells_what_it_made_of_the_metadata() -> None:
    first, second = await asked(CoreQuorum(1), DescribeMetadataRequest(), DescribeMetadataRequest())
    assert isinstance(first, DescribeMetadataResponse)
    assert (first.node_id, first.offset, len(first.checksum)) == (1, 7, 64)
    assert first == second


async def test_all_who_ask_about_the_metadata_meanwhile_share_one_look(monkeypatch: pytest.MonkeyPatch) -> None:
    looks, checksum, may_end = list[int](), ClusterImage.checksum, threading.Event()

    def counted(image: ClusterImage) -> str:
        looks.append(image.offset)
        may_end.wait()
        return checksum(image)

    monkeypatch.setattr(ClusterImage, "checksum", counted)
    node, request = controller_node(CoreQuorum(1), lambda command: command), DescribeMetadataRequest()
    node.image.applied_to(7)
    first = [asyncio.ensure_future(describe_metadata(node, context(0), request)) for _ in range(50)]
    while not looks:
        await asyncio.sleep(0)
    node.image.applied_to(8)
    later = [asyncio.ensure_future(describe_metadata(node, context(0), request)) for _ in range(50)]
    may_end.set()
    offsets = [answer.offset for answer in await asyncio.gather(*first, *later)]
    assert (offsets, looks) == ([7] * 50 + [8] * 50, [7, 8])
    assert (await describe_metadata(node, context(0), request)).offset == 8
    assert looks == [7, 8]
