"""How far connectors are, as requests see and change it: a source's own offsets, or the positions of a sink's group."""

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any, Final

from penstock.client.admin import Admin
from penstock.client.values import OffsetAndMetadata, TopicPartition
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.work.connect.api import Changes, Position
from penstock.work.connect.calls import Calls
from penstock.work.connect.rest.errors import RestError, bad_request, conflict
from penstock.work.connect.rest.herder import Herder, apart
from penstock.work.connect.runtime.config_state import Known
from penstock.work.connect.runtime.kinds import Kind, is_source
from penstock.work.connect.runtime.records import Target
from penstock.work.connect.runtime.secret_values import Words, discretion
from penstock.work.connect.runtime.source_offsets import OffsetStore

LIMIT_S: Final = 30.0
"""How long tasks of a stopped connector may take to end before a change of its offsets is refused, and the connector to
say whether it is good.
"""
_WHOLE: Final = re.compile(r"[0-9]{1,18}")


class ConnectorOffsets:
    def __init__(self, herder: Herder) -> None:
        self._herder = herder
        self._worker = herder.worker

    async def get(self, name: str) -> dict[str, Any]:
        known = self._herder.known(name)
        if is_source(await self._herder.kind(known.config)):
            async with self._store(known) as store:
                await store.read_to_end()
                rows = [{"partition": dict(part), "offset": dict(at)} for part, at in store.all_of(name)]
            return {"offsets": rows}
        async with self._admin() as admin:
            committed = await admin.groups.offsets(_group_of(name, known))
        rows = [
            {
                "partition": {"kafka_topic": partition.topic, "kafka_partition": partition.partition},
                "offset": {"kafka_offset": position.offset},
            }
            for partition, position in sorted(committed.items())
        ]
        return {"offsets": rows}

    async def alter(self, name: str, document: Any) -> dict[str, str]:
        """Only while the connector is stopped."""
        known = await self._stopped(name)
        changes, kind = _parsed(document), await self._herder.kind(known.config)
        if is_source(kind):
            await self._ask(known, kind, changes)
            async with self._store(known) as store:
                await store.write(name, changes)
                await store.read_to_end()
        else:
            positions = _positions(changes)
            await self._ask(known, kind, positions)
            await self._alter_group(_group_of(name, known), positions)
        return {"message": f"the offsets of {name} that the worker keeps have been altered"}

    async def reset(self, name: str) -> dict[str, str]:
        """Only while the connector is stopped."""
        known = await self._stopped(name)
        kind = await self._herder.kind(known.config)
        if is_source(kind):
            async with self._store(known) as store:
                await store.read_to_end()
                changes = [(part, None) for part, _ in store.all_of(name)]
                await self._ask(known, kind, changes)
                await store.write(name, changes)
                await store.read_to_end()
        else:
            await self._delete_group(_group_of(name, known))
        return {"message": f"the offsets of {name} that the worker keeps have been reset"}

    @asynccontextmanager
    async def _store(self, known: Known) -> AsyncIterator[OffsetStore]:
        config = await apart(self._worker.providers.resolved, known.config)
        async with self._worker.offset_stores.of(config) as store:
            yield store

    async def _ask(self, known: Known, kind: Kind, offsets: object) -> None:
        """Whether these can be offsets of the connector; RestError."""
        calls = Calls("offsets")
        discreet: Words = str
        try:
            async with asyncio.timeout(LIMIT_S):
                found = await calls.call(self._worker.providers.look_up, known.config)
                discreet = await calls.call(discretion, found)
                await calls.call((await calls.call(kind)).alter_offsets, found.config, offsets)
        except TimeoutError:
            raise RestError(
                HTTPStatus.INTERNAL_SERVER_ERROR, f"the connector has not answered for {LIMIT_S:g} s"
            ) from None
        except ValueError as error:
            raise bad_request(discreet(str(error))) from None
        finally:
            calls.close()

    async def _stopped(self, name: str) -> Known:
        """The connector, once its tasks have ended: what they store as they end must not come behind the change."""
        self._herder.lead()
        known = self._herder.known(name)
        if known.target is not Target.STOPPED or known.tasks:
            raise bad_request(
                f"offsets change only while a connector is stopped: PUT /connectors/{name}/stop first, "
                f"or `penstock connect stop {name}`"
            )
        try:
            async with asyncio.timeout(LIMIT_S):
                await self._worker.until_settled(name)
        except TimeoutError:
            raise conflict(
                f"tasks of {name} have not ended for {LIMIT_S:g} s, or are not fenced, so its offsets are as they were"
            ) from None
        self._herder.lead()
        return known

    async def _alter_group(self, group_id: str, positions: Mapping[TopicPartition, int | None]) -> None:
        async with self._admin() as admin:
            try:
                moved = {where: OffsetAndMetadata(at) for where, at in positions.items() if at is not None}
                if moved:
                    await admin.groups.set_offsets(group_id, moved)
                forgotten = [where for where, at in positions.items() if at is None]
                if forgotten:
                    await admin.groups.delete_offsets(group_id, forgotten)
            except KafkaError as error:
                raise _refused(group_id, error) from None

    async def _delete_group(self, group_id: str) -> None:
        async with self._admin() as admin:
            try:
                await admin.groups.delete(group_id)
            except KafkaError as error:
                if error.code != ErrorCode.GROUP_ID_NOT_FOUND:
                    raise _refused(group_id, error) from None

    def _admin(self) -> Admin:
        return self._worker.clients.admin(self._worker.worker_id)


def _group_of(name: str, known: Known) -> str:
    return known.config.get("consumer.override.group.id", f"connect-{name}")


def _refused(group_id: str, error: KafkaError) -> RestError:
    hint = (
        "; its tasks may not have ended yet"
        if error.code in (ErrorCode.NON_EMPTY_GROUP, ErrorCode.UNKNOWN_MEMBER_ID)
        else ""
    )
    return RestError(
        HTTPStatus.INTERNAL_SERVER_ERROR, f"the offsets of group {group_id} cannot be changed: {error}{hint}"
    )


def _parsed(document: Any) -> Changes:
    rows = document.get("offsets") if isinstance(document, dict) else None
    if not isinstance(rows, list) or not rows:
        raise bad_request("offsets is a list of objects with partition and offset, and at least one")
    changes: list[tuple[Position, Position | None]] = []
    for row in rows:
        match row:
            case {"partition": dict(partition), "offset": dict() | None as offset}:
                changes.append((partition, offset))
            case {"partition": dict(partition)}:
                changes.append((partition, None))
            case _:
                raise bad_request(f"{row!r} is no object with partition and offset")
    return changes


def _positions(changes: Changes) -> dict[TopicPartition, int | None]:
    positions: dict[TopicPartition, int | None] = {}
    for partition, offset in changes:
        try:
            where = TopicPartition(str(partition["kafka_topic"]), _whole(partition["kafka_partition"]))
            positions[where] = None if offset is None else _whole(offset["kafka_offset"])
        except (KeyError, TypeError, ValueError):
            raise bad_request(
                "a sink's partition has kafka_topic and kafka_partition, its offset kafka_offset, the latter two whole "
                f"numbers from 0 on; not so {partition!r}, {offset!r}"
            ) from None
    return positions


def _whole(number: object) -> int:
    """Also as text, as Connect takes it; ValueError."""
    if not _WHOLE.fullmatch(str(number)):
        raise ValueError(number)
    return int(str(number))
