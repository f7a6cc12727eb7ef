"""What a program replicates: a machine of its own that is changed by entries alone, in the order of the log."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Generic, TypeVar

from penstock.protocol.records import Record

Result = TypeVar("Result")
Result_co = TypeVar("Result_co", covariant=True)


class StateMachine(ABC, Generic[Result_co]):
    """A new one is empty. The same entries must make the same of it on each node: it asks no clock and draws no lots.

    An exception that leaves a method ends the node, and would end every node: an entry that is wrong has a result
    that says so.
    """

    @abstractmethod
    def apply(self, entry: Record) -> Result_co:
        """The next entry that is committed; `entry.offset` is its place in the log. Who proposed it gets the result."""

    @abstractmethod
    def snapshot(self) -> Iterable[Record]:
        """All that it holds now, in as many pieces as is handy; large ones hold up the node that restores them."""

    @abstractmethod
    def restore(self, piece: Record) -> None:
        """One piece of a snapshot; a machine that was just made is given all of them, in order."""

    def close(self) -> None:  # most hold nothing but memory
        """Another machine, made from a snapshot, takes its place, or the node stops."""
