"""What policies are asked before a topic is created or a resource is configured (KIP-108, KIP-133).

A policy is a class of the operator's: a subclass of one of these two, or any class with the same methods. It may take
long and it may fail, so no decision calls it. A decision notes down what it would ask and holds nothing until that has
been answered; once it has, the same command is decided again, and what a policy refused is refused.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Final, TypeAlias

from penstock.metadata.resources import ConfigResource
from penstock.protocol.errors import ErrorCode, KafkaError
from penstock.protocol.value import Value


class PolicyViolationError(KafkaError):
    """Raised by a policy: the client gets POLICY_VIOLATION with this message."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.POLICY_VIOLATION, message)


class CreateTopicPolicy:
    class RequestMetadata(Value):
        """A topic has either a number of partitions and a replication factor, or replicas that were named by hand.

        Defaults stand where the request left it to them. `configs` are those of the request alone.
        """

        topic: str
        num_partitions: int | None
        replication_factor: int | None
        replicas_assignments: Mapping[int, Sequence[int]] | None
        configs: Mapping[str, str]

    def configure(self, configs: Mapping[str, str]) -> None:
        """Called once, with what the node's configuration file says."""

    def validate(self, request: RequestMetadata) -> None:
        """Raises PolicyViolationError; the other topics of the client's request are judged by themselves."""

    def close(self) -> None:
        """The node stops."""


class AlterConfigPolicy:
    class RequestMetadata(Value):
        """`configs` are the keys that the request names and that change, all that it names for a broker.

        The value is the one that is to hold, as far as it is the resource's own: None where the key goes back to its
        default. An append or a subtraction is given as the whole list that it makes.
        """

        resource: ConfigResource
        configs: Mapping[str, str | None]

    def configure(self, configs: Mapping[str, str]) -> None:
        """Called once, with what the node's configuration file says."""

    def validate(self, request: RequestMetadata) -> None:
        """Raises PolicyViolationError; the other resources of the client's request are judged by themselves."""

    def close(self) -> None:
        """The node stops."""


Question: TypeAlias = CreateTopicPolicy.RequestMetadata | AlterConfigPolicy.RequestMetadata
Kind: TypeAlias = type[CreateTopicPolicy.RequestMetadata] | type[AlterConfigPolicy.RequestMetadata]
KINDS: Final[tuple[Kind, ...]] = (CreateTopicPolicy.RequestMetadata, AlterConfigPolicy.RequestMetadata)


class Verdicts:
    """What policies said about one command. Only questions of `kinds` are asked."""

    def __init__(self, kinds: Collection[Kind] = KINDS) -> None:
        self._kinds = kinds
        self._said: dict[tuple[type, object], tuple[Question, KafkaError | None]] = {}
        self.open: list[Question] = []
        """While one is open, the command is not decided."""

    def hear(self, question: Question) -> None:
        """Raises what a policy said to this very question, or opens it."""
        if type(question) not in self._kinds:
            return
        asked, error = self._said.get(_about(question), (None, None))
        if asked != question:
            self.open.append(question)
        elif error is not None:
            raise error

    def answer(self, answers: Sequence[KafkaError | None]) -> None:
        """To each open question what speaks against it."""
        self._said |= {_about(question): (question, error) for question, error in zip(self.open, answers, strict=True)}
        self.open = []


def _about(question: Question) -> tuple[type, object]:
    if isinstance(question, CreateTopicPolicy.RequestMetadata):
        return type(question), question.topic
    return type(question), question.resource
