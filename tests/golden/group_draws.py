"""Draws what members of groups do, as transcripts: `python -m tests.golden.group_draws FIRST COUNT`.

The commands are written to `groups/drawn.txt` and `consumer_groups/drawn.txt`; `pytest tests/golden --rewrite` adds the
answers.
"""

from __future__ import annotations

import re

from tests.golden.consumer_lecture import ConsumerLecture
from tests.golden.draws import Draw, write_histories
from tests.golden.group_lecture import GroupLecture

from penstock.protocol.errors import KafkaError

STEPS = 34
TITLE = "# Histories drawn by chance (`group_draws.py`)."


class Consumers(Draw[ConsumerLecture]):
    """A group of the consumer protocol: members join, say what they own, stay away and come again."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed, ConsumerLecture())
        self.members: dict[str, str] = {}
        """How they joined."""
        self.topics: dict[str, int] = {}

    def history(self) -> list[str]:
        self.say("anew")
        for _ in range(3):
            self.grow()
        self.join()
        self.steps(STEPS, {
            self.join: 5, self.beat: 16, self.leave: 2, self.grow: 2, self.advance: 4, self.restart: 1, self.hold: 2,
            self.end_hold: 2, self.come_back: 2, self.describe: 3,
        })  # fmt: skip
        if self.lecture.holds:
            self.say("commit")
        self.describe()
        return self.said

    def grow(self) -> None:
        name = self.draw("a", "b", "c")
        if self.topics.get(name, 0) < 6:
            self.topics[name] = self.topics.get(name, 0) + self.draw(1, 2, 3)
            self.say(f"topic {name} {self.topics[name]}")

    def join(self) -> None:
        member = self.draw("ann", "ben", "cid", "dan")
        topics = " ".join(self.random.sample("abc", self.draw(1, 1, 2)))
        static, expression = f"{topics} instance=i{self.draw(1, 2)}", f"expression={self.draw('[ab]', 'c', '.*')}"
        words = self.draw(topics, topics, static, expression)
        self.members[member] = words
        self.say(f"join {member} {words}")

    def beat(self) -> None:
        if not self.members:
            return
        member = self.draw(*self.members)
        owns = self.draw("", " owned", " owned", " owned", " owns=", " owns=a:0")
        if owns == " owned":
            owns = f" owns={self.assigned(member)}"
        self.say(f"beat {member}{owns}{self.draw('', '', '', '', '', ' epoch=1')}")

    def assigned(self, member: str) -> str:
        """What it is told to have."""
        try:
            group = self.lecture.described()
        except KafkaError:
            return ""
        for one in group.members:
            if one.member_id == member:
                parts = one.assignment.topic_partitions
                goal = {it.topic_name: it.partitions for it in one.target_assignment.topic_partitions}
                kept = {it.topic_name: [p for p in it.partitions if p in goal.get(it.topic_name, [])] for it in parts}
                return ";".join(f"{name}:{','.join(map(str, them))}" for name, them in kept.items() if them)
        return ""

    def leave(self) -> None:
        if self.members:
            member = self.draw(*self.members)
            how = "away" if "instance" in self.members[member] and self.draw(True, False) else "leave"
            self.say(f"{how} {member}")

    def advance(self) -> None:
        self.say(f"advance {self.draw(10, 1000, 12_000, 46_000)}")

    def restart(self) -> None:
        self.say("restart")

    def hold(self) -> None:
        self.say("hold")

    def end_hold(self) -> None:
        if self.lecture.holds:
            self.say("fail" if self.lecture.under_way and self.draw(True, False, False) else "commit")

    def come_back(self) -> None:
        if self.lecture.errands:
            self.say("come-back")

    def describe(self) -> None:
        if self.lecture.shard._table.groups:
            self.say("describe")


class Classics(Draw[GroupLecture]):
    """A group of the classic protocol: members join, lead, commit, leave, and lose their turn."""

    ID = re.compile(r"(?:as|member=)\s?([\w-]+~\d+)")
    GENERATION = re.compile(r"joined generation (\d+)")

    def __init__(self, seed: int) -> None:
        super().__init__(seed, GroupLecture())
        self.ids: dict[str, str] = {}
        self.instances: dict[str, str] = {}
        self.generation = 1

    def say(self, command: str) -> list[str]:
        answers = super().say(command)
        for answer in answers:
            if found := self.GENERATION.search(answer):
                self.generation = int(found[1])
            if found := self.ID.search(answer):
                self.ids[found[1].partition("~")[0].removeprefix("i-")] = found[1]
        return answers

    def history(self) -> list[str]:
        self.type = self.draw("", "", " type=connect")
        delay, least, size = self.draw(0, 3000), self.draw(1000, 6000), self.draw(2, 200, 200)
        self.say("anew")
        self.say(
            f"set initial_rebalance_delay_ms={delay} min_session_timeout_ms={least} max_size={size}"
            f" offsets_retention_ms={self.draw(20_000, 604_800_000)}"
        )
        self.join()
        self.join()
        self.sync()
        self.steps(STEPS, {
            self.join: 10, self.sync: 10, self.beat: 4, self.leave: 3, self.commit: 5, self.advance: 6, self.restart: 1,
            self.hold: 2, self.end_hold: 2, self.delete: 1, self.describe: 4,
        })  # fmt: skip
        if self.lecture.holding:
            self.say("commit-writes")
        self.say("describe g")
        self.say("offsets g")
        self.say("history g")
        return self.said

    def join(self) -> None:
        client = self.draw("ann", "ben", "cid")
        options = [
            f"version={self.draw(0, 3, 4, 5, 9)}",
            f"protocols={self.draw('range', 'range', 'range,sticky:x', 'sticky')}",
        ]
        if client in self.ids and self.draw(True, True, False):
            options.append(f"member={self.ids[client]}")
        if client in self.instances or self.draw(True, False, False):
            self.instances[client] = f"i-{client}"
            options.append(f"instance=i-{client}")
            options[0] = "version=9"
        options.append(f"session={self.draw(6000, 10_000, 10_000, 10_000, 500)} rebalance={self.draw(5000, 60_000)}")
        self.say(f"join g {client} {' '.join(options)}{self.type}")

    def one(self) -> str:
        client = self.draw("ann", "ben", "cid")
        instance = f" instance={self.instances[client]}" if client in self.instances and self.draw(True, False) else ""
        generation = self.draw(*[self.generation] * 8, 7)
        return f"{self.ids.get(client, 'nobody~9')} generation={generation}{instance}"

    def sync(self) -> None:
        gives = ",".join(f"{it}:{it[0]}{self.generation}" for it in self.ids.values())
        self.say(f"sync g {self.one()} give={gives}{self.draw('', '', ' protocol=range', ' type=consumer')}")

    def beat(self) -> None:
        self.say(f"heartbeat g {self.one()}")

    def leave(self) -> None:
        member, _, rest = self.one().partition(" ")
        instance = rest.partition(" ")[2]
        self.say(f"leave g {member} {instance} version={self.draw(0, 3, 5)}".replace("  ", " "))

    def commit(self) -> None:
        who = self.draw(self.one(), self.one(), "")
        self.say(f"commit g {who} t:{self.draw(0, 1)}={self.random.randrange(100)}{self.draw('', '/meta')}")

    def advance(self) -> None:
        self.say(f"advance {self.draw(100, 1000, 3000, 3000, 6000, 11_000, 30_000)}")

    def restart(self) -> None:
        if not self.lecture.holding:
            self.say("restart")

    def hold(self) -> None:
        self.say("hold")

    def end_hold(self) -> None:
        if self.lecture.held:
            self.say(self.draw("commit-writes", "commit-writes 1", "fail-writes NOT_ENOUGH_REPLICAS"))

    def delete(self) -> None:
        self.say(self.draw("delete g", "forget g t:0 t:9"))

    def describe(self) -> None:
        self.say(self.draw("describe g", "list", "offsets g", "history g"))


def main() -> None:
    write_histories("groups/drawn.txt", TITLE, lambda seed: Classics(seed).history())
    write_histories("consumer_groups/drawn.txt", TITLE, lambda seed: Consumers(seed).history())


if __name__ == "__main__":
    main()
