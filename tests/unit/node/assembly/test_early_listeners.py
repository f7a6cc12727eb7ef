"""A controller's listener that is not an early one opens when the node has the access rules."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from penstock.metadata.configs.broker_config import BrokerConfig
from penstock.metadata.configs.definitions import ConfigError
from penstock.metadata.configs.protection import STANDARD_AUTHORIZER
from penstock.node.assembly.quorum_start import QuorumParts
from penstock.node.assembly.start import RunningNode, start_node

LISTENERS = "B://127.0.0.1:0,C://127.0.0.1:0,LATE://127.0.0.1:0"
NAMES = ("B", "C", "LATE")


def config(early: str | None, *, authorizer: str = STANDARD_AUTHORIZER) -> BrokerConfig:
    settings = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "listeners": LISTENERS,
        "controller.listener.names": "C,LATE",
        "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in NAMES),
        "inter.broker.listener.name": "B",
        "controller.quorum.voters": "1@127.0.0.1:1",
        "authorizer.class.name": authorizer,
        "super.users": "User:ANONYMOUS",
    }
    return BrokerConfig(settings if early is None else settings | {"early.start.listeners": early})


async def opened(tmp_path: Path, wanted: BrokerConfig) -> tuple[set[str], set[str]]:
    """The names of the listeners that are open before the node has the rules, and when it serves."""
    before: set[str] = set()

    def on_parts(parts: QuorumParts) -> None:
        begin = parts.watch.begin

        def begun() -> None:
            assert parts._server is not None
            if not parts.watch.has_begun:
                before.update(parts._server._servers)
            begin()

        parts.watch.begin = begun  # type: ignore[method-assign]

    node: RunningNode = await start_node(wanted, on_parts=on_parts)
    try:
        after = set[str]()
        async with asyncio.timeout(20):
            for endpoint in node.endpoints:
                _, writer = await asyncio.open_connection(endpoint.host, endpoint.port)
                after.add(endpoint.listener)
                writer.close()
        return before, after
    finally:
        await node.stop()


@pytest.mark.parametrize(
    ("early", "authorizer", "before"),
    [
        ("C", STANDARD_AUTHORIZER, {"C"}),
        ("c, late", STANDARD_AUTHORIZER, {"C", "LATE"}),
        (None, STANDARD_AUTHORIZER, {"C", "LATE"}),
        ("C", "", {"C", "LATE"}),
    ],
)
async def test_what_is_not_early_waits_for_the_rules(
    tmp_path: Path, early: str | None, authorizer: str, before: set[str]
) -> None:
    settings = config(early, authorizer=authorizer)
    wanted = BrokerConfig(
        {key: text for key, text in settings.static.items() if authorizer or key != "super.users"}
        | {"log.dir": str(tmp_path)}
    )
    assert await opened(tmp_path, wanted) == (before, {*NAMES})


@pytest.mark.parametrize(("early", "words"), [("C,NOWHERE", "NOWHERE"), ("", "C among them"), ("LATE", "C among them")])
def test_names_are_checked_and_controllers_have_to_reach_each_other(early: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        config(early)
