"""The transcript of `penstock metadata-shell`: what its commands print of a cluster that has something of each kind.

`secrets` shows what files alone tell, `cluster` says that one is asked, which may hand over its controller, and
`complete TEXT` what the prompt offers behind a command; a bar stands for where the text ends.
"""

import shlex
from collections.abc import Callable, Iterable
from uuid import UUID

from penstock import __version__
from penstock.cli.metadata_shell.metadata_shell import Shell, ShellError
from penstock.cli.metadata_shell.source import MetadataView
from penstock.cli.metadata_shell.tree import build_tree
from penstock.metadata.records import (
    ConfigRecord,
    FeatureLevelRecord,
    NodeEndpoint,
    NodeFeature,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    TopicRecord,
)
from penstock.metadata.resources import ResourceType
from penstock.metadata.security_records import (
    AccessControlEntryRecord,
    ClientQuotaRecord,
    DelegationTokenRecord,
    EntityData,
    UserScramCredentialRecord,
)
from penstock.protocol.schema import Message

ENDPOINTS = [
    NodeEndpoint(name=name, host=f"h{number}", port=9 + number, security_protocol=number)
    for number, name in enumerate(("IN", "TLS", "LOGIN", "BOTH", "STRANGE"))
]
FEATURES = [
    NodeFeature(name="metadata.version", min_supported_version=7, max_supported_version=33),
    NodeFeature(name="group.version", min_supported_version=0, max_supported_version=1),
]
RECORDS: list[Message] = [
    RegisterBrokerRecord(
        broker_id=2,
        incarnation_id=UUID(int=2),
        broker_epoch=20,
        end_points=ENDPOINTS,
        features=FEATURES,
        rack="r",
        fenced=False,
        in_controlled_shutdown=True,
        log_dirs=[UUID(int=21), UUID(int=22)],
        cordoned_log_dirs=[UUID(int=22)],
    ),
    RegisterBrokerRecord(broker_id=1, incarnation_id=UUID(int=1), rack=None, fenced=False),
    RegisterBrokerRecord(broker_id=3, fenced=True, cordoned_log_dirs=[]),
    RegisterControllerRecord(
        controller_id=3, incarnation_id=UUID(int=3), zk_migration_ready=True, end_points=ENDPOINTS[:2]
    ),
    RegisterControllerRecord(controller_id=2, features=FEATURES),
    TopicRecord(name="u", topic_id=UUID(int=6)),
    TopicRecord(name="t", topic_id=UUID(int=5)),
    PartitionRecord(
        partition_id=0,
        topic_id=UUID(int=5),
        replicas=[1, 2],
        isr=[2],
        removing_replicas=[1],
        leader=2,
        leader_recovery_state=1,
        leader_epoch=3,
        partition_epoch=4,
        directories=[UUID(int=11), UUID(int=21)],
        eligible_leader_replicas=[1],
        last_known_elr=[3],
    ),
    PartitionRecord(partition_id=1, topic_id=UUID(int=5), replicas=[2, 3], isr=[2, 3], adding_replicas=[3], leader=3),
    PartitionRecord(partition_id=0, topic_id=UUID(int=6)),
    *(
        ConfigRecord(resource_type=kind, resource_name=name, name=key, value=value)
        for kind, name, key, value in (
            (ResourceType.TOPIC, "t", "retention.ms", "5"),
            (ResourceType.TOPIC, "t", "cleanup.policy", "compact"),
            (ResourceType.BROKER, "", "ssl.key.password", "secret"),
            (ResourceType.BROKER, "2", "log.cleaner.threads", "2"),
            (ResourceType.GROUP, "g", "consumer.session.timeout.ms", "45000"),
            (ResourceType.CLIENT_METRICS, "m", "interval.ms", "1"),
        )
    ),
    FeatureLevelRecord(name="metadata.version", feature_level=33),
    FeatureLevelRecord(name="group.version", feature_level=1),
    ProducerIdsRecord(broker_id=2, next_producer_id=3000),
    *(
        AccessControlEntryRecord(
            id=UUID(int=number),
            resource_type=number,
            resource_name="r",
            pattern_type=number,
            principal="User:a",
            host="*",
            operation=number,
            permission_type=number,
        )
        for number in range(17)
    ),
    *(
        ClientQuotaRecord(
            entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity], key=key, value=8.5
        )
        for entity, key in (
            ([("user", "a\\(b)/c"), ("client-id", None)], "producer_byte_rate"),
            ([("user", None)], "consumer_byte_rate"),
            ([("ip", "1.2.3.4")], "connection_creation_rate"),
        )
    ),
    DelegationTokenRecord(
        owner="User:a",
        requester="User:b",
        renewers=["User:c", "User:d"],
        issue_timestamp=1,
        max_timestamp=2,
        expiration_timestamp=3,
        token_id="token",
    ),
    *(
        UserScramCredentialRecord(name="a", mechanism=number, salt=b"s", iterations=4096 + number)
        for number in range(1, 4)
    ),
]


class ShellLecture:
    def __init__(self) -> None:
        self.view = MetadataView(last_timestamp_ms=1_500, elected_ms=1_000)
        for record in RECORDS:
            self.view.image.apply(record)  # type: ignore[arg-type]
            if isinstance(record, ProducerIdsRecord):
                self.view.producer_ids = record
        self.view.image.cluster_id = "its id"
        self.view.image.elected(2, 7)
        self.view.image.applied_to(40)
        self.shell = Shell(build_tree(self.view))
        self.handed_over: list[int | None] = []

    def handle(self, line: str) -> Iterable[str]:
        match line.split():
            case ["secrets"]:
                self.shell = Shell(build_tree(self.view, show_secrets=True))
            case ["cluster"]:
                self.shell = Shell(build_tree(self.view), hand_over=self.handed_over.append)
            case ["empty"]:
                self.shell = Shell(build_tree(MetadataView()))
            case ["complete", *words]:
                text = " ".join(words).removesuffix("|")
                *before, last = text.split(" ")
                return [f"{it}|" for it in self.shell.complete(last, is_first=not before)]
            case _:
                return self._run(line)
        return []

    def _run(self, line: str) -> Iterable[str]:
        try:
            yield from (f"| {printed.replace(__version__, 'VERSION')}" for printed in self.shell.run(shlex.split(line)))
        except ShellError as error:
            yield f"Error: {error.format_message()}"
        yield from (f"handed over to {it}" for it in self.handed_over)
        self.handed_over.clear()
        if self.shell.done:
            yield "done"


def test_shell(transcript: Callable[[str, Callable[[str], Iterable[object]]], None]) -> None:
    transcript("shell.txt", ShellLecture().handle)
