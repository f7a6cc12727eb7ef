"""Quotas of the metadata are followed, and a node without any loads nothing for them; who hears that a disk failed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.metadata.records import TopicRecord
from penstock.metadata.security_records import ClientQuotaRecord
from penstock.node.assembly import protection
from penstock.node.assembly.broker_start import BrokerParts


class Throttled:
    """In the place of what throttles clients: notes what changes it."""

    def __init__(self, load: object) -> None:
        self.is_loaded = False
        self.did: list[tuple[str, Any]] = []

    def change(self, how: Any) -> None:
        self.is_loaded = True
        how(self)

    def apply(self, record: object) -> None:
        self.did.append(("apply", record))

    def replace(self, records: Any) -> None:
        self.did.append(("replace", list(records)))


def test_quotas_are_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protection, "Throttling", Throttled)
    quotas: dict[str, str] = {}
    heard: list[Any] = []
    log = SimpleNamespace(
        image=SimpleNamespace(security=SimpleNamespace(client_quotas=quotas)),
        add_listener=lambda *of: heard.extend(of),
    )
    throttling: Any = protection.throttling_of(cast("Any", None), cast("Any", log), cast("Any", None))
    on_records, reload = heard
    reload()
    on_records([TopicRecord(name="t")])
    assert (throttling.is_loaded, throttling.did) == (False, [])
    one, two = ClientQuotaRecord(key="a"), ClientQuotaRecord(key="b")
    on_records([one, TopicRecord(name="t"), two])
    assert throttling.did == [("apply", one), ("apply", two)]
    reload()
    quotas["c"] = "of c"
    reload()
    assert throttling.did[2:] == [("replace", []), ("replace", ["of c"])], "what is gone is taken away"


def test_quotas_that_are_there_already(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protection, "Throttling", Throttled)
    heard: list[Any] = []
    log = SimpleNamespace(
        image=SimpleNamespace(security=SimpleNamespace(client_quotas={"c": "of c"})),
        add_listener=lambda *of: heard.extend(of),
    )
    throttling: Any = protection.throttling_of(cast("Any", None), cast("Any", log), cast("Any", None))
    heard[1]()
    assert throttling.did == [("replace", ["of c"])]


def test_who_hears_that_a_directory_has_failed() -> None:
    did: list[tuple[str, ...]] = []
    parts = SimpleNamespace(
        replicas=SimpleNamespace(on_directory_failed=lambda path: did.append(("replicas", path))),
        group_keeper=SimpleNamespace(on_directory_failed=lambda path: did.append(("groups", path))),
        lifecycle=SimpleNamespace(tell_of_directories=lambda: did.append(("controller",))),
    )
    BrokerParts.on_directory_failed(cast("Any", parts), "/a")
    assert did == [("replicas", "/a"), ("groups", "/a"), ("controller",)]
