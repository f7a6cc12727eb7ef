"""`python -m tests.verdicts`: random rules and questions, judged by Kafka's own StandardAuthorizer and by ours."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator
from ipaddress import IPv6Address
from pathlib import Path
from random import Random
from uuid import UUID

from bench.versus.kafka import fetch, java, version_of
from tests.property.test_access_rules import ASKED, HOSTS, USERS, Question, drawn_rule, has_mask

from penstock.metadata.access_rules import AccessRules
from penstock.protocol.acls import WILDCARD, AclBinding, Operation, PatternType, Permission, Resource

PROGRAM = Path(__file__).with_name("Verdicts.java")
EACH = 50
"""Rules at most, and questions, of one cluster."""
NAMES = (4, 60)
"""With few of them many rules are about one question, with many hardly any is."""


def names(chance: Random) -> list[str]:
    return ["*", *("".join(chance.choices("ab-", k=chance.randrange(1, 6))) for _ in range(chance.choice(NAMES)))]


def wide_rule(chance: Random, known: list[str]) -> AclBinding:
    """Half of them for all hosts, and half for all operations: so that one denies what another one allows."""
    rule = drawn_rule(chance, known)
    host, operation = chance.choice([WILDCARD, rule.host]), chance.choice([Operation.ALL, rule.operation])
    return as_java_writes(rule._replace(host=host, operation=operation))


def clusters(chance: Random, questions: int) -> Iterator[tuple[bool, list[AclBinding], list[Question]]]:
    """What everybody may without rules, the rules, and what is asked."""
    for _ in range(questions // EACH):
        known = names(chance)
        drawn = dict.fromkeys(wide_rule(chance, known) for _ in range(chance.randrange(EACH)))
        there = [rule for rule in drawn if not has_mask(rule)]
        asked = [
            (
                chance.choice(USERS),
                chance.choice(HOSTS),
                chance.choice(ASKED),
                chance.choice([Resource.TOPIC, Resource.GROUP]),
                chance.choice(known),
            )
            for _ in range(EACH)
        ]
        yield chance.random() < 0.3, there, asked


def as_java_writes(rule: AclBinding) -> AclBinding:
    """Kafka compares the text of an address, and no client has the text `::1`; to us all ways to write it are one."""
    if ":" not in rule.host or "/" in rule.host:
        return rule
    parts = IPv6Address(rule.host).exploded.split(":")
    return rule._replace(host=":".join(f"{int(part, 16):x}" for part in parts))


def lines(default: bool, there: list[AclBinding], asked: list[Question]) -> Iterator[str]:
    yield f"begin\t{str(default).lower()}"
    for of in there:
        yield "\t".join(
            (
                *("rule", Resource(of.resource_type).name, of.resource_name, PatternType(of.pattern_type).name),
                *(of.principal, of.host, Operation(of.operation).name, Permission(of.permission_type).name),
            )
        )
    for user, host, operation, kind, name in asked:
        yield "\t".join(("ask", user, host, operation.name, kind.name, name))
        yield "\t".join(("any", user, host, operation.name, kind.name))


def ours(default: bool, there: list[AclBinding], asked: list[Question]) -> Iterator[bool]:
    rules = AccessRules(allows_without_rules=default)
    rules.replace({UUID(int=number): rule for number, rule in enumerate(there)})
    for question in asked:
        yield rules.allows(*question)
        yield rules.allows_any(*question[:4])


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.verdicts", description=__doc__)
    parser.add_argument("--questions", type=int, default=100_000, help="each is asked of a name, and of any name")
    parser.add_argument("--seed", type=int, default=None, help="by default another one each time")
    words = parser.parse_args()
    seed = Random().randrange(1 << 32) if words.seed is None else words.seed
    drawn = list(clusters(Random(seed), words.questions))
    text = "".join(f"{line}\n" for cluster in drawn for line in lines(*cluster))
    command = [java(), "-cp", os.pathsep.join(map(str, fetch("kafka"))), str(PROGRAM)]
    done = subprocess.run(command, input=text.encode(), stdout=subprocess.PIPE, check=True)
    kafkas = [verdict == "ALLOWED" for verdict in done.stdout.decode().split()]
    found = [verdict for cluster in drawn for verdict in ours(*cluster)]
    differ = [at for at, pair in enumerate(zip(kafkas, found, strict=True)) if pair[0] is not pair[1]]
    allowed = sum(kafkas)
    print(
        f"seed {seed}: {len(found):,} verdicts of Kafka {version_of('kafka', 'kafka_2.13')}, "
        f"of which {allowed:,} allow: {len(differ)} differ"
    )
    for at in differ[:5]:
        default, there, asked = drawn[at // (2 * EACH)]
        print("any name:" if at % 2 else "a name:", asked[at % (2 * EACH) // 2], default, *there, sep="\n  ")
    sys.exit(bool(differ))


if __name__ == "__main__":
    main()
