"""Draws what members of groups of all kinds ask a node, as a transcript: `python -m tests.golden.node_draws`.

The requests are written to `nodes/drawn.txt`; `pytest tests/golden --rewrite` adds the answers. Each member goes on
from what it was told last; now and then it says something else.
"""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

from tests.golden.node_lecture import NodeLecture
from tests.golden.test_nodes import SETTINGS

STEPS = 60
SEEDS = 6
TITLE = "What members of groups of all kinds ask, drawn by chance (`node_draws.py`), and all that they hear."
MEMBERS = tuple("AAAAAAAAAAAAAAAAAAAAA" + last for last in "QgwA")
BEGIN = """CreateTopics@2(topics=[dict(name="t", num_partitions=3, replication_factor=1)])
CreateTopics@2(topics=[dict(name="u", num_partitions=1, replication_factor=1)])
Metadata(topics=[dict(name="t"), dict(name="u")])
t = it.topics[0].topic_id
u = it.topics[1].topic_id
FindCoordinator(coordinator_keys=["g"])
FindCoordinator(key_type=1, coordinator_keys=["x"])
FindCoordinator(key_type=2, coordinator_keys=["s:AAAAAAAAAAAAAAAAAAAABQ:0"])
wait 5000"""
TOPOLOGY = (
    'dict(epoch=1, subtopologies=[dict(subtopology_id="0", source_topics=["t"]),'
    ' dict(subtopology_id="1", source_topics=["u"], state_changelog_topics=[dict(name="u")])])'
)
GROUP_CONFIGS = (
    "share.auto.offset.reset=earliest", "share.record.lock.duration.ms=15000", "share.isolation.level=read_committed",
    "consumer.session.timeout.ms=50000", "streams.num.standby.replicas=1",
)  # fmt: skip


