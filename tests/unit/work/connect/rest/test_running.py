"""A worker as a whole, from its file on: what others' code does for it is done in threads."""

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import pytest

from penstock.work.connect.config import ConfigError
from penstock.work.connect.rest.running import RunningWorker
from penstock.work.connect.standalone.worker import StandaloneWorker


class Vault:
    """A config provider that notes who makes and asks it."""

    used_by: ClassVar[list[threading.Thread]] = []

    def configure(self, params: Mapping[str, str]) -> None:
        self.used_by.append(threading.current_thread())

    def get(self, path: str, key: str) -> str:
        self.used_by.append(threading.current_thread())
        return key


class Quiet(StandaloneWorker):
    async def start(self) -> None: ...

    async def stop(self) -> None: ...


def config(tmp_path: Path) -> dict[str, str]:
    return {
        "bootstrap.servers": "${v:x:1}",
        "key.converter": "StringConverter",
        "value.converter": "StringConverter",
        "listeners": "http://127.0.0.1:0",
        "offset.storage.file.filename": str(tmp_path / "offsets"),
        "config.providers": "v",
        "config.providers.v.class": f"{__name__}:Vault",
    }


async def test_its_own_secrets_are_looked_up_in_a_thread(tmp_path: Path) -> None:
    Vault.used_by.clear()
    async with RunningWorker(Quiet, config(tmp_path)) as running:
        assert running.worker is not None
        assert running.worker.settings["bootstrap.servers"] == "1"
    assert Vault.used_by
    assert threading.main_thread() not in Vault.used_by


async def test_a_file_that_is_wrong_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nowhere:Class"):
        async with RunningWorker(Quiet, config(tmp_path) | {"config.providers.v.class": "nowhere:Class"}):
            raise AssertionError
