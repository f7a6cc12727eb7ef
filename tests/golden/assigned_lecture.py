"""The language of the transcripts of share groups and streams groups: one group, its members, and a cluster of topics.

share|streams TOPIC=PARTITIONS … [interval=MS] [delay=MS] [standbys=N] [most=N]     no group is there yet (first of all)
join MEMBER [TOPIC …] [FIELD=VALUE …]    the first heartbeat; streams groups read `words`
beat MEMBER [epoch=N] [obeys] [FIELD=VALUE …]   with its present epoch; `obeys`: it has what it was told to have
leave MEMBER [epoch=N]
grow TOPIC COUNT | remove TOPIC          partitions and topics come and go
hold | commit | fail ERROR               writes wait from here on; all are committed; or they fail
keep | come-back [ERROR]                 errands wait from here on; the oldest is done, or is not
refuse ERROR | accept                    what the share coordinator says
alter TOPIC PARTITION OFFSET | forget TOPIC | delete      of the offsets of a share group; of the group
advance MS | describe
restart | hand-over                      another coordinator reads what is committed; this one has written all it knows
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from typing import Any
from uuid import UUID

from tests.golden.shown import said
from tests.golden.told import told
from tests.unit.coordinator.group.share.bench import Bench as ShareBench
from tests.unit.coordinator.group.streams.bench import GROUP, tasks, topology
from tests.unit.coordinator.group.streams.bench import Bench as StreamsBench

from penstock.coordinator.effects import Append, Calculation, Effect, Errand, Note, Reply
from penstock.coordinator.group.consumer.state import ConsumerRecord
from penstock.coordinator.group.records import HistoryRecord, decode_record, key_version_of
from penstock.coordinator.group.settings import Bounded, GroupSettings, ShareSettings, StreamsSettings
from penstock.coordinator.group.share.state import ShareGroupRecord
from penstock.coordinator.group.streams.state import StreamsRecord
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.schema import Message
from penstock.protocol.value import Value

NUMBERS = ("epoch", "rebalance_timeout_ms")


class Told:
    """Keeps what a shard has done, in words."""

    shard: Any

    def take(self, effects: list[Effect]) -> None:
        self.lines: list[str] = [*getattr(self, "lines", ()), *(one for it in effects for one in self.words(it))]
        super().take(effects)  # type: ignore[misc]

    def words(self, effect: Effect) -> Iterator[str]:
        if isinstance(effect, Reply):
            yield f"-> {effect.token[0] if isinstance(effect.token, tuple) else 'operator'}: {shown(effect.response)}"
        elif isinstance(effect, Append):
            yield from (f"   append {record_of(*record)}" for record in effect.records)
        elif isinstance(effect, Note):
            yield f"   note {effect.line}"
        elif isinstance(effect, Errand):
            job = effect.job
            yield "   calculates" if isinstance(job, Calculation) else f"   asks {shown(job.request)}"  # type: ignore[union-attr]


class Shared(Told, ShareBench):
    pass


class Streamed(Told, StreamsBench):
    pass


class AssignedLecture:
    bench: Any

    def handle(self, line: str) -> Iterable[object]:
        """Plays one line."""
        command, *words = line.split()
        options = dict(word.split("=", 1) for word in words if "=" in word)
        names = [word for word in words if "=" not in word]
        if command in ("share", "streams"):
            self.begin(command, options)
        said = list(getattr(self, f"do_{command.replace('-', '_')}")(names, options))
        lines, self.bench.lines = self.bench.lines, []
        return [*lines, *said]

    def begin(self, kind: str, options: dict[str, str]) -> None:
        def said(name: str, default: int) -> Bounded:
            return Bounded(int(options.pop(name, default)), 0, 1 << 31)

        interval, delay, standbys = said("interval", 0), said("delay", 0), said("standbys", 0)
        most = int(options.pop("most", 200))
        settings = GroupSettings(
            share=ShareSettings(assignment_interval=interval, max_size=most, initialize_retry_ms=300),
            streams=StreamsSettings(
                assignment_interval=interval, initial_rebalance_delay=delay, standby_replicas=standbys, max_size=most
            ),
        )
        topics = {name: int(count) for name, count in options.items()}
        self.is_streams = kind == "streams"
        self.bench = (Streamed if self.is_streams else Shared)(settings, **topics)

    def do_share(self, names: list[str], options: dict[str, str]) -> Iterable[str]:
        return ()

    do_streams = do_share

    # Members.

    def group(self) -> Any:
        return next(iter(self.bench.shard._table.groups.values()), None)

    def epoch(self, member_id: str) -> int:
        group = self.group()
        known = member_id in group.state.members if group is not None else False
        return group.state.current(member_id).epoch if known else 1

    def do_join(self, names: list[str], options: dict[str, str]) -> Iterable[str]:
        member_id, *topics = names
        self.bench.join(member_id, *topics, **self.fields(options))
        return ()

    def do_beat(self, names: list[str], options: dict[str, str]) -> Iterable[str]:
        member_id, epoch = names[0], int(options.pop("epoch", self.epoch(names[0])))
        fields = self.fields(options)
        if "obeys" in names and self.is_streams:
            roles = self.bench.runs.get(member_id, ({}, {}, {}))
            kinds = ("active_tasks", "standby_tasks", "warmup_tasks")
            owned = [tasks(**{f"s{name}": some for name, some in role.items()}) for role in roles]
            fields |= dict(zip(kinds, owned, strict=True))
        self.bench.beat(member_id, epoch, **fields)
        return ()

    def do_leave(self, names: list[str], options: dict[str, str]) -> Iterable[str]:
        epoch = int(options.pop("epoch", -1))
        self.bench.beat(names[0], epoch, **self.fields(options))
        return ()

    def fields(self, options: dict[str, str]) -> dict[str, Any]:
        found: dict[str, Any] = {
            name: int(value) if name in NUMBERS else value for name, value in options.items() if name != "topology"
        }
        if "subscribed" in found:
            found["subscribed_topic_names"] = found.pop("subscribed").split(",")
        if "topology" in options:
            found["topology"] = topology(int(options["topology"]))
        return found

    # The cluster, and what is under way.

    def do_grow(self, names: list[str], options: dict[str, str]) -> Iterable[str]:
        self.bench.grow(names[0], int(names[1]))
        return ()

    def do_remove(self, names: list[str], options: dict[str, str]) -> Iterable[str]:
        self.bench.remove(names[0])
        return ()

    def do_hold(self, names: list[str], options: dict[str, str]) -> Iterable[str]:
        self.bench.holds = True
        return ()

    def do_commit(self, names: list[str], options: dict[str, str]) -> Iterable[str]:
        self.bench.holds = False
        self.bench.commit()
        return ()

    def do_fail(self, names: list[str], options: dict[str, str]) -> Iterable[str]:
        self.bench.fail(ErrorCode[names[0]])
        return self.do_commit(names, options)

    def do_keep(self, names: list[str], options: dict[str, str]) -> Iterable[str]:
        self.bench.keeps = True
        return ()

    def do_come_back(self, names: list[str], options: dict[str, str]) -> Iterable[str]:
        self.bench.come_back(ErrorCode[names[0]] if names else ErrorCode.NONE)
        self.bench.keeps = bool(self.bench.errands)
        return ()

    def do_refuse(self, names: list[str], options: dict[str, str]) -> Iterable[str]:
        self.bench.states.refuses = ErrorCode[names[0]]
        return ()

    def do_accept(self, names: list[str], options: dict[str, str]) -> Iterable[str]:
        self.bench.states.refuses = None
        return ()

    def do_alter(self, names: list[str], options: dict[str, str]) -> Iterable[str]:
        self.bench.alter(**{names[0]: {int(names[1]): int(names[2])}})
        return ()

    def do_forget(self, names: list[str], options: dict[str, str]) -> Iterable[str]:
        self.bench.delete_offsets(names[0])
        return ()

    def do_delete(self, names: list[str], options: dict[str, str]) -> Iterable[str]:
        self.bench.take(self.bench.shard.delete_group("operator", self.name, self.bench.now_ms))
        return ()

    def do_advance(self, names: list[str], options: dict[str, str]) -> Iterable[str]:
        self.bench.advance(int(names[0]))
        return ()

    def do_restart(self, names: list[str], options: dict[str, str]) -> Iterable[str]:
        self.bench.holds = self.bench.keeps = False
        self.bench.restart()
        return ()

    def do_hand_over(self, names: list[str], options: dict[str, str]) -> Iterable[str]:
        self.do_commit(names, options)
        self.bench.take(self.bench.shard.seal(self.bench.now_ms))
        return self.do_restart(names, options)

    @property
    def name(self) -> str:
        return GROUP if self.is_streams else "workers"

    def do_describe(self, names: list[str], options: dict[str, str]) -> Iterable[str]:
        shard = self.bench.shard
        describe = shard.describe_streams_group if self.is_streams else shard.describe_share_group
        try:
            yield shown(describe(self.name))
        except KafkaError as error:
            yield error.code.name
        if not self.is_streams:
            yield f"has begun {shown(shard.shared(self.name))}"


def record_of(key: bytes, value: bytes | None) -> str:
    version = key_version_of(key)
    for kind in (ConsumerRecord, ShareGroupRecord, StreamsRecord):
        if version in kind.keys:
            return shown(kind.decode(version, key, value))
    record = decode_record(key, value)
    return told(record.value) if isinstance(record, HistoryRecord) else shown(record)


def shown(value: Any) -> str:
    """What is not as it is by default."""
    if isinstance(value, Message):
        return said(value)
    if isinstance(value, Value):
        usual = {name: value.__defaults__.get(name) for name in value.__fields__}
        told = {name: getattr(value, name) for name in value.__fields__}
        parts = [f"{name}={shown(it)}" for name, it in told.items() if it != usual[name] and it not in ({}, ())]
        return f"{type(value).__name__}({', '.join(parts)})"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{shown(key)}: {shown(it)}' for key, it in value.items())}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(shown, value))}]"
    if isinstance(value, frozenset | set):
        return f"[{', '.join(sorted(map(shown, value)))}]"
    if isinstance(value, UUID) and 0 < value.int < 128:
        return chr(value.int)
    return value.name if isinstance(value, Enum) else str(value)
