"""kcat produces and consumes."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest
from tests.wire.records import CODECS

WAIT_S = 60

pytestmark = pytest.mark.skipif(shutil.which("kcat") is None, reason="kcat is not installed")


def kcat(bootstrap: str, *arguments: str, text: str | None = None) -> str:
    command = ["kcat", "-b", bootstrap, "-q", *arguments]
    return subprocess.run(command, input=text, capture_output=True, text=True, timeout=WAIT_S, check=True).stdout


@pytest.mark.parametrize("codec", CODECS)
def test_every_codec_brings_back_what_was_sent(bootstrap: str, topic: str, codec: str) -> None:
    lines = [f"key{i}:value {i}" for i in range(500)]
    kcat(bootstrap, "-P", "-t", topic, "-p", "0", "-K:", "-z", codec, "-H", "a=1", text="\n".join(lines))
    output = kcat(bootstrap, "-C", "-t", topic, "-p", "0", "-o", "beginning", "-e", "-J")
    messages = [json.loads(line) for line in output.splitlines()]
    assert [f"{message['key']}:{message['payload']}" for message in messages] == lines
    assert {tuple(message["headers"]) for message in messages} == {("a", "1")}
    assert [message["offset"] for message in messages] == list(range(500))


def test_it_lists_the_node_and_its_topics(bootstrap: str, topic: str) -> None:
    kcat(bootstrap, "-P", "-t", topic, "-p", "0", text="x\n")
    listing = json.loads(kcat(bootstrap, "-L", "-J", "-t", topic))
    assert [broker["name"] for broker in listing["brokers"]] == [bootstrap]
    assert [(found["topic"], len(found["partitions"])) for found in listing["topics"]] == [(topic, 4)]
