"""Who leads goes on trying to, whatever stands against it: the others wait for that one."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.work.connect.distributed import worker as module
from penstock.work.connect.distributed.key_rotation import KeyRotation
from penstock.work.connect.distributed.worker import DistributedWorker
from penstock.work.connect.runtime.config_state import ConfigState
from penstock.work.connect.runtime.settings import USERS


class Leading:
    """Fails once."""

    def __init__(self) -> None:
        self.failures: list[Exception] = [KeyError("a fault")]
        self.leads = False

    async def lead(self) -> None:
        self._fail()
        self.leads = True

    async def write_if(self, is_still_so: Any, rows: Any) -> None:
        self._fail()

    def _fail(self) -> None:
        if self.failures:
            raise self.failures.pop()


async def test_a_worker_that_cannot_lead_tries_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "RETRY_S", 0)
    worker = SimpleNamespace(
        worker_id="one:1",
        leading=Leading(),
        group=SimpleNamespace(machine=SimpleNamespace(leads=True)),
        settings={USERS: None},
        _changing=asyncio.Lock(),
        _fencing=None,
    )
    await DistributedWorker._change_leader(cast("DistributedWorker", worker))
    assert worker.leading.leads
    assert "cannot lead yet: KeyError" in caplog.text


async def test_a_key_that_could_not_be_written_is_so_later(caplog: pytest.LogCaptureFixture) -> None:
    settings = {
        "inter.worker.key.generation.algorithm": "HmacSHA256",
        "inter.worker.key.size": None,
        "inter.worker.key.ttl.ms": 1,
    }
    leading: Any = Leading()
    keys = KeyRotation(ConfigState(), leading, settings, lambda: 0)
    for _ in range(2):
        await keys._write()
    assert caplog.text.count("no session key could be written: KeyError") == 1