class Draw:
    def __init__(self) -> None:
        self.lecture = NodeLecture(1, **SETTINGS)
        self.begin(0)

    def begin(self, history: int) -> None:
        self.random, self.history = Random(history), history
        self.said: list[str] = []
        self.epochs: dict[tuple[str, str], int] = {}
        self.has: dict[tuple[str, str], str] = {}
        self.sessions: dict[str, int] = {}
        self.acquired: dict[str, list[tuple[int, int, int]]] = {}
        self.generation, self.joined = 1, '""'

    def draw(self, *options: Any) -> Any:
        return self.random.choice(options)

    def say(self, line: str) -> Any:
        list(self.lecture.handle(line))
        self.said.append(line)
        return self.lecture.it

    def run(self, seed: int) -> list[str]:
        """One history, with groups of its own, at the same node."""
        self.begin(seed)
        if not seed:
            self.said = BEGIN.splitlines()
            for line in self.said:
                list(self.lecture.handle(line))
        kinds = {
            self.consume: 9, self.stream: 8, self.share: 6, self.fetch_shares: 10, self.acknowledge: 7, self.join: 4,
            self.sync: 3, self.commit: 4, self.produce: 5, self.wait: 5, self.describe: 7, self.configure: 2,
            self.end: 2, self.transact: 4,
        }  # fmt: skip
        for _ in range(STEPS):
            self.random.choices(list(kinds), list(kinds.values()))[0]()
        return self.said

    def group(self, kind: str) -> str:
        return f"{kind}{self.history}"

    def epoch(self, kind: str, member: str) -> int:
        return self.draw(*[self.epochs.get((kind, member), 0)] * 12, 1, 0)  # type: ignore[no-any-return]

    def heard(self, kind: str, member: str, answer: Any) -> None:
        if not answer.error_code:
            self.epochs[kind, member] = max(answer.member_epoch, 0)
        elif answer.error_code in (25, 110):
            self.epochs.pop((kind, member), None)

    # groups

    def consume(self) -> None:
        member, instance = self.draw(*MEMBERS[:3]), self.draw(None, None, None, "i")
        epoch = self.epoch("c", member)
        words = [f'group_id="{self.group("c")}", member_id="{member}", member_epoch={epoch}']
        if not epoch:
            reads = self.draw('["t"]', '["t", "u"]', '["u"]')
            regex = self.draw("", "", f'subscribed_topic_regex="{self.draw("t", "[tu]")}", ')
            words.append(
                f"{regex or f'subscribed_topic_names={reads}, '}rebalance_timeout_ms=20000, topic_partitions=[]"
            )
            words += [f'instance_id="{instance}"'] if instance else []
            words += [f'server_assignor="{self.draw("range", "uniform")}"'] if self.draw(True, False) else []
        elif self.draw(True, True, False):
            words.append(f"topic_partitions=[{self.has.get(('c', member), '')}]")
        answer = self.say(f"ConsumerGroupHeartbeat({', '.join(words)})")
        self.heard("c", member, answer)
        if answer.assignment is not None:
            names = {self.lecture.value("t"): "t", self.lecture.value("u"): "u"}
            self.has["c", member] = ", ".join(
                f"dict(topic_id={names[it.topic_id]}, partitions={it.partitions})"
                for it in answer.assignment.topic_partitions
            )

    def stream(self) -> None:
        member = self.draw(*MEMBERS[:3])
        epoch = self.epoch("s", member)
        words = [f'group_id="{self.group("s")}", member_id="{member}", member_epoch={epoch}']
        if not epoch:
            words.append(f'rebalance_timeout_ms=20000, process_id="{self.draw("p", "q")}", topology={TOPOLOGY}')
            words.append("active_tasks=[], standby_tasks=[], warmup_tasks=[]")
            words += ['instance_id="i"'] if self.draw(True, False, False) else []
            words += ['client_tags=[dict(key="zone", value="a")]'] if self.draw(True, False) else []
        elif self.draw(True, True, False):
            words.append(self.has.get(("s", member), "active_tasks=[], standby_tasks=[], warmup_tasks=[]"))
        if self.draw(True, False, False, False):
            words.append('task_offsets=[dict(subtopology_id="1", partition=0, offset=5)]')
        answer = self.say(f"StreamsGroupHeartbeat({', '.join(words)})")
        self.heard("s", member, answer)
        if answer.active_tasks is not None:
            roles = {name: getattr(answer, name) for name in ("active_tasks", "standby_tasks", "warmup_tasks")}
            self.has["s", member] = ", ".join(
                f"{name}=[{', '.join(_task(it) for it in some or ())}]" for name, some in roles.items()
            )

    def share(self) -> None:
        member = self.draw(*MEMBERS[:2])
        epoch = self.epoch("h", member)
        reads = f", subscribed_topic_names={self.draw(['t'], ['t', 'u'])}" if not epoch else ""
        words = f'group_id="{self.group("h")}", member_id="{member}", member_epoch={epoch}{reads}'
        self.heard("h", member, self.say(f"ShareGroupHeartbeat({words})"))

    def join(self) -> None:
        """A member of the classic protocol, perhaps in a group of the other one."""
        group = self.group(self.draw("k", "k", "c"))
        member = self.draw(self.joined, '""')
        protocols = f'[dict(name="range", metadata=subscription({self.draw(["t"], ["t", "u"])}))]'
        answer = self.say(
            f'JoinGroup(group_id="{group}", session_timeout_ms=10000, rebalance_timeout_ms=10000, member_id={member},'
            f' protocol_type="consumer", protocols={protocols})'
        )
        if answer.member_id:
            self.joined = "joined"
            self.say("joined = it.member_id")
        self.generation = max(answer.generation_id, 1)

    def sync(self) -> None:
        group = self.group(self.draw("k", "k", "c"))
        words = f'group_id="{group}", generation_id={self.generation}, member_id={self.joined}'
        kind = self.draw("SyncGroup", "SyncGroup", "Heartbeat")
        gives = f', assignments=[dict(member_id={self.joined}, assignment=b"a")]' if kind == "SyncGroup" else ""
        self.say(f"{kind}({words}{gives})")

    def commit(self) -> None:
        kind = self.draw("c", "k", "s")
        member = self.draw(*MEMBERS[:3])
        epoch = self.generation if kind == "k" else self.epoch(kind, member)
        quoted = self.joined if kind == "k" else f'"{member}"'
        offset = f"dict(partition_index=0, committed_offset={self.random.randrange(50)})"
        places = f"dict(topic_id={self.draw('t', 'u')}, partitions=[{offset}])"
        who = self.draw(f"member_id={quoted}, generation_id_or_member_epoch={epoch}, ", "")
        self.say(f'OffsetCommit(group_id="{self.group(kind)}", {who}topics=[{places}])')

    def end(self) -> None:
        """A member goes, or a group does."""
        kind, name = self.draw(("c", "ConsumerGroup"), ("s", "StreamsGroup"), ("h", "ShareGroup"))
        member = self.draw(*MEMBERS[:3])
        if self.draw(True, True, False):
            last = -2 if kind != "h" and self.draw(True, False, False) else -1
            static = ', instance_id="i"' if last == -2 else ""
            self.say(
                f'{name}Heartbeat(group_id="{self.group(kind)}", member_id="{member}", member_epoch={last}{static})'
            )
            self.epochs.pop((kind, member), None)
        else:
            self.say(f'DeleteGroups(groups_names=["{self.group(self.draw("c", "s", "h", "k"))}"])')

    def configure(self) -> None:
        name, _, value = self.draw(*GROUP_CONFIGS).partition("=")
        group = self.group("h" if name.startswith("share") else name[0])
        self.say(
            f'IncrementalAlterConfigs(resources=[dict(resource_type=32, resource_name="{group}",'
            f' configs=[dict(name="{name}", value="{value}")])])'
        )

    def describe(self) -> None:
        c, s, h, k = map(self.group, "cshk")
        self.say(
            self.draw(
                f'ConsumerGroupDescribe(group_ids=["{c}"])',
                f'StreamsGroupDescribe(group_ids=["{s}"])',
                f'ShareGroupDescribe(group_ids=["{h}"])',
                f'DescribeGroups(groups=["{c}", "{k}"])',
                f'DescribeGroupHistory(groups=["{c}", "{s}", "{h}", "{k}"])',
                "ListGroups()",
                f'OffsetFetch(groups=[dict(group_id="{self.draw(c, s, k)}", topics=None)])',
                f'DescribeShareGroupOffsets(groups=[dict(group_id="{h}", topics=None)])',
                f'DescribeSharePartitions(group_id="{h}", topics=[dict(topic_name="t", partitions=[dict()])])',
                'DescribeTransactions(transactional_ids=["x"])',
            )
        )

    # records

    def produce(self) -> None:
        values = ", ".join(f'"{number}"' for number in range(self.draw(1, 3, 8)))
        records = f"[dict(index={self.draw(0, 0, 1)}, records=batch({values}))]"
        self.say(f'Produce@12(acks=1, topic_data=[dict(name="t", partition_data={records})])')

    def transact(self) -> None:
        """All of a transaction, or what it begins with."""
        me = self.say('InitProducerId@4(transactional_id="x", transaction_timeout_ms=60000)')
        if me.error_code:
            return
        who = f"producer_id={me.producer_id}, producer_epoch={me.producer_epoch}"
        old = who.replace("producer_", "v3_and_below_producer_")
        self.say(
            f'AddPartitionsToTxn@3(v3_and_below_transactional_id="x", {old},'
            ' v3_and_below_topics=[dict(name="t", partitions=[0])])'
        )
        data = f"[dict(index=0, records=batch('x', {who}, base_sequence=0, is_transactional=True))]"
        self.say(f'Produce@11(transactional_id="x", acks=-1, topic_data=[dict(name="t", partition_data={data})])')
        if self.draw(True, False):
            self.say(f'AddOffsetsToTxn(transactional_id="x", {who}, group_id="{self.group("k")}")')
            self.say(
                f'TxnOffsetCommit@3(transactional_id="x", {who}, group_id="{self.group("k")}",'
                ' topics=[dict(name="t", partitions=[dict(partition_index=0, committed_offset=4)])])'
            )
        if self.draw(True, True, False):
            self.say(f'EndTxn@4(transactional_id="x", {who}, committed={self.draw(True, False)})')

    def fetch_shares(self) -> None:
        member = self.draw(*MEMBERS[:2])
        epoch = self.draw(*[self.sessions.get(member, 0)] * 9, 0, 5)
        begins = "dict(topic_id=t, partitions=[dict(partition_index=0), dict(partition_index=1)])"
        topics = "[]" if epoch else f"[{begins}]"
        most, size, mode = self.draw(1, 3, 100), self.draw(1, 3, 100), self.draw(0, 1)
        limits = f"max_records={most}, batch_size={size}, share_acquire_mode={mode}"
        answer = self.say(
            f'ShareFetch(group_id="{self.group("h")}", member_id="{member}", share_session_epoch={epoch},'
            f" max_wait_ms={self.draw(0, 500)}, max_bytes=10000, {limits}, topics={topics})"
        )
        if answer.error_code:
            self.sessions.pop(member, None)
            return
        self.sessions[member] = epoch + 1
        self.acquired.setdefault(member, []).extend(
            (part.partition_index, it.first_offset, it.last_offset)
            for topic in answer.responses
            for part in topic.partitions
            for it in part.acquired_records
        )

    def acknowledge(self) -> None:
        members = [member for member in MEMBERS if self.acquired.get(member)]
        if not members:
            return
        member = self.draw(*members)
        partition, first, last = self.acquired[member].pop(0)
        each = [self.draw(1, 2, 3) for _ in range(first, last + 1)]
        kinds = self.draw(each, [self.draw(1, 1, 2, 3, 4)])
        renews = ", is_renew_ack=True" if 4 in kinds else ""
        said = f"[dict(first_offset={first}, last_offset={last}, acknowledge_types={kinds})]"
        part = f"[dict(partition_index={partition}, acknowledgement_batches={said})]"
        epoch = self.sessions.get(member, 0)
        answer = self.say(
            f'ShareAcknowledge(group_id="{self.group("h")}", member_id="{member}", share_session_epoch={epoch}{renews},'
            f" topics=[dict(topic_id=t, partitions={part})])"
        )
        if not answer.error_code:
            self.sessions[member] = epoch + 1

    def wait(self) -> None:
        self.say(f"wait {self.draw(100, 1000, 6000, 16000, 31000)}")


def _task(it: Any) -> str:
    return f'dict(subtopology_id="{it.subtopology_id}", partitions={it.partitions})'


def main() -> None:
    draw = Draw()
    histories = ["\n".join([*draw.run(seed), "----"]) for seed in range(SEEDS)]
    draw.lecture.end()
    (Path(__file__).parent / "nodes" / "drawn.txt").write_text("\n\n".join([TITLE, *histories]) + "\n")


if __name__ == "__main__":
    main()
